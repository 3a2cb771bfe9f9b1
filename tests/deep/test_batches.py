import numpy as np
import pytest

pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

from naim3l.deep.batches import count_batches, deal_batches


@pytest.fixture
def positives(rng):
    """Two views, labels from common to rare; the last but one has two rows, the last has none."""
    chances = np.array([0.6, 0.3, 0.1, 0.05, 0.0, 0.0])
    masks = [rng.random((n, len(chances))) < chances for n in (100, 37)]
    masks[0][[3, 7], 4] = True
    return masks


@pytest.mark.parametrize("n_batches", [1, 2, 5, 10, 60])
def test_every_label_is_in_every_batch_and_every_row_in_one(positives, n_batches, rng):
    batches = deal_batches(positives, n_batches, rng)
    assert len(batches) == n_batches
    learnable = np.any([mask.any(axis=0) for mask in positives], axis=0)
    for batch in batches:
        present = np.any([m[rows].any(axis=0) for m, rows in zip(positives, batch, strict=True)], 0)
        np.testing.assert_array_equal(present, learnable)
    for v, mask in enumerate(positives):
        rows = np.concatenate([batch[v] for batch in batches])
        assert set(rows) == set(range(len(mask)))


def test_rows_return_only_for_labels_that_are_too_rare(positives, rng):
    batches = deal_batches(positives, 5, rng)
    for v, mask in enumerate(positives):
        times = np.bincount(np.concatenate([batch[v] for batch in batches]), minlength=len(mask))
        again = np.flatnonzero(times > 1)
        counts = sum(m.sum(axis=0) for m in positives)
        assert mask[again][:, counts < 2 * len(batches)].any(axis=1).all()


def test_batches_have_even_shares_of_rows_and_of_labels(rng):
    masks = [rng.random((n, 5)) < [0.5, 0.3, 0.2, 0.1, 0.05] for n in (400, 200)]
    batches = deal_batches(masks, 4, rng)
    for v, mask in enumerate(masks):
        sizes = [len(batch[v]) for batch in batches]
        assert max(sizes) - min(sizes) <= 1
        # Rows whose rarest label it is are dealt in turn, so the rarest one is spread evenly.
        rarest = [mask[batch[v], 4].sum() for batch in batches]
        assert max(rarest) - min(rarest) <= 1


def test_seed_decides(positives):
    first, again, other = (
        deal_batches(positives, 4, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    for a, b in zip(first, again, strict=True):
        for rows, same in zip(a, b, strict=True):
            np.testing.assert_array_equal(rows, same)
    assert any(set(a[0]) != set(b[0]) for a, b in zip(first, other, strict=True))


def test_number_of_batches_follows_the_longest_view():
    assert count_batches([100, 30], 256) == 1
    assert count_batches([100, 30], 40) == 3
    assert count_batches([80, 120], 40) == 3


def test_view_with_fewer_rows_than_batches_is_absent_from_some(rng):
    masks = [np.ones((9, 2), dtype=bool), np.ones((2, 2), dtype=bool)]
    sizes = [len(batch[1]) for batch in deal_batches(masks, 3, rng)]
    assert sorted(sizes) == [0, 1, 1]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 10, 100])
def test_least_rows_of_a_view_in_a_batch(positives, rng, batch_size):
    least = [1, 2]
    for masks in (positives, positives[::-1], [positives[1][:5], positives[1]]):
        sizes = [len(mask) for mask in masks]
        batches = deal_batches(masks, count_batches(sizes, batch_size, least), rng, least)
        for batch in batches:
            assert sum(map(len, batch)) > 0 and len(batch[1]) != 1
        for v, mask in enumerate(masks):
            assert set(np.concatenate([batch[v] for batch in batches])) == set(range(len(mask)))


def test_views_that_need_two_rows_are_all_there_without_positives(rng):
    masks = [np.zeros((9, 2), dtype=bool), np.zeros((4, 2), dtype=bool)]
    n_batches = count_batches([9, 4], 1, [2, 2])
    assert n_batches == 4
    batches = deal_batches(masks, n_batches, rng, [2, 2])
    assert sorted(len(batch[0]) for batch in batches) == [2, 2, 2, 3]
    assert sorted(len(batch[1]) for batch in batches) == [0, 0, 2, 2]
