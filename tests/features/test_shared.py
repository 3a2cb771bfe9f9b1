"""Columns that views share: which they are, one plan for all, scales, and units far apart."""

import warnings
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from naim3l import DataWarning
from naim3l.features.plan import ViewPlan
from naim3l.features.shared import BENDS, MOST_BENT, find_shared
from naim3l.features.survey import TableSurvey
from naim3l.input.batches import Batch


def read(tables, allowed=None):
    """Shared columns with their scales, and the batches of the views."""
    surveys, plans, batches = {}, {}, {}
    for view, table in tables.items():
        batch = Batch(table, f"view {view!r}")
        surveys[view] = TableSurvey.of(batch)
        plans[view], used = ViewPlan.of(surveys[view])
        batches[view] = batch.select_columns(used)
    found = find_shared(plans, surveys, dict.fromkeys(tables, True) | (allowed or {}))
    if found is None:
        return None, batches
    moments = {view: found.moments(view, batches[view]) for view in found.parts}
    return found.scaled(moments), batches


def two(rng, n=40, **more):
    """Two tables that know age and sex, one of them in another order."""
    ages, sexes = rng.integers(20, 80, (2, n)), rng.choice(["f", "m"], (2, n))
    first = pd.DataFrame({"own": rng.normal(size=n), "age": ages[0], "sex": sexes[0]})
    second = pd.DataFrame({"sex": sexes[1], "age": ages[1] + 5, "other": rng.normal(size=n)})
    return {"a": first.assign(**more), "b": second}


def test_numbers_are_standardised_over_all_rows(rng):
    tables = two(rng)
    found, batches = read(tables)
    assert found.columns == ["age", "sex"]
    assert found.numbers == ["age", "sex_f", "sex_m"]
    Z = np.vstack([found.encode(view, of)[:, :3] for view, of in batches.items()])
    ages = np.concatenate([table["age"] for table in tables.values()])
    assert_allclose(Z[:, 0], (ages - ages.mean()) / ages.std(), atol=1e-12)
    assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    assert_allclose(Z.std(axis=0), 1)


def test_bends_and_products(rng):
    found, batches = read(two(rng))
    F = found.encode("b", batches["b"])
    age, female, male = F[:, :3].T
    bends = [np.maximum(age - at, 0) for at in BENDS]
    expected = np.column_stack([age, female, male, *bends, age * female, age * male])
    assert_allclose(F, expected)
    assert found.n_features == F.shape[1]


def test_what_columns_add_is_their_shapley_value(rng):
    """Columns are moved from the means of the view to their values, in all orders."""
    tables = {v: pd.DataFrame(rng.normal(size=(30, 3)), columns=list("abc")) for v in "uv"}
    tables["v"] += 0.7  # so that its means are not those of both views
    found, batches = read(tables)
    weights = rng.normal(size=(found.n_features, 2))
    expected = np.zeros((30, 3, 2))
    for order in (orders := list(permutations(range(3)))):
        moved = tables["v"] * 0 + tables["v"].mean()
        before = found.encode("v", Batch(moved, "view 'v'"))
        for j in order:
            moved.iloc[:, j] = tables["v"].iloc[:, j]
            after = found.encode("v", Batch(moved, "view 'v'"))
            expected[:, j] += (after - before) @ weights / len(orders)
            before = after
    assert_allclose(found.add_up("v", batches["v"], weights), expected, atol=1e-12)


def test_a_missing_number_and_a_column_that_a_view_lacks_add_nothing(rng):
    tables = two(rng)
    tables["c"] = tables["a"][["sex"]].assign(more=rng.normal(size=40))
    tables["b"].loc[3, "age"] = np.nan
    found, batches = read(tables)
    weights = rng.normal(size=(found.n_features, 2))
    of_b, of_c = (found.add_up(view, batches[view], weights) for view in "bc")
    assert_allclose(of_b[3, 0], 0, atol=1e-12)
    assert_allclose(of_c[:, 0], 0, atol=1e-12)
    assert (of_c[:, 1] != 0).all() and (of_b[:3] != 0).all()


def test_many_columns_have_neither_bends_nor_products(rng):
    names = [f"c{j}" for j in range(MOST_BENT + 1)]
    tables = {v: pd.DataFrame(rng.normal(size=(30, len(names))), columns=names) for v in "ab"}
    found, batches = read(tables)
    assert found.encode("a", batches["a"]).shape == (30, len(names))


def test_a_view_without_a_column_has_its_mean(rng):
    tables = two(rng) | {
        "c": pd.DataFrame({"sex": rng.choice(["f", "m"], 40), "x": np.arange(40) / 3})
    }
    tables["d"] = pd.DataFrame({"y": rng.normal(size=40), "z": rng.normal(size=40)})
    found, batches = read(tables)
    assert (found.encode("c", batches["c"])[:, 0] == 0).all()
    assert (found.encode("d", batches["d"])[:, :3] == 0).all()
    assert "d" not in found.parts


def test_categories_are_those_of_all_views(rng):
    # "x" is rare in each view, but not in both.
    wards = {"a": "A" * 20 + "B" * 18 + "xx", "b": "A" * 21 + "C" * 17 + "xx"}
    tables = {v: pd.DataFrame({"ward": [*of], v: rng.normal(size=40)}) for v, of in wards.items()}
    found, batches = read(tables)
    assert found.numbers == ["ward_A", "ward_B", "ward_C", "ward_x"]
    F = found.encode("b", batches["b"])
    assert len(np.unique(F[:, 1])) == 1 and len(np.unique(F[:, 3])) == 2


def test_numbers_with_the_same_units_in_all_views(rng):
    stays = [[f"{n} {'days' if n % 2 else 'h'}" for n in rng.integers(1, 9, 40)] for _ in "ab"]
    tables = {
        view: of.assign(stay=stay) for (view, of), stay in zip(two(rng).items(), stays, strict=True)
    }
    found, batches = read(tables)
    assert found.numbers == ["age", "sex_f", "sex_m", "stay_day", "stay_h"]
    assert found.is_value.tolist() == [False, True, True, False, False]
    Z = np.vstack([found.encode(view, of)[:, :5] for view, of in batches.items()])
    days = np.array([int(of.split()[0]) * ("day" in of) for of in stays[0] + stays[1]])
    assert_allclose(Z[:, 3], (days - days.mean()) / days.std(), atol=1e-12)
    tables["b"]["stay"] = [f"{n} weeks" for n in range(40)]
    assert read(tables)[0].columns == ["age", "sex"]


def test_columns_that_are_not_the_same(rng):
    words = ["fever", "cough", "knee", "toe", "swollen", "since", "sunday", "travel", "cold", "ear"]
    texts = [" ".join(rng.choice(words, 6)) for _ in range(200)]
    tables = two(rng, 200, same=1.0, kind=np.arange(200) / 3, text=texts)
    tables["b"] = tables["b"].assign(same=2.0, kind=["red", "green"] * 100, text=texts)
    found, _ = read(tables)
    assert found.columns == ["age", "sex"]


def test_what_is_allowed(rng):
    tables = two(rng)
    assert read(tables, {"a": ("age",)})[0].columns == ["age"]
    assert read(tables, {"a": False})[0] is None
    assert read({"a": tables["a"]})[0] is None
    unnamed = {view: table[["age"]].to_numpy(float) for view, table in tables.items()}
    assert read(unnamed)[0] is None


@pytest.mark.parametrize("change", [lambda x: 12 * x, lambda x: x + 100])
def test_other_units_are_named_and_scaled_one_by_one(rng, change):
    tables = two(rng)
    tables["b"]["age"] = change(tables["b"]["age"])
    means = [tables[view]["age"].mean() for view in "ab"]
    said = rf"'age' has means of {means[0]:.4g} in view 'a', {means[1]:.4g} in view 'b'.*shared=Fal"
    with pytest.warns(DataWarning, match=said):
        found, batches = read(tables)
    for view in "ab":
        z = found.encode(view, batches[view])[:, 0]
        assert_allclose([z.mean(), z.std()], [0, 1], atol=1e-12)


def test_codes_of_one_and_two_instead_of_zero_and_one(rng):
    tables = {v: pd.DataFrame({"sex": rng.integers(0, 2, 40), v: np.arange(40) / 3}) for v in "ab"}
    read(tables)
    tables["b"]["sex"] += 1
    with pytest.warns(DataWarning, match="'sex' has means of"):
        read(tables)


def test_tables_of_other_ages_are_no_other_units(rng):
    """A part of the range of the other table, or few rows, say nothing of units."""
    tables = {"a": pd.DataFrame({"age": rng.integers(18, 91, 60), "x": np.arange(60) / 3})}
    tables["b"] = pd.DataFrame({"age": rng.integers(65, 80, 60), "y": np.arange(60) / 3})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(tables)
        tables["b"] = pd.DataFrame({"age": [120, 110, 130], "y": [0.1, 0.2, 0.4]})
        read(tables)


def test_other_values_of_text_are_named_and_kept_apart(rng):
    tables = {
        v: pd.DataFrame({"sex": rng.choice([*codes], 40), v: rng.normal(size=40)})
        for v, codes in (("a", ("f", "m")), ("b", ("f", "m")), ("c", ("woman", "man")))
    }
    with pytest.warns(DataWarning, match=r"'man', 'woman' in view 'c'.*'c' shares almost none"):
        found, _ = read(tables)
    assert list(found.parts) == ["a", "b"]
    with pytest.warns(DataWarning, match="shares almost none"):
        assert read({view: tables[view] for view in "ac"})[0] is None


def test_missing_numbers_have_the_mean_of_their_view(rng):
    tables = two(rng)
    tables["a"].loc[3, "age"] = np.nan
    found, batches = read(tables)
    part, mean = found.parts["a"], tables["a"]["age"].mean()
    z = found.encode("a", batches["a"])[3, 0]
    assert_allclose(z, (mean - part.mean[0]) / part.scale[0])
    lost = tables["a"].assign(age=np.nan, sex=None, own=np.nan)
    rows = found.encode("a", Batch(lost[["own", "age", "sex"]], "view 'a'"))
    assert len(rows) == 40 and np.isfinite(rows).all()
