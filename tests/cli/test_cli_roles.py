"""What a model remembers of its files: ids, labels, their words; nothing need be said again."""

import io
import json
import re
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from naim3l import load
from study import QUICK, run

N = 90
WORDS = ["--yes", "used", "--no", "never", "--unknown", "not asked"]
LABELS = ["--labels", "flu", "--labels", "gout", "--labels", "asthma"]
IDS = ["--id", "clinic=patient_no", "--id", "lab=case"]
VIEWS = ["clinic=clinic.csv", "lab=lab.csv"]
NUMBERS = 7_000_003 * np.arange(1, N + 1) + 100_000_000  # ids as long numbers


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder with tables whose ids have different names, labels in odd words, and a model."""
    path = tmp_path_factory.mktemp("roles")
    rng = np.random.default_rng(0)
    health = rng.normal(size=(N, 3))
    words = np.where(health + 0.3 * rng.normal(size=health.shape) > 0, "used", "never")
    words = words.astype(object)
    words[rng.random(words.shape) < 0.2] = "not asked"

    def table(id_column, names, labels):
        seen = health + 0.3 * rng.normal(size=health.shape)
        frame = pd.DataFrame(seen.round(3), columns=names)
        frame.insert(0, id_column, NUMBERS)
        return frame.assign(**{label: words[:, k] for label, k in labels.items()})

    clinic = table("patient_no", ["age", "bmi", "pulse"], {"flu": 0, "gout": 1})
    clinic["ward"] = np.where(np.arange(N) % 3, "7", "8")  # text, though it looks like numbers
    lab = table("case", ["hb", "crp", "alt"], {"flu": 0, "asthma": 2})
    clinic.to_csv(path / "clinic.csv", index=False)
    lab[: 2 * N // 3].to_csv(path / "lab.csv", index=False)
    (path / "study.toml").write_text(
        '[views.clinic]\nsource = "clinic.csv"\nid = "patient_no"\ntext = ["ward"]\n'
        '[views.lab]\nsource = "lab.csv"\nid = "case"\nignore = ["alt"]\n'
        '[labels]\ncolumns = ["flu", "gout", "asthma"]\n'
        'yes = ["used"]\nno = ["never"]\nunknown = ["not asked"]\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        done, told = quietly("fit", "--config", "study.toml", *QUICK, "-o", "model.naim3l")
    assert done.exit_code == 0, done.output
    assert [line for line in told if "in other views only" not in line] == []
    return path


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    return made


def quietly(*arguments):
    """A command whose warnings are no errors, and the warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        done = run(*arguments)
    return done, [line for line in done.stderr.splitlines() if "warning" in line]


def test_roles_are_those_of_the_fit(folder):
    words = {"yes": ["used"], "no": ["never"], "unknown": ["not asked"]}
    words["written"] = ["used", "never"]
    assert load("model.naim3l").roles_ == {
        "clinic": {"id": "patient_no", "labels": ["flu", "gout"], "ignored": [], **words},
        "lab": {"id": "case", "labels": ["flu", "asthma"], "ignored": ["alt"], **words},
    }


def test_the_command_line_can_say_the_same(folder):
    done, _ = quietly("fit", *VIEWS, *LABELS, *IDS, *WORDS, *QUICK, "-o", "other.naim3l")
    assert done.exit_code == 0, done.output
    first, second = (load(name).roles_ for name in ("model.naim3l", "other.naim3l"))
    for view in first:
        assert first[view] | {"ignored": []} == second[view]


def test_nothing_need_be_said_again(folder):
    """Files with the same columns and words are read as at the fit, by every command."""
    for config in ([*VIEWS], ["--config", "study.toml"]):
        for command, out in {"predict": "p.csv", "impute": "filled", "report": "r.html"}.items():
            done = run(command, "model.naim3l", *config, "-o", out)
            assert done.exit_code == 0, done.output
        result = json.loads(run("evaluate", "model.naim3l", *config, "--json").stdout)
        assert set(result["views"]) == {"mean over views", "clinic", "lab", "fused"}
        # Labels that a view does not know are those of the others.
        lab = pd.read_csv("lab.csv")
        assert result["labels"]["asthma"]["lab"]["yes"] == (lab["asthma"] == "used").sum()
    table = pd.read_csv("p.csv")
    assert list(table.columns) == ["id", "view", "flu", "gout", "asthma"]
    assert list(table["id"]) == [*NUMBERS, *NUMBERS[: 2 * N // 3]]
    filled = pd.read_csv("filled/lab.csv")
    assert list(filled["case"]) == list(NUMBERS[: 2 * N // 3])
    assert set(table["flu"]) == set(filled["flu"]) == {"used", "never"}


def test_ids_of_different_names_are_fused(folder):
    done = run("predict", "model.naim3l", *VIEWS, "--fused", "-o", "fused.csv")
    assert done.exit_code == 0, done.output
    table = pd.read_csv("fused.csv")
    assert sorted(table["id"]) == sorted(NUMBERS)
    pd.read_csv("lab.csv").rename(columns={"case": "nr"}).to_csv("nr.csv", index=False)
    renamed = ["clinic=clinic.csv", "lab=nr.csv", "--id", "lab=nr"]
    assert run("predict", "model.naim3l", *renamed, "--fused", "-o", "nr_out.csv").exit_code == 0
    pd.testing.assert_frame_equal(pd.read_csv("nr_out.csv"), table)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["lba=case"], "no view 'lba'; did you mean 'lab'"),
        (["case", "nr"], "given twice"),
        (["lab=case", "lab=nr"], "given twice"),
        (["lab=caes"], "no id column 'caes'; did you mean 'case'"),
    ],
)
def test_wrong_ids_are_reported(folder, ids, message):
    options = [part for entry in ids for part in ("--id", entry)]
    done = run("predict", "model.naim3l", *VIEWS, *options, "-o", "never.csv")
    assert done.exit_code == 1 and message in done.stderr
    assert not Path("never.csv").exists()


def test_rows_have_numbers_where_there_are_no_ids(folder):
    pd.read_csv("lab.csv").drop(columns="case").to_csv("bare_lab.csv", index=False)
    assert run("predict", "model.naim3l", "lab=bare_lab.csv", "-o", "rows.csv").exit_code == 0
    assert list(pd.read_csv("rows.csv")["row"]) == list(range(2 * N // 3))
    assert run("impute", "model.naim3l", "lab=bare_lab.csv", "-o", "rows").exit_code == 0
    assert "row" in pd.read_csv("rows/lab.csv").columns
    mixed = ["clinic=clinic.csv", "lab=bare_lab.csv", "-o", "mixed.csv"]
    assert run("predict", "model.naim3l", *mixed).exit_code == 0
    assert list(pd.read_csv("mixed.csv")["id"]) == [*NUMBERS, *range(2 * N // 3)]


def test_views_that_cannot_be_matched_are_named(folder):
    lab = pd.read_csv("lab.csv")
    lab.assign(case=lab["case"] + 1).to_csv("strangers.csv", index=False)
    views = ["clinic=clinic.csv", "lab=strangers.csv"]
    done, told = quietly("predict", "model.naim3l", *views, "--fused", "-o", "strangers_out.csv")
    assert done.exit_code == 0 and any("no sample is in two tables" in line for line in told)


def test_rows_without_a_value_have_no_answer(folder):
    clinic = pd.read_csv("lab.csv", dtype=str)
    clinic.loc[[3, 5], ["hb", "crp", "alt"]] = None
    clinic.to_csv("holes.csv", index=False)
    for what in ("labels", "scores", "probabilities"):
        done, told = quietly(
            "predict", "model.naim3l", "lab=holes.csv", "--what", what, "-o", "holes_out.csv"
        )
        assert done.exit_code == 0, done.output
        (line,) = told
        assert line.endswith(f"no answer: view 'lab', case {NUMBERS[3]}, {NUMBERS[5]}.")
        table = pd.read_csv("holes_out.csv").set_index("case")
        empty = table.isna().all(axis=1)
        assert list(table.index[empty]) == [NUMBERS[3], NUMBERS[5]]
        assert table[~empty].notna().all(axis=None)


def test_no_id_of_a_training_row_is_in_the_file(folder, tmp_path):
    """Neither as text nor as a number, whether the column was named as the id or not."""
    clinic = pd.read_csv("clinic.csv")
    clinic["code"] = [f"Q{i:05d}" for i in range(N)]
    clinic["visit"] = np.arange(N) * 17 + 500_000  # text: the ids of visits
    clinic["visit"] = "v" + clinic["visit"].astype(str)
    clinic.rename(columns={"patient_no": "mrn"}).to_csv("more.csv", index=False)
    kernel = ["--kernel", "clinic=rbf", "--landmarks", "20"]
    done, told = quietly("fit", "clinic=more.csv", "lab=lab.csv", *LABELS, *WORDS, *QUICK, *kernel,
                         "-o", tmp_path / "more.naim3l")  # fmt: skip
    assert done.exit_code == 0, done.output
    for column in ("mrn", "case", "code", "visit"):  # one warning each, that of every door
        (line,) = [line for line in told if f"column '{column}': an id: " in line]
        assert "It is dropped." in line
    roles = load(tmp_path / "more.naim3l").roles_
    assert (roles["clinic"]["id"], roles["lab"]["id"]) == ("mrn", "case")
    assert "mrn" in done.stdout  # the summary shows which column names the rows
    assert not found_ids(tmp_path / "more.naim3l", clinic["code"], clinic["visit"])
    assert not found_ids(folder / "model.naim3l", clinic["code"])
    assert found_ids(folder / "model.naim3l", ["bmi"]) == {"bmi"}  # what is there is found


def found_ids(path, *texts):
    """Ids in a model file, as text or as numbers."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    words = {str(number) for number in NUMBERS}.union(*texts)
    found = {word for word in words for content in members.values() if word.encode() in content}
    for name, content in members.items():
        if name.endswith(".npy"):
            array = np.load(io.BytesIO(content))
            if array.dtype.kind in "iuf":
                found |= {*NUMBERS[np.isin(NUMBERS, array)]}
    return found


# Labels


def test_init_takes_words(folder):
    done = run("init", "clinic.csv", "lab.csv", *WORDS, "-o", "drafted.toml")
    assert done.exit_code == 0, done.output
    text = Path("drafted.toml").read_text()
    assert 'unknown = ["not asked"]' in text and re.search(r'columns = \[\n\s+"flu",', text)
    done, _ = quietly("fit", "--config", "drafted.toml", *QUICK, "-o", "drafted.naim3l")
    assert done.exit_code == 0, done.output


def test_labels_on_the_command_line_replace_those_of_the_settings(folder):
    done, _ = quietly(
        "fit", "--config", "study.toml", "--labels", "flu", *QUICK, "-o", "flu.naim3l"
    )
    assert done.exit_code == 0, done.output
    assert load("flu.naim3l").label_names_ == ["flu"]


def test_a_label_in_no_view_is_an_error_and_a_view_without_labels_too(folder):
    done = run("fit", *VIEWS, *IDS, "--labels", "flue", "-o", "never.naim3l")
    assert "labels of views 'clinic', 'lab': no column 'flue'; did you mean 'flu'" in done.stderr
    done = run("fit", *VIEWS, *IDS, *WORDS, "--labels", "gout", "-o", "never.naim3l")
    assert "labels of view 'lab': no column 'gout'" in done.stderr


@pytest.mark.parametrize(("yes", "no"), [("yes", "no"), ("1", "0")])
def test_columns_that_look_like_further_labels_are_named(folder, tmp_path, yes, no):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(N, 2)), columns=["hb", "crp"])
    names = ["smoker", "hb", "crp", "flu", "gout", "asthma"]
    for name in ("smoker", "flu", "gout", "asthma"):
        table[name] = np.where(rng.random(N) < 0.5, yes, no)
    table[names].to_csv(tmp_path / "t.csv", index=False)
    fit = ["--labels", "flu", "--labels", "gout", *QUICK, "-o", tmp_path / "t.naim3l"]
    _, told = quietly("fit", f"t={tmp_path / 't.csv'}", *fit)
    (line,) = [line for line in told if "look like further labels" in line]
    # A column of 0 and 1 that is not beside the labels may well be a feature.
    assert ("'smoker'" in line) == (yes == "yes") and "'asthma'" in line
    (tmp_path / "t.toml").write_text(
        '[views.t]\nsource = "t.csv"\nfeatures = ["*", "smoker", "asthma"]\n'
    )
    done = run("fit", "--config", tmp_path / "t.toml", *fit)
    assert done.exit_code == 0 and not done.stderr, done.output


def test_a_column_without_known_cells_looks_like_no_further_label(folder, tmp_path):
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.normal(size=(N, 2)), columns=["hb", "crp"])
    table = table.assign(flu=(rng.random(N) < 0.5).astype(int), gout="unknown")
    table.to_csv(tmp_path / "t.csv", index=False)
    fit = ["--labels", "flu", *QUICK, "-o", tmp_path / "never.naim3l"]
    _, told = quietly("fit", f"t={tmp_path / 't.csv'}", *fit)
    (line,) = told
    assert "column 'gout': 0 known values in 90 rows. It is dropped." in line


def test_a_number_that_looks_like_an_id_is_kept_where_it_is_listed(folder, tmp_path):
    table = pd.read_csv("lab.csv").drop(columns="case").assign(order_of_visit=0, turn=range(60))
    table["order_of_visit"] = np.arange(60) % 7
    table.to_csv(tmp_path / "t.csv", index=False)
    fit = ["--labels", "flu", *WORDS, *QUICK, "-o", tmp_path / "t.naim3l"]
    _, told = quietly("fit", f"lab={tmp_path / 't.csv'}", *fit)
    assert any("column 'turn': an id: it counts the rows. It is dropped" in line for line in told)
    assert "turn" not in load(tmp_path / "t.naim3l").names_.column_names("lab")
    (tmp_path / "t.toml").write_text(
        '[views.lab]\nsource = "t.csv"\nignore = ["asthma"]\nfeatures = ["*", "turn"]\n'
    )
    done = run("fit", "--config", tmp_path / "t.toml", *fit)
    assert done.exit_code == 0, done.output
    assert "turn" in load(tmp_path / "t.naim3l").names_.column_names("lab")


def test_a_column_that_would_be_dropped_is_read_as_text_where_it_is_listed(folder, tmp_path):
    table = pd.read_csv("lab.csv").drop(columns="case")
    table["note"] = [f"sample {i} was {'red' if i % 9 == 0 else 'pale'}" for i in range(60)]
    table.to_csv(tmp_path / "t.csv", index=False)
    fit = ["--labels", "flu", *WORDS, *QUICK, "-o", tmp_path / "t.naim3l"]
    settings = '[views.lab]\nsource = "t.csv"\nignore = ["asthma"]\n'
    for text, n_told in (("", 1), ('text = ["note"]\n', 0)):
        (tmp_path / "t.toml").write_text(settings + text)
        done, told = quietly("fit", "--config", tmp_path / "t.toml", *fit)
        assert done.exit_code == 0, done.output
        assert len(told) == n_told, told
        assert all("text = ['note'] in the settings" in line for line in told)
    (note,) = [c for c in load(tmp_path / "t.naim3l").columns_["lab"] if c.name == "note"]
    assert note.is_free_text
    done = run("inspect", tmp_path / "t.naim3l")
    assert "words and parts of words" in " ".join(done.stdout.split())
    done = run(
        "predict", tmp_path / "t.naim3l", f"lab={tmp_path / 't.csv'}", "-o", tmp_path / "p.csv"
    )
    assert done.exit_code == 0, done.output
