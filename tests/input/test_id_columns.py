"""Ids are told from measurements, and are no features of a model fitted to data frames."""

import uuid
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

from naim3l import NAIM3L, DataWarning, load
from naim3l.features.survey import TableSurvey
from naim3l.input.id_columns import is_named_like_id, why_id
from naim3l.input.tables import Table
from naim3l.input.views import SINGLE_VIEW

N = 60


def find_ids(frame):
    return TableSurvey.of(Table(frame, "t")).find_ids()


def shuffled(values):
    return np.random.default_rng(0).permutation(values)


@pytest.mark.parametrize(
    "name",
    ["id", "ID", "patient_id", "MRN", "pid", "patient_no", "caseNr", "patientNo", "record", "case",
     "subject", "Subject number", "uuid", "Unnamed: 0", "id_patient", "sample code"],
)  # fmt: skip
def test_names_of_ids(name):
    assert is_named_like_id(name)
    assert why_id(name, shuffled(10 * np.arange(N) ** 2)).startswith("it is named like an id")


@pytest.mark.parametrize("name", ["age", "paid", "acid", "patient", "cases", "nodes", "width"])
def test_names_of_measurements(name):
    assert not is_named_like_id(name)


IDS = {
    "counter": np.arange(10),
    "counter from the end of another table": np.arange(7001, 7011.0),
    "counter in another order": shuffled(np.arange(N)),
    "part of a counter": shuffled(np.arange(3 * N))[:N],
    "long numbers": shuffled(np.arange(N) * 7_654_321 + 200_000_001),
    "years and numbers": [f"2019/{i:04d}" for i in range(N)],
    "codes": [f"P{i:03d}" for i in range(N)],
    "codes with parts": [f"S19/{i}" for i in range(N)],
    "UUIDs": [str(uuid.UUID(int=i * 2**100 + 1)) for i in range(N)],
    "UUIDs as objects": [uuid.UUID(int=i) for i in range(N)],
    "beyond the digits of a float": [10**20 + 7 * i * 10**6 + 1 for i in range(N)],
}


@pytest.mark.parametrize("kind", IDS)
def test_values_of_ids_whatever_the_column_is_called(kind):
    assert why_id("x", IDS[kind])
    assert find_ids(pd.DataFrame({"y": np.ones(len(IDS[kind])), "x": IDS[kind]}))


MEASURED = {
    "decimals that all differ": shuffled(np.arange(N) + 0.5),
    "ages of few": shuffled(np.arange(20, 80))[:20],
    "amounts": shuffled(np.arange(N) * 1234 + 20_000),
    "large round amounts": shuffled(np.arange(N) * 1_230_000 + 20_000_000),
    "values that repeat": np.arange(N) // 2,
    "two values": np.arange(N) % 2,
    "truth values": np.arange(N) % 2 == 0,
    "negative and long": shuffled(np.arange(N) * 7_654_321 - 200_000_001),
    "words": ["north", "south", "east"] * 20,
    "sentences": [f"came on day {i}" for i in range(N)],
    "nothing": [None] * N,
    "lists": [[i] for i in range(N)],
}


@pytest.mark.parametrize("kind", MEASURED)
def test_values_that_are_no_ids(kind):
    assert not why_id("x", MEASURED[kind])
    assert not find_ids(pd.DataFrame({"x": MEASURED[kind]}))


@pytest.mark.parametrize("name", ["year", "day_of_study", "rank", "age at entry"])
def test_what_counts_by_its_nature_is_no_id(name):
    assert not why_id(name, np.arange(N))


def test_a_name_alone_is_not_enough():
    assert not why_id("key_rate", np.arange(N) + 0.5)
    assert not why_id("ward_id", np.arange(N) % 5)
    assert why_id("patient_id", np.arange(2 * N) // 2)  # each patient came twice
    assert not why_id("patient_id", [None] * N)


def test_missing_cells_do_not_count():
    cells = np.arange(N, dtype=float)
    cells[::7] = np.nan
    assert why_id("x", shuffled(cells))


@pytest.mark.parametrize("name", ["breast_cancer", "diabetes", "wine", "iris", "digits"])
def test_every_column_of_known_tables_is_kept(name):
    frame = getattr(datasets, f"load_{name}")(as_frame=True).frame
    assert find_ids(frame) == {}


def test_arrays_have_no_ids():
    assert find_ids(np.arange(2.0 * N).reshape(N, 2)) == {}


# Models


@pytest.fixture
def study(rng):
    """Tables with ids among the features, and labels."""
    features = rng.normal(size=(N, 3))
    table = pd.DataFrame(features, columns=list("abc"))
    table.insert(1, "MRN", shuffled(np.arange(N) * 7919 + 10_000))
    table["code"] = [f"P{i:03d}" for i in range(N)]
    labels = pd.DataFrame((features[:, :2] > 0).astype(float), columns=["flu", "gout"])
    return table, labels


def fit(X, Y, **options):
    with pytest.warns(DataWarning) as caught:
        model = NAIM3L(ridge=1.0, max_iter=20, **options).fit(X, Y)
    return model, sorted(str(warning.message) for warning in caught)


def test_ids_of_tables_apart_are_set_aside(study, tmp_path):
    table, labels = study
    bare = table[list("abc")]
    model, told = fit({"t": table}, {"t": labels})
    assert told[0].startswith("view 't', column 'MRN': an id: it is named like an id")
    assert told[1].startswith("view 't', column 'code': an id: its values are codes")
    assert all('transformer="scale"' in message for message in told)
    expected = NAIM3L(ridge=1.0, max_iter=20).fit({"t": bare}, {"t": labels})
    np.testing.assert_array_equal(model.coef_["t"], expected.coef_["t"])
    # New tables may have the ids, or not.
    model.save(tmp_path / "m.skops")
    for known in (model, load(tmp_path / "m.skops")):
        for new in (table, bare):
            scores = known.decision_function({"t": new})["t"]
            np.testing.assert_array_equal(scores, expected.decision_function({"t": bare})["t"])
        with pytest.raises(ValueError, match="columns differ from those of the fit"):
            known.predict({"t": table.drop(columns="a")})
    assert list(model.feature_names_in_["t"]) == list(table.columns)


@pytest.mark.parametrize("views", [None, {"one": ["a", "MRN"], "two": ["b", "c", "code"]}])
def test_ids_of_a_wide_table_are_set_aside(study, views):
    table, labels = study
    model, told = fit(table, labels, views=views)
    assert len(told) == 2
    bare = table[list("abc")]
    few = views and {"one": ["a"], "two": ["b", "c"]}
    expected = NAIM3L(ridge=1.0, max_iter=20, views=few).fit(bare, labels)
    np.testing.assert_array_equal(model.predict(table), expected.predict(bare))
    if views is None:
        assert model.reader_.column_names(SINGLE_VIEW) == list("abc")


def test_a_named_transformer_uses_every_column(study):
    table, labels = study
    numbers = table.drop(columns="code")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NAIM3L(ridge=1.0, max_iter=20, transformer="scale").fit(
            {"t": numbers}, {"t": labels}
        )
    assert model.coef_["t"].shape[0] == 4


def test_one_view_with_ids_does_not_change_another(study):
    table, labels = study
    X = {"t": table, "u": table[list("abc")].to_numpy()}
    model, told = fit(X, {"t": labels, "u": labels})
    assert len(told) == 2 and model.reader_.n_columns("u") == 3
    model.predict(X)


def test_nothing_but_ids_is_refused(study):
    table, labels = study
    with pytest.warns(DataWarning), pytest.raises(ValueError, match="no column is left"):
        NAIM3L().fit({"t": table[["MRN"]]}, {"t": labels})


def test_whole_numbers_beyond_floats_are_compared_as_text():
    huge = [10**400 + i for i in range(12)]
    assert not why_id("amount", huge)
    assert why_id("patient_id", huge)
