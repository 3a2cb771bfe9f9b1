"""What `compare` holds out, and the methods that a model stands beside."""

import numpy as np
import pandas as pd
import pytest

from naim3l import NAIM3L, NAIM3LCV, datasets, evaluate, join_views
from naim3l.decisions.bootstrap_metrics import SHOWN, evaluate_blocks
from naim3l.decisions.held_out import hold_out_folds
from naim3l.decisions.learning import N_FOLDS
from naim3l.estimators import comparison
from naim3l.estimators.boosting import boosted_scores, boosting_cost
from naim3l.problem.rows import Problem
from naim3l.report.evaluated_blocks import read_blocks

METRICS = [measure.name for measure in SHOWN]


def draw(**more):
    options = {
        "n_features": (5, 4),
        "n_latent": 3,
        "n_labels": 3,
        "noise": 1.0,
        "missing_labels": 0.2,
    }
    return datasets.make_unpaired(70, random_state=0, **(options | more))


@pytest.fixture(scope="module")
def data():
    return draw()


def model(**options):
    return NAIM3L(0.5, ridge=1.0, decide="guarded", random_state=0, **options)


def mean_of_folds(Y, fold_of, scores):
    truths = [np.where(fold_of == fold, Y, np.nan) for fold in range(N_FOLDS)]
    found = [evaluate(truth, np.nan_to_num(scores)) for truth in truths]  # NaN where it is unknown
    return {name: np.mean([of_fold[name] for of_fold in found]) for name in ("macro-AUC", "AP")}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "columns"}, r"by must be one of \['rows', 'entries'\], got 'columns'"),
        ({"by": None}, "by must be one of"),
        ({"boosting": "yes"}, "boosting must be True, False or 'auto', got 'yes'"),
        ({"boosting": None}, "boosting must be True, False or 'auto', got None"),
    ],
)
def test_what_is_not_allowed(data, options, message):
    with pytest.raises(ValueError, match=message):
        model().compare(data.views, data.labels, **options)


def test_rows_or_single_entries_are_held_out(data):
    """Filling in is flattered by the other labels of a row, which rows that are new do not have."""
    by_rows, by_entries = (
        model().compare(data.views, data.labels, by=by) for by in ("rows", "entries")
    )
    assert by_rows["by"] == "rows" and by_entries["by"] == "entries"
    first, second = (found["blocks"][0] for found in (by_rows, by_entries))
    assert first["n_entries"] == second["n_entries"]  # each known entry is held out once
    assert first["metrics"]["macro-AUC"] != second["metrics"]["macro-AUC"]
    assert model().compare(data.views, data.labels) == by_rows


@pytest.mark.filterwarnings("ignore::naim3l.DataWarning")
def test_without_rows_that_can_be_held_out_nothing_is_measured(rng):
    X = {view: rng.normal(size=(12, 2)) for view in "ab"}
    Y = {view: np.full((12, 2), np.nan) for view in X}
    for of_view in Y.values():
        of_view[0] = 1
    assert NAIM3L(random_state=0).compare(X, Y)["blocks"][0]["n_entries"] == 0


@pytest.mark.dask
def test_entries_of_chunks_are_refused_before_the_fit(data, tmp_path):
    pytest.importorskip("dask")
    folders, labels = {}, ["a", "b", "c"]
    for view, table in data.views.items():
        known = pd.DataFrame(data.labels[view], columns=labels)
        folders[view] = tmp_path / f"{view}.parquet"
        pd.DataFrame(table).add_prefix("x").join(known).to_parquet(folders[view])
    names = dict.fromkeys(folders, labels)
    files = {view: str(path) for view, path in folders.items()}
    fitted = model()
    with pytest.raises(ValueError, match="by='entries' needs tables in memory"):
        fitted.compare(files, names, by="entries")
    assert not hasattr(fitted, "coef_")
    found = fitted.compare(files, names, boosting=True)
    assert found["by"] == "rows"
    assert found["boosting"] == "not measured on tables that are read in chunks"


@pytest.mark.parametrize("kind", [NAIM3L, NAIM3LCV])
def test_a_checkpoint_tells_fits_without_rows_from_those_without_entries(data, tmp_path, kind):
    pair = {"lams": [0.5], "ridges": [1.0]} if kind is NAIM3LCV else {"lam": 0.5, "ridge": 1.0}
    expected = kind(**pair, random_state=0).compare(data.views, data.labels, by="entries")
    path = tmp_path / "fit.checkpoint"
    for by in ("rows", "entries"):
        found = kind(**pair, random_state=0).compare(
            data.views, data.labels, by=by, checkpoint=path
        )
    assert found["blocks"] == expected["blocks"]


def test_boosting_stands_beside_ridge_and_has_the_same_folds(data):
    found = model().compare(data.views, data.labels, boosting=True)
    alone = model().compare(data.views, data.labels)
    assert found["boosting"] == "" and alone["boosting"] == "not asked for"
    fitted = model().fit(data.views, data.labels)
    signed = [np.where(np.isnan(Y), 0, 2 * Y - 1) for Y in data.labels.values()]
    problem = Problem([np.zeros((len(Y), 1)) for Y in signed], signed)
    fold_of = hold_out_folds(problem, N_FOLDS, np.random.RandomState(0))
    folds = [fold_of[rows] for rows in problem.row_slices]
    batches = fitted._batches(data.views)
    tables = [fitted.features_[view].rows(batch)[0] for view, batch in batches.items()]
    scores = boosted_scores(tables, signed, folds, list(fitted.view_rates_.values()))
    assert boosting_cost(tables, signed, 5) < comparison.MOST_SECONDS
    views = found["blocks"][1:]
    for block, of_view, fold, without in zip(
        views, scores, folds, alone["blocks"][1:], strict=True
    ):
        for name in METRICS:
            metric = block["metrics"][name]
            assert np.isfinite(metric["boosting"]) and np.isfinite(metric["uncoupled"])
            assert without["metrics"][name] == metric | {"boosting": None}
        expected = mean_of_folds(data.labels[block["name"]], fold, of_view)
        # Calibration keeps the order of a label's rows.
        assert block["metrics"]["macro-AUC"]["boosting"] == pytest.approx(expected["macro-AUC"])


def test_boosting_of_what_is_not_a_table_of_numbers_in_memory():
    """Kernels, words, and rows of a wide table that lack a view."""
    data = draw(aligned=True)
    wide, views = join_views({v: pd.DataFrame(X).add_prefix(v) for v, X in data.views.items()})
    wide.loc[:9, views["view1"]] = np.nan
    wide.loc[60:, views["view0"]] = np.nan
    wide["word"] = np.where(wide.index % 3, "red", "blue")
    views = views | {"view0": [*views["view0"], "word"]}
    wide.loc[60:, "word"] = None
    features = {"view0": "auto", "view1": "rbf"}
    fitted = model(views=views, features=features)
    found = fitted.compare(wide, data.labels["view0"], boosting=True)
    (block,) = found["blocks"]
    assert found["boosting"] == "" and block["kind"] == "fused"
    assert 0 < block["metrics"]["macro-AUC"]["boosting"] <= 1


def test_boosting_that_would_take_long_is_left_out_unless_it_is_asked_for(data, monkeypatch):
    monkeypatch.setattr(comparison, "boosting_cost", lambda *of: 123.4)
    found = model().compare(data.views, data.labels, boosting="auto")
    assert found["boosting"] == "not measured: it would take about 123 seconds"
    assert found["blocks"][0]["metrics"]["AP"]["boosting"] is None
    asked = model().compare(data.views, data.labels, boosting=True)
    assert asked["boosting"] == "" and asked["blocks"][0]["metrics"]["AP"]["boosting"] > 0
    for no in (False, np.False_, 0):
        assert model().compare(data.views, data.labels, boosting=no)["boosting"] == "not asked for"


def test_a_label_that_a_table_lacks_gives_coupling_no_credit_on_new_rows():
    """The rival knows how frequent the label is, as guessing does, and does not score it 0.

    Most other labels have negative scores, so that 0 would put the label above them in every row.
    """
    data = datasets.make_unpaired(
        400, n_features=(9, 8), n_labels=12, labels_per_row=2, noise=1.5, random_state=0
    )
    old = {view: slice(0, 200) for view in data.views}
    X, Xnew = ({v: X[old[v]] for v, X in data.views.items()},
               {v: X[200:] for v, X in data.views.items()})  # fmt: skip
    Y = {view: Y[:200].astype(float) for view, Y in data.labels.items()}
    Ynew = {view: Y[200:] for view, Y in data.complete_labels.items()}
    Y["view1"][:, :3] = np.nan
    fitted = NAIM3L(1e-6, ridge=1.0, random_state=0)  # nothing is coupled
    fitted.compare(X, Y)
    scores = fitted.uncoupled_.decision_function(Xnew)["view1"]
    np.testing.assert_allclose(scores[:, :3], np.tile(2 * fitted.base_rates_[:3] - 1, (200, 1)))
    found = evaluate_blocks(read_blocks(fitted, Xnew, Ynew), fitted.label_names_)
    (metrics,) = (of["metrics"] for of in found["blocks"] if of["name"] == "view1")
    assert metrics["AP"]["uncoupled"] == pytest.approx(evaluate(Ynew["view1"], scores)["AP"])
    assert abs(metrics["AP"]["gain"]["value"]) < 0.01
    scores[:, :3] = 0
    assert metrics["AP"]["value"] - evaluate(Ynew["view1"], scores)["AP"] > 0.1
