"""Model files that were damaged, edited with care, or made to run code."""

import copy
import io
import json
import pickle
import re
import warnings
from datetime import date

import numpy as np
import skops.io._persist  # noqa: F401 -- fills the list of its loaders
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder
from skops.io._audit import NODE_TYPE_MAPPING

from fuzz.damage import change_bytes, damage_array, damage_bytes, unzip
from model_files import Payload, attacks, leaf, named, sequence
from naim3l.features.column_kinds import DATE
from naim3l.files.models.archive import FACTS, SCHEMA, sha256, zip_members

# Modules that nothing else imports: one that turns up was named by a file, and imported.
STRANGE = ("antigravity", "this", "turtledemo.clock", "idlelib.help", "lib2to3.main")
LOADERS = tuple(sorted({name for name, _ in NODE_TYPE_MAPPING}))
TYPES = ("builtins.eval", "os.system", "subprocess.Popen", "builtins.dict", "numpy.ndarray",
         "numpy.dtype", "builtins.frozenset", "naim3l.estimators.naim3l.NAIM3L", "builtins.range",
         "sklearn.preprocessing._data.StandardScaler", "builtins.str", "builtins.list",
         "scipy.sparse._csr.csr_matrix", "numpy.sqrt", "numpy.float64", "functools.partial",
         "sklearn.preprocessing._encoders.OneHotEncoder", "sklearn.tree._tree.Tree",
         *(f"{name}.main" for name in STRANGE))  # fmt: skip
VALUES = (None, True, 0, -1, 2**70, 1e308, "", "x", [], {}, [[]], "0.npy", "schema.json", 1.5)
HUGE = (2**20, 10**9, 10**12, 2**31 - 1, 2**63 - 1, 10**30, -(10**12))
NAMES = ("*", "[a-z]*", "../../x", "/etc/passwd", "\x1b[2J\x07", "a\nb", "\u202e", "a,b", '"', "",
         "{0}", "%s", "[red]x[/]", "-o", "=1+1")  # fmt: skip
# What `load` promises.
LEAST_MEMORY, TIMES_FILE = 64 << 20, 50


def plain_damage(content, random):
    """Checksums stay as they were, so what still loads must be the same model."""
    if random.randrange(4) == 0:
        return change_bytes(content, random, first=content.index(b"PK\x01\x02"))
    return random.choice((change_bytes, damage_bytes))(content, random)


def careful_edit(content, random):
    """One member edited, and all checksums mended, as one who knows the format would."""
    members, facts, tree = _open(content)
    name = random.choice(sorted(members))
    if name == SCHEMA or random.randrange(2):
        for _ in range(random.choice((1, 1, 2, 4))):
            _edit_tree(tree, random)
    else:
        members[name] = damage_array(name, members[name], random)
    if random.randrange(4) == 0:
        facts[random.choice(sorted(facts))] = random.choice(VALUES)
    return _closed(members, facts, tree)


def hostile(content, random, target):
    """A file that would make the folder ``target``, were anything in it run."""
    payload = Payload(target)
    way = random.randrange(4)
    if way == 0:
        return pickle.dumps(payload, random.randrange(pickle.HIGHEST_PROTOCOL + 1))
    if way == 1:  # both a pickle and an archive
        return pickle.dumps(payload, random.randrange(2)) + content
    members, facts, tree = _open(content)
    if way == 2:
        stream = io.BytesIO()
        np.save(stream, np.array([payload], dtype=object), allow_pickle=True)
        name = random.choice([n for n in sorted(members) if n.endswith(".npy")])
        members[name] = stream.getvalue()
    else:
        plots = attacks(target)
        node = plots[random.choice(sorted(plots))]
        place, key = _place(tree, random)
        place[key] = copy.deepcopy(node)
        tree["protocol"] = random.choice((0, 1, tree["protocol"]))
    return _closed(members, facts, tree)


def swapped(content, random):
    """A node with the loader, or the class, or both, of another or of any at all."""
    members, facts, tree = _open(content)
    nodes = _nodes(tree)
    for _ in range(random.choice((1, 1, 2))):
        node, other = random.choice(nodes), random.choice(nodes)
        if random.randrange(2):
            other = named(random.choice(TYPES), random.choice(LOADERS))
        keys = random.choice((["__loader__"], ["__module__", "__class__"],
                              ["__loader__", "__module__", "__class__"]))  # fmt: skip
        node |= {key: other[key] for key in keys}
    return _closed(members, facts, tree)


def other_indices(content, random):
    """Other numbers in the arrays that are positions, in all of them where there are none."""
    members, facts, tree = _open(content)
    name = random.choice([name for name in sorted(members) if name != SCHEMA])
    if name.endswith(".npz"):
        with np.load(io.BytesIO(members[name])) as file:
            parts = dict(file)
        part = random.choice(sorted(parts))
        parts[part] = other_numbers(parts[part], random)
        stream = io.BytesIO()
        np.savez(stream, **parts)
    else:
        stream = io.BytesIO()
        np.save(stream, other_numbers(np.load(io.BytesIO(members[name])), random))
    members[name] = stream.getvalue()
    return _closed(members, facts, tree)


def other_numbers(array, random):
    """A copy of an array with another value of its type somewhere, and perhaps without its end."""
    array = array.copy()
    if array.dtype.kind not in "biuf" or not array.size:
        return array
    values = (np.nan, np.inf, -1.0, 1e30)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        values = [n for n in (-1, 2, 99, 10**6, 2**31 - 1) if limits.min <= n <= limits.max]
    array.flat[random.randrange(array.size)] = random.choice(values)
    return array[:-1] if random.randrange(4) == 0 and array.ndim else array


def large(content, random):
    """A file that would take far more memory than its size, were its numbers believed."""
    members, facts, tree = _open(content)
    way, padding = random.randrange(5), ""
    if way == 0:
        numbers = [node for node in _nodes(tree, "JsonNode") if node["content"].isdigit()]
        for _ in range(random.choice((1, 2, 5))):
            random.choice(numbers)["content"] = json.dumps(random.choice(HUGE))
    elif way == 1:
        ends = sequence(leaf(0), leaf(random.choice(HUGE)), leaf(random.choice((1, 2, -1))))
        node = named("builtins.range", "ConstructorFromReduceNode", content=ends)
        wrap = named("builtins.frozenset", "ConstructorFromReduceNode", content=sequence(node))
        target = random.choice(_nodes(tree))
        target.clear()
        target |= random.choice((node, wrap, sequence(node, kind="list")))
    elif way == 2:
        unit = random.choice((" ", "[],", '{"a":{}},', '"ab",', "0,"))
        times = random.choice((500_000, 6 << 20)) // len(unit)
        padding = f"[{unit * times}0]"
    elif way == 3:
        shape = (random.choice(HUGE),) * random.choice((1, 2))
        name = random.choice([name for name in sorted(members) if name.endswith(".npy")])
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
        length = len(header).to_bytes(2, "little")
        members[name] = b"\x93NUMPY\x01\x00" + length + header + members[name][128:]
    content = _closed(members, facts, tree, padding)
    return content if way < 4 else _lying(content, random)


def _lying(content, random):
    """Other sizes and places in the directory of an archive: members may lie on one another."""
    changed, start = bytearray(content), content.index(b"PK\x01\x02")
    places = [at for at in range(start, len(content) - 46) if content[at : at + 4] == b"PK\x01\x02"]
    for at in places:
        if random.randrange(2):
            first = at + random.choice((20, 24, 42))  # packed, unpacked, offset
            value = random.choice((0, 1, 2**31 - 1, 2**32 - 2, start - 1))
            changed[first : first + 4] = value.to_bytes(4, "little")
    return bytes(changed)


def renamed(content, random, secret):
    """Views, labels and columns by names that mean something to shells, files and terminals."""
    members, facts, tree = _open(content)
    texts = {json.loads(node["content"]) for node in _nodes(tree, "JsonNode")
             if node["content"].startswith('"')}  # fmt: skip
    groups = [texts & {*facts["views"]}, texts & {*facts["label_names"]}]
    groups.append({text for text in texts if re.fullmatch("c[0-9]+", text)})  # of columns
    old = random.choice(sorted(random.choice([group for group in groups if group])))
    new = random.choice((f"@{secret}", random.choice(NAMES)))
    tree, facts = (_with_name(part, old, new) for part in (tree, facts))
    return _closed(members, facts, tree)


def _with_name(item, old, new):
    """Parsed JSON with another name for something, as key, text, and text in JSON."""
    if isinstance(item, dict):
        return {new if k == old else k: _with_name(v, old, new) for k, v in item.items()}
    if isinstance(item, list):
        return [_with_name(entry, old, new) for entry in item]
    return {old: new, json.dumps(old): json.dumps(new)}.get(item, item) if isinstance(
        item, str) else item  # fmt: skip


def _open(content):
    members = unzip(content)
    return members, json.loads(members.pop(FACTS)), json.loads(members[SCHEMA])


def _closed(members, facts, tree, padding=""):
    """Archive with mended checksums, packed as models are; ``padding`` is JSON in the schema."""
    text = json.dumps(tree)
    text = f'{text[:-1]}, "pad": {padding}}}' if padding else text
    members = members | {SCHEMA: text.encode()}
    facts["sha256"] = {name: sha256(member) for name, member in members.items()}
    members = {FACTS: json.dumps(facts).encode(), **members}
    return zip_members(members, [name for name in members if name.endswith(".json")])


def _nodes(tree, loader=None):
    """Nodes of a schema, of one loader or of all."""
    found, stack = [], [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict) and isinstance(item.get("__loader__"), str):
            found.append(item)
        stack += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return [node for node in found if loader in (None, node["__loader__"])]


def _edit_tree(tree, random):
    """Another value, type, way of loading or part, somewhere in a schema."""
    place, key = _place(tree, random)
    edit = random.randrange(6)
    if edit == 0:
        place[key] = random.choice(VALUES)
    elif edit == 1:
        place[key] = named(random.choice(TYPES), random.choice(LOADERS), content=place[key])
    elif edit == 2:
        place[key] = leaf(random.choice(VALUES))
    elif edit == 3:
        other, name = _place(tree, random)
        place[key] = copy.deepcopy(other[name])
    elif edit == 4 and isinstance(place, dict):
        del place[key]
    elif isinstance(place, dict) and "__loader__" in place:
        place["__loader__"] = random.choice(LOADERS)
        module, _, kind = random.choice(TYPES).rpartition(".")
        place |= {"__module__": module, "__class__": kind}


def _place(tree, random):
    """A mapping or list in parsed JSON, and a key of it; deep ones are as likely as others."""
    places = []
    stack = [tree]
    while stack:
        item = stack.pop()
        keys = sorted(item) if isinstance(item, dict) else range(len(item))
        places += [(item, key) for key in keys]
        stack += [item[key] for key in keys if isinstance(item[key], dict | list)]
    return random.choice(places)


def arrays_of(model):
    """Weights of a model, by name."""
    if hasattr(model, "coef_"):
        return dict(model.coef_)
    return {f"{view}/{name}": array for view, network in model.weights_.items()
            for name, array in network.items()}  # fmt: skip


def use(model):
    """Predict from rows of ones; what was loaded must have an answer that is a number."""
    for transformer in model.transformers_.values():
        _check_positions(transformer)
    rows = _rows_of_ones(model)
    if any(isinstance(part, OneHotEncoder) for part in model.transformers_.values()):
        return  # which wants text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without names of columns
        try:
            scores = model.decision_function(rows[""] if model.reader_.wide else rows)
        except ValueError as error:  # of weights that are finite, but no others are with them
            if "its network gives" in str(error):
                return
            raise
    for values in [scores] if model.reader_.wide else scores.values():
        assert np.isfinite(np.asarray(values)).all(), "scores that are no numbers"


def _rows_of_ones(model):
    """Two rows of ones for each table, "" for a wide one, with a day where dates are expected."""
    counts = {"": model.n_features_in_} if model.reader_.wide else model.n_features_in_
    rows = {view: np.ones((2, count)) for view, count in counts.items()}
    for view, features in model.features_.items():
        encoder, table = features.cell_encoder, "" if model.reader_.wide else view
        if encoder is not None and (encoder.kinds_ == DATE).any():
            positions = (model.reader_.columns_ or {}).get(view, range(encoder.n_features_in_))
            rows[table] = rows[table].astype(object)
            rows[table][:, np.asarray(positions)[encoder.kinds_ == DATE]] = date(1970, 1, 2)
    return rows


def _check_positions(transformer):
    """Whatever code in C would write to must be within its array."""
    for part in vars(transformer).values() if transformer is not None else ():
        if sparse.issparse(part):
            part.check_format(full_check=True)
    if isinstance(transformer, OneHotEncoder):
        encoder = copy.copy(transformer).set_params(sparse_output=True)
        for categories in encoder.categories_:
            encoder.transform(categories[:, None]).check_format(full_check=True)
