"""Parameters of all models: each has a place in the schema, and what has no effect is warned of."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from naim3l import NAIM3L, NAIM3LCV, DataWarning
from naim3l.estimators import PerViewLogistic, PerViewRidge
from naim3l.estimators.schema import PARAMETERS, Parameter, check_parameters

MODELS = (NAIM3L, NAIM3LCV, PerViewRidge, PerViewLogistic)
SEARCH = {"lams": (0.4,), "ridges": (1.0,), "cv": 2, "random_state": 0}


def test_every_parameter_has_its_place():
    parameters = {name for model in MODELS for name in model().get_params()}
    assert parameters == set(PARAMETERS)


@pytest.mark.parametrize("model", MODELS)
def test_defaults_pass(model):
    check_parameters(model().get_params(deep=False), model._schema)


def test_parameters_of_a_subclass_are_left_alone():
    check_parameters({"colour": "red"}, PARAMETERS)


def refuse(name, value):
    raise ValueError(f"{name} must not be {value}.")


class TestParameter:
    def test_values_of_views_are_called_by_their_views(self):
        parameter = Parameter(refuse, per_view=True)
        with pytest.raises(ValueError, match=r"^kernel\['lab'\] must not be 1"):
            parameter.check_value("kernel", {"clinic": None, "lab": 1})
        with pytest.raises(ValueError, match=r"^kernel\.\{lab\} must not be 1"):
            parameter.check_value("kernel", {"{lab}": 1}, entry="{}.{}")

    def test_a_mapping_is_a_value_like_others_where_views_have_none(self):
        with pytest.raises(ValueError, match=r"kernel must not be \{'lab': 1\}"):
            Parameter(refuse).check_value("kernel", {"lab": 1})

    def test_none_is_refused_unless_it_is_allowed(self):
        Parameter(refuse, optional=True).check_value("mu", None)
        with pytest.raises(ValueError, match="mu must not be None"):
            Parameter(refuse, per_view=True).check_value("mu", None)


class TestParametersWithoutEffect:
    @pytest.fixture
    def data(self, rng):
        X = {view: rng.normal(size=(40, 3)) for view in ("a", "b")}
        return X, {view: (rows[:, :2] > 0) * 1.0 for view, rows in X.items()}

    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize(
        ("options", "shown"),
        [
            ({"n_landmarks": 10}, "n_landmarks=10"),
            ({"n_landmarks": None}, "n_landmarks=None"),
            ({"gamma": 0.5}, "gamma=0.5"),
            ({"gamma": {"a": 0.5, "b": None}}, "gamma={'a': 0.5, 'b': None}"),
            ({"gamma": 0.5, "kernel": {"a": None, "b": None}}, "gamma=0.5"),
            ({"fusion": "evidence"}, "fusion='evidence'"),
        ],
        ids=str,
    )
    def test_are_warned_of(self, data, model, options, shown):
        model = model(**options | (SEARCH if model is NAIM3LCV else {}))
        with pytest.warns(DataWarning, match=f"^{re.escape(shown)} has no effect") as caught:
            model.fit(*data)
        assert len(caught) == 1

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"kernel": {"a": None, "b": "rbf"}, "n_landmarks": 10, "gamma": 0.5},
            {"gamma": {"a": "auto", "b": None}},
        ],
        ids=str,
    )
    def test_others_are_not(self, data, options):
        NAIM3L(**options).fit(*data)

    def test_fusion_is_for_wide_tables(self, data):
        X, Y = data
        wide, views = np.hstack(list(X.values())), {"a": [0, 1, 2], "b": [3, 4, 5]}
        PerViewRidge(views=views, fusion="evidence", random_state=0).fit(wide, Y["a"])

    def test_searches_go_through(self, data):
        X, Y = data
        model = clone(PerViewRidge(gamma=0.5, n_landmarks=20))
        search = GridSearchCV(model, {"kernel": [None, "rbf"]}, cv=2, error_score="raise")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            search.fit(X["a"], Y["a"])
        assert set(search.cv_results_["param_kernel"]) == {None, "rbf"}
