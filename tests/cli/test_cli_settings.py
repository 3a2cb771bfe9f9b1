"""Settings in TOML: read, checked by the models before any table is, and drafted by init."""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naim3l import NAIM3L, NAIM3LCV, Kernel, Recipe, decode_labels
from naim3l.cli.draft import draft_settings
from naim3l.cli.settings import (
    MODEL_KEYS,
    Settings,
    ViewSettings,
    check_model,
    make_model,
    parse_sources,
    read_settings,
)
from naim3l.cli.tables import choose_columns, label_likeness, open_training
from naim3l.files.errors import ReadError
from naim3l.input.labels import USUAL_WORDS, LabelWords

FULL = """
output = "out/model.naim3l"
[views.clinic]
source = "data/clinic.csv"
id = "patient"
labels = ["flu", "gout*"]
ignore = ["note"]
[views."the lab"]
source = "sqlite:///lab.db#select * from lab"
id = "id"
labels = ["dx_*"]
features = ["hb"]
text = ["ward", "icd_*"]
labels_file = "/abs/labels.parquet"
[labels]
columns = ["gout"]
yes = ["affected"]
[model]
lam = 1
ridge = 0.5
tune = false
decide = "f1"
"""
VIEW = '[views.a]\nsource = "a.csv"\n'


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Function that writes a file in the working folder, and gives its path."""
    monkeypatch.chdir(tmp_path)

    def write_file(text, name="naim3l.toml"):
        (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
        return tmp_path / name

    return write_file


def test_settings_with_paths_relative_to_the_file(write, tmp_path):
    found = read_settings(write(FULL))
    assert found == Settings(
        {
            "clinic": ViewSettings(
                f"{tmp_path}/data/clinic.csv", "patient", ["flu", "gout*"], None, ["note"]
            ),
            "the lab": ViewSettings(
                f"sqlite:///{tmp_path}/lab.db#select * from lab",
                "id",
                ["dx_*"],
                ["hb"],
                [],
                "/abs/labels.parquet",
                ["ward", "icd_*"],
            ),
        },
        ["gout"],
        LabelWords(yes=("affected",)),
        {"lam": 1, "ridge": 0.5, "tune": False, "decide": "f1"},
        f"{tmp_path}/out/model.naim3l",
    )
    assert "lab.db" not in repr(found)  # a source may have a password


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[views]\n", "no view"),
        ("[views.a]\nid = 'x'\n", "views.a.source is missing"),
        (VIEW + "lables = []\n", r"unknown key 'views.a.lables'; did you mean 'labels'\?"),
        ("[view.a]\n", r"unknown key 'view'; did you mean 'views'\?"),
        (VIEW + "[model]\nlamda = 1\n", r"unknown key 'model.lamda'; did you mean '"),
        (VIEW + "[labels]\nmaybe = []\n", "unknown key 'labels.maybe'"),
        (VIEW + "id = 3\n", "views.a.id must be text, not 3"),
        (VIEW + "labels = [1]\n", r"views.a.labels must be a list of text, not \[1\]"),
        ("views = 3\n", r"views must be a table, \[views\], not 3"),
        ("[views]\na = 'a.csv'\n", r"views.a must be a table, \[views.a\], not 'a.csv'"),
        (VIEW + "id = \n", "not TOML in UTF-8: .*line 3"),
        (b"\xff\xfe", "not TOML in UTF-8"),
        (VIEW + "labels = 'flu'\n", "views.a.labels must be a list of text, not 'flu'"),
        (VIEW + "[model]\ntune = 1\n", "model.tune must be true or false, not 1"),
        (VIEW + "[model]\nlam = '1'\n", "The 'lam' parameter of NAIM3L must be a float .* Got '1'"),
        (VIEW + "[model]\nmetric = 'F1'\n", "The 'metric' parameter of NAIM3LCV must .* Got 'F1'"),
        (VIEW + "[model]\nlams = [0.0]\n", r"lams\[0\] must be a number from 1e-10"),
        (VIEW + "[model]\ndecide = 'f2'\n", r"decide must be one of \['sign', 'guarded'"),
        (VIEW + "[model]\nkernel = 'rfb'\n", "The 'name' parameter of Kernel .* Got 'rfb'"),
        (VIEW + "[model]\nkernel = {b = 'rbf'}\n", "kernel: no view 'b'; there are 'a'"),
        (VIEW + "[model]\nrecipe = 'sclae'\n", "The 'steps' parameter of Recipe .* 'sclae'"),
    ],
)
def test_bad_settings_are_refused_with_the_file_and_the_key(write, text, message):
    with pytest.raises(ReadError, match=f"naim3l.toml: {message}"):
        read_settings(write(text))


def test_options_of_the_command_line_replace_those_of_the_file(write):
    path = write(VIEW + "[model]\nlam = -1\nridge = 2\n")
    assert read_settings(path, {"lam": 0.5}).model == {"lam": 0.5, "ridge": 2}
    with pytest.raises(ReadError, match=r"toml and the options: The 'lam' parameter .* Got -2"):
        read_settings(path, {"lam": -2})


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=100) | st.text('ab.[]="\n#{}1', max_size=60).map(str.encode))
def test_arbitrary_bytes_are_settings_or_a_read_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("toml") / "any.toml"
    path.write_bytes(content)
    try:
        assert read_settings(path).views
    except ReadError as error:
        assert "any.toml" in str(error)


@pytest.mark.parametrize("wrong", ["clinic.csv", "=x.csv", "a b=x.csv", "lab="])
def test_views_are_named(wrong):
    with pytest.raises(ReadError):
        parse_sources([wrong])
    with pytest.raises(ReadError, match="given twice"):
        parse_sources(["a=x.csv", "a=y.csv"])
    assert parse_sources(["db=sqlite:///x.db#select a=1"]) == {"db": "sqlite:///x.db#select a=1"}


# From options to a model


def model_of(**options):
    check_model(options, ["clinic", "lab"])
    return make_model(options, {"clinic": Recipe(text=("ward",)), "lab": Recipe(keep=("turn",))})


def test_lam_and_ridge_are_tuned_unless_given():
    assert isinstance(model_of(), NAIM3LCV) and isinstance(model_of(decide="sign"), NAIM3LCV)
    given = model_of(lam=0.2, ridge="auto")
    assert isinstance(given, NAIM3L) and (given.lam, given.ridge) == (0.2, "auto")
    assert model_of(lam=0.2, tune=True).lams == [0.2]
    assert model_of(metric="log-loss", cv=4).metric == "log-loss"
    for model in (model_of(decide="sign"), model_of(lam=0.2, decide=0.1), model_of()):
        assert model.has_probabilities  # for predict and impute, whatever the rule


def test_views_get_their_features():
    assert model_of(log=False, day_first=True).features["lab"] == Recipe(
        log=False, day_first=True, keep=("turn",)
    )
    features = model_of(lam=1.0, n_components=7).features
    assert features["clinic"] == Recipe(n_components=7, text=("ward",))
    assert features["lab"] == Recipe(n_components=7, keep=("turn",))
    some = model_of(kernel={"lab": "rbf"}, gamma={"lab": 0.5}, n_landmarks=20).features
    assert some["clinic"] == Recipe(text=("ward",))
    assert some["lab"] == Kernel("rbf", 20, 0.5, recipe=Recipe(keep=("turn",)))
    # The same model, whose weights are those of columns.
    assert model_of(kernel="linear", n_landmarks=20).features == model_of().features
    assert model_of(kernel="chi2").features["lab"].recipe.steps is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_landmarks": 10}, "n_landmarks is for kernels"),
        ({"gamma": 0.5}, "gamma is for kernels"),
        ({"kernel": "rbf", "gamma": {"clinik": 0.5}}, "gamma: no view 'clinik'; did you mean"),
        ({"tune": True, "solver": "fast"}, "solver cannot be used, .* are chosen"),
        ({"metric": "log-loss", "lam": 0.2}, "metric cannot be used, .* are given"),
        ({"lam": 0.2, "ridge": "auto", "tune": True}, r"ridges\[0\] must be a number"),
        ({"lam": 0.2, "lams": [0.1], "tune": True}, "lam cannot be used"),
        ({"solver": "paper", "positive_weight": 2}, "positive_weight needs solver='fast'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message):
    with pytest.raises(ReadError, match=message):
        model_of(**options)


def test_every_key_is_a_parameter_of_a_model_or_of_features():
    parameters = {*NAIM3L().get_params(), *NAIM3LCV().get_params()}
    others = {"tune", "recipe", "n_components", "kernel", "n_landmarks", "gamma"}
    others |= {"log", "day_first"}
    assert set(MODEL_KEYS) - parameters == others
    assert parameters - set(MODEL_KEYS) == {"views", "features", "init", "verbose"}


# Columns by name


def test_names_and_patterns():
    columns = ["id", "flu", "lab_hb", "lab_crp", "a*"]
    assert choose_columns(columns, ["lab_*", "id", "lab_hb"]) == ["lab_hb", "lab_crp", "id"]
    assert choose_columns([*columns, "ab"], ["a*"]) == ["a*"]
    with pytest.raises(ReadError, match=r"clinic\.csv: no column 'Flue'; did you mean 'flu'\?"):
        choose_columns(columns, ["Flue"], where="clinic.csv")
    with pytest.raises(ReadError, match=r"no column 'zzz\*'; there are 'id', 'flu'"):
        choose_columns(columns, ["zzz*"])


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["yes", "no", "unknown"], "sure"),
        ([True, False], "sure"),
        (["+", "-"], "sure"),
        ([1, 0], "perhaps"),
        ([1.0, -1.0, None], "perhaps"),
        (["1", "0", "na"], "perhaps"),
        ([1, 0, -1], None),
        (["f", "m"], None),
        (["?", None], "unrecorded"),
        ([None, float("nan")], "unrecorded"),
        ([1, 2], None),
        ([[1], [2]], None),
    ],
)
def test_what_looks_like_a_label(cells, expected):
    assert label_likeness(pd.Series(cells), USUAL_WORDS.meanings()) == expected


# Settings made by looking at tables


def draft(sources, folder=".", words=USUAL_WORDS, named=()):
    """Settings that are drafted, and their text."""
    _, text = draft_settings(sources, Path(folder), words, named)
    Path(folder, "drafted.toml").write_text(text, encoding="utf-8")
    return read_settings(Path(folder, "drafted.toml")), text


def labels_of(found):
    """Labels of each view, as a fit chooses them; none where the settings name none."""
    named = found.labels or any(view.labels for view in found.views.values())
    views = open_training(found) if named else found.views
    return {name: view.labels for name, view in views.items()}


@pytest.fixture
def three(write):
    """Three messy files, as seen from their folder."""
    write(
        'patient_id;age;flu;gout;note\nP1;61,5;yes;NO;he said: ""\nP2;31;?;Yes;b\nP3;4;no;?;c\n',
        "clinic.csv",
    )
    write("id\thb\tsmokes\tflu\tgout\n007\t1.5\t1\tno\tyes\n008\t2\t0\tyes\tunknown\n", "lab.tsv")
    write("key|ward|gout|flu\n1|a|0|1\n2|b|0|\n3|a|0|0\n4||0|0\n", "third.txt")
    return ["clinic.csv", "lab.tsv", "third.txt"]


def test_labels_are_those_of_all_views_and_every_guess_is_marked(three):
    found, text = draft(three)
    assert list(found.views) == ["clinic", "lab", "third"]
    assert all(of == ["flu", "gout"] for of in labels_of(found).values())
    assert [view.id for view in found.views.values()] == ["patient_id", "id", "key"]
    assert '# guessed: features, though perhaps labels by their cells: "smokes"' in text
    assert found.output == "model.naim3l"
    entries = [line for line in text.splitlines() if line.startswith(("id =", "    "))]
    assert len(entries) == 3 + 2 and all(" # guessed: " in line for line in entries)


def test_what_the_fit_would_refuse_is_ignored_and_what_it_groups_is_not(write):
    """The judge is that of the fit: 40 towns are used, a mixture of numbers and words is not."""
    rows = [
        f"{i / 7:.3f},town {i % 40},{'high' if i % 4 == 0 else i},{'yes' if i % 3 else 'no'}"
        for i in range(200)
    ]
    write("x,town,mixed,flu\n" + "\n".join(rows) + "\n", "a.csv")
    found, text = draft(["a.csv"])
    assert found.views["a"].ignore == ["mixed"] and labels_of(found)["a"] == ["flu"]
    assert "'high' is not a number (50 of 200 cells of the column are not)" in text
    assert '# features: the other columns, "x", "town"' in text


def test_a_file_of_labels_alone(write):
    write("id,x,y\n1,0.5,1\n2,1.5,0\n", "a.csv")
    write("id,z\n1,3\n2,4\n", "b.csv")
    write("id,flu,gout\n1,yes,1\n2,no,0\n", "labels.csv")
    found, text = draft(["a.csv", "labels.csv", "b.csv"])
    assert list(found.views) == ["a", "b"]
    for view in found.views.values():
        assert view.labels_file == "labels.csv"
    assert all(of == ["flu", "gout"] for of in labels_of(found).values())
    assert "nothing but an id and labels" in text


@pytest.mark.parametrize("never", ["unknown", "?", "", "not asked"])
@pytest.mark.parametrize(("yes", "no"), [("yes", "no"), ("1", "0")])
def test_a_label_that_a_table_never_records_is_one_there(write, yes, no, never):
    write(f"id,x,gout,flu\nP1,0.5,{never},{yes}\nP2,1.5,{never},{no}\n", "lab.csv")
    write(f"id,y,gout,flu\nP1,0.5,{yes},{yes}\nP2,1.5,{no},\n", "clinic.csv")
    write(f"id,z,gout,flu,w\nP1,2,,{yes},\nP2,4,,{no},\n", "survey.csv")
    words = LabelWords(unknown=("not asked",))
    found, text = draft(["lab.csv", "clinic.csv", "survey.csv"], words=words)
    assert all(of == ["gout", "flu"] for of in labels_of(found).values())
    assert text.count('"gout", # guessed: looks like a label in all views that record it') == 1
    assert text.count('"flu", # guessed: looks like a label in all views\n') == 1
    assert '"w" is dropped by the fit (0 known values' in text  # no view has it as a label


def test_a_label_that_a_table_never_records_beside_labels_of_its_own(write):
    """Two tables share no known label, so that each has those of its own, too."""
    write("id,x,flu,gout\nP1,0.5,yes,no\nP2,1.5,no,yes\n", "clinic.csv")
    write("id,y,flu,rash\nP1,0.5,?,no\nP2,1.5,?,yes\n", "lab.csv")
    found, _ = draft(["clinic.csv", "lab.csv"])
    assert labels_of(found)["clinic"] == ["flu", "gout"]
    assert labels_of(found)["lab"] == ["flu", "rash"]


def test_columns_that_a_table_never_records_do_not_displace_labels(write):
    """Words for yes and no, but not in all views, leave 0 and 1 in all views what they are."""
    write("id,x,flu,gout\nP1,0.5,1,yes\nP2,1.5,0,no\n", "clinic.csv")
    write("id,y,flu,gout\nP1,0.5,0,\nP2,1.5,1,\n", "lab.csv")
    found, _ = draft(["clinic.csv", "lab.csv"])
    assert all(of == ["flu", "gout"] for of in labels_of(found).values())
    # Beside words in all views, 0 and 1 are rather a feature, and so where none is recorded.
    write("id,x,flu,smokes\nP1,0.5,yes,1\nP2,1.5,no,0\n", "clinic.csv")
    write("id,y,flu,smokes\nP1,0.5,no,\nP2,1.5,yes,\n", "lab.csv")
    found, text = draft(["clinic.csv", "lab.csv"])
    assert all(of == ["flu"] for of in labels_of(found).values())
    assert '"smokes" is dropped by the fit (0 known values' in text


def write_coded(write, *columns):
    """Two tables with columns of the same names, given as the cells of each table."""
    for i, view in enumerate("ab"):
        table = pd.DataFrame({name: of[i].split() for name, *of in columns})
        table.insert(0, f"x_{view}", [0.5, 1.5, 2.5, 3.5, 1.2])
        write(table.to_csv(index=False), f"{view}.csv")
    return ["a.csv", "b.csv"]


SMOKES, DRINKS = ("smokes", "1 2 7 2 1", "2 2 1 ? 9"), ("drinks", "1 2 2 2 1", "2 2 1 1 2")


def test_codes_of_answers_in_all_tables_are_labels(write):
    found, text = draft(write_coded(write, SMOKES, DRINKS, ("rating", "1 2 3 4 5", "2 5 1 3 1")))
    assert all(of == ["smokes", "drinks"] for of in labels_of(found).values())
    assert found.words == LabelWords(no=("2",), unknown=("7", "9"))
    assert 'no = ["2"] # guessed: ' in text and 'unknown = ["7", "9"] # guessed: ' in text
    views = open_training(found)
    assert views["a"].read()[1].to_numpy()[:, 0].tolist()[:2] == [1, 0]
    unknown = [of.read()[1]["smokes"].isna().sum() for of in views.values()]
    assert unknown == [1, 2]


@pytest.mark.parametrize(
    ("columns", "labels"),
    [
        ([("visits", "1 2 2 1 1", "1 2 3 2 1")], []),  # a 3 in one table
        ([("visits", "1 2 2 1 1", "1 2 0 2 1")], []),
        ([("visits", "1 1 9 1 1", "1 1 7 1 1")], []),  # no 2
        ([("rating", "1 2 3 4 5", "5 4 3 2 1")], []),
        ([DRINKS], ["drinks"]),
        ([DRINKS, ("flu", "1 0 1 0 1", "1 0 ? 0 1")], ["flu"]),  # 2 may be a sex or a group
        ([SMOKES, ("flu", "1 0 1 0 1", "1 0 ? 0 1")], ["smokes", "flu"]),
        ([SMOKES, ("flu", "yes no yes no ?", "no yes yes no ?")], ["flu"]),
        ([("smokes", "1.0 2.0 77 2 1", "2 2 1 1 2")], ["smokes"]),
        ([("smokes", "1 1 99 1 1", "2 2 ? 2 2")], ["smokes"]),  # together
    ],
    ids=str,
)
def test_which_columns_of_codes_are_labels(write, columns, labels):
    found, text = draft(write_coded(write, *columns))
    assert all(of == labels for of in labels_of(found).values())
    coded = set(labels) & {"smokes", "drinks"}
    assert found.words.no == (("2",) if coded else ())
    assert tomllib.loads(text)["labels"]["no"] == [*found.words.no]


def with_rare_words(write, *words, cells=("1", "0"), n=100):
    """Two tables of n rows with a label that has rare words, and one that has none."""
    for view in "ab":
        known = [cells[i % 3 == 0] for i in range(n)]
        rows = [f"{i / 7:.2f},{a},{b}" for i, (a, b) in enumerate(zip(known, known, strict=True))]
        for k, entry in enumerate(words):
            rows[5 * k] = f"{5 * k / 7:.2f},{entry},{cells[0]}"
        write("\n".join([f"x_{view},diabetes,flu", *rows]) + "\n", f"{view}.csv")
    return ["a.csv", "b.csv"]


@pytest.mark.parametrize("cells", [("1", "0"), ("yes", "no"), ("1", "2")])
def test_rare_words_beside_yes_and_no_are_guessed_to_mean_unknown(write, cells):
    words = "Borderline", "Borderline", "Told in pregnancy"
    found, text = draft(with_rare_words(write, *words, cells=cells))
    assert all(of == ["diabetes", "flu"] for of in labels_of(found).values())
    assert found.words.unknown == ("borderline", "told in pregnancy")
    assert 'unknown = ["borderline", "told in pregnancy"] # guessed: no answer' in text
    unknown = [of.read()[1]["diabetes"].isna().sum() for of in open_training(found).values()]
    assert unknown == [3, 3]
    given = LabelWords(no=("borderline",))
    found, _ = draft(with_rare_words(write, "Borderline", cells=cells), words=given)
    assert found.words == LabelWords(no=("borderline", *(["2"] * (cells[1] == "2"))))


@pytest.mark.parametrize(
    "words",
    [
        ["a", "b", "c"],  # three
        ["2"] * 3,  # a count
        ["Borderline"] * 11,  # not rare
    ],
    ids=str,
)
def test_other_words_and_numbers_make_no_label(write, words):
    found, _ = draft(with_rare_words(write, *words))
    assert all(of == ["flu"] for of in labels_of(found).values())
    assert found.words.unknown == ()


def test_python_refuses_a_rare_word_and_says_how_to_declare_it():
    labels = pd.DataFrame({"diabetes": [*"10" * 50, "Borderline"]})
    with pytest.raises(ValueError, match=r"'Borderline' is not a known label.*unknown= are for"):
        decode_labels(labels)
    assert decode_labels(labels, unknown=["borderline"])["diabetes"].isna().sum() == 1


def test_labels_that_are_named_are_no_guess(write):
    sources = write_coded(write, SMOKES, DRINKS, ("flu", "yes no yes no ?", "no yes yes no ?"))
    found, text = draft(sources, named=["s*", "flu"])
    assert found.labels == ["smokes", "flu"] and "guessed: words" not in text
    assert found.words == LabelWords(no=("2",), unknown=("7", "9"))
    assert all(of == ["smokes", "flu"] for of in labels_of(found).values())
    with pytest.raises(ReadError, match="--labels: no column 'flue'; did you mean 'flu'"):
        draft(sources, named=["flue"])


def test_labels_are_named_once_unless_another_view_has_such_a_column(write):
    write("id,x,flu,gout\nP1,0.5,yes,no\nP2,1.5,no,yes\n", "clinic.csv")
    write("id,y,gout,rash\nP1,0.5,3.5,no\nP2,1.5,4.25,yes\n", "lab.csv")
    found, text = draft(["clinic.csv", "lab.csv"])
    assert found.labels == [] and text.count("labels = [\n") == 2  # gout is a number in the lab
    assert labels_of(found) == {"clinic": ["flu", "gout"], "lab": ["rash"]}
    found, text = draft(["clinic.csv"])
    assert found.labels == ["flu", "gout"] and "labels = [\n" not in text


def test_words_that_are_given_go_before_codes(write):
    sources = write_coded(write, SMOKES, DRINKS, ("flu", "yes no yes no ?", "no yes yes no ?"))
    found, _ = draft(sources, words=LabelWords(no=("2",)))
    assert labels_of(found)["a"] == ["smokes", "drinks", "flu"]
    assert found.words == LabelWords(no=("2",), unknown=("7", "9"))
    found, _ = draft(write_coded(write, SMOKES), words=LabelWords(yes=("2",), no=("1",)))
    assert labels_of(found)["a"] == [] and found.words.unknown == ()


def test_one_table_without_labels_or_id(write):
    write("x,y\n0.5,2\n1.5,3\n", "a.csv")
    found, text = draft(["a.csv"])
    assert found.views["a"] == ViewSettings("a.csv")
    assert "no id column was found" in text and "no column looks like a label" in text


def test_names_of_views_and_of_columns(write, tmp_path):
    for name in ("a b.csv", "a-b.csv", "ü.csv"):
        write('id,"x ""\n\\y*",z\n1,yes,1.5\n2,no,2\n', name)
    found, text = draft(["a b.csv", "a-b.csv", "ü.csv"])
    assert list(found.views) == ["a_b", "a_b_2", "ü"] and tomllib.loads(text)
    column = 'x "\n\\y*'
    assert choose_columns(["id", column, "z"], found.labels) == [column]
    odd = "a\x1b\x7f\x9b\u202e\u2066b"
    write(f"id,{odd},{odd}d\n1,yes,0.5\n2,no,1.5\n", f"{odd}.csv")
    (tmp_path / "sub").mkdir()
    found, text = draft([f"{odd}.csv"], "sub")
    assert text.isascii() and not set(text) & set("\x1b\x7f")
    assert found.views["a_b"] == ViewSettings(f"{odd}.csv", "id") and found.labels == [odd]
    assert tomllib.loads(text)["views"]["a_b"]["source"] == f"../{odd}.csv"


def test_columns_that_tell_a_label_are_named_before_others(tmp_path):
    """Those known for one side alone, in the settings, and those printed, the surest first."""
    rng = np.random.default_rng(0)
    sick = rng.random(200) < 0.2
    table = pd.DataFrame({
        "x": rng.normal(size=200).round(2),
        "smokes": rng.integers(0, 2, 200),
        "age_when_told": np.where(sick, 40.5, np.nan),
        "dx": np.where(sick, "yes", "no"),
    })  # fmt: skip
    table.to_csv(tmp_path / "clinic.csv", index=False)
    views, text = draft_settings([str(tmp_path / "clinic.csv")], tmp_path)
    assert list(views["clinic"][3]) == ["age_when_told"]
    reason = "known in 100 % of the rows with dx = yes and in 0 % of those with no"
    assert f'"age_when_told" seems to tell a label: {reason}' in text
    assert text.index('age_when_told" seems') < text.index("perhaps labels")


def test_shared_columns_of_views(write, tmp_path):
    for view in "ab":
        rows = [f"P{i},{20 + i % 60},{i * 7 % 5},{i % 2}" for i in range(30)]
        write("\n".join([f"patient,age,{view}1,flu", *rows]), f"{view}.csv")
    _, text = draft(["a.csv", "b.csv"])
    assert text.count('# shared = true # learn from "age" of all views together; or false') == 2
    for value, expected in (("false", False), ('["age"]', ("age",)), ('["a*"]', ("age", "a1"))):
        found = read_settings(write(f'{VIEW}labels = ["flu"]\nshared = {value}\n'))
        assert open_training(found)["a"].recipe.shared == expected
    for wrong in ('"age"', "[1]"):
        with pytest.raises(ReadError, match="shared must be true, false or a list of text"):
            read_settings(write(f"{VIEW}shared = {wrong}\n"))
    found = read_settings(write(f'{VIEW}labels = ["flu"]\nshared = ["weight"]\n'))
    with pytest.raises(ReadError, match="no column 'weight'"):
        open_training(found)
