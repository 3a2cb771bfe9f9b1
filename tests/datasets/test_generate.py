"""Generated tables against the weights they were made from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naim3l.datasets import make_unpaired

quick = settings(deadline=None, max_examples=30)


@st.composite
def options(draw):
    n_latent = draw(st.integers(1, 4))
    n_features = draw(st.lists(st.integers(n_latent, 9), min_size=1, max_size=3))
    n_labels = draw(st.integers(2, 12))
    aligned = draw(st.booleans())
    size = st.integers(2, 40)
    n_samples = (
        draw(size)
        if aligned
        else draw(st.lists(size, min_size=len(n_features), max_size=len(n_features)))
    )
    return {
        "n_samples": n_samples,
        "n_features": n_features,
        "n_labels": n_labels,
        "n_latent": n_latent,
        "labels_per_row": draw(st.floats(0.05, 0.95)) * n_labels,
        "aligned": aligned,
        "random_state": draw(st.integers(0, 2**32 - 1)),
    }


@quick
@given(options())
def test_planted_weights_give_the_scores_and_the_labels(options):
    data = make_unpaired(**options)
    assert list(data.views) == [f"view{v}" for v in range(len(options["n_features"]))]
    for name, X in data.views.items():
        scores = X @ data.coef[name] + data.intercept[name]
        np.testing.assert_allclose(scores, data.scores[name], atol=1e-10)
        np.testing.assert_array_equal(scores > 0, data.complete_labels[name] == 1)
        np.testing.assert_array_equal(data.labels[name], data.complete_labels[name])
        assert np.isin(data.labels[name], (0, 1)).all() and data.labels[name].dtype == np.int64


@quick
@given(options(), st.floats(0.01, 0.99))
def test_every_label_keeps_an_observed_positive(options, missing_labels):
    data = make_unpaired(**options, missing_labels=missing_labels)
    observed = np.vstack(list(data.labels.values()))
    complete = np.vstack(list(data.complete_labels.values()))
    known = ~np.isnan(observed)
    np.testing.assert_array_equal(observed[known], complete[known])
    assert (observed == 1).any(axis=0).all()


@pytest.mark.parametrize("n_labels, labels_per_row", [(10, 2.0), (40, 4.7), (3, 2.5), (100, 0.5)])
def test_frequencies_are_skewed_and_average_what_is_asked(n_labels, labels_per_row):
    data = make_unpaired(500, n_labels=n_labels, labels_per_row=labels_per_row, random_state=0)
    counts = np.vstack(list(data.labels.values())).sum(axis=0)
    # Each count is rounded to a whole row, and to one where it would be none.
    assert abs(counts.sum() - labels_per_row * 1000) <= n_labels
    assert (np.diff(counts) <= 0).all() and counts[-1] >= 1
    odds = counts / (1000 - counts)
    common = counts > 50
    np.testing.assert_allclose((odds * np.arange(1, n_labels + 1))[common], odds[0], rtol=0.02)


def test_aligned_views_are_about_the_same_objects():
    data = make_unpaired(200, aligned=True, missing_labels=0.5, random_state=0)
    for part in (data.scores, data.labels, data.complete_labels):
        np.testing.assert_array_equal(part["view0"], part["view1"])
        assert not np.shares_memory(part["view0"], part["view1"])


def test_noise_and_missing_labels_have_the_size_asked_for():
    clean = make_unpaired(2000, random_state=5)
    noisy = make_unpaired(2000, noise=0.3, missing_labels=0.4, random_state=5)
    for name, X in clean.views.items():
        assert np.sqrt((X**2).mean()) == pytest.approx(1, abs=0.05)
        added = noisy.views[name] - X
        assert added.std() == pytest.approx(0.3, rel=0.02)
        np.testing.assert_array_equal(noisy.scores[name], clean.scores[name])
        np.testing.assert_array_equal(noisy.complete_labels[name], clean.complete_labels[name])
        assert np.isnan(noisy.labels[name]).mean() == pytest.approx(0.4, abs=0.02)


def test_a_seed_decides():
    def everything(seed):
        data = make_unpaired(50, noise=1, missing_labels=0.5, random_state=seed)
        return np.concatenate([data.views["view1"].ravel(), data.labels["view1"].ravel()])

    np.testing.assert_array_equal(everything(3), everything(3))
    np.testing.assert_array_equal(everything(3), everything(np.random.RandomState(3)))
    assert not np.array_equal(everything(3), everything(4), equal_nan=True)


@pytest.mark.parametrize(
    "name, value",
    [
        ("n_samples", 0),
        ("n_samples", 10.0),
        ("n_samples", [10]),
        ("n_samples", [10, 0]),
        ("n_samples", [1]),
        ("n_features", 20),
        ("n_features", ()),
        ("n_labels", 0),
        ("n_latent", 0),
        ("n_latent", 21),
        ("labels_per_row", 0),
        ("labels_per_row", 10),
        ("noise", -1),
        ("missing_labels", 1),
    ],
)
def test_errors_name_the_parameter(name, value):
    with pytest.raises(ValueError, match=f"{name}=|'{name}' parameter of make_unpaired must be"):
        make_unpaired(**{name: value})
