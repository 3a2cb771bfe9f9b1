"""Model files that were damaged, edited with care, or made to run code."""

import copy
import io
import json
import pickle

import numpy as np

from fuzz.damage import change_bytes, damage_array, damage_bytes, unzip, zipped
from model_files import Payload, attacks, leaf, named
from naim3l.files.models.archive import FACTS, SCHEMA, sha256

# Modules that nothing else imports: one that turns up was named by a file, and imported.
STRANGE = ("antigravity", "this", "turtledemo.clock", "idlelib.help", "lib2to3.main")
LOADERS = ("ObjectNode", "TypeNode", "FunctionNode", "PartialNode", "MethodNode", "DictNode",
           "ListNode", "TupleNode", "SetNode", "SliceNode", "JsonNode", "NdArrayNode", "BytesNode",
           "ConstructorFromReduceNode", "TreeNode", "OperatorFuncNode", "RandomStateNode",
           "RandomGeneratorNode", "DefaultDictNode", "DTypeNode", "SparseMatrixNode")  # fmt: skip
TYPES = ("builtins.eval", "os.system", "subprocess.Popen", "builtins.dict", "numpy.ndarray",
         "numpy.dtype", "builtins.frozenset", "naim3l.estimators.naim3l.NAIM3L", "builtins.range",
         "sklearn.preprocessing._data.StandardScaler",
         *(f"{name}.main" for name in STRANGE))  # fmt: skip
VALUES = (None, True, 0, -1, 2**70, 1e308, "", "x", [], {}, [[]], "0.npy", "schema.json", 1.5)


def plain_damage(content, random):
    """Checksums stay as they were, so what still loads must be the same model."""
    if random.randrange(4) == 0:
        return change_bytes(content, random, first=content.index(b"PK\x01\x02"))
    return random.choice((change_bytes, damage_bytes))(content, random)


def careful_edit(content, random):
    """One member edited, and all checksums mended, as one who knows the format would."""
    members = unzip(content)
    facts = json.loads(members.pop(FACTS))
    name = random.choice(sorted(members))
    if name == SCHEMA or random.randrange(2):
        tree = json.loads(members[SCHEMA])
        for _ in range(random.choice((1, 1, 2, 4))):
            _edit_tree(tree, random)
        members[SCHEMA] = json.dumps(tree).encode()
    else:
        members[name] = damage_array(name, members[name], random)
    facts["sha256"] = {name: sha256(member) for name, member in members.items()}
    if random.randrange(4) == 0:
        facts[random.choice(sorted(facts))] = random.choice(VALUES)
    return zipped({FACTS: json.dumps(facts).encode(), **members})


def hostile(content, random, target):
    """A file that would make the folder ``target``, were anything in it run."""
    payload = Payload(target)
    way = random.randrange(4)
    if way == 0:
        return pickle.dumps(payload, random.randrange(pickle.HIGHEST_PROTOCOL + 1))
    if way == 1:  # both a pickle and an archive
        return pickle.dumps(payload, random.randrange(2)) + content
    members = unzip(content)
    facts, tree = json.loads(members.pop(FACTS)), json.loads(members[SCHEMA])
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
    members[SCHEMA] = json.dumps(tree).encode()
    facts["sha256"] = {name: sha256(member) for name, member in members.items()}
    return zipped({FACTS: json.dumps(facts).encode(), **members})


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
