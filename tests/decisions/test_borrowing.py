"""Labels that a table never records: a known answer, what the simulation says, and when not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from sklearn.metrics import log_loss, roc_auc_score

from naim3l import NAIM3L, NAIM3LCV, PerViewRidge, load
from naim3l.decisions import borrowing
from naim3l.decisions.borrowing import (
    Borrowing,
    LabelTable,
    describe_absent,
    learn_borrowing,
    simulate,
)
from naim3l.decisions.calibration import Calibration
from naim3l.decisions.label_correlation import LabelCorrelation

N_LABELS = 6


def draw(rng, n, *, informative=True):
    """Log-odds of labels that share a cause, and these."""
    cause = rng.normal(size=(n, 1))
    log_odds = np.sqrt(2) * cause * (1 if informative else 0) + 0.5 * rng.normal(size=(n, N_LABELS))
    truth = (rng.random((n, N_LABELS)) < expit(1.4 * cause + 0 * log_odds)).astype(float)
    return log_odds, truth


def table(rng, absent=(), n=400, **options):
    log_odds, truth = draw(rng, n, **options)
    recorded = ~np.isin(np.arange(N_LABELS), absent)
    truth[:, ~recorded] = np.nan
    return LabelTable(log_odds, truth, np.zeros(N_LABELS), recorded)


def curve():
    ones = np.ones(N_LABELS)
    return Calibration(0 * ones, ones, ones, 0 * ones, 0 * ones, ones > 0)


def test_a_label_is_predicted_through_those_that_share_its_cause(rng):
    simulated, found = learn_borrowing([table(rng, [2]), table(rng)])
    assert found[1] is None
    assert simulated.obstacle == "" and simulated.strength > 0.5
    assert_array_equal(found[0].absent, np.arange(N_LABELS) == 2)
    assert_array_equal(np.flatnonzero(found[0].weights.any(axis=0)), [2])
    assert found[0].weights[2, 2] == 0
    log_odds, truth = draw(rng, 3000)
    kept = log_odds.copy()
    log_odds[:, 2] = rng.normal(size=3000)  # its own scores are not looked at
    after = found[0].calibrate(curve(), log_odds)
    scores = found[0].apply(log_odds, after)
    assert_array_equal(scores[:, [0, 1, 3, 4, 5]], kept[:, [0, 1, 3, 4, 5]])
    p = after.probabilities(scores)[:, 2]
    assert roc_auc_score(truth[:, 2], p) > 0.7
    assert p.mean() == pytest.approx(0.5, abs=1e-6)
    gain = 1 - log_loss(truth[:, 2], p) / np.log(2)
    assert abs(gain - simulated.gain) < 0.03 + 3 * simulated.error
    assert simulated.low - 0.05 < roc_auc_score(truth[:, 2], p) < simulated.high + 0.05


def test_weights_are_regressions_on_the_recorded_labels(rng):
    first, second = table(rng, [0, 3]), table(rng)
    _, (found, _) = learn_borrowing([first, second])
    R = LabelCorrelation.total([first.correlation, second.correlation]).matrix(10)
    J = [1, 2, 4, 5]
    expected = np.linalg.solve(R[np.ix_(J, J)] + 0.3 * np.eye(4), R[np.ix_(J, [0, 3])])
    assert_allclose(found.weights[np.ix_(J, [0, 3])], expected)


def test_weights_without_a_label_are_those_of_a_system_without_it(rng):
    one, other = table(rng), table(rng)
    total, elsewhere = one.correlation + other.correlation, other.correlation.matrix(10)
    found = borrowing._left_out_weights(total, elsewhere, one.recorded)
    R = total.matrix(10)
    for k in range(N_LABELS):
        J = np.delete(np.arange(N_LABELS), k)
        expected = np.linalg.solve(R[np.ix_(J, J)] + 0.3 * np.eye(len(J)), elsewhere[J, k])
        assert_allclose(found[J, k], expected)
        assert found[k, k] == pytest.approx(0, abs=1e-12)


def test_the_labels_of_the_table_itself_are_not_used_to_simulate_it(rng):
    """In a table whose labels are opposite to those of others, nothing can be learned."""
    one, other = table(rng), table(rng)
    flipped = LabelTable(one.log_odds, one.truth, one.base, one.recorded)
    flipped.truth[:, ::2] = 1 - flipped.truth[:, ::2]
    parts = [flipped.correlation, other.correlation]
    assert simulate([flipped, other], parts).strength < 0.3


def test_checks_of_a_label_in_several_tables_are_not_independent(rng):
    """The same checks once more, as of a second table with the same rows, tell nothing new."""
    log_odds, truth = draw(rng, 300)
    entries = [(k, log_odds[:, k], truth[:, k], 0.0) for k in range(N_LABELS)]
    once, twice = borrowing._measured(entries), borrowing._measured(entries * 2)
    assert twice.n_checks == 2 * once.n_checks
    assert_allclose([twice.gain, twice.error], [once.gain, once.error], rtol=1e-2)


def test_scores_that_tell_nothing_give_the_frequency_and_the_reason(rng):
    options = {"informative": False}
    simulated, found = learn_borrowing([table(rng, [2], **options), table(rng, **options)])
    assert "do not tell enough" in simulated.obstacle
    assert not found[0].borrowed.any()
    log_odds, _ = draw(rng, 200, **options)
    after = found[0].calibrate(curve(), log_odds)
    p = after.probabilities(found[0].apply(log_odds, after))[:, 2]
    assert_allclose(p, 0.5)


def test_few_labels_cannot_be_checked(rng):
    few = [LabelTable(t.log_odds[:, :2], t.truth[:, :2], t.base[:2], t.recorded[:2])
           for t in (table(rng, [1]), table(rng))]  # fmt: skip
    simulated, found = learn_borrowing(few)
    assert simulated.obstacle.startswith("only 2 times does a table know a label")
    assert not found[0].borrowed.any()


def test_a_label_that_nothing_connects_has_its_frequency(rng):
    """It is known in rows of the other table in which nothing else is."""
    first, second = table(rng, [2], n=900), table(rng, n=900)
    second.truth[:450, 2] = np.nan
    second.truth[450:, [0, 1, 3, 4, 5]] = np.nan
    _, (found, _) = learn_borrowing([first, second])
    assert not found.borrowed.any() and found.strength > 0
    absent = borrowing.absent_labels({"lab": found}, "", ["lab", "clinic"], [*"abcdef"])
    assert absent[0].obstacle == "no table knows it together with those of lab"
    assert absent[0].tables == ["clinic"]
    assert "c: there it is given the frequency" in describe_absent(absent, None)[0]


def test_missing_scores_stay_missing():
    weights = np.zeros((N_LABELS, N_LABELS))
    weights[0, 1] = 1
    found = Borrowing(weights, np.arange(N_LABELS) == 1, 1.0)
    scores = np.vstack([np.zeros(N_LABELS), np.full(N_LABELS, np.nan)])
    assert_array_equal(np.isnan(found.apply(scores, curve())), [[False] * 6, [True] * 6])


class TestModels:
    @pytest.fixture(scope="class")
    @staticmethod
    def study():
        """The picture of the README with one gap: three tables of other people, three labels."""
        rng = np.random.default_rng(0)

        def people(n):
            cause = rng.normal(size=(n, 1))
            Y = (rng.random((n, 3)) < expit(1.5 * cause * [1, 1, -1] - 0.5)).astype(float)
            X = cause + rng.normal(size=(n, 4)) * 0.7
            return np.hstack([X, rng.normal(size=(n, 3))]), Y

        X, Y = {}, {}
        for view in ("clinic", "lab", "survey"):
            X[view], Y[view] = people(200)
        Y["lab"][:, 2] = np.nan
        return X, Y, *people(1500)

    @pytest.fixture(scope="class")
    @staticmethod
    def model(study):
        return NAIM3LCV(random_state=0).fit(*study[:2])

    def test_the_answer_is_not_inverted_and_better_than_the_frequency(self, model, study):
        _, _, X, Y = study
        p = model.predict_proba({"lab": X})["lab"][:, 2]
        auc = roc_auc_score(Y[:, 2], p)
        if model.absent_labels_[0].obstacle:
            assert np.ptp(p) < 1e-9
        else:
            assert auc > 0.6
        assert log_loss(Y[:, 2], p) <= log_loss(Y[:, 2], np.full(len(p), Y[:, 2].mean())) + 0.005
        fused = model.fuse({"lab": X, "clinic": X})[:, 2]
        assert roc_auc_score(Y[:, 2], fused) > 0.6

    def test_it_is_named_with_what_it_comes_from(self, model):
        (absent,) = model.absent_labels_
        assert (absent.view, absent.label) == ("lab", "label2")
        assert absent.tables == ["clinic", "survey"]
        assert set(absent.through) == {"label0", "label1"}
        assert "lab never records label2" in describe_absent([absent], None)[0]

    def test_decisions_follow_the_probabilities(self, model, study):
        X = {"lab": study[2]}
        p, yes = model.predict_proba(X)["lab"][:, 2], model.predict(X)["lab"][:, 2] == 1
        if yes.any() and not yes.all():
            assert p[yes].min() >= p[~yes].max()

    def test_by_sign_is_by_a_probability_of_one_half(self, model, study):
        X = {view: study[2] for view in ("lab", "clinic")}
        for view, P in model.predict_proba(X).items():
            if view == "lab":
                assert_array_equal(model.predict(X, "sign")[view][:, 2] == 1, P[:, 2] > 0.5)

    def test_decisions_on_a_label_that_is_the_same_for_all_do_not_depend_on_known_ones(self, study):
        X, Y, new, _ = study
        X, nothing = {"lab": new}, {"lab": np.full((len(new), 3), np.nan)}
        for rule in ("half", "guarded", "f1", "cardinality"):
            model = PerViewRidge(decide=rule, random_state=0).fit(study[0], Y)
            one, other = model.predict(X)["lab"], model.predict(X, known=nothing)["lab"]
            assert_array_equal(one, other)

    def test_a_table_that_says_nothing_about_a_label_does_not_weaken_others(self, study):
        X, Y, new, _ = study
        model = PerViewRidge(decide="guarded", random_state=0).fit(X, Y)
        alone = model.fuse({"clinic": new})[:, 2]
        for overlap in (0, 0.3, 1):
            assert_allclose(model.fuse({"clinic": new, "lab": new}, overlap=overlap)[:, 2], alone)
        yes = model.fuse({"clinic": new}, "labels")[:, 2]
        assert_array_equal(model.fuse({"clinic": new, "lab": new}, "labels")[:, 2], yes)

    def test_a_file_keeps_it(self, study, tmp_path):
        X, Y, new, _ = study
        model = NAIM3L(decide="guarded", random_state=0).fit(X, Y)
        model.save(tmp_path / "m.naim3l")
        again = load(tmp_path / "m.naim3l")
        one, other = (of.predict_proba({"lab": new})["lab"] for of in (model, again))
        assert_array_equal(one, other)
        assert again.absent_labels_ == model.absent_labels_

    def test_tables_by_themselves_borrow_nothing(self, study):
        X, Y, new, _ = study
        model = PerViewRidge(decide="guarded", random_state=0).fit(X, Y)
        assert model.absent_labels_ == []
        assert_allclose(np.ptp(model.predict_proba({"lab": new})["lab"][:, 2]), 0, atol=1e-12)

    def test_views_in_another_order_have_the_same_answers(self, model, study):
        X, Y, new, _ = study
        order = ["survey", "lab", "clinic"]
        other = NAIM3L(model.lam_, ridge=model.ridge_, decide="guarded", random_state=0)
        one = NAIM3L(model.lam_, ridge=model.ridge_, decide="guarded", random_state=0)
        other.fit({view: X[view] for view in order}, {view: Y[view] for view in order})
        one.fit(X, Y)
        answers = [of.predict_proba({"lab": new})["lab"][:, 2] for of in (one, other)]
        assert np.corrcoef(logit(np.clip(answers, 1e-9, 1 - 1e-9)))[0, 1] > 0.98
