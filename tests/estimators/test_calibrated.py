"""Methods that need probabilities, and the most probable labels."""

import inspect

import numpy as np
import pytest

from naim3l.estimators.calibrated import CalibratedMethod, most_probable


class Model:
    def __init__(self, calibrate):
        self.calibrate = calibrate

    @CalibratedMethod
    def twice(self, number):
        """Twice the number."""
        return 2 * number


def test_a_method_that_is_there_only_with_probabilities():
    assert Model(calibrate=True).twice(3) == 6
    assert not hasattr(Model(calibrate=False), "twice")
    with pytest.raises(AttributeError, match=r"^Model.twice needs calibrate=True"):
        Model(calibrate=False).twice(3)
    assert Model.twice.__doc__ == "Twice the number."
    assert list(inspect.signature(Model.twice).parameters) == ["self", "number"]


@pytest.mark.parametrize("least", [None, 0.5, 0.75, 1.0])
def test_the_more_probable_value_if_it_is_probable_enough(rng, least):
    yes = np.append(rng.random(50), [0, 0.25, 0.5, 0.75, 1, np.nan]).reshape(-1, 4)
    for p, value in zip(yes.flat, most_probable(yes, least).flat, strict=True):
        if np.isnan(value):
            assert np.isnan(p) or max(p, 1 - p) < (least or 0)
        else:
            assert (p if value == 1 else 1 - p) == max(p, 1 - p) >= (least or 0)
