"""A damaged file of a format, drawn and then read as a user would."""

import bz2
import contextlib
import gzip
import lzma
import sys
import traceback
import tracemalloc
import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning

from fuzz import damage, models, samples
from model_files import take_apart, zipped
from naim3l import DataWarning, ModelFileError, inspect_file, load
from naim3l.cli.settings import read_settings
from naim3l.estimators import PerViewRidge
from naim3l.files.checkpoint import Checkpoint
from naim3l.files.errors import ReadError
from naim3l.files.tables import open_table

# Warnings that are documented; others are those of libraries, and none of the user's business.
PROMISED = (DataWarning, InconsistentVersionWarning)
PACKINGS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
PACKINGS[".zip"] = lambda content: zipped({"a.csv": content})
RAN = "ran"  # folder that a hostile file would make


class Format(NamedTuple):
    """How files are drawn and read; the error that is documented, and the share of the time."""

    draw: Any  # function of a random source and the folder RAN: ending and bytes of a file
    read: Any  # function of a path and the random source
    error: type[Exception] = ReadError
    weight: float = 1.0


def draw_file(name, random, folder):
    ending, content = FORMATS[name].draw(random, folder / RAN)
    path = folder / f"case{ending}"
    path.write_bytes(content)
    return path


def attempt(name, random, folder):
    """Draw a file of a format into a folder and read it; what went wrong, if anything did."""
    form, wrong, known = FORMATS[name], None, set(sys.modules)
    path = draw_file(name, random, folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            form.read(path, random)
        except form.error as error:
            if path.name not in str(error):
                wrong = f"an error that does not name the file: {error!r:.300}"
        except Exception as error:
            place = traceback.format_tb(error.__traceback__)[-1]
            wrong = f"an error that is not promised: {error!r:.300}{place}"
    for entry in caught:
        if not issubclass(entry.category, PROMISED):
            wrong = f"{entry.category.__name__}: {entry.message} ({entry.filename}:{entry.lineno})"
    if (folder / RAN).exists():
        (folder / RAN).rmdir()
        return "code of the file was run"
    strange = set(models.STRANGE) & (set(sys.modules) - known)
    return f"the file had {strange} imported" if strange else wrong


def _draw(make, endings, inner, random, target):
    """A sample with damaged bytes, or with ``inner`` damage, such as under right checksums."""
    change = random.choice((inner, inner, damage.damage_bytes))
    return random.choice(endings), change(random.choice(make()), random)


def _draw_text(random, target):
    _, content = _draw(samples.texts, ("",), damage.damage_text, random, target)
    packing = random.choice(("", "", "", "", *PACKINGS))
    packed = PACKINGS[packing](content) if packing else content
    if packing and random.randrange(2):
        packed = damage.damage_bytes(packed, random)
    return random.choice((".csv", ".tsv", ".txt")) + packing, packed


def _draw_model(random, target):
    content = random.choice(samples.models())
    if random.randrange(4) == 0:
        return ".naim3l", damage.damage_bytes(content, random)
    return ".naim3l", random.choice(models.WAYS)(*take_apart(content), random, target)


def _read_database(path, random):
    query = random.choice(("lab", "lab where hb > 2 order by hb desc", "seen", "lab, lab as other"))
    query = f"select * from {query}"
    if random.randrange(4) == 0:
        query = damage.damage_text(query.encode(), random).decode("utf-8", "replace")
    _read_table((), f"sqlite:///{path}#{query.replace('#', '')}", random)


def _read_table(names, source, random):
    """Read a table at once and in batches, and fit a model to it now and then."""
    table = open_table(f"{source}{random.choice(('', *(f'#{name}' for name in names)))}")
    assert table.columns and len(set(table.columns)) == len(table.columns), "two of one name"
    frame, origin = table.read(n_rows=random.choice((None, None, None, 1, 3)))
    assert list(frame.columns) == table.columns and len(frame), f"a table of {frame.shape}"
    assert all(origin.place(i) for i in range(len(frame)))
    if random.randrange(4) == 0:
        sizes = [len(rows) for part in table.parts for rows, _ in part.batches(None, (), 2)]
        assert min(sizes) >= 1 and max(sizes) <= 2 and sum(sizes) >= len(frame)
    if random.randrange(8) == 0:
        labels = np.arange(2 * len(frame)).reshape(-1, 2) % 3 % 2
        with contextlib.suppress(ValueError, TypeError):  # of tables without usable columns
            PerViewRidge().fit({"v": frame}, {"v": labels}).predict({"v": frame})


def _read_model(path, random):
    trusted = ()
    with contextlib.suppress(ModelFileError):  # as from `load`
        listed = set(inspect_file(path)["guests"])
        trusted = sorted(listed - set(models.TYPES)) if random.randrange(8) else ()
    size = path.stat().st_size
    measured = random.randrange(3) == 0 and (tracemalloc.start() or True)
    try:
        model = load(path, trusted=trusted)
    except ModelFileError as error:
        assert str(error).isprintable(), "control characters of a file in a message"
        raise
    finally:
        if measured:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            most = (64 << 20) + 50 * size  # as promised
            assert peak <= most, f"{peak >> 20} MiB for a file of {size} bytes"
    if not trusted:  # whose own code may do what it likes with damaged attributes
        _use_model(model)


def _use_model(model):
    """Predict from rows of ones, or hear why that is not possible."""
    names = model.names_
    rows = {name: np.ones((2, of.n)) for name, of in names.tables.items() if of.n < 10**4}
    # Of dates, of columns that the file made too many, and of numbers that it made too large.
    with contextlib.suppress(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for scores in model.view_scores(rows.get("X") if names.wide else rows).values():
            assert scores.shape == (2, len(model.label_names_))


def _read_checkpoint(path, random):
    stored = Checkpoint(path, *samples.FIT)
    for section, arrays in samples.STATE.items():
        found = stored.get(section)
        same = found and all(np.array_equal(found[field], arrays[field]) for field in arrays)
        assert same and len(found) == len(arrays), "another state"


_damage, _in_member = damage.damage_bytes, partial(partial, damage.damage_member)
_arrays, _parts = _in_member(damage=damage.damage_array), _in_member(damage=damage.damage_text)
_names, _sheets = ("points", "view_a", "b", "labels", "label_names"), ("s", "two")
_table, _ARROW = partial(_read_table, ()), (".arrow", ".feather", ".ipc")
_ENDINGS = (".csv", ".parquet", ".feather", ".npz", ".xlsx", ".csv.gz", ".csv.zip")
_toml = partial(_draw, lambda: [samples.TOML], (".toml",), damage.damage_text)
_workbook = partial(_draw, samples.workbooks, (".xlsx",), _parts)
_checkpoint = partial(_draw, samples.checkpoints, (".checkpoint",), _damage)
FORMATS = {
    "text": Format(_draw_text, _table, weight=2),
    "parquet": Format(partial(_draw, samples.parquets, (".parquet",), _damage), _table),
    "arrow": Format(partial(_draw, samples.arrows, _ARROW, _damage), _table),
    "npz": Format(partial(_draw, samples.npzs, (".npz",), _arrays), partial(_read_table, _names)),
    "sqlite": Format(partial(_draw, samples.databases, (".db",), _damage), _read_database),
    "xlsx": Format(_workbook, partial(_read_table, _sheets)),
    "any bytes": Format(partial(_draw, lambda: [b""], _ENDINGS, _damage), _table),
    "settings": Format(_toml, lambda path, random: read_settings(path)),
    "model": Format(_draw_model, _read_model, ModelFileError, weight=5),
    "checkpoint": Format(_checkpoint, _read_checkpoint, ValueError),
}
