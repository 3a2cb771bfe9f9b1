"""The same table through every door: data frames, files, tables in chunks, and the command line."""

import re
import sqlite3
import warnings
from copy import deepcopy

import numpy as np
import pytest
from scipy import sparse

from naim3l import NAIM3L, DataWarning, load
from study import run
from workbooks import make_workbook

pd = pytest.importorskip("pandas", reason="needs pandas")
N, LABELS = 200, ["flu", "gout"]
WORDS = ["fever", "cough", "knee", "toe", "swollen", "since", "sunday", "travel,", "work;", "cold"]
MODEL = {"lam": 0.4, "ridge": 1.0}
OPTIONS = ["--lam", "0.4", "--ridge", "1", "--labels", "flu", "--labels", "gout"]


def needs(library):
    return pytest.importorskip(library, reason=f"needs {library}")


def messy():
    """A table with columns of every kind, and labels that are words, as text files have them."""
    rng = np.random.default_rng(0)
    size = rng.normal(size=(N, 3)).round(3)
    flu = size @ [1, -1, 0.5] + rng.normal(size=N) > 0
    frame = pd.DataFrame({
        "patient": [f"P{i:04d}" for i in range(N)],
        "crp": size[:, 0].astype(str),
        "iron": [str(x).replace(".", ",") for x in size[:, 1]],
        "weight": 70 + size[:, 2],
        "visits": rng.integers(0, 9, N).astype(float),
        "seen": [f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(N)],
        "smokes": rng.choice(["true", "false"], N),
        "town": [f"town {i}" for i in [*range(40), *rng.integers(0, 40, N - 40)]],
        "ward": rng.choice(["A", "B", "C", "n/a"], N),
        "children": np.where(np.arange(N) % 9 == 4, "3 or more", rng.integers(0, 3, N).astype(str)),
        "stay": [f"{1 + i % 7} {'days' if i % 3 else 'h'}" for i in range(N)],
        "note": [f"came in with complaint {i}" for i in range(N)],
        "story": [" ".join(rng.choice(WORDS, 6)) for _ in range(N)],
        "empty": [None] * N,
        "flu": np.where(flu, "yes", "no"),
        "gout": rng.choice(["Yes", "no", "unknown"], N),
    })  # fmt: skip
    frame.loc[[3, 90], "crp"] = "high", "low"  # in different parts of a folder
    frame.loc[[4, 100], "story"] = None, "?"
    frame.loc[5, "weight"] = frame.loc[[7, 60], "visits"] = np.nan
    return frame


def in_folder(frame, folder, write):
    folder.mkdir()
    for i, start in enumerate(range(0, N, 70)):
        write(frame[start : start + 70], folder / f"{i}.part")
        (folder / f"{i}.part").rename(folder / f"{i}.{folder.name}")
    return str(folder)


def to_csv(frame, path):
    frame.to_csv(path, index=False)
    return str(path)


def to_parquet(frame, path):
    needs("pyarrow")
    frame.to_parquet(path, index=False, row_group_size=30)
    return str(path)


def to_xlsx(frame, path):
    cells = [list(frame.columns), *frame.astype(object).where(frame.notna(), None).to_numpy()]
    path.write_bytes(make_workbook({"lab": [list(row) for row in cells]}))
    return str(path)


def to_sqlite(frame, path):
    needs("sqlalchemy")
    with sqlite3.connect(path) as connection:
        frame.to_sql("lab", connection, index=False)
    return f"sqlite:///{path}#select * from lab"


FILES = {"lab.csv": to_csv, "lab.parquet": to_parquet, "lab.xlsx": to_xlsx, "lab.db": to_sqlite}
# Every door of a command takes seconds; these formats differ only in how they are read.
SLOW = {"lab.xlsx": pytest.mark.slow, "lab.db": pytest.mark.slow}


def source(name, frame, folder):
    """The table in a file or a folder of this name."""
    if name in FILES:
        return FILES[name](frame, folder / name)
    return in_folder(frame, folder / name, {"csv": to_csv, "parquet": to_parquet}[name])


def frames(library, frame):
    """Features and labels as fit takes them."""
    X, y = frame.drop(columns=LABELS), frame[LABELS]
    if library == "polars":
        X, y = needs("polars").from_pandas(X), needs("polars").from_pandas(y)
    if library == "dask":
        X, y = (needs("dask.dataframe").from_pandas(part, npartitions=4) for part in (X, y))
    return {"lab": X}, {"lab": y}


def fitted(door, frame, folder):
    """The model, its warnings, and the error of a door; one of model and error is None."""
    if door.startswith("$"):
        return fit_by_command(door, frame, folder)
    if door in ("pandas", "polars", "dask"):
        X, y = frames(door, frame)
    else:
        X, y = {"lab": source(door, frame, folder)}, {"lab": LABELS}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        try:
            model, error = NAIM3L(**MODEL).fit(X, y), None
        except ValueError as refusal:
            model, error = None, str(refusal)
    return model, [str(w.message) for w in caught if w.category is DataWarning], error


def fit_by_command(door, frame, folder):
    _, name, *options = door.split()
    if options:
        needs("dask")
    table, out = source(name, frame, folder), folder / "model.naim3l"
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = run("fit", f"lab={table}", *OPTIONS, *options, "-o", out)
    lines = result.stderr.splitlines()
    warned = [line for line in lines if line.startswith("naim3l: warning: ")]
    model = load(out) if result.exit_code == 0 else None
    errors = [line for line in lines if line not in warned]
    # Python is told which columns are labels; the command line also asks about the others.
    said = [
        line.removeprefix("naim3l: warning: ") for line in warned if "further labels" not in line
    ]
    return model, said, None if model else errors[-1].removeprefix("naim3l: ")


def plain(message):
    """A message without the file or partition and the line, which other doors do not have."""
    return re.sub(r"view 'lab', .*?(, row \d+)(?: \(line \d+\))?", r"view 'lab'\1", message)


DASK = pytest.mark.dask
CHUNKED = ("dask", "csv", "parquet", "lab.parquet")  # read in chunks by Python
PYTHON = [
    "polars",
    *(pytest.param(d, marks=DASK) if d in CHUNKED else d for d in (*FILES, *CHUNKED[:3])),
]
DOORS = [
    *PYTHON,
    *(pytest.param(f"$ {name}", marks=SLOW.get(name, ())) for name in FILES),
    *(
        pytest.param(f"$ {name} --memory 1GB", marks=DASK)
        for name in ("csv", "parquet", "lab.csv", "lab.parquet")
    ),
]


@pytest.fixture(scope="module")
def by_pandas():
    model, warned, error = fitted("pandas", messy(), None)
    assert error is None
    return model, warned


def close(one, other):
    """Whether two columns are planned alike, up to the rounding of sums in another order."""
    mean = one.mean == pytest.approx(other.mean, rel=1e-12)
    return mean and vars(one) | {"mean": 0} == vars(other) | {"mean": 0}


def test_the_plan_by_definition(by_pandas):
    model, warned = by_pandas
    plan = model.features_["lab"].plan
    used = {column.name: column for column in plan.columns}
    kinds = {name: column.kind for name, column in used.items()}
    assert kinds == {"crp": "number", "iron": "number", "weight": "number", "visits": "number",
                     "seen": "date", "smokes": "truth", "town": "text", "ward": "text",
                     "children": "number", "stay": "text", "story": "text"}  # fmt: skip
    assert {column.name for column in plan.dropped} == {"patient", "note", "empty"}
    crp = pd.to_numeric(messy()["crp"], errors="coerce")
    assert (used["crp"].missing, used["crp"].mean) == pytest.approx((2 / N, crp.mean()))
    assert used["iron"].decimal == ","
    assert (len(used["town"].categories), used["town"].n_rare) == (30, 10)
    assert None in used["ward"].categories
    story = used["story"]
    assert story.is_free_text and story.missing == 2 / N
    assert story.use == f"read as free text: {len(story.terms)} words and parts of words"
    n = (messy()["children"] == "3 or more").sum()
    ends = f"view 'lab': {n} cells such as '3 or more' are read as the number in them, in column "
    assert f"{ends}'children'." in warned
    assert used["stay"].use == "a number for each unit: day, h"
    assert len(warned) == len(set(warned)) == 6  # high, ends, town, and three are dropped


@pytest.mark.parametrize("door", DOORS)
def test_one_table_gives_one_model(door, by_pandas, tmp_path):
    expected, expected_warnings = by_pandas
    frame = messy()
    model, warned, error = fitted(door, frame, tmp_path)
    assert error is None
    plan, expected_plan = model.features_["lab"].plan, expected.features_["lab"].plan
    assert plan.dropped == expected_plan.dropped
    assert len(plan.columns) == len(expected_plan.columns)
    assert all(map(close, plan.columns, expected_plan.columns))
    assert list(map(plain, warned)) == expected_warnings
    X, _ = frames("pandas", frame)
    with warnings.catch_warnings(action="ignore"):  # of models that were loaded from files
        scores, expected_scores = model.decision_function(X), expected.decision_function(X)
    np.testing.assert_allclose(scores["lab"], expected_scores["lab"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("door", ["pandas", *DOORS])
def test_one_day_above_12_decides_all_dates_of_a_column(door, tmp_path):
    """Wherever it is; without one, dates are refused."""
    frame = messy()[["weight", "seen", *LABELS]]
    expected, *_ = fitted("pandas", frame, None)
    frame["seen"] = frame["seen"].str.replace(r"(\d+)-(\d+)-(\d+)", r"\3/\2/\1", regex=True)
    early = frame["seen"].str[:2].astype(int) <= 12
    ordered = pd.concat([frame[early], frame[~early]])  # which are in the last part of a folder
    frame = ordered.reset_index(drop=True)
    model, _, error = fitted(door, frame, tmp_path)
    assert error is None
    (found,) = [c for c in model.columns_["lab"] if c.name == "seen"]
    (known,) = [c for c in expected.columns_["lab"] if c.name == "seen"]
    assert (found.kind, found.date_order) == ("date", "day first")
    assert found.mean == pytest.approx(known.mean)
    (tmp_path / "early").mkdir()
    frame["seen"] = "07" + frame["seen"].str[2:]
    model, _, error = fitted(door, frame, tmp_path / "early")
    assert model is None and "the order of day and month is ambiguous" in error


def new_rows(door, frame, folder):
    """Features as a model takes them in Python."""
    if door in ("pandas", "polars", "dask"):
        return frames(door, frame)[0]
    return {"lab": source(door, frame, folder)}


@pytest.mark.parametrize("door", PYTHON)
def test_new_rows_through_any_door_have_the_same_scores(door, by_pandas, tmp_path):
    model, _ = by_pandas
    deepcopy(model).save(tmp_path / "m.naim3l")  # a model of this run has warned of these columns
    frame = messy()
    with pytest.warns(DataWarning) as expected_warnings:
        loaded = load(tmp_path / "m.naim3l")
        expected = loaded.decision_function(frames("pandas", frame)[0])["lab"]
    given, model = new_rows(door, frame, tmp_path), load(tmp_path / "m.naim3l")
    with pytest.warns(DataWarning) as warned:
        scores = model.decision_function(given)["lab"]
        scores = scores.compute() if hasattr(scores, "compute") else scores
    np.testing.assert_allclose(np.asarray(scores), expected, rtol=0, atol=1e-10)
    if door not in CHUNKED:  # parts are warned of one by one
        assert [plain(str(w.message)) for w in warned] == [
            str(w.message) for w in expected_warnings
        ]


@pytest.mark.parametrize("door", ["pandas", *DOORS])
@pytest.mark.parametrize("n_odd", [N // 10, N // 10 + 1])
def test_a_tenth_of_odd_cells_is_missing_and_more_is_refused(door, n_odd, tmp_path):
    frame = messy()[["crp", "weight", *LABELS]]
    frame["crp"] = [str(i / 4) for i in range(N)]
    frame.loc[np.arange(n_odd) * 9 + 2, "crp"] = "high"
    model, warned, error = fitted(door, frame, tmp_path)
    report = (
        f"view 'lab', row 2, column 'crp': 'high' is not a number ({n_odd} of {N} cells of the "
        "column are not). "
    )
    if n_odd > N // 10:
        assert model is None
        assert plain(error).startswith(f"{report}Correct such cells, or leave unknown ones empty")
        return
    assert [plain(message) for message in warned] == [
        f"{report}Such cells are taken as missing, now and later; correct or empty them."
    ]
    assert model.features_["lab"].plan.columns[0].missing == n_odd / N


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(n, marks=SLOW.get(n, ())) for n in FILES),
        *(pytest.param(n, marks=DASK) for n in ("csv", "parquet")),
    ],
)
def test_init_drafts_what_fit_does(name, by_pandas, tmp_path):
    needs("tomlkit")
    model, _ = by_pandas
    frame = messy().drop(columns="smokes")  # true and false are words of labels
    table, settings = source(name, frame, tmp_path), tmp_path / "study.toml"
    assert run("init", table, "-o", settings).exit_code == 0
    text = settings.read_text()
    assert 'id = "patient"' in text
    assert '# guessed: free text, of which words are read: "story"' in text
    for column in model.features_["lab"].plan.dropped:
        if column.name != "patient":  # is named as the id
            assert f'"{column.name}" is dropped by the fit ({column.dropped})' in text
    out = tmp_path / "model.naim3l"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = run("fit", "--config", settings, "--lam", "0.4", "--ridge", "1", "-o", out)
    assert result.exit_code == 0, result.output
    (columns,) = load(out).columns_.values()
    expected = [
        column for column in model.columns_["lab"] if column.name not in ("patient", "smokes")
    ]
    assert len(columns) == len(expected)
    assert all(map(close, columns, expected))


@pytest.mark.parametrize("name", FILES)
def test_init_leaves_out_what_fit_refuses(name, tmp_path):
    needs("tomlkit")
    frame = messy()
    frame.loc[::5, "crp"] = "high"
    *_, error = fitted("pandas", frame, None)
    table, settings = source(name, frame, tmp_path), tmp_path / "study.toml"
    assert run("init", table, "-o", settings).exit_code == 0
    (comment,) = [line for line in settings.read_text().splitlines() if "'high'" in line]
    assert comment.strip().startswith('"crp",')
    assert plain(comment.partition("guessed: ")[2]) == error


@pytest.fixture(scope="module")
def with_probabilities(tmp_path_factory):
    """A model with probabilities, and its file."""
    X, y = frames("pandas", messy()[["weight", "visits", *LABELS]])
    model = NAIM3L(**MODEL, decide="half", random_state=0).fit(X, y)
    model.save(path := tmp_path_factory.mktemp("model") / "model.naim3l")
    return model, path


@pytest.mark.parametrize(
    "door", ["pandas", *PYTHON, "$ lab.csv", pytest.param("$ csv", marks=DASK)]
)
@pytest.mark.filterwarnings("ignore::naim3l.DataWarning")
def test_rows_without_a_value_have_no_answer(door, with_probabilities, tmp_path):
    model, path = with_probabilities
    frame, empty = messy()[["weight", "visits", *LABELS]], [8, 120]
    frame.loc[empty, ["weight", "visits"]] = np.nan
    table = f"lab={source(door[2:], frame, tmp_path)}" if door[0] == "$" else None
    rows = None if table else new_rows(door, frame, tmp_path)
    for kind, method in (("labels", "predict"), ("probabilities", "predict_proba"),
                         ("scores", "decision_function")):  # fmt: skip
        if table:
            out = tmp_path / f"{kind}.csv"
            assert run("predict", path, table, "--what", kind, "-o", out).exit_code == 0
            found = pd.read_csv(out)[LABELS]
        else:
            found = getattr(model, method)(rows)["lab"]
            found = found.compute() if hasattr(found, "compute") else found
        lacking = np.isnan(np.asarray(found, dtype=float))
        assert (lacking.any(axis=1) == lacking.all(axis=1)).all()
        assert np.flatnonzero(lacking.all(axis=1)).tolist() == empty


@pytest.mark.parametrize("door", ["pandas", "polars", *(d for d in DOORS if "parquet" in str(d))])
@pytest.mark.parametrize("cell", [[1.5, 2.0], {"low": 80, "high": 120}], ids=str)
def test_nested_columns_are_refused_with_what_to_do(door, cell, tmp_path):
    frame = messy()[["weight", *LABELS]]
    frame["pressure"] = pd.Series([None, *[cell] * (N - 1)])
    model, _, error = fitted(door, frame, tmp_path)
    assert model is None
    assert plain(error).startswith("view 'lab', row 1, column 'pressure': ")
    assert "is not a number, text or date; make a column of each of its values" in error


def scattered(table, rng):
    """A sparse table whose entries are stored in two parts, and in no order."""
    rows, columns = np.nonzero(table)
    rows, columns = np.tile(rows, 2), np.tile(columns, 2)
    mixed = rng.permutation(len(rows))
    mixed = mixed[np.argsort(rows[mixed], kind="stable")]
    starts = np.searchsorted(rows[mixed], np.arange(len(table) + 1))
    entries = table[rows, columns][mixed] / 2, columns[mixed], starts
    return sparse.csr_array(entries, shape=table.shape)


@pytest.mark.parametrize("features", ["auto", "scale", "histogram", None])
def test_sparse_tables_in_any_form_give_the_scores_of_dense_ones(features, rng):
    dense = rng.random((60, 5)) * (rng.random((60, 5)) < 0.7) + np.eye(60, 5)
    labels = {"lab": (dense[:, :2] > 0.4).astype(float)}
    model = NAIM3L(**MODEL, features=features).fit({"lab": dense}, labels)
    expected = model.decision_function({"lab": dense})["lab"]
    table = scattered(dense, rng)
    for form in (table, sparse.csr_matrix(table), sparse.csc_array(table.T).T):
        other = NAIM3L(**MODEL, features=features).fit({"lab": form}, labels)
        for fitted_model in (model, other):
            found = fitted_model.decision_function({"lab": form})["lab"]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    assert table.nnz == 2 * np.count_nonzero(dense)
