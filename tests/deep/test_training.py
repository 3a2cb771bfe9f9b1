import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

from naim3l.deep import NAIM3LLoss  # noqa: E402
from naim3l.deep.networks import Architecture, make_networks, state_arrays  # noqa: E402
from naim3l.deep.training import (  # noqa: E402
    LEAST_EPOCHS,
    LEAST_STEPS,
    Plan,
    Training,
    own_random_numbers,
    seed_torch,
)
from naim3l.files.checkpoint import Checkpoint  # noqa: E402

CPU = torch.device("cpu")
PLAN = Plan(max_epochs=6, batch_size=15, learning_rate=1e-2, weight_decay=1e-2, patience=3,
            amp=False)  # fmt: skip


@pytest.fixture
def make_training(make_problem):
    """Function that starts the same training anew."""
    features, labels, problem = make_problem(seed=1)

    def make(plan=PLAN, seed=0, data_term="logistic"):
        X, Y = dict(zip("ab", features, strict=True)), dict(zip("ab", labels, strict=True))
        with own_random_numbers(CPU):
            seed_torch(seed, CPU)
            networks = make_networks(None, X, problem.n_labels, Architecture((8,), 0.3))
        loss = NAIM3LLoss(0.1, data_term=data_term)
        return Training(networks, X, Y, loss, plan, seed=seed, device=CPU)

    return make


def weights(training):
    return [a for network in training.networks for a in state_arrays(network).values()]


def assert_same(one, other):
    for a, b in zip(weights(one), weights(other), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.history == other.history and one.best_epoch == other.best_epoch


def test_objective_falls(make_training):
    training = make_training(Plan(20, 35, 2e-2, 0.0, 3, False))
    assert not training.run()
    values = [record["objective"] for record in training.history]
    assert len(values) == 20 and values[-1] < 0.9 * values[0]
    for record in training.history:
        parts = record["loss"] + record["low_rank"] + record["high_rank"]
        assert record["objective"] == pytest.approx(parts)


def test_learning_rate_rises_then_falls_to_zero(make_training):
    training = make_training(Plan(20, 15, 1e-2, 0.0, 3, False))
    n_steps = 20 * training.n_batches
    rates = np.array([training._learning_rate(step) for step in range(n_steps)])
    assert rates.max() <= 1e-2 and rates.argmax() in (n_steps // 10 - 1, n_steps // 10)
    assert rates[-1] == pytest.approx(0, abs=1e-12) and (np.diff(rates[n_steps // 10 :]) < 0).all()


def test_best_epoch_is_restored_and_patience_ends_the_training(make_training):
    told = iter([0.9, 0.5, 0.7, 0.6, 0.8, 0.1])
    seen = []
    training = make_training()

    def judge(scores):
        seen.append(scores)
        return next(told)

    training.run(judge=judge)
    assert training.best_epoch == 2 and len(training.history) == 2 + PLAN.patience
    assert [record["held_out"] for record in training.history] == [0.9, 0.5, 0.7, 0.6, 0.8]
    np.testing.assert_array_equal(training.scores(), seen[1])
    shorter = make_training()
    shorter.run(last_epoch=2)
    np.testing.assert_array_equal(shorter.scores(), seen[1])


def test_interrupt_keeps_the_best_whole_epoch(make_training):
    training = make_training()
    steps, take_step = [], training._step

    def step(batch):
        steps.append(batch)
        if len(steps) == 2 * training.n_batches + 2:
            raise KeyboardInterrupt
        return take_step(batch)

    training._step = step
    assert training.run()
    assert len(training.history) == 2
    whole = make_training()
    whole.run(last_epoch=2)
    assert_same(training, whole)


@pytest.mark.parametrize("judged", [False, True])
@pytest.mark.parametrize("stopped_after", [1, 3])
def test_resumed_training_ends_at_the_same_weights(make_training, tmp_path, judged, stopped_after):
    def judge(scores):
        return float(np.abs(scores).mean())

    whole = make_training()
    whole.run(judge=judge if judged else None)
    path = tmp_path / "fit.checkpoint"

    def stop(record, seen=[]):  # noqa: B006 -- one list per definition
        seen.append(record)
        if len(seen) == stopped_after:
            raise KeyboardInterrupt

    stopped = make_training()
    assert stopped.run(judge=judge if judged else None, callback=stop,
                       checkpoint=Checkpoint(path, "key", every=0))  # fmt: skip
    resumed = make_training()
    epochs = []
    assert not resumed.run(judge=judge if judged else None, callback=epochs.append,
                           checkpoint=Checkpoint(path, "key", every=0))  # fmt: skip
    assert len(epochs) == len(whole.history) - stopped_after
    assert_same(resumed, whole)


def test_generators_of_the_caller_are_left_alone(make_training):
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002 -- the global generator is what is looked at
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = make_training()
    first.run()
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    torch.manual_seed(6)
    second = make_training()
    second.run()
    assert_same(first, second)


def test_divergence_is_told(make_training):
    training = make_training(Plan(30, 15, 1e30, 0.0, 3, False), data_term="squared")
    with pytest.raises(FloatingPointError, match=r"diverged in epoch \d+.*learning_rate"):
        training.run()


def test_automatic_number_of_epochs_makes_enough_steps(make_training):
    for batch_size in (1, 25, 100):
        training = make_training(Plan("auto", batch_size, 1e-2, 0.0, 3, False))
        assert training.max_epochs >= LEAST_EPOCHS
        assert training.max_epochs * training.n_batches >= LEAST_STEPS
        one_less = (training.max_epochs - 1) * training.n_batches
        assert training.max_epochs == LEAST_EPOCHS or one_less < LEAST_STEPS


@pytest.mark.parametrize("first", [np.nan, np.inf])
def test_first_epoch_is_kept_whatever_the_judge_says(make_training, tmp_path, first):
    def judged(values):
        told = iter(values)
        return lambda scores: float(next(told))

    training = make_training()
    training.run(judge=judged([first] * 6), checkpoint=Checkpoint(tmp_path / "a", "key", every=0))
    assert training.best_epoch == 1 and len(training.history) == 1 + PLAN.patience
    shorter = make_training()
    shorter.run(last_epoch=1)
    np.testing.assert_array_equal(training.scores(), shorter.scores())
    better = make_training()
    better.run(judge=judged([first, first, 3.0, 2.0, np.nan, 2.5]))
    assert better.best_epoch == 4


@pytest.mark.parametrize("first", [np.nan, np.inf])
def test_infinite_loss_comes_back_from_a_checkpoint(make_training, tmp_path, first):
    values = [first, 5.0, 4.0, 6.0, 7.0, 8.0]

    def stop(record):
        raise KeyboardInterrupt

    whole, stopped, resumed = make_training(), make_training(), make_training()
    told = iter(values)
    whole.run(judge=lambda scores: next(told))
    assert stopped.run(judge=lambda scores: first, callback=stop,
                       checkpoint=Checkpoint(tmp_path / "a", "key", every=0))  # fmt: skip
    again = make_training()
    again._resume(Checkpoint(tmp_path / "a", "key"))
    assert again.best_value == np.inf
    rest = iter(values[1:])
    resumed.run(judge=lambda scores: next(rest), checkpoint=Checkpoint(tmp_path / "a", "key"))
    assert resumed.best_value == whole.best_value == 4.0 and resumed.best_epoch == 3
    np.testing.assert_array_equal(resumed.scores(), whole.scores())


def test_batch_may_have_more_rows_than_there_are(monkeypatch):
    """One row is positive in many labels, and comes back for each of them."""
    features = {"a": np.eye(4)}
    labels = {"a": np.where(np.arange(4)[:, None] == 0, 1, -np.ones((4, 12)))}
    shares, terms = [], NAIM3LLoss.terms
    monkeypatch.setattr(
        NAIM3LLoss, "terms", lambda self, *given: shares.append(given[2]) or terms(self, *given)
    )
    networks = make_networks(None, features, 12, Architecture((), 0.0))
    plan = Plan(2, 2, 1e-2, 0.0, 3, False)
    training = Training(networks, features, labels, NAIM3LLoss(), plan, seed=0, device=CPU)
    training.run()
    assert max(shares) > 1 and np.isfinite(training.scores()).all()
