"""Files of plans and statistics: damaged, forged and newer ones are refused, with a reason."""

import io

import numpy as np
import pytest

from model_files import array_bytes, put_together, saved, take_apart
from naim3l import NAIM3L, NAIM3LCV, ModelFileError, load
from naim3l.datasets import make_unpaired
from naim3l.statistics import ColumnPlan, Statistics, collect

FEATURES = {"view0": "auto", "view1": None}


@pytest.fixture(scope="module")
def made():
    """A plan, its statistics, and those that are shareable."""
    data = make_unpaired(120, n_features=(9, 8), n_labels=3, random_state=0)
    model = NAIM3LCV(features=FEATURES, random_state=0)
    plan = ColumnPlan.of(data.views, data.labels, estimator=model)
    sums = collect(plan, data.views, data.labels, source="one")
    return plan, sums, collect(plan, data.views, data.labels, source="two", shareable=True)


@pytest.fixture
def refused(tmp_path):
    """Function that asserts that bytes of a file are refused, with a reason."""

    def check(kind, content, reason=": "):
        path = tmp_path / "some.file"
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=reason) as caught:
            kind.load(path)
        assert str(caught.value).startswith(f"{path}: ") and str(caught.value).isprintable()

    return check


def places(tree):
    """Places of arrays in a document."""
    if isinstance(tree, dict):
        if "dtype" in tree:
            yield tree
        else:
            for value in tree.values():
                yield from places(value)
    for value in tree if isinstance(tree, list) else ():
        yield from places(value)


@pytest.mark.parametrize("which", [1, 2])
def test_every_bit_is_kept(made, which):
    content = saved(made[which])
    found = Statistics.from_bytes(content)
    assert found.to_bytes() == content and found.sources == made[which].sources
    assert repr(found) == repr(made[which])


def test_the_fingerprint_of_a_plan_is_that_of_its_file(made, tmp_path):
    plan = made[0]
    plan.save(tmp_path / "study.plan")
    assert ColumnPlan.load(tmp_path / "study.plan").fingerprint == plan.fingerprint
    assert (tmp_path / "study.plan").read_bytes() == saved(ColumnPlan.load(tmp_path / "study.plan"))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_damaged_newer_and_other_files_are_refused(made, refused, which, tmp_path):
    kind, content = type(made[which]), saved(made[which])
    document, members = take_apart(content)
    for n in np.linspace(0, len(content) - 1, 25).astype(int):
        refused(kind, content[:n])
    refused(kind, put_together(document | {"version": 2}, members), "update naim3l")
    refused(kind, put_together(document | {"format": "naim3l model"}, members), "its format is")
    refused(kind, b"PK and nothing else")
    other = Statistics if kind is ColumnPlan else ColumnPlan
    refused(other, content, "its format is")
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ModelFileError, match="its format is"):
        load(tmp_path / "x")
    data = make_unpaired(60, n_labels=3, random_state=0)
    model = NAIM3L().fit(data.views, data.labels)
    refused(kind, saved(model), "its format is 'naim3l model'")


@pytest.mark.parametrize("which", [0, 1, 2])
def test_arrays_of_other_sizes_or_without_numbers_are_refused(made, refused, which):
    kind = type(made[which])
    document, members = take_apart(saved(made[which]))
    for place in places(document["model"]):
        name = f"arrays/{place['array']}.npy"
        array = np.load(io.BytesIO(members[name]))
        shape = place["shape"]
        if array.ndim and array.size:
            place["shape"] = list(array[:-1].shape)
            refused(kind, put_together(document, members | {name: array_bytes(array[:-1])}))
            place["shape"] = shape
        if array.dtype.kind == "f" and array.size:
            array.flat[-1] = np.inf
            refused(kind, put_together(document, members | {name: array_bytes(array)}))


def test_statistics_are_those_of_their_plan_and_sources(made, refused):
    document, members = take_apart(saved(made[1]))
    sources, found = document["model"]["sources"], document["model"]["found"]
    sources["one"]["view0"] += 1
    refused(Statistics, put_together(document, members), "rows or columns of 'view0' are not")
    sources["one"]["view0"] -= 1
    found["view2"] = found.pop("view1")
    refused(Statistics, put_together(document, members), "not those of the views of the plan")
    found["view1"] = found.pop("view2")
    document["model"]["shareable"] = True
    refused(Statistics, put_together(document, members), "of another kind")
    document["model"]["shareable"] = False
    document["model"]["plan"]["parameters"]["fit_intercept"] = {"value": False}
    refused(Statistics, put_together(document, members), "rows or columns of")
    document["model"]["plan"]["parameters"]["fit_intercept"] = {"value": True}
    document["model"]["plan"]["words"]["view0"]["label0"] = 99
    refused(Statistics, put_together(document, members), "words without a meaning")


def test_an_odd_plan_is_refused(made, refused):
    document, members = take_apart(saved(made[0]))
    plan = document["model"]
    for key, value in {
        "n_folds": 500,
        "seed": -1,
        "words": {},
        "meanings": [{"yes": 2}],
        "parameters": {},
        "free": 1,
        "extra": 1,
    }.items():
        refused(ColumnPlan, put_together(document | {"model": plan | {key: value}}, members), key)
