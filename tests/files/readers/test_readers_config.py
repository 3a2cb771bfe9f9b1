"""Settings in TOML: read, and made by looking at tables."""

import sqlite3
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naim3l.cli.draft import make_config
from naim3l.cli.settings import Config, LabelConfig, ViewConfig, read_config
from naim3l.files.readers import ReadError, choose_columns, parse_features, parse_labels, read_table
from naim3l.solvers import SOLVERS
from study import settings_text

FULL = """
output = "out/model.skops"
[views.clinic]
source = "data/clinic.csv"
id = "patient"
labels = ["flu", "gout*"]
ignore = ["note"]
[views."the lab"]
source = "sqlite:///lab.db#select * from lab"
id = "id"
labels = ["@names.txt"]
features = ["hb"]
text = ["ward", "icd_*"]
labels_file = "/abs/labels.parquet"
[labels]
yes = ["affected"]
[model]
lam = 1
ridge = 0.5
tune = false
max_iter = 50
threshold = "f1"
"""


@pytest.fixture
def write(tmp_path):
    """Function that writes settings and gives their path."""

    def write_file(text, name="naim3l.toml"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write_file


def test_settings_with_paths_relative_to_the_file(write, tmp_path):
    config = read_config(write(FULL))
    assert config == Config(
        {
            "clinic": ViewConfig(
                f"{tmp_path}/data/clinic.csv", "patient", ["flu", "gout*"], None, ["note"]
            ),
            "the lab": ViewConfig(
                f"sqlite:///{tmp_path}/lab.db#select * from lab",
                "id",
                [f"@{tmp_path}/names.txt"],
                ["hb"],
                [],
                "/abs/labels.parquet",
                ["ward", "icd_*"],
            ),
        },
        LabelConfig(yes=["affected"]),
        {"lam": 1, "ridge": 0.5, "tune": False, "max_iter": 50, "threshold": "f1"},
        f"{tmp_path}/out/model.skops",
    )
    assert read_config(write(settings_text(config))) == config


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "rbf", "n_landmarks": 50, "gamma": "auto", "positive_weight": 2},
        {"kernel": {"a": "chi2", "the lab": "linear"}, "gamma": {"the lab": 0.5}},
    ],
)
def test_kernels_of_all_views_or_of_some(write, options):
    views = {"a": ViewConfig("/a.csv"), "the lab": ViewConfig("/b.csv")}
    assert read_config(write(settings_text(Config(views, model=options)))).model == options


VIEW = '[views.a]\nsource = "a.csv"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no view"),
        ("[views]\n", "no view"),
        ("[views.a]\nid = 'x'\n", "views.a.source is missing"),
        (VIEW + "lables = []\n", r"unknown key 'views.a.lables'; did you mean 'labels'\?"),
        ("[view.a]\n", r"unknown key 'view'; did you mean 'views'\?"),
        (VIEW + "[model]\nlamda = 1\n", r"unknown key 'model.lamda'; did you mean 'lam' or"),
        (VIEW + "[model]\nzzz = 1\n", "unknown key 'model.zzz'; there are 'lam'"),
        (VIEW + "[labels]\nmaybe = []\n", "unknown key 'labels.maybe'"),
        (VIEW + "id = 3\n", "views.a.id must be text, not 3"),
        (VIEW + "labels = 'x'\n", "views.a.labels must be a list of text, not 'x'"),
        (VIEW + "labels = [1]\n", r"views.a.labels must be a list of text, not \[1\]"),
        (VIEW + "[model]\nlam = true\n", "model.lam must be a number, not True"),
        (VIEW + "[model]\nlam = '1'\n", "model.lam must be a number, not '1'"),
        (VIEW + "[model]\nmax_iter = 1.5\n", "model.max_iter must be a whole number"),
        (VIEW + "[model]\ntune = 1\n", "model.tune must be true or false, not 1"),
        (VIEW + "[model]\nthreshold = []\n", "model.threshold must be a number or text"),
        (VIEW + "[model]\nkernel = 1\n", "model.kernel must be text or a table of views, not 1"),
        (VIEW + "[model]\nkernel = 'rfb'\n", r"model.kernel must be one of \[.*'rbf'.*, got 'rfb'"),
        (VIEW + "[model]\nkernel = {b = 'rbf'}\n", "model.kernel: no view 'b'; there are 'a'"),
        (VIEW + "[model.kernel]\na = 'x'\n", r"model.kernel.a must be one of \[.*, got 'x'"),
        (VIEW + "[model]\nn_landmarks = 0\n", "model.n_landmarks must be a whole number >= 1"),
        (VIEW + "[model]\ngamma = 'wide'\n", "model.gamma must be 'auto' or a finite number > 0"),
        (VIEW + "[model]\ngamma = {a = -1}\n", "model.gamma.a must be 'auto' or a finite number"),
        (VIEW + "[model]\ntransformer = 'sclae'\n", r"model.transformer must be one of \['scale'"),
        (VIEW + "[model]\nthreshold = 'f2'\n", r"model.threshold must be one of \['sign', 'f1'"),
        (VIEW + "[model]\nmetric = 'F1'\n", r"model.metric must be one of \[.*'AP'.*, got 'F1'"),
        (VIEW + "[model]\nrandom_state = -1\n", "model.random_state: Seed must be between 0 and"),
        (VIEW + "[model]\nlam = inf\n", "model.lam must be a finite number > 0, got inf"),
        (VIEW + "[model]\npositive_weight = 0\n", "model.positive_weight must be .* > 0, got 0"),
        ("views = 3\n", r"views must be a table, \[views\], not 3"),
        ("[views]\na = 'a.csv'\n", r"views.a must be a table, \[views.a\], not 'a.csv'"),
        (VIEW + "labels_file = 'b.csv'\n", "views.a.labels_file needs views.a.id"),
        (VIEW + "id = \n", "not TOML: .*line 3"),
        (b"\xff\xfe", "TOML must be in UTF-8"),
    ],
)
def test_bad_settings(write, text, message):
    with pytest.raises(ReadError, match=f"naim3l.toml: {message}"):
        read_config(write(text))


def test_options_of_the_command_line_replace_those_of_the_file(write):
    path = write(VIEW + "[model]\nlam = -1\nridge = 2\n")
    assert read_config(path, {"lam": 0.5}).model == {"lam": 0.5, "ridge": 2}
    with pytest.raises(ReadError, match=r"^lam must be a finite number > 0, got -2"):
        read_config(path, {"lam": -2})


def test_missing_settings(tmp_path):
    with pytest.raises(ReadError, match="no such file"):
        read_config(tmp_path / "naim3l.toml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("toml")


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=100) | st.text('ab.[]="\n#{}1', max_size=60).map(str.encode))
def test_arbitrary_bytes_are_settings_or_a_read_error(folder, content):
    (folder / "any.toml").write_bytes(content)
    try:
        assert read_config(folder / "any.toml").views
    except ReadError as error:
        assert "any.toml" in str(error)


texts = st.text(max_size=6)
lists = st.lists(texts.filter(lambda text: not text.startswith("@")), max_size=3)
views = st.builds(
    ViewConfig, st.just("/a/b.csv"), texts, lists, lists | st.none(), lists, st.just("/l.csv")
)
models = st.fixed_dictionaries(
    {},
    optional={
        "lam": st.floats(1e-10, 1e10),
        "tune": st.booleans(),
        "solver": st.sampled_from([*SOLVERS]),
    },
)


@settings(max_examples=100, deadline=None)
@given(
    config=st.builds(
        Config,
        st.dictionaries(texts, views, min_size=1, max_size=3),
        st.builds(LabelConfig, lists, lists, lists),
        models,
        st.none() | st.just("/m.skops"),
    )
)
def test_what_is_written_is_read(folder, config):
    text = settings_text(config)
    (folder / "config.toml").write_text(text, encoding="utf-8", newline="")
    assert read_config(folder / "config.toml") == config


# Settings made by looking


def test_characters_that_cannot_be_seen_are_spelled_out(write, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    odd = "a\x1b\x7f\x9b\u202e\u2066b"
    write(f"id,{odd},{odd}c,{odd}d\n1,yes,{odd},0.5\n2,no,{odd},1.5\n", f"{odd}.csv")
    config, text = make_config([f"{odd}.csv"])
    assert text.isascii() and not set(text) & set("\x1b\x7f")
    assert config.views["a_b"] == ViewConfig(f"{odd}.csv", "id", [odd], ignore=[f"{odd}c"])


@pytest.fixture
def three(write, monkeypatch, tmp_path):
    """Three messy files, as seen from their folder."""
    monkeypatch.chdir(tmp_path)
    write(
        'patient_id;age;flu;gout;note\nP1;61,5;yes;NO;he said: ""\nP2;31;?;Yes;b\nP3;4;no;?;c\n',
        "clinic.csv",
    )
    write("id\thb\tsmokes\tflu\tgout\n007\t1.5\t1\tno\tyes\n008\t2\t0\tyes\tunknown\n", "lab.tsv")
    write("key|ward|gout|flu\n1|a|0|1\n2|b|0|\n3|a|0|0\n4||0|0\n", "third.txt")
    return ["clinic.csv", "lab.tsv", "third.txt"]


def test_labels_are_those_of_all_views(three, write):
    config, text = make_config(three)
    assert {name: view.labels for name, view in config.views.items()} == {
        "clinic": ["flu", "gout"],
        "lab": ["flu", "gout"],
        "third": ["flu", "gout"],
    }
    assert [view.id for view in config.views.values()] == ["patient_id", "id", "key"]
    assert config.views["clinic"].ignore == ["note"]
    assert config.views["third"].ignore == []
    assert '# guessed: features, though perhaps labels by their cells: "smokes"' in text
    assert config.output == "model.skops"
    assert read_config(write(text)).views.keys() == config.views.keys()


def test_every_guess_is_marked(three):
    _, text = make_config(three)
    entries = [line for line in text.splitlines() if line.startswith(("id =", "    "))]
    assert len(entries) == 3 + 6 + 1
    assert all(" # guessed: " in line for line in entries)


def test_settings_lead_to_features_and_labels(three, tmp_path):
    """Unedited, and from another folder than that of the tables."""
    (tmp_path / "sub").mkdir()
    _, text = make_config(three, tmp_path / "sub")
    (tmp_path / "sub" / "naim3l.toml").write_text(text)
    config = read_config(tmp_path / "sub" / "naim3l.toml")
    shapes = {}
    for name, view in config.views.items():
        table = read_table(view.source, id_column=view.id)
        labels = choose_columns(table.columns, view.labels)
        ignored = choose_columns(table.columns, view.ignore)
        words = {key: getattr(config.labels, key) for key in ("yes", "no", "unknown")}
        features, text_columns = parse_features(table.drop(columns=labels), ignore=ignored)
        shapes[name] = (features.shape, parse_labels(table[labels], **words).shape, text_columns)
    assert shapes == {
        "clinic": ((3, 1), (3, 2), []),
        "lab": ((2, 2), (2, 2), []),
        "third": ((4, 1), (4, 2), ["ward"]),
    }


def test_a_file_of_labels_alone(write, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write("id,x,y\n1,0.5,1\n2,1.5,0\n", "a.csv")
    write("id,z\n1,3\n2,4\n", "b.csv")
    write("id,flu,gout\n1,yes,1\n2,no,0\n", "labels.csv")
    config, text = make_config(["a.csv", "labels.csv", "b.csv"])
    assert list(config.views) == ["a", "b"]
    for view in config.views.values():
        assert view.labels_file == "labels.csv" and view.labels == ["flu", "gout"]
    assert "nothing but an id and labels" in text


def test_one_table_without_labels_or_id(write, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write("x,y\n0.5,2\n1.5,3\n", "a.csv")
    config, text = make_config(["a.csv"])
    assert config.views["a"] == ViewConfig("a.csv")
    assert "no id column was found" in text and "no column looks like a label" in text
    with pytest.raises(ReadError, match="no table given"):
        make_config([])


def test_names_of_views_and_of_columns(write, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("a b.csv", "a-b.csv", "ü.csv"):
        write('id,"@x ""\n\\y*",z\n1,yes,1.5\n2,no,2\n', name)
    connection = sqlite3.connect("lab.db")
    connection.execute("create table tests as select 1 as id, 'yes' as \"@x\", 2.5 as z")
    connection.close()
    config, text = make_config(["a b.csv", "a-b.csv", "ü.csv"])
    assert list(config.views) == ["a_b", "a_b_2", "ü"]
    assert tomllib.loads(text)
    table = read_table("a b.csv")
    chosen = choose_columns(table.columns, config.views["a_b"].labels)
    assert chosen == ['@x "\n\\y*']
    (tmp_path / "sub").mkdir()
    config, text = make_config(["sqlite:///lab.db#select * from tests"], "sub")
    assert 'source = "sqlite:///../lab.db#select * from tests"' in text
    assert config.views["tests"].source == "sqlite:///lab.db#select * from tests"
