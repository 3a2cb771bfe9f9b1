"""Parameters of all models: each has a place in the schema."""

import pytest

from naim3l import NAIM3L, NAIM3LCV
from naim3l.estimators import PerViewLogistic, PerViewRidge
from naim3l.estimators.schema import PARAMETERS, Parameter, check_parameters

MODELS = (NAIM3L, NAIM3LCV, PerViewRidge, PerViewLogistic)


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
