"""A damaged file of a format, drawn and then read; whatever is neither refused nor sound is told.

`draw` makes the bytes, `attempt` reads them as a user would. It returns None, or says in one
line what went wrong: an error that the function does not promise or that does not name the
file, a warning of some library underneath, a table that is none, code of the file's that ran.
"""

import contextlib
import io
import sys
import traceback
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning

from fuzz import damage, models, samples
from naim3l import DataWarning, ModelFileError, load
from naim3l.cli.draft import make_config
from naim3l.cli.settings import read_config
from naim3l.cli.work import read_new
from naim3l.features.dates import is_date_like
from naim3l.files.checkpoint import Checkpoint
from naim3l.files.models import inspect_file
from naim3l.files.readers import ReadError, guess_roles, parse_features, parse_labels, read_table
from study import settings_text

# Warnings that are documented; others are those of libraries, and none of the user's business.
PROMISED = (DataWarning, InconsistentVersionWarning)
RAN = "ran"  # folder that a hostile file would make
SECRET = "secret.txt"  # file that no message may quote


@dataclass(frozen=True)
class Format:
    """How files of a format are drawn, and how they are read.

    Attributes
    ----------
    draw : function of a random source
        Gives the ending and the bytes of a file, and what `read` needs to judge it.
    read : function of a path, the random source and that
        Reads the file with the functions of the package.
    errors : tuple of types
        What these functions are documented to raise.
    weight : float
        Its share of the time, where others have 1.
    """

    draw: Callable[[Any, Path], tuple[str, bytes, Any]]
    read: Callable[[Path, Any, Any], None]
    errors: tuple[type[Exception], ...]
    weight: float = 1.0


def attempt(name: str, random: Any, folder: Path) -> str | None:
    """Draw a file of a format into a folder and read it; what went wrong, if anything did."""
    form, wrong = FORMATS[name], None
    path, truth = draw_file(name, random, folder)
    known = set(sys.modules)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            form.read(path, random, truth)
        except form.errors as error:
            if path.name not in str(error):
                wrong = _told(error, "an error that does not name the file")
        except Exception as error:
            wrong = _told(error, "an error that is not promised")
    for entry in caught:
        if not issubclass(entry.category, PROMISED):
            wrong = f"{entry.category.__name__}: {entry.message} ({entry.filename}:{entry.lineno})"
    return _ran(folder, known) or wrong


def _ran(folder: Path, known: set[str]) -> str | None:
    """Whether a file had something run or imported that it named."""
    if (folder / RAN).exists():
        (folder / RAN).rmdir()
        return "code of the file's was run"
    strange = {name.partition(".")[0] for name in models.STRANGE} & (set(sys.modules) - known)
    return f"the file had {strange} imported" if strange else None


def draw_file(name: str, random: Any, folder: Path) -> tuple[Path, Any]:
    """Path of a damaged file of a format, and what is needed to judge how it is read."""
    ending, content, truth = FORMATS[name].draw(random, folder)
    path = folder / f"case{ending}"
    path.write_bytes(content)
    return path, truth


def _told(error: Exception, what: str) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "naim3l" in frame.filename] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    return f"{what}: {type(error).__name__} at {where}: {str(error)[:300]}"


# Tables


def _draw_text(random: Any, folder: Path) -> tuple[str, bytes, Any]:
    sample = random.choice(samples.texts())
    kinds = (damage.damage_text, damage.damage_text, damage.damage_bytes)
    content = random.choice(kinds)(sample, random)
    ending = random.choice((".csv", ".tsv", ".txt"))
    packing = random.choice(("", "", "", "", ".gz", ".bz2", ".xz", ".zip"))
    packed = damage.pack(content, packing, random)
    if packing and random.randrange(2):
        packed = damage.damage_bytes(packed, random)
    return ending + packing, packed, None


def _draw_bytes(
    make: Callable[[], list[bytes]], endings: tuple[str, ...], random: Any, folder: Path
) -> tuple[str, bytes, Any]:
    content = damage.damage_bytes(random.choice(make()), random)
    return random.choice(endings), content, None


def _draw_npz(random: Any, folder: Path) -> tuple[str, bytes, Any]:
    sample = random.choice(samples.npzs())
    if random.randrange(3) == 0:
        # Checksums stay as they were, so what still can be read must be what was there.
        return ".npz", damage.damage_bytes(sample, random), dict(np.load(io.BytesIO(sample)))
    return ".npz", damage.damage_archive(sample, random, damage.damage_array), None


def _draw_workbook(random: Any, folder: Path) -> tuple[str, bytes, Any]:
    sample = random.choice(samples.workbooks())
    if random.randrange(4) == 0:
        return ".xlsx", damage.damage_bytes(sample, random), None
    return ".xlsx", damage.damage_archive(sample, random, damage.damage_part), None


def _draw_nothing(random: Any, folder: Path) -> tuple[str, bytes, Any]:
    endings = (".csv", ".parquet", ".feather", ".npz", ".xlsx", ".csv.gz", ".csv.zip",
               ".csv.xz")  # fmt: skip
    return random.choice(endings), damage.from_nothing(random), None


def read_as_table(path: Path, random: Any, parts: tuple[str, ...] = ()) -> None:
    """Read a table and find out what its columns are, as the commands do."""
    part = random.choice(("", *(parts or ())))
    source = f"{path}#{part}" if part else str(path)
    use_table(source, random)


def use_table(source: str, random: Any) -> None:
    table = read_table(source, id_column=random.choice((None, None, "id")),
                       n_rows=random.choice((None, None, None, 1, 3)))  # fmt: skip
    assert min(table.shape) > 0 and table.columns.is_unique, f"a table of shape {table.shape}"
    assert all(isinstance(name, str) for name in table.columns), "a column without a name"
    roles = guess_roles(table)
    labels = parse_labels(table[roles.labels])
    assert labels.isin([0.0, 1.0]).to_numpy().sum() == labels.notna().to_numpy().sum()
    features, words = parse_features(table[roles.features])
    for name in features.columns:
        # A cell among dates that is none is refused by the fit, which names it.
        dated = [cell for cell in features[name] if cell is not None]
        known = name in words or features[name].dtype == float or any(map(is_date_like, dated))
        assert known, f"column {name!r} is no number"
    if random.randrange(8) == 0:
        config, _ = make_config([source], Path(source.partition("#")[0]).parent)
        assert len(config.views) == 1


def _read_npz(path: Path, random: Any, truth: Any) -> None:
    if truth is None:
        read_as_table(path, random, ("points", "view_a", "b", "labels", "label_names"))
        return
    key = random.choice(sorted(truth))
    found, expected = read_table(f"{path}#{key}").to_numpy(), truth[key]
    same = found == expected if found.shape == expected.shape else np.array(False)
    assert (same | (found != found)).all(), f"damage changed {key} from {expected} to {found}"


def _read_workbook(path: Path, random: Any, truth: Any) -> None:
    read_as_table(path, random, ("s", "s", "two"))


def _read_database(path: Path, random: Any, truth: Any) -> None:
    query = random.choice(("select * from lab", "select id, hb, flu from lab where hb > 2",
                           "select * from seen", "select count(*) as n, flu from lab group by flu",
                           "select * from lab order by hb desc, id"))  # fmt: skip
    if random.randrange(4) == 0:
        changed = damage.damage_text(query.encode(), random).decode("utf-8", "replace")
        query = changed.replace("#", "")
    use_table(f"sqlite:///{path}#{query}", random)


# Settings, models, checkpoints


def _draw_settings(random: Any, folder: Path) -> tuple[str, bytes, Any]:
    content = samples.TOML.encode()
    if random.randrange(4) == 0:
        return ".toml", damage.damage_bytes(content, random), None
    return ".toml", damage.damage_text(content, random), None


def _read_settings(path: Path, random: Any, truth: Any) -> None:
    config = read_config(path)
    assert config.views
    again = path.with_name("again.toml")
    again.write_text(settings_text(config), encoding="utf-8", newline="")
    assert repr(read_config(again)) == repr(config), "what was read and written is read otherwise"


def _draw_model(
    make: Callable[[], dict[str, tuple[Any, bytes]]], random: Any, folder: Path
) -> tuple[str, bytes, Any]:
    """A file, and the model that it must be, or how it was edited."""
    made = make()
    model, content = made[random.choice(sorted(made))]
    (folder / SECRET).write_text("password", encoding="utf-8")
    ways: dict[str, Callable[[], bytes]] = {
        "damaged": lambda: models.plain_damage(content, random),
        "edited": lambda: models.careful_edit(content, random),
        "hostile": lambda: models.hostile(content, random, folder / RAN),
        "swapped": lambda: models.swapped(content, random),
        "indices": lambda: models.other_indices(content, random),
        "large": lambda: models.large(content, random),
        "renamed": lambda: models.renamed(content, random, folder / SECRET),
    }
    way = random.choice(("damaged", "edited", *ways))
    return ".skops", ways[way](), model if way == "damaged" else way


def _read_model(path: Path, random: Any, truth: Any) -> None:
    try:
        model = _load_within_bounds(path) if truth == "large" else load(path)
    except ModelFileError as error:
        assert str(error).isprintable(), "codes of the file's in a message"
        with contextlib.suppress(ModelFileError):  # may say more, or refuse as well
            inspect_file(path)
        raise
    inspect_file(path)
    models.use(model)
    if truth == "renamed":
        _read_tables(model, path)
    if not isinstance(truth, str):
        found = models.arrays_of(model)
        for name, array in models.arrays_of(truth).items():
            assert np.array_equal(found[name], array), "a damaged file gave another model"


def _load_within_bounds(path: Path) -> Any:
    """The model, if no more memory is taken than is promised."""
    size = path.stat().st_size
    tracemalloc.start()
    try:
        return load(path)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak <= models.LEAST_MEMORY + models.TIMES_FILE * size, (
            f"{peak >> 20} MiB for a file of {size} bytes"
        )


def _read_tables(model: Any, path: Path) -> None:
    """Ask a model for a table of a file, which has none of the names that it may have."""
    table = path.with_name("table.csv")
    table.write_text("id,x\n1,2\n3,4\n", encoding="utf-8")
    for view in model.views_:
        try:
            read_new(model, {view: str(table)})
        except ReadError as error:
            told = str(error)
            assert "password" not in told and told.isprintable(), f"a message has {told!r}"


def _draw_checkpoint(random: Any, folder: Path) -> tuple[str, bytes, Any]:
    (sample,) = samples.checkpoints()
    return ".checkpoint", damage.damage_bytes(sample, random), None


def _read_checkpoint(path: Path, random: Any, truth: Any) -> None:
    stored = Checkpoint(path, samples.KEY)
    for part, field, expected in (("folds", "scores", samples.VIEWS["a"]),
                                  ("solver", "W", samples.VIEWS["a"]),
                                  ("solver", "mu", np.asarray(0.5))):  # fmt: skip
        found = stored.get(part)
        assert found is not None and np.array_equal(found[field], expected), "another state"


_ARROW = (".arrow", ".feather", ".ipc")
FORMATS: dict[str, Format] = {
    "text": Format(_draw_text, read_as_table, (ReadError,), weight=2),
    "parquet": Format(
        partial(_draw_bytes, samples.parquets, (".parquet",)), read_as_table, (ReadError,)
    ),
    "arrow": Format(partial(_draw_bytes, samples.arrows, _ARROW), read_as_table, (ReadError,)),
    "npz": Format(_draw_npz, _read_npz, (ReadError,)),
    "sqlite": Format(
        partial(_draw_bytes, samples.databases, (".db",)), _read_database, (ReadError,)
    ),
    "xlsx": Format(_draw_workbook, _read_workbook, (ReadError,)),
    "any bytes": Format(_draw_nothing, read_as_table, (ReadError,)),
    "settings": Format(_draw_settings, _read_settings, (ReadError,)),
    "model": Format(partial(_draw_model, samples.models), _read_model, (ModelFileError,), weight=5),
    "checkpoint": Format(_draw_checkpoint, _read_checkpoint, (ValueError,)),
}
HAS_TORCH = find_spec("torch") is not None
if HAS_TORCH:
    draw_deep = partial(_draw_model, samples.deep_models)
    FORMATS["deep model"] = Format(draw_deep, _read_model, (ModelFileError,), weight=3)
