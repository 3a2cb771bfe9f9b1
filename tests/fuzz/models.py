"""Model files that were edited by one who knows the format, or made to run code."""

import copy
import io
import json
import zipfile

import numpy as np

from fuzz.damage import EDGES, damage_array, damage_bytes, lie_about_sizes
from model_files import array_bytes, npy, put_together, unzip, zipped

# Modules that nothing else imports: one that turns up was named by a file, and imported.
STRANGE = ("antigravity", "this", "turtledemo", "idlelib", "lib2to3")
TYPES = ("builtins.eval", "os.system", "subprocess.Popen", "builtins.getattr", "numpy.ndarray")
TYPES += ("functools.partial", "sklearn.pipeline.Pipeline", "os.mkdir", "operator.methodcaller")
TYPES += tuple(f"{name}.main" for name in STRANGE)
LOADERS = ("ObjectNode", "ConstructorFromReduceNode", "FunctionNode", "TypeNode", "PartialNode")
LOADERS += ("MethodNode", "TreeNode", "OperatorFuncNode", "DictNode", "NdArrayNode", "JsonNode")
NAMES = ("*", "../../x", "/etc/passwd", "\x1b[2J\x07", "a\nb", "\u202e", '"', "", "{0}", "%s", "-o")
VALUES = (None, True, 2**70, 1e308, 1.5, "NaN", [], {}, [[]], *NAMES, *EDGES)


def payload(target):
    """A pickle that makes a folder when it is loaded."""
    return f"cos\nmkdir\n(V{target}\ntR.".encode()


def edited(document, members, random, target):
    """Some values, parts or names of the document changed."""
    for _ in range(random.choice((1, 1, 2, 4))):
        _edit(document, random)
    return put_together(document, members)


def other_arrays(document, members, random, target):
    """Another value, size, type or header of an array; the document may agree with it."""
    name = random.choice([name for name in sorted(members) if name.startswith("arrays/")])
    if random.randrange(3) == 0:
        return put_together(document, members | {name: damage_array(members[name], random)})
    array = np.load(io.BytesIO(members[name]))
    floats, whole = (np.nan, np.inf, -1.0, 0.0, 1e30, 1e308, 1e-320), (-1, 0, 99, 2**31 - 1)
    with np.errstate(all="ignore"):
        if array.size and array.dtype.kind != "b":
            other = random.choice(floats if array.dtype.kind == "f" else whole)
            array.flat[random.randrange(array.size)] = other
        if array.ndim:
            array = random.choice((array, array[:-1], array.T, array[..., None], array[:0:2]))
        if random.randrange(4) == 0:
            array = array.astype(random.choice(("f4", "f2", "i8", "b1", "c16", "g", "O")))
    for place in _mappings(document["model"]):
        if place.get("array") == int(name[7:-4]):
            place |= {"dtype": array.dtype.name, "shape": list(array.shape)}
    return put_together(document, members | {name: array_bytes(array)})


def other_guest(document, members, random, target):
    """Another type, way of loading or part in what skops stores, or damage to it."""
    guests = [name for name in sorted(members) if name.startswith("guests/")]
    if not guests:
        return edited(document, members, random, target)
    name = random.choice(guests)
    if random.randrange(4) == 0:
        return put_together(document, members | {name: damage_bytes(members[name], random)})
    parts = unzip(members[name])
    schema = json.loads(parts["schema.json"])
    node = random.choice([node for node in _mappings(schema) if "__loader__" in node])
    module, _, kind = random.choice(TYPES).rpartition(".")
    loader = random.choice((node["__loader__"], *LOADERS))
    reduced = {"args": {"__loader__": "JsonNode", "content": json.dumps([str(target)])}}
    node |= {"__module__": module, "__class__": kind, "__loader__": loader, "__reduce__": reduced}
    if random.randrange(2):
        _edit(schema, random)
    if random.randrange(2):  # what a file says of its guests is no proof
        listed = document["guests"]
        document["guests"] = [[random.choice(("builtins.dict", *types))] for types in listed]
    guest = zipped(parts | {"schema.json": json.dumps(schema)}, zipfile.ZIP_STORED)
    return put_together(document, members | {name: guest})


def hostile(document, members, random, target):
    """A file that would make the folder ``target``, or take all memory, were it believed."""
    name = random.choice([name for name in sorted(members) if name.startswith("arrays/")])
    size = random.choice((2**20, 10**9, 2**31 - 1, 2**63 - 1, 10**18))
    content, deep = put_together(document, members), random.choice((b"[", b'{"a":')) * 10**6
    unit = random.choice(("[],", '{"a":{}},', '"ab",', "0,", " 0,"))
    padded = json.dumps(document)[:-1] + f',"pad":[{unit * random.choice((10**4, 10**5))}0]}}'
    shapes = (npy(shape=f"({size}, {size})"), npy(shape=f"({size}, 0)", data=b""))
    arrays = (npy("|O", "(1,)", payload(target)), *shapes)
    ways = (
        lambda: payload(target) + random.choice((b"", content)),  # also one that is an archive
        lambda: put_together(document, members | {name: random.choice(arrays)}),
        lambda: put_together(document, members | {name: bytes(10**7)}, zipfile.ZIP_DEFLATED),
        lambda: put_together(random.choice((deep, padded.encode())), members),
        lambda: lie_about_sizes(content, random),
    )
    return random.choice(ways)()


def renamed(document, members, random, target):
    """A view, a label or a column with a name that means something to terminals and shells."""
    names = document["model"]["names_"]
    columns = [name for of in names["tables"].values() for name in of["names"] or []]
    old = random.choice(random.choice((names["views"], names["labels"], columns or ["X"])))
    text = json.dumps(document).replace(json.dumps(old), json.dumps(random.choice(NAMES)))
    return put_together(text.encode(), members)


WAYS = (edited, edited, other_arrays, other_arrays, other_guest, hostile, renamed)


def _edit(tree, random):
    """Another value or part somewhere in parsed JSON; deep places are as likely as others."""
    places = [(of, key) for of in _mappings(tree) for key in of]
    (place, key), (other, name) = random.choice(places), random.choice(places)
    while isinstance(place[key], list) and place[key] and random.randrange(4):
        place, key = place[key], random.randrange(len(place[key]))
    edit = random.randrange(5)
    if edit == 0 and isinstance(place, dict):
        place[random.choice((*NAMES, name))] = place.pop(key)
    elif edit == 1:
        place[key] = copy.deepcopy(other[name])
    elif edit == 2:
        del place[key]
    elif edit == 3 and isinstance(place[key], list):
        place[key] = place[key] * random.choice((2, 1000))
    else:
        place[key] = random.choice(VALUES)


def _mappings(tree):
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
        stack += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
