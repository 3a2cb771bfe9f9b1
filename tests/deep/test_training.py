from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

from naim3l.deep import NAIM3LLoss, Network, Training  # noqa: E402
from naim3l.deep.networks import make_networks, state_arrays, unstacked  # noqa: E402
from naim3l.deep.training import (  # noqa: E402
    LEAST_EPOCHS,
    LEAST_STEPS,
    Batches,
    Trainer,
    count_batches,
    count_together,
    hold_out_validation,
    seeded,
)
from naim3l.files.checkpoint import Checkpoint  # noqa: E402
from naim3l.problem.rows import Problem  # noqa: E402

CPU = torch.device("cpu")
NETWORK = Network((8,), 0.3)
OPTIONS = Training(max_epochs=6, batch_size=15, learning_rate=1e-2, patience=3)


class TestBatches:
    @pytest.fixture
    def positives(self, rng):
        """Two views, labels from common to rare; the last but one has two rows, the last none."""
        shares = np.array([0.6, 0.3, 0.1, 0.05, 0.0, 0.0])
        masks = [rng.random((n, len(shares))) < shares for n in (100, 37)]
        masks[0][[3, 7], 4] = True
        return masks

    @pytest.mark.parametrize("n_batches", [1, 2, 5, 10, 60])
    def test_every_label_is_in_every_batch_and_every_row_in_one(self, positives, n_batches, rng):
        batches, _ = Batches(positives, n_batches, [1, 1]).deal(rng)
        assert len(batches) == n_batches
        learnable = np.any([mask.any(axis=0) for mask in positives], axis=0)
        for batch in batches:
            taken = [mask[rows].any(axis=0) for mask, rows in zip(positives, batch, strict=True)]
            np.testing.assert_array_equal(np.any(taken, axis=0), learnable)
        counts = sum(mask.sum(axis=0) for mask in positives)
        for v, mask in enumerate(positives):
            times = np.bincount(np.concatenate([batch[v] for batch in batches]))
            assert len(times) == len(mask) and times.min() == 1
            # Rows return only for labels that are too rare.
            assert mask[times > 1][:, counts < 2 * n_batches].any(axis=1).all()

    def test_they_have_even_shares_of_rows_and_of_rare_labels(self, rng):
        masks = [rng.random((n, 5)) < [0.5, 0.3, 0.2, 0.1, 0.05] for n in (400, 200)]
        batches, _ = Batches(masks, 4, [1, 1]).deal(rng)
        for v, mask in enumerate(masks):
            sizes = [len(batch[v]) for batch in batches]
            rarest = [mask[batch[v], 4].sum() for batch in batches]
            assert max(sizes) - min(sizes) <= 1 and max(rarest) - min(rarest) <= 1

    def test_their_number_follows_the_longest_view(self, rng):
        for sizes, batch_size, n_batches in (((100, 30), 256, 1), ((80, 120), 40, 3)):
            assert count_batches(sizes, batch_size, [1, 1]) == n_batches
        masks = [np.ones((9, 2), dtype=bool), np.ones((2, 2), dtype=bool)]
        sizes = [len(batch[1]) for batch in Batches(masks, 3, [1, 1]).deal(rng)[0]]
        assert sorted(sizes) == [0, 1, 1]

    @pytest.mark.parametrize("batch_size", [1, 2, 3, 10, 100])
    def test_least_rows_of_a_view_in_a_batch(self, positives, rng, batch_size):
        least, none = [1, 2], [np.zeros((9, 2), dtype=bool), np.zeros((4, 2), dtype=bool)]
        for masks in (positives, positives[::-1], [positives[1][:5], positives[1]], none):
            sizes = [len(mask) for mask in masks]
            n_batches = count_batches(sizes, batch_size, least)
            batches, _ = Batches(masks, n_batches, least).deal(rng)
            for batch in batches:
                assert sum(map(len, batch)) > 0 and len(batch[1]) != 1
            for v, mask in enumerate(masks):
                assert set(np.concatenate([batch[v] for batch in batches])) == set(range(len(mask)))


class TestValidation:
    @pytest.mark.parametrize("share", [0.01, 0.07, 0.1, 0.25, 0.3, 0.4, 0.45, 0.5])
    def test_share_of_the_known_entries_is_hidden(self, make_problem, share):
        *_, problem = make_problem(n_rows=(300, 200))
        known = problem.Y != 0
        hidden = hold_out_validation(problem, share, np.random.RandomState(0))
        assert not hidden[~known].any()
        assert hidden.sum() == pytest.approx(share * known.sum(), abs=1 + 0.0005 * known.sum())
        for rows in problem.row_slices:  # positives and negatives of each label alike
            for kind in (problem.Y > 0, problem.Y < 0):
                expected = share * kind[rows].sum(axis=0)
                assert (np.abs((hidden & kind)[rows].sum(axis=0) - expected) <= 1.2).all()
        *_, problem = make_problem(n_labels=20, positive=0.07)  # rare labels keep a positive
        hidden = hold_out_validation(problem, share, np.random.RandomState(1))
        for rows in problem.row_slices:
            before, after = (
                Y[rows].any(axis=0) for Y in (problem.Y > 0, (problem.Y > 0) & ~hidden)
            )
            np.testing.assert_array_equal(after, before)

    def test_few_entries_have_one_hidden_and_none_is_an_error(self):
        features = [np.ones((3, 1))]
        few = Problem(features, [np.array([[1], [-1], [0]])])
        assert hold_out_validation(few, 0.1, np.random.RandomState(0)).sum() == 1
        none = Problem(features, [np.array([[1], [0], [0]])])
        with pytest.raises(ValueError, match=r"validation=0\.1: too few"):
            hold_out_validation(none, 0.1, np.random.RandomState(0))


@pytest.fixture
def make_trainer(make_problem):
    """Function that starts the same training anew."""
    features, _, problem = make_problem(seed=1)

    def make(
        data_term="logistic",
        *,
        labels=(problem.Y,),
        network=NETWORK,
        lam=0.1,
        sparse_rows=False,
        **options,
    ):
        rows = [sparse.csr_array(X) for X in features] if sparse_rows else features
        X = dict(zip("ab", rows, strict=True))
        with seeded(CPU, seed=0):
            networks = make_networks(None, X, problem.n_labels, network)
        loss = NAIM3LLoss(lam, data_term=data_term)
        return Trainer(networks, X, labels, loss, replace(OPTIONS, **options), 0, CPU)

    return make


def assert_same(one, other):
    for network, of_other in zip(one.networks, other.networks, strict=True):
        for name, array in state_arrays(network).items():
            np.testing.assert_array_equal(state_arrays(of_other)[name], array)
    assert one.history == other.history and one.best_epoch == other.best_epoch


def interrupt_after(n_epochs):
    """Callback that is Ctrl-C after some epochs."""
    records = []

    def stop(record):
        records.append(record)
        if len(records) == n_epochs:
            raise KeyboardInterrupt

    return stop


class TestTogether:
    @pytest.fixture
    def labels(self, make_problem, rng):
        """Labels of all entries, without some entries of rows, and without all of some rows."""
        Y = make_problem(seed=1)[2].Y
        third = rng.integers(3, size=Y.shape)
        return [Y, np.where(third == 0, 0, Y), np.where(third[:, :1] == 0, 0, Y)]

    @pytest.mark.parametrize("sparse_rows", [False, True])
    @pytest.mark.parametrize("batch_size", [3, 15, 100])
    @pytest.mark.parametrize("lam", [0.0, 0.1])
    @pytest.mark.parametrize(
        "network", [Network(()), NETWORK, Network((8, 5), 0.3, noise=0.2, shared_head=True)]
    )
    def test_networks_become_what_they_are_one_by_one(
        self, make_trainer, labels, network, lam, batch_size, sparse_rows
    ):
        options = {"network": network, "lam": lam, "batch_size": batch_size}
        together = make_trainer(labels=labels, sparse_rows=sparse_rows, **options)
        together.run()
        scores = together.scores()
        for i, Y in enumerate(labels):
            alone = make_trainer(labels=[Y], **options)
            alone.run()
            np.testing.assert_allclose(scores[i], alone.scores()[0], rtol=1e-3, atol=1e-4)
            one, other = (
                state_arrays(unstacked(of.networks, position))
                for of, position in ((together, i), (alone, 0))
            )
            for name, array in one.items():
                np.testing.assert_allclose(array, other[name], rtol=1e-3, atol=1e-4)
            if i == 0:
                for record, expected in zip(together.history, alone.history, strict=True):
                    assert record == pytest.approx(expected, rel=1e-4)

    def test_all_get_the_weights_of_the_best_epoch_of_the_first(self, make_trainer, labels):
        together, values = make_trainer(labels=labels), iter([0.9, 0.5, 0.7, 0.6, 0.8])
        together.run(judge=lambda scores: next(values))
        for scores, Y in zip(together.scores(), labels, strict=True):
            alone = make_trainer(labels=[Y])
            alone.run(last_epoch=2)
            np.testing.assert_allclose(scores, alone.scores()[0], rtol=1e-3, atol=1e-4)

    def test_view_of_few_rows_is_in_some_batches_of_some(self, make_problem):
        X, _, problem = make_problem(n_rows=(40, 3))
        labels = [problem.Y, np.where(np.arange(43)[:, None] % 2, problem.Y, 0)]
        found = []
        for part in (labels, labels[:1], labels[1:]):
            with seeded(CPU, seed=0):
                networks = make_networks(None, dict(zip("ab", X, strict=True)), 6, NETWORK)
            options = replace(OPTIONS, batch_size=4)
            given = networks, dict(zip("ab", X, strict=True)), part, NAIM3LLoss(0.1), options
            trainer = Trainer(*given, 0, CPU)
            trainer.run()
            found.append(trainer.scores())
        np.testing.assert_allclose(found[0], np.concatenate(found[1:]), rtol=1e-3, atol=1e-4)

    def test_memory_tells_how_many(self, make_problem):
        X, _, problem = make_problem()
        with seeded(CPU, seed=0):
            small, large = (
                make_networks(None, dict(zip("ab", X, strict=True)), 6, Network((width,)))
                for width in (8, 4096)
            )
        counts = [count_together(of.values(), problem, OPTIONS, CPU) for of in (small, large)]
        assert counts[0] > counts[1] >= 1
        own = make_networks(lambda view, n: torch.nn.Linear(n, 2), {"a": X[0]}, 6, NETWORK)
        assert count_together(own.values(), problem, OPTIONS, CPU) == 1


class TestTrainer:
    def test_objective_falls(self, make_trainer):
        trainer = make_trainer(max_epochs=20, batch_size=35, learning_rate=2e-2, weight_decay=0.0)
        trainer.run()
        values = [record["objective"] for record in trainer.history]
        assert len(values) == 20 and values[-1] < 0.9 * values[0]
        for record in trainer.history:
            parts = record["loss"] + record["low_rank"] + record["high_rank"]
            assert record["objective"] == pytest.approx(parts)

    def test_learning_rate_rises_then_falls_to_zero(self, make_trainer):
        trainer = make_trainer(max_epochs=20)
        n_steps = 20 * trainer.n_batches
        rates = np.array([trainer._learning_rate(step) for step in range(n_steps)])
        assert rates.max() <= 1e-2 and rates.argmax() in (n_steps // 10 - 1, n_steps // 10)
        assert rates[-1] == pytest.approx(0, abs=1e-12)
        assert (np.diff(rates[n_steps // 10 :]) < 0).all()

    def test_best_epoch_is_restored_and_patience_ends_the_training(self, make_trainer):
        seen, values = [], iter([0.9, 0.5, 0.7, 0.6, 0.8, 0.1])
        trainer, shorter = make_trainer(), make_trainer()
        trainer.run(judge=lambda scores: seen.append(scores) or next(values))
        assert trainer.best_epoch == 2 and len(trainer.history) == 2 + OPTIONS.patience
        assert [record["held_out"] for record in trainer.history] == [0.9, 0.5, 0.7, 0.6, 0.8]
        shorter.run(last_epoch=2)
        for (scores,) in (trainer.scores(), shorter.scores()):
            np.testing.assert_array_equal(scores, seen[1])

    def test_interrupt_keeps_the_best_whole_epoch(self, make_trainer):
        trainer, whole = make_trainer(), make_trainer()
        steps, take_step = [], trainer._step

        def step(*batch):
            steps.append(batch)
            if len(steps) == 2 * trainer.n_batches + 2:
                raise KeyboardInterrupt
            return take_step(*batch)

        trainer._step = step
        with pytest.raises(KeyboardInterrupt):
            trainer.run()
        assert len(trainer.history) == 2
        whole.run(last_epoch=2)
        assert_same(trainer, whole)

    @pytest.mark.parametrize("judge", [None, lambda scores: float(np.abs(scores).mean())])
    @pytest.mark.parametrize("n_epochs", [1, 3])
    def test_resumed_training_ends_at_the_same_weights(
        self, make_trainer, tmp_path, judge, n_epochs
    ):
        whole, resumed, epochs = make_trainer(), make_trainer(), []
        whole.run(judge)
        with pytest.raises(KeyboardInterrupt):
            kept = Checkpoint(tmp_path / "fit", [], {}, every=0)
            make_trainer().run(judge, kept, interrupt_after(n_epochs))
        resumed.run(judge, Checkpoint(tmp_path / "fit", [], {}), epochs.append)
        assert len(epochs) == len(whole.history) - n_epochs
        assert_same(resumed, whole)

    def test_generators_of_the_caller_are_left_alone(self, make_trainer):
        trainers = []
        for seed in (5, 6):
            torch.manual_seed(seed)
            before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
            trainers.append(make_trainer())
            trainers[-1].run()
            assert torch.equal(torch.get_rng_state(), before[0])
            np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
        assert_same(*trainers)

    def test_divergence_is_reported(self, make_trainer):
        trainer = make_trainer(max_epochs=30, learning_rate=1e10, data_term="squared")
        with pytest.raises(FloatingPointError, match=r"diverged in epoch \d+.*learning_rate"):
            trainer.run()

    def test_automatic_number_of_epochs_makes_enough_steps(self, make_trainer):
        for batch_size in (1, 25, 100):
            trainer = make_trainer(max_epochs="auto", batch_size=batch_size)
            assert trainer.max_epochs >= LEAST_EPOCHS
            assert trainer.max_epochs * trainer.n_batches >= LEAST_STEPS
            one_less = (trainer.max_epochs - 1) * trainer.n_batches
            assert trainer.max_epochs == LEAST_EPOCHS or one_less < LEAST_STEPS

    def test_batch_may_have_more_rows_than_there_are(self):
        # One row is positive in many labels, and comes back for each of them.
        X, Y = np.eye(4), np.where(np.arange(4)[:, None] == 0, 1, -np.ones((4, 12)))
        dealt, _ = Batches([Y > 0], 2, [1]).deal(np.random.default_rng(0))
        assert max(len(batch[0]) for batch in dealt) > 4
        with seeded(CPU, seed=0):
            networks = make_networks(None, {"a": X}, 12, Network(()))
        options = Training(max_epochs=2, batch_size=2)
        trainer = Trainer(networks, {"a": X}, [Y], NAIM3LLoss(), options, 0, CPU)
        trainer.run()
        assert np.isfinite(trainer.scores()).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("max_epochs", 0), ("max_epochs", "many"), ("batch_size", 1.5), ("learning_rate", 0)),
        *(("weight_decay", -1), ("validation", 0.6), ("patience", 0), ("amp", 1.5)),
    ],
)
def test_options_that_cannot_be_used_are_named(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of Training must be"):
        Training(**{name: value})
