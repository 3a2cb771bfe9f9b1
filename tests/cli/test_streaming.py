"""Folders and patterns of files: the same answers as for tables in memory."""

import json
import re
import shutil
import warnings
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import naim3l
from naim3l._warnings import DataWarning
from naim3l.cli import predictions
from naim3l.cli.chunks import Opened
from naim3l.input.batches import Batch
from study import run

pytestmark = pytest.mark.dask
dask = pytest.importorskip("dask")

ROOT = Path(__file__).resolve().parents[2]
ROLES = ["--labels", "dx_*", "--id", "id"]
QUICK = ["--lam", "0.4", "--ridge", "1", "--decide", "0"]
N_FILES = 3
BATCH = 32  # rows, so that each part has several batches
FORMS = {
    "csv": "clinic=clinic_csv lab=lab_csv/*.csv",
    "parquet": "clinic=clinic_parquet lab=lab_parquet",
}
SINGLE = ["clinic=clinic.csv", "lab=lab.csv"]


def table(n_rows, seed):
    """Numbers, text in quotes, codes, dates, ends, units, a nearly empty column, three labels."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n_rows, 3))
    X = Z @ rng.normal(size=(3, 5)) + 0.3 * rng.normal(size=(n_rows, 5))
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(5)])
    frame.insert(0, "id", [f"{seed}{i:05d}" for i in range(n_rows)])
    frame.loc[rng.random(n_rows) < 0.1, "f3"] = np.nan
    frame["ward"] = rng.choice(["A", 'B "2", x', "C\nD"], n_rows)
    frame["code"] = rng.choice(["01", "02", "10"], n_rows)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n_rows), "D")
    frame["day"] = days.strftime("%Y-%m-%d")
    frame["children"] = rng.choice(["0", "1", "2", "3 or more"], n_rows, p=[0.5, 0.2, 0.2, 0.1])
    frame["stay"] = rng.choice(["1 day", "2 days", "5 days", "3 h", "12 h"], n_rows)
    frame["rare"] = np.where(np.arange(n_rows) < 2, 1.5, np.nan)
    for k in range(3):
        words = np.where(Z[:, k] > 0, "yes", "no").astype(object)
        words[rng.random(n_rows) < 0.4] = None
        frame[f"dx_{k}"] = words
    return frame


def write_parts(frame, folder, extension="csv"):
    folder.mkdir()
    bounds = np.linspace(0, len(frame), N_FILES + 1).astype(int)
    for i, (start, end) in enumerate(pairwise(bounds)):
        part, path = frame.iloc[start:end], folder / f"{i}.{extension}"
        if extension == "csv":
            part.to_csv(path, index=False)
        else:
            part.to_parquet(path, index=False, row_group_size=50)


def succeed(*arguments, quiet=True):
    with warnings.catch_warnings():
        # Of the almost empty column.
        warnings.simplefilter("ignore" if quiet else "default", DataWarning)
        result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refusal(*arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        result = run(*arguments)
    assert result.exit_code == 1, result.output
    return result.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Tables as single files and as folders, and a model of each form."""
    folder = tmp_path_factory.mktemp("streams")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("naim3l.cli.chunks.BATCH_ROWS", BATCH)
        for view, n_rows, seed in (("clinic", 360, 1), ("lab", 250, 2)):
            frame = table(n_rows, seed)
            if view == "lab":  # what shared columns add is learned from other rows in chunks
                apart = frame.columns.difference(["id", "dx_0", "dx_1", "dx_2"])
                frame = frame.rename(columns={name: f"lab_{name}" for name in apart})
            frame.to_csv(f"{view}.csv", index=False)
            write_parts(frame, folder / f"{view}_csv")
            write_parts(frame, folder / f"{view}_parquet", "parquet")
        for name, views in {
            "one": SINGLE,
            **{key: of.split() for key, of in FORMS.items()},
        }.items():
            succeed("fit", *views, *ROLES, *QUICK, "-o", f"{name}.naim3l")
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    monkeypatch.setattr("naim3l.cli.chunks.BATCH_ROWS", BATCH)
    return made


@pytest.mark.parametrize("form", FORMS)
def test_a_fit_in_parts_is_the_one_in_memory(folder, form):
    one, parts = naim3l.load("one.naim3l"), naim3l.load(f"{form}.naim3l")
    for view in one.views_:
        np.testing.assert_allclose(parts.coef_[view], one.coef_[view], rtol=1e-8, atol=1e-10)
        plans = [
            [(c.name, c.kind, c.use, c.dropped, c.categories, c.units) for c in of.columns_[view]]
            for of in (one, parts)
        ]
        assert plans[0] == plans[1] and plans[0][9][2] == "a number for each unit: day, h"
        assert parts.roles_[view] == one.roles_[view]


@pytest.mark.parametrize("form", FORMS)
def test_ends_of_a_scale_are_told_once_for_all_parts(folder, tmp_path, form):
    done = succeed(
        "fit", *FORMS[form].split(), *ROLES, *QUICK, "-o", tmp_path / "m.naim3l", quiet=False
    )
    told = [line for line in done.stderr.splitlines() if "are read as" in line]
    for view, line in zip(("clinic", "lab"), told, strict=True):
        n = (pd.read_csv(f"{view}.csv").filter(like="children") == "3 or more").to_numpy().sum()
        assert f"view '{view}': {n} cells such as '3 or more' are read as the number in" in line


@pytest.mark.parametrize("form", FORMS)
def test_predictions_are_those_in_memory(folder, tmp_path, form):
    views = FORMS[form].split()
    for kind in ("scores", "labels"):
        succeed("predict", "one.naim3l", *SINGLE, "--what", kind, "-o", tmp_path / "one.parquet")
        succeed("predict", f"{form}.naim3l", *views, "--what", kind, "-o", tmp_path / kind)
        expected = pd.read_parquet(tmp_path / "one.parquet")
        files = sorted((tmp_path / kind).glob("part-*.parquet"))
        assert len(files) >= 2 * N_FILES  # one for each file, or row group
        found = pd.concat(map(pd.read_parquet, files), ignore_index=True)
        pd.testing.assert_frame_equal(found, expected, rtol=1e-8, atol=1e-8, check_dtype=False)


@pytest.mark.parametrize("name", ["all.csv", "all.csv.gz", "all.parquet", "all.arrow"])
def test_one_file_of_answers_is_the_one_in_memory(folder, tmp_path, name):
    succeed("predict", "one.naim3l", *SINGLE, "-o", tmp_path / f"memory-{name}")
    succeed("predict", "one.naim3l", *FORMS["csv"].split(), "-o", tmp_path / name)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    if "csv" in name:
        assert (tmp_path / name).read_bytes() == (tmp_path / f"memory-{name}").read_bytes()
        return
    read = pd.read_parquet if name.endswith("parquet") else pd.read_feather
    pd.testing.assert_frame_equal(
        read(tmp_path / name), read(tmp_path / f"memory-{name}"), check_dtype=False
    )


@pytest.mark.parametrize("form", FORMS)
def test_metrics_and_filled_in_labels_are_those_in_memory(folder, tmp_path, form):
    views = FORMS[form].split()
    expected = json.loads(succeed("evaluate", "one.naim3l", *SINGLE, "--json").stdout)
    found = json.loads(succeed("evaluate", "one.naim3l", *views, "--json").stdout)
    assert found["rows"] == expected["rows"] and not found["sampled"]
    for view, metrics in expected["views"].items():
        for metric, of in metrics.items():
            assert found["views"][view][metric]["value"] == pytest.approx(of["value"], rel=1e-8)
    succeed("impute", "one.naim3l", *SINGLE, "-o", tmp_path / "one")
    succeed("impute", "one.naim3l", *views, "-o", tmp_path / "parts", "--format", "parquet")
    for view in ("clinic", "lab"):
        files = sorted((tmp_path / "parts" / view).glob("part-*"))
        found = pd.concat(map(pd.read_parquet, files), ignore_index=True)
        memory = pd.read_csv(tmp_path / "one" / f"{view}.csv", dtype={"id": str})
        words = [name for name in memory if name.endswith("_filled")]
        memory[words] = memory[words].fillna("")  # which a CSV file does not tell from missing
        pd.testing.assert_frame_equal(found, memory, rtol=1e-8, check_dtype=False)


def test_a_sample_is_measured_and_reported(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("naim3l.cli.chunks.MEASURED_ROWS", 100)
    views = FORMS["csv"].split()
    found = json.loads(succeed("evaluate", "one.naim3l", *views, "--json").stdout)
    assert found["sampled"]["clinic"] == {"rows": 360, "sample": 100}
    page = tmp_path / "page.html"
    shown = succeed("evaluate", "one.naim3l", *views, "--report", page)
    assert "View lab: measured on a random sample of 100 of 250 rows." in shown.stdout
    assert page.exists()


def test_rows_without_ids_are_numbered_over_all_parts(folder, tmp_path):
    frame = table(90, 3).drop(columns=["id"])
    write_parts(frame, tmp_path / "rows")
    succeed("predict", "one.naim3l", f"clinic={tmp_path}/rows", "-o", tmp_path / "a.csv")
    assert pd.read_csv(tmp_path / "a.csv")["row"].tolist() == list(range(90))


def test_a_folder_appears_when_it_is_complete(folder, tmp_path, monkeypatch):
    views, appended, written = FORMS["csv"].split(), predictions.appended, []

    def write_three(path, **options):
        if len(written) == 3:
            raise OSError("the disk is full")
        written.append(path)
        return appended(path, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictions, "appended", write_three)
        said = refusal("predict", "one.naim3l", *views, "-o", tmp_path / "new" / "answers")
    assert "the disk is full" in said and list(tmp_path.iterdir()) == []
    (tmp_path / "answers").mkdir()  # an empty one may be there
    succeed("predict", "one.naim3l", *views, "-o", tmp_path / "answers")
    assert [path.name for path in tmp_path.iterdir()] == ["answers"]
    assert len(list((tmp_path / "answers").iterdir())) == 2 * N_FILES


def test_a_resumed_run_keeps_the_parts_of_the_same_model(folder, tmp_path):
    shutil.copy("one.naim3l", tmp_path / "m.naim3l")
    asked = ["predict", tmp_path / "m.naim3l", *SINGLE, "--memory", "1GB"]
    asked += ["--resume", "-o", tmp_path / "answers"]
    appended, n_written = predictions.appended, []

    def write_one(path, **options):
        if n_written:
            raise OSError("interrupted")
        n_written.append(path)
        return appended(path, **options)

    for model, n_kept in (("one", 1), ("csv", 0)):
        n_written.clear()
        with pytest.MonkeyPatch.context() as patch, dask.config.set(num_workers=1):
            patch.setattr(predictions, "appended", write_one)
            assert "interrupted" in refusal(*asked)
        shutil.copy(f"{model}.naim3l", tmp_path / "m.naim3l")
        said = succeed(*asked).stdout
        assert "Wrote 610 rows" in said
        assert ("1 parts of them had been written before" in said) == n_kept
        shutil.rmtree(tmp_path / "answers")
    assert "a folder as -o" in refusal("predict", *asked[1:-1], tmp_path / "one.csv")


@pytest.mark.parametrize(
    ("change", "n_kept"),
    [
        ("", 2),
        ("damaged", 1),
        ("cut", 1),
        ("record", 1),
        ("question", 0),
        ("files", 0),
        ("more", 2),
    ],
)
def test_a_resumed_run_keeps_parts_that_are_unchanged(tmp_path, change, n_kept):
    """Two parts of four are written before an error; then one, or what is asked, is changed."""
    reads = []

    def read(part, fails=False):
        reads.append(part)
        if fails and len(reads) == 3:
            raise OSError("interrupted")
        yield Batch(pd.DataFrame({"x": [part, part + 0.5]}), "v"), None

    def write(question="q", facts=("f",), **options):
        rows = Opened(
            "id",
            partial(lambda i, part: read(part, **options)),
            [(k,) for k in range(4)],
            None,
            facts,
        )
        given = {tmp_path / "answers": {"v": rows}}, {"v": lambda X, _: X.data}, "parquet"
        return predictions.write_answers(*given, safe=True, question=question)[0]

    with pytest.raises(OSError, match="interrupted"), dask.config.set(num_workers=1):
        write(fails=True)
    written = sorted((tmp_path / ".answers.part").glob("part-*"))
    if change in ("damaged", "cut"):
        data = written[0].read_bytes()
        written[0].write_bytes(data[:-9] if change == "cut" else data[:50] + b"!" + data[51:])
    elif change == "record":
        shutil.copy(*(of.with_name(f".{of.name}.json") for of in written[:2]))
    elif change == "more":
        shutil.copy(written[0], written[0].with_stem("part-00099"))
    n_kept += len(written) - 2
    reads.clear()
    asked = {"question": {"question": "other"}, "files": {"facts": ("other",)}}.get(change, {})
    n_kept *= change not in ("question", "files")
    assert write(**asked) == (8, n_kept)
    assert len(reads) == 4 - n_kept
    assert [path.name for path in tmp_path.iterdir()] == ["answers"]
    found = [
        pd.read_parquet(path)["x"].tolist() for path in sorted((tmp_path / "answers").iterdir())
    ]
    assert found == [[k, k + 0.5] for k in range(4)]


def test_a_folder_of_something_else_is_refused(folder):
    said = refusal("predict", "one.naim3l", "clinic=clinic_csv", "-o", "clinic_csv")
    assert "the folder clinic_csv has other files" in said


def changed(tmp_path, change):
    """A folder of text files of which one is changed."""
    write_parts(table(90, 1), tmp_path / "bad")
    path = tmp_path / "bad" / "2.csv"
    path.write_text(change(path.read_text()))
    return f"clinic={tmp_path}/bad"


def test_a_label_in_other_words_is_named(tmp_path):
    source = changed(tmp_path, lambda text: text.replace(",yes", ",perhaps", 1))
    said = refusal("fit", source, *ROLES, *QUICK, "-o", tmp_path / "m")
    assert re.search(r"2\.csv, row \d+ \(line \d+\), label 'dx_\d': .*'perhaps' is not", said)


def test_signs_of_labels_mean_the_same_in_all_parts(tmp_path, monkeypatch):
    """Where some rows have "+", a batch that has only "-" has no labels that are unknown."""
    monkeypatch.setattr("naim3l.cli.chunks.BATCH_ROWS", 20)
    rng = np.random.default_rng(0)
    marks = np.where(np.arange(120) < 60, rng.choice(["+", "-"], 120), "-")
    frame = pd.DataFrame({"a": rng.normal(size=120), "b": rng.normal(size=120), "dx": marks})
    frame.to_csv(tmp_path / "one.csv", index=False)
    rates = []
    for more in ([], ["--memory", "64MB"]):
        arguments = [f"v={tmp_path}/one.csv", "--labels", "dx", *QUICK, *more]
        succeed("fit", *arguments, "-o", tmp_path / "m")
        rates.append(naim3l.load(tmp_path / "m").base_rates_)
    np.testing.assert_allclose(*rates)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fused"], "--fused joins rows of all views by id"),
        (["--memory", "4XB"], "--memory 4XB: give a size such as 4GB"),
        (["--memory", "9"], "--memory 9: give a size"),
    ],
)
def test_what_is_refused(folder, tmp_path, arguments, message):
    views = FORMS["csv"].split()
    assert message in refusal("predict", "one.naim3l", *views, *arguments, "-o", tmp_path / "out")


def test_labels_of_a_file_of_their_own_need_memory(folder, tmp_path):
    arguments = ["clinic=clinic_csv", *ROLES, "--labels-file", "clinic=lab.csv"]
    said = refusal("fit", *arguments, "-o", tmp_path / "m")
    assert "labels in a file of their own are matched by id" in said


def test_statistics_beyond_the_memory_are_refused(folder, tmp_path):
    views = FORMS["csv"].split()
    said = refusal("fit", *views, *ROLES, "--memory", "300kB", "-o", tmp_path / "m")
    assert "a fit would take about" in said and not (tmp_path / "m").exists()


def test_a_cluster_gives_the_same_answers(folder, tmp_path):
    distributed = pytest.importorskip("distributed")
    views = FORMS["parquet"].split()
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=":0"
    ) as cluster:
        at = ["--dask", cluster.scheduler_address]
        succeed("fit", *views, *ROLES, *QUICK, *at, "-o", tmp_path / "m")
        succeed("predict", tmp_path / "m", *views, *at, "-o", tmp_path / "far")
    far, here = naim3l.load(tmp_path / "m"), naim3l.load("parquet.naim3l")
    for view in far.views_:
        np.testing.assert_allclose(far.coef_[view], here.coef_[view], rtol=1e-10)
    assert len(list((tmp_path / "far").glob("part-*"))) > 2


def test_a_cluster_that_does_not_answer(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("naim3l.cli.chunks.PATIENCE", "0.2s")
    said = refusal(
        "predict", "one.naim3l", *SINGLE, "--dask", "tcp://127.0.0.1:9", "-o", tmp_path / "o"
    )
    assert "no scheduler answers" in said
