"""Errors and warnings as they arrive at the user of a model; each is tested in its own room."""

import numpy as np
import pandas as pd
import pytest

from naim3l import NAIM3L, DataWarning, estimators
from naim3l.estimators.base import ViewModel

nan = np.nan
FEW = {"max_iter": 5, "tol": 0, "random_state": 0}
VIEWS = {"clinic": ["age", "weight", "height"], "lab": ["iron", "zinc"]}
BOTH = pytest.mark.parametrize("form", ["separate", "wide"])
EVERY = [kind for kind in vars(estimators).values()
         if isinstance(kind, type) and issubclass(kind, ViewModel)]  # fmt: skip


def make(form, n_rows=12, **parameters):
    """Features, labels and model in one of the forms, as data frames without a fault."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n_rows, 5)), columns=VIEWS["clinic"] + VIEWS["lab"])
    Y = pd.DataFrame({"sick": np.arange(n_rows) % 2, "smoker": np.arange(n_rows) % 3 % 2})
    Y = Y.astype(float)
    if form == "wide":
        return X, Y, NAIM3L(views=VIEWS, **FEW | parameters)
    tables = {view: X[columns].copy() for view, columns in VIEWS.items()}
    return tables, {view: Y.copy() for view in VIEWS}, NAIM3L(**FEW | parameters)


def lab(tables):
    """The table that holds view "lab", to be changed in place."""
    return tables["lab"] if isinstance(tables, dict) else tables


@BOTH
class TestBothForms:
    def test_a_cell_is_named_in_fits_and_predictions(self, form):
        X, Y, model = make(form)
        fitted = make(form)[2].fit(X, Y)
        fitted.predict(X)  # data without a fault is accepted
        lab(X).loc[4, "iron"] = -np.inf
        for call in (lambda: model.fit(X, Y), lambda: fitted.decision_function(X)):
            with pytest.raises(ValueError, match="view 'lab', row 4, column 'iron': -inf is not"):
                call()

    def test_a_cell_that_is_missing_where_all_must_be_known(self, form):
        X, Y, model = make(form, features="scale")
        lab(X).loc[2, ["iron", "zinc"]] = nan  # lacks the view
        model.fit(X, Y)
        lab(X).loc[5, "zinc"] = nan
        for call in (lambda: model.decision_function(X), lambda: make(form)[2].set_params(
                features="scale").fit(X, Y)):  # fmt: skip
            with pytest.raises(ValueError, match="view 'lab', row 5, column 'zinc': missing value"):
                call()

    def test_a_label_is_named(self, form):
        X, Y, model = make(form)
        lab(Y)["smoker"] = lab(Y)["smoker"].astype(object)
        lab(Y).loc[6, "smoker"] = "perhaps"
        where = "view 'lab'" if form == "separate" else "y"
        with pytest.raises(ValueError, match=f"{where}, row 6, label 'smoker': .*'perhaps'"):
            model.fit(X, Y)

    def test_labels_of_other_rows(self, form):
        X, Y, model = make(form)
        where = "view 'lab'" if form == "separate" else "X"
        few, turned = slice(9), slice(None, None, -1)
        for rows, error in ((few, "12 rows of features but 9"), (turned, "another order; reorder")):
            labels = Y | {"lab": Y["lab"][rows]} if form == "separate" else Y[rows]
            with pytest.raises(ValueError, match=f"{where}: .*{error}"):
                model.fit(X, labels)

    @pytest.mark.parametrize(
        ("value", "what"),
        [(nan, "observed"), (0.0, "observed positive"), (1.0, "observed negative")],
    )
    def test_a_label_that_cannot_be_learned_is_warned_of_at_the_line_of_the_user(
        self, form, value, what
    ):
        X, Y, model = make(form)
        for table in Y.values() if form == "separate" else [Y]:
            table["smoker"] = value
        with pytest.warns(DataWarning, match=rf"labels never {what}: \['smoker'\]") as caught:
            model.fit(X, Y)
        assert [warning.filename for warning in caught] == [__file__]
        scores = model.decision_function(X)
        assert np.isfinite(scores["lab"] if form == "separate" else scores).all()

    @pytest.mark.filterwarnings("ignore:labels never observed negative")
    def test_one_row_is_enough_if_nothing_is_scaled(self, form):
        X, Y, model = make(form, 1)
        Y = Y + 1 if form == "wide" else {view: table + 1 for view, table in Y.items()}
        for features in ("scale", "paper"):
            with pytest.raises(
                ValueError, match=r"view 'clinic': (every column is cons|PCA needs)"
            ):
                model.set_params(features=features).fit(X, Y)
        model.set_params(features=None).fit(X, Y).predict(X)

    @pytest.mark.parametrize(
        ("fault", "error"),
        [
            (lambda X: X.assign(iron=nan, zinc=nan), "missing in every row; leave the view out"),
            (lambda X: X.assign(iron=3.0, zinc=3.0), "every column is constant in all rows"),
        ],
    )
    def test_a_view_without_content(self, form, fault, error):
        X, Y, model = make(form)
        X = fault(X) if form == "wide" else X | {"lab": fault(X["lab"])}
        with pytest.raises(ValueError, match=f"view 'lab': {error}"):
            model.fit(X, Y)


def test_columns_of_new_tables_are_those_of_the_fit():
    X, Y, model = make("wide")
    model.fit(X, Y)
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- lead\n(.|\n)*missing:\n- zinc"):
        model.predict(X.rename(columns={"zinc": "lead"}))
    with pytest.raises(ValueError, match="must be in the same order"):
        model.predict(X[X.columns[::-1]])
    unnamed = NAIM3L(**FEW).fit(X.to_numpy(), Y)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* expecting 5"):
        unnamed.predict(np.zeros((2, 3)))


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_parameter_is_checked(kind):
    X, Y, _ = make("wide")
    for name in kind().get_params():
        with pytest.raises((ValueError, TypeError), match=name) as caught:
            kind(**{name: "no such"}).fit(X, Y)
        assert "no such" in str(caught.value)


@pytest.mark.parametrize("value", [-1, nan, "0.4", [0.4]], ids=repr)
@pytest.mark.parametrize("name", ["lam", "mu", "ridge", "tol"])
def test_numbers(name, value):
    X, Y, model = make("separate", **{name: value})
    with pytest.raises(ValueError, match=f"'{name}' parameter of NAIM3L must be"):
        model.fit(X, Y)
