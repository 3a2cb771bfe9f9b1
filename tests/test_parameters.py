"""Checks of parameters: what is allowed passes, all else is an error that names it."""

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from naim3l._parameters import (
    RANGES,
    check_choice,
    check_in_range,
    check_number,
    check_whole_number,
)

NOT_NUMBERS = [None, "1", [1], 1j, True, np.True_, np.array([1.0, 2.0]), Decimal(1)]
NOT_FINITE = [float("nan"), float("inf"), -float("inf"), np.float64("nan"), 10**400]


@pytest.mark.parametrize("value", [*NOT_NUMBERS, *NOT_FINITE, 0, -1, -0.5])
def test_a_number_is_finite_and_above_its_bound(value):
    with pytest.raises(ValueError, match=r"^tol must be a finite number > 0, got "):
        check_number("tol", value, above=0)


@pytest.mark.parametrize("value", [1, 0.1, np.float32(2), np.int8(3), Fraction(1, 3), 5e-324])
def test_numbers_of_any_kind_are_allowed(value):
    check_number("tol", value, above=0)


def test_a_bound_can_be_allowed_itself():
    check_number("tol", 0, above=0, or_equal=True)
    with pytest.raises(ValueError, match=re.escape("tol must be a finite number >= 0, got -1.")):
        check_number("tol", -1, above=0, or_equal=True)


@pytest.mark.parametrize("name", RANGES)
def test_ends_of_a_range_belong_to_it(name):
    least, most = RANGES[name].least, RANGES[name].most
    assert 0 < least < 1 < most
    for value in (least, 1, most):
        check_in_range(name, value)
    for value in (least / 2, most * 2):
        with pytest.raises(
            ValueError, match=rf"^{name} must be from .*, got {re.escape(str(value))}"
        ):
            check_in_range(name, value)


@pytest.mark.parametrize("value", [*NOT_NUMBERS, *NOT_FINITE, -1.0])
def test_only_numbers_are_in_a_range(value):
    for or_zero in (False, True):
        with pytest.raises(ValueError, match=r"^lams\[0\] must be a finite number"):
            check_in_range("lams[0]", value, of="lam", or_zero=or_zero)


def test_zero_is_in_a_range_only_where_it_leaves_a_term_out():
    check_in_range("ridge", 0, or_zero=True)
    check_in_range("ridges[1]", 0.0, of="ridge", or_zero=True)
    with pytest.raises(ValueError, match="ridge must be a finite number > 0, got 0"):
        check_in_range("ridge", 0)
    with pytest.raises(ValueError, match=r"ridge must be 0, or from .* to .*, got 1e-99"):
        check_in_range("ridge", 1e-99, or_zero=True)


@pytest.mark.parametrize("value", [*NOT_NUMBERS, 1.0, 2.5, 1, 0, -3, float("nan")])
def test_a_whole_number_is_one_of_at_least_the_bound(value):
    with pytest.raises(ValueError, match=r"^cv must be a whole number >= 2, got "):
        check_whole_number("cv", value, at_least=2)


def test_whole_numbers_of_any_kind_are_allowed_up_to_the_greatest():
    for value in (2, 7, np.int64(3), np.uint8(4)):
        check_whole_number("cv", value, at_least=2, at_most=7)
    check_whole_number("cv", 10**30, at_least=2)
    with pytest.raises(ValueError, match=re.escape("cv must be a whole number <= 7, got 8.")):
        check_whole_number("cv", 8, at_least=2, at_most=7)


def test_a_choice_is_one_of_the_allowed_values():
    check_choice("solver", "fast", ("fast", "paper"))
    check_choice("solver", "fast", {"fast": 1})  # names of a mapping
    check_choice("low_rank", False, (True, False))
    check_choice("low_rank", np.True_, (True, False))


@pytest.mark.parametrize(
    "value", ["fats", "", None, ["fast"], np.array(["fast", "paper"]), b"fast"]
)
def test_any_other_choice_is_refused_with_those_allowed(value):
    with pytest.raises(ValueError, match=r"^solver must be one of \['fast', 'paper'\], got "):
        check_choice("solver", value, ("fast", "paper"))


def test_numbers_are_no_truth_values():
    for value in (1, 0, 1.0):
        with pytest.raises(ValueError, match=r"low_rank must be one of \[True, False\], got"):
            check_choice("low_rank", value, (True, False))
