"""What is refused or warned of, through the estimator; docs/guide/messages.md is the same table."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from naim3l import NAIM3L, DataWarning

nan = np.nan
FAST = {"max_iter": 5, "tol": 0, "random_state": 0}
VIEWS = {"clinic": ["age", "weight", "height"], "lab": ["iron", "zinc"]}
NAMES = VIEWS["clinic"] + VIEWS["lab"]
FORMS = ["apart", "wide"]
BOTH = pytest.mark.parametrize("form", FORMS)


def make(form, n_rows=12):
    """Features, labels and model in one of the forms, as data frames without a fault."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n_rows, 5)), columns=NAMES)
    Y = pd.DataFrame({"sick": np.arange(n_rows) % 2, "smoker": np.arange(n_rows) % 3 % 2})
    Y = Y.astype(float)
    if form == "wide":
        return X, Y, NAIM3L(views=VIEWS, **FAST)
    tables = {view: X[columns].copy() for view, columns in VIEWS.items()}
    return tables, {view: Y.copy() for view in VIEWS}, NAIM3L(**FAST)


def lab(tables):
    """The table that holds the columns of view "lab", to be changed in place."""
    return tables["lab"] if isinstance(tables, dict) else tables


def replaced(tables, **changed):
    return {**tables, **changed}


def refused(error, call, *arguments, kind=ValueError):
    with pytest.raises(kind, match=error):
        call(*arguments)


@BOTH
def test_data_without_a_fault_is_accepted(form):
    X, Y, model = make(form)
    model.fit(X, Y).predict(X)


@BOTH
class TestCells:
    @pytest.mark.parametrize("value", ["high", "12"])
    def test_text(self, form, value):
        X, Y, model = make(form)
        lab(X)["zinc"] = lab(X)["zinc"].astype(object)
        lab(X).loc[3, "zinc"] = value
        error = rf"view 'lab', row 3, column 'zinc': '{value}' is text, though .*astype\(float"
        refused(error, model.fit, X, Y)
        error = rf"view 'lab', row 3, column 'zinc': '{value}' is not a number .*OneHotEncoder"
        refused(error, model.set_params(transformer="scale").fit, X, Y)

    def test_dates(self, form):
        X, Y, model = make(form)
        lab(X)["zinc"] = pd.date_range("2024-05-01", periods=12)
        error = r"view 'lab', row 0, column 'zinc': Timestamp\('2024-05-01.* is not a number"
        refused(error, model.set_params(transformer="scale").fit, X, Y, kind=TypeError)

    @pytest.mark.parametrize("value", [np.inf, -np.inf])
    def test_infinities(self, form, value):
        X, Y, model = make(form)
        fitted = make(form)[2].fit(X, Y)
        lab(X).loc[4, "iron"] = value
        error = f"view 'lab', row 4, column 'iron': {value} is not a finite number"
        refused(error, model.fit, X, Y)
        refused(error, fitted.predict, X)

    def test_partly_missing_rows(self, form):
        X, Y, model = make(form)
        model.set_params(transformer="scale")
        fitted = make(form)[2].set_params(transformer="scale").fit(X, Y)
        lab(X).loc[2, ["iron", "zinc"]] = nan
        lab(X).loc[5, "zinc"] = nan
        error = "view 'lab', row 5, column 'zinc': missing value .*transformer that accepts NaN"
        refused(error, model.fit, X, Y)
        refused(error, fitted.decision_function, X)


@pytest.mark.parametrize("container", ["numpy", "polars", "sparse"])
def test_infinities_in_other_containers(container):
    X, Y, model = make("apart")
    X["lab"].loc[4, "iron"] = np.inf
    build = {"numpy": np.array, "polars": pl.from_pandas, "sparse": sparse.csc_array}[container]
    column = "'iron'" if container == "polars" else "0"
    error = rf"view 'lab', row 4, column {column}: inf is not a finite number"
    refused(error, model.fit, replaced(X, lab=build(X["lab"])), Y)


class TestShapes:
    @BOTH
    def test_rows_of_features_and_labels_differ(self, form):
        X, Y, model = make(form)
        where = "view 'lab'" if form == "apart" else "X"
        Y = replaced(Y, lab=Y["lab"][:9]) if form == "apart" else Y[:9]
        refused(f"{where}: 12 rows of features but 9 rows of labels", model.fit, X, Y)

    @BOTH
    def test_labels_in_another_order_of_the_same_index(self, form):
        X, Y, model = make(form)
        where = "view 'lab'" if form == "apart" else "X"
        Y = replaced(Y, lab=Y["lab"][::-1]) if form == "apart" else Y[::-1]
        refused(rf"{where}: .*another order; reorder them with labels\.loc", model.fit, X, Y)

    @pytest.mark.parametrize(
        ("shape", "error"), [((0, 2), r"0 sample\(s\)"), ((12, 0), r"0 feature\(s\)")], ids=str
    )
    def test_empty_view(self, shape, error):
        X, Y, model = make("apart")
        fitted = make("apart")[2].fit(X, Y)
        for empty in (np.empty(shape), pd.DataFrame(np.empty(shape)), sparse.csr_array(shape)):
            X = replaced(X, lab=empty)
            refused(f"view 'lab': .*{error}.*leave an empty view out", model.fit, X, Y)
            refused(f"view 'lab': .*{error}", fitted.predict, {"lab": empty})

    def test_empty_wide_table(self):
        X, Y, model = make("wide")
        refused(r"X: Found array with 0 sample\(s\)", model.fit, X[:0], Y[:0])
        refused(r"views\['lab'\] has no columns", model.set_params(views={"lab": []}).fit, X, Y)

    @BOTH
    def test_view_missing_in_every_row(self, form):
        X, Y, model = make(form)
        lab(X)[VIEWS["lab"]] = nan
        refused("view 'lab': missing in every row; leave the view out", model.fit, X, Y)

    @BOTH
    def test_constant_view(self, form):
        X, Y, model = make(form)
        lab(X)[VIEWS["lab"]] = 3.0
        refused("view 'lab': every column is constant in all rows", model.fit, X, Y)

    @BOTH
    @pytest.mark.filterwarnings("ignore:labels never observed negative")
    @pytest.mark.parametrize(
        ("transformer", "error"),
        [
            ("scale", r"view 'clinic': every column is constant .*n_samples = 1"),
            ("paper", r"view 'clinic': PCA needs at least 2 rows"),
        ],
    )
    def test_one_row(self, form, transformer, error):
        X, Y, model = make(form)
        X = X[:1] if form == "wide" else {view: table[:1] for view, table in X.items()}
        Y = Y[:1] + 1 if form == "wide" else {view: table[:1] + 1 for view, table in Y.items()}
        refused(error, model.set_params(transformer=transformer).fit, X, Y)
        model.set_params(transformer=None).fit(X, Y).predict(X)  # one row is enough to predict

    def test_list_of_tables(self):
        X, Y, model = make("apart")
        error = r"X: a list of tables\. Give several views as a mapping"
        refused(error, model.fit, list(X.values()), list(Y.values()))
        refused(error, model.fit, [table.to_numpy() for table in X.values()], Y["lab"])

    @BOTH
    def test_duplicate_column_names(self, form):
        X, Y, model = make(form)
        lab(X).columns = [name.replace("zinc", "iron") for name in lab(X).columns]
        where = "view 'lab'" if form == "apart" else "X"
        refused(rf"{where}: duplicate column names \['iron'\]", model.fit, X, Y)

    @BOTH
    def test_duplicate_label_names(self, form):
        X, Y, model = make(form)
        lab(Y).columns = ["sick", "sick"]
        where = "view 'lab'" if form == "apart" else "y"
        refused(rf"{where}: duplicate label names \['sick'\]", model.fit, X, Y)


class TestLabels:
    @BOTH
    @pytest.mark.parametrize(
        ("coding", "value", "error"),
        [
            ("binary", 2, "2. With label_coding='binary' labels are 1 = yes, 0 = no, NaN"),
            ("binary", -1, "-1. With label_coding='binary'"),
            ("binary", 0.5, "0.5. With label_coding='binary'"),
            ("binary", "yes", "'yes' is not a number .*expected 1 = yes, 0 = no, NaN or null"),
            ("signed", nan, "nan. With label_coding='signed' labels are 1 = yes, -1 = no, 0 = unk"),
            ("signed", 0.5, "0.5. With label_coding='signed'"),
            ("signed", "no", "'no' is not a number .*expected 1 = yes, -1 = no, 0 = unknown"),
        ],
    )
    def test_outside_the_coding(self, form, coding, value, error):
        X, Y, model = make(form)
        lab(Y)["smoker"] = lab(Y)["smoker"].astype(object)
        lab(Y).loc[6, "smoker"] = value
        where = "view 'lab'" if form == "apart" else "y"
        error = f"{where}, row 6, label 'smoker': .*{error}"
        refused(error, model.set_params(label_coding=coding).fit, X, Y)

    @BOTH
    def test_truth_values_in_the_signed_coding(self, form):
        X, Y, model = make(form)
        lab(Y)["smoker"] = lab(Y)["smoker"] == 1
        error = r"label 'smoker': its values are True and False.*Use label_coding='binary'"
        refused(error, model.set_params(label_coding="signed").fit, X, Y)

    @BOTH
    def test_view_without_an_observed_label_or_positive(self, form):
        X, Y, model = make(form)
        only = [0, 2, 4]  # the rows that have view "lab"
        lab(X).loc[~lab(X).index.isin(only), VIEWS["lab"]] = nan
        lab(Y).loc[only] = nan
        refused("view 'lab': no label is observed in it; leave the view out", model.fit, X, Y)
        lab(Y).loc[only] = 0.0
        refused("view 'lab': no label is observed positive in it", model.fit, X, Y)

    @BOTH
    @pytest.mark.parametrize(
        ("value", "what"),
        [(nan, "observed"), (0.0, "observed positive"), (1.0, "observed negative")],
    )
    def test_label_that_cannot_be_learned(self, form, value, what):
        X, Y, model = make(form)
        for table in Y.values() if form == "apart" else [Y]:
            table["smoker"] = value
        with pytest.warns(DataWarning, match=rf"labels never {what}: \['smoker'\]") as caught:
            model.fit(X, Y)
        assert [warning.filename for warning in caught] == [__file__]
        scores = model.decision_function(X)
        assert np.isfinite(scores["lab"] if form == "apart" else scores).all()

    def test_labels_differ_between_views(self):
        X, Y, model = make("apart")
        error = r"view 'lab': .*of view 'clinic': lacking \['smoker'\], extra \['tall'\]"
        refused(error, model.fit, X, replaced(Y, lab=Y["lab"].rename(columns={"smoker": "tall"})))
        error = "view 'lab': 1 label columns, but 2 in other views"
        refused(error, model.fit, X, replaced(Y, lab=Y["lab"].to_numpy()[:, :1]))

    def test_labels_in_another_order_are_matched_by_name(self):
        X, Y, model = make("apart")
        turned = replaced(Y, lab=Y["lab"][["smoker", "sick"]])
        expected = model.fit(X, Y).decision_function(X)["lab"]
        np.testing.assert_array_equal(model.fit(X, turned).decision_function(X)["lab"], expected)
        assert model.label_names_ == ["sick", "smoker"]

    @BOTH
    def test_one_label(self, form):
        X, Y, model = make(form)
        Y = Y["sick"] if form == "wide" else {view: table["sick"] for view, table in Y.items()}
        predicted = model.fit(X, Y).predict(X)
        assert predicted.shape == (12,) if form == "wide" else predicted["lab"].shape == (12, 1)

    def test_labels_of_other_views_or_none(self):
        X, Y, model = make("apart")
        refused(r"views without labels \['lab'\]", model.fit, X, {"clinic": Y["clinic"]})
        refused(r"labels without a view \['x'\]", model.fit, X, replaced(Y, x=Y["lab"]))
        refused("view 'lab': .*y is None", model.fit, X, replaced(Y, lab=None))
        X, Y, model = make("wide")
        refused("y: .*y is None", model.fit, X)

    def test_labels_in_the_other_form(self):
        X, Y, model = make("apart")
        refused("takes a mapping .*got DataFrame", model.fit, X, Y["lab"], kind=TypeError)
        X, Y, model = make("wide")
        refused("one wide table takes one label table", model.fit, X, {"lab": Y}, kind=TypeError)

    @BOTH
    def test_labels_to_impute_are_not_those_of_the_fit(self, form):
        X, Y, model = make(form)
        model.fit(X, Y)
        lab(Y).columns = ["sick", "tall"]
        where = "view 'lab'" if form == "apart" else "y"
        error = rf"{where}: labels \['sick', 'tall'\] are not those of the fit, .*'smoker'"
        refused(error, model.impute_labels, X, Y)


class TestPredict:
    @BOTH
    def test_before_fit(self, form):
        X, Y, model = make(form)
        for call in (model.predict, model.decision_function):
            refused("not fitted", call, X, kind=NotFittedError)
        refused("not fitted", model.impute_labels, X, Y, kind=NotFittedError)

    def test_unknown_and_missing_views(self):
        X, Y, model = make("apart")
        model.fit(X, Y)
        error = r"unknown views \['scan'\]; the model was fitted on \['clinic', 'lab'\]"
        refused(error, model.predict, replaced(X, scan=X["lab"]))
        refused("no view given", model.predict, {})
        assert list(model.predict({"lab": X["lab"]})) == ["lab"]  # a part of the views is enough

    def test_wide_row_without_any_view(self):
        X, Y, model = make("wide")
        model.fit(X, Y)
        X.loc[3, NAMES] = nan
        with pytest.warns(DataWarning, match=r"1 rows \(3\) have no view"):
            assert np.isnan(model.decision_function(X)[3]).all()
        refused("X, row 3: all values are missing", model.predict, X)

    def test_row_without_the_view(self):
        X, Y, model = make("apart")
        model.fit(X, Y)
        X["lab"].loc[3] = nan
        refused("view 'lab', row 3: all values are missing", model.predict, X)

    def test_columns_renamed_or_reordered(self):
        X, Y, model = make("apart")
        model.fit(X, Y)
        renamed, reordered = X["lab"].rename(columns={"zinc": "lead"}), X["lab"][["zinc", "iron"]]
        error = r"view 'lab': .*missing \['zinc'\], unexpected \['lead'\]"
        refused(error, model.predict, {"lab": renamed})
        error = r"view 'lab': columns must be in the order of the fit.*Expected \['iron', 'zinc'\]"
        refused(error, model.predict, {"lab": reordered})
        refused("view 'lab': 3 columns, but 2 at the fit", model.predict, {"lab": np.zeros((2, 3))})
        with pytest.warns(DataWarning, match="view 'lab': .*no column names; .*in order"):
            model.predict({"lab": X["lab"].to_numpy()})

    def test_columns_renamed_or_reordered_in_a_wide_table(self):
        X, Y, model = make("wide")
        model.fit(X, Y)
        names = re.compile("unseen at fit time:\n- lead\n.*now missing:\n- zinc", re.DOTALL)
        refused(names, model.predict, X.rename(columns={"zinc": "lead"}))
        refused("must be in the same order", model.predict, X[NAMES[::-1]])
        refused("now missing:\n- iron\n- zinc", model.predict, X[NAMES[:3]])
        unnamed = NAIM3L(**FAST).fit(X.to_numpy(), Y)
        refused("X has 3 features, but .* expecting 5", unnamed.predict, np.zeros((2, 3)))

    def test_the_other_form(self):
        X, Y, model = make("apart")
        error = r"expected a mapping \{view: table\}, got DataFrame"
        refused(error, model.fit(X, Y).predict, X["lab"], kind=TypeError)
        wide, labels, model = make("wide")
        error = "fitted on one wide table, got a mapping; naim3l.join_views"
        refused(error, model.fit(wide, labels).predict, X, kind=TypeError)
        refused("views= names the columns of one wide table", model.fit, X, Y)


class TestParameters:
    @pytest.mark.parametrize("name", ["lam", "mu", "ridge", "tol"])
    @pytest.mark.parametrize("value", [-1, nan, np.inf, "0.4", True, [0.4]], ids=repr)
    def test_numbers(self, name, value):
        X, Y, model = make("apart")
        sign = ">=" if name in ("ridge", "tol") else ">"
        error = f"{name} must be a finite number {sign} 0, got {value!r}"
        if (name, value) == ("ridge", "0.4"):
            error = "ridge must be a number or 'auto', got '0.4'"
        refused(re.escape(error), model.set_params(**{name: value}).fit, X, Y)

    @pytest.mark.parametrize(
        ("name", "value", "error"),
        [
            ("lam", 0, "lam must be a finite number > 0, got 0"),
            ("mu", 0.0, "mu must be a finite number > 0, got 0.0"),
            ("max_iter", 2.5, "max_iter must be a whole number >= 1, got 2.5"),
            ("verbose", -1, "verbose must be a whole number >= 0, got -1"),
            ("solver", "newton", "solver must be one of .*'paper'.*got 'newton'"),
            ("label_coding", "yes/no", "label_coding must be one of .*'signed'.*got 'yes/no'"),
            ("low_rank", "yes", "low_rank must be one of .*True, False.*got 'yes'"),
            ("fit_intercept", 2, "fit_intercept must be one of .*got 2"),
            ("low_rank", False, "high_rank=True needs low_rank=True"),
            ("transformer", "standard", "transformer must be one of .*got 'standard' for view 'cl"),
            ("transformer", 3, "transformer must be one of .*got 3"),
            ("transformer", StandardScaler, "transformer must be .*an object, not its class"),
            ("transformer", {"clinic": None}, "transformer: no entry for view 'lab'"),
            ("init", 0, "init must be a mapping"),
            ("random_state", "today", "'today' cannot be used to seed"),
        ],
        ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
    )
    def test_others(self, name, value, error):
        X, Y, model = make("apart")
        refused(error, model.set_params(**{name: value}).fit, X, Y)

    def test_start_weights(self):
        X, Y, model = make("apart")
        init = {"lab": np.zeros((3, 2))}
        error = r"init has views \['lab'\], the data .*'clinic'"
        refused(error, model.set_params(init=init).fit, X, Y)
        for wrong in (np.zeros((2, 2)), np.full((3, 2), nan)):
            init = {"clinic": np.zeros((4, 2)), "lab": wrong}
            error = r"init\['lab'\] must be finite weights of shape \(3, 2\)"
            refused(error, model.set_params(init=init).fit, X, Y)

    @pytest.mark.parametrize(
        ("views", "error"),
        [
            ([["age"], ["iron"]], "views must be a mapping"),
            ({}, "views must be a mapping"),
            ({"lab": ["lead"]}, r"views\['lab'\]: unknown column 'lead'; the table has .*'zinc'"),
            ({"lab": [5]}, r"views\['lab'\]: no column 5 in a table of 5 columns"),
            ({"lab": ["iron", "iron"]}, r"views\['lab'\] has column 'iron' twice"),
            ({"lab": [True]}, r"views\['lab'\]: a mask of 1 for 5 columns"),
        ],
        ids=["list", "none", "unknown", "position", "twice", "mask"],
    )
    def test_views(self, views, error):
        X, Y, model = make("wide")
        refused(error, model.set_params(views=views).fit, X, Y)

    def test_view_names(self):
        X, Y, model = make("apart")
        error = "view names must be strings, got 1"
        refused(error, model.fit, {1: X["lab"]}, {1: Y["lab"]}, kind=TypeError)
        error = "a view cannot be named 'fused'"
        refused(error, model.fit, {"fused": X["lab"]}, {"fused": Y["lab"]})
        X, Y, model = make("wide")
        refused(error, model.set_params(views={"fused": [0, 1]}).fit, X, Y)
