import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

from naim3l.deep import NAIM3LLoss, trace_norm  # noqa: E402
from naim3l.deep.loss import label_trace_norms  # noqa: E402
from naim3l.solvers.objective import Objective  # noqa: E402


def binary(signed):
    return torch.tensor(np.where(signed == 0, np.nan, signed > 0))


@pytest.fixture
def case(make_problem, rng):
    features, labels, problem = make_problem(seed=2)
    W = rng.normal(size=(problem.n_weights, problem.n_labels))
    return features, labels, problem, W


def linear_heads(problem, W, features):
    """One linear layer per view with the given weights."""
    layers = []
    for X, coef, intercept in zip(features, *problem.split_weights(W), strict=True):
        layer = torch.nn.Linear(X.shape[1], len(intercept)).double()
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(coef.T))
            layer.bias.copy_(torch.tensor(intercept))
        layers.append(layer)
    return layers


@pytest.mark.parametrize("kind", [list, "mapping", "stacked"])
def test_on_all_rows_it_is_the_linear_objective_with_its_gradient(case, terms, kind):
    features, labels, problem, W = case
    terms = {name: value for name, value in terms.items() if name != "ridge"}
    objective = Objective(problem, lam=0.4, **terms)
    layers = linear_heads(problem, W, features)
    scores = [layer(torch.tensor(X)) for layer, X in zip(layers, features, strict=True)]
    truth = [binary(Y) for Y in labels]
    if kind == "mapping":
        scores, truth = ({str(v): t for v, t in enumerate(ts)} for ts in (scores, truth))
    elif kind == "stacked":
        scores, truth = torch.cat(scores), torch.cat(truth)
    loss = NAIM3LLoss(0.4, **terms)
    value = loss(scores, truth)
    assert value.item() == pytest.approx(objective.value(W), rel=1e-6)
    value.backward()
    found = [torch.cat([layer.weight.grad.T, layer.bias.grad[None]]) for layer in layers]
    np.testing.assert_allclose(np.concatenate(found), objective.subgradient(W), atol=1e-6)
    parts, expected = loss.parts(scores, truth), objective.parts(W).as_record()
    for name, part in parts.items():
        assert part.item() == pytest.approx(expected[name], rel=1e-6)


@pytest.mark.parametrize("data_term", ["squared", "logistic"])
def test_gradient_is_that_of_finite_differences(case, data_term):
    _, _, problem, W = case
    scores = torch.tensor(problem.multiply(W)[::7], requires_grad=True)
    truth = binary(problem.Y[::7])
    shares = torch.linspace(0.1, 0.6, problem.n_labels, dtype=torch.float64)
    loss = NAIM3LLoss(0.4, data_term=data_term, positive_weight=3.0)
    assert torch.autograd.gradcheck(
        lambda A: loss(A, truth, share=0.3, label_shares=shares), (scores,)
    )


def test_data_terms_by_hand():
    scores = torch.tensor([[0.5, -2.0, 7.0]], dtype=torch.float64)
    truth = torch.tensor([[1.0, 0.0, np.nan]], dtype=torch.float64)
    squared = NAIM3LLoss(0.0)(scores, truth)
    assert float(squared) == pytest.approx(0.5 * (0.25 + 1))
    logistic = NAIM3LLoss(0.0, data_term="logistic", positive_weight=3.0)(scores, truth)
    assert float(logistic) == pytest.approx(2 * (3 * np.log1p(np.exp(-0.5)) + np.log1p(np.exp(-2))))


def test_blocks_of_labels_are_those_of_their_rows(rng):
    A = torch.tensor(rng.normal(size=(40, 7)), requires_grad=True)
    Y = torch.tensor((rng.random((40, 7)) < [0.9, 0.5, 0.45, 0.4, 0.1, 0.05, 0]).astype(float))
    factors = torch.tensor(rng.random(7))
    found = label_trace_norms(A, Y, factors)
    one_by_one = sum(f * trace_norm(A[Y[:, k] > 0]) for k, f in enumerate(factors))
    torch.testing.assert_close(found, one_by_one)
    expected = torch.autograd.grad(one_by_one, A)[0]
    torch.testing.assert_close(torch.autograd.grad(found, A)[0], expected)


def test_regulariser_of_random_rows_lies_between_its_bounds(rng):
    """``p ||A|| <= E ||A_b|| <= sqrt(p) ||A||``, the latter nearly an equation for many rows."""
    factors = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 6))
    for A, tight in ((factors, True), (rng.normal(size=(12, 200)), False)):
        A = torch.tensor(A)
        whole = float(trace_norm(A))
        for p in (0.25, 0.5):
            n = int(p * len(A))
            chosen = [torch.tensor(rng.permutation(len(A))[:n]) for _ in range(200)]
            ratio = float(np.mean([float(trace_norm(A[rows])) for rows in chosen])) / whole
            assert p <= ratio <= p**0.5
            assert (ratio > 0.98 * p**0.5) == tight


def test_batch_of_a_share_estimates_the_whole(rng):
    A = torch.tensor(rng.normal(size=(600, 2)) @ rng.normal(size=(2, 5)))
    Y = torch.tensor((rng.random((600, 5)) < 0.4).astype(float))
    loss = NAIM3LLoss(0.4)
    whole = loss.parts(A, Y)
    n_batches = 4
    parts = torch.tensor(rng.permutation(600)).chunk(n_batches)
    batches = [loss.parts(A[rows], Y[rows], share=1 / n_batches) for rows in parts]
    mean = {name: float(np.mean([float(b[name]) for b in batches])) for name in whole}
    assert mean["loss"] == pytest.approx(float(whole["loss"]), rel=1e-12)
    for name in ("low_rank", "high_rank"):
        assert mean[name] == pytest.approx(float(whole[name]), rel=0.03)
        assert abs(mean[name]) <= abs(float(whole[name])) * (1 + 1e-9) or name == "low_rank"


def test_views_may_lack_rows_and_half_precision_is_taken(rng):
    scores = {"a": torch.tensor(rng.normal(size=(6, 3))), "b": torch.zeros(0, 3).double()}
    truth = {"a": torch.ones(6, 3).double(), "b": torch.zeros(0, 3).double()}
    loss = NAIM3LLoss()
    torch.testing.assert_close(loss(scores, truth), loss(scores["a"], truth["a"]))
    half = {view: A.bfloat16().requires_grad_() for view, A in scores.items()}
    value = loss(half, truth)
    assert value.dtype == torch.float32
    value.backward()
    assert half["a"].grad.dtype == torch.bfloat16


def test_errors_name_the_view(rng):
    loss = NAIM3LLoss()
    A, Y = torch.zeros(4, 3), torch.zeros(4, 3)
    with pytest.raises(ValueError, match=r"view 'b': scores \(4, 3\) and labels \(5, 3\)"):
        loss({"a": A, "b": A}, {"a": Y, "b": torch.zeros(5, 3)})
    with pytest.raises(ValueError, match=r"view '1'"):
        loss([A, torch.zeros(4, 2)], [Y, torch.zeros(4, 2)])
    with pytest.raises(ValueError, match=r"views \['a'\], labels of \['c'\]"):
        loss({"a": A}, {"c": Y})
    with pytest.raises(TypeError, match="both"):
        loss({"a": A}, Y)
    for wrong in ({"lam": -1}, {"data_term": "hinge"}, {"positive_weight": 0}, {"low_rank": 3}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            NAIM3LLoss(**wrong)


class TestShares:
    A, Y = torch.ones(4, 3), torch.eye(4, 3)

    @pytest.mark.parametrize("share", [0, -1, np.nan, np.inf, 2.0, "half", None, torch.ones(2)])
    def test_share_out_of_range_is_named(self, share):
        with pytest.raises(ValueError, match="share must be"):
            NAIM3LLoss()(self.A, self.Y, share=share)

    def test_share_is_any_number(self):
        expected = NAIM3LLoss()(self.A, self.Y, share=0.5)
        for share in (np.float32(0.5), torch.tensor(0.5), np.array(0.5)):
            torch.testing.assert_close(NAIM3LLoss()(self.A, self.Y, share=share), expected)
        assert NAIM3LLoss()(self.A, self.Y, share=0.1 + 0.2 + 0.3 + 0.4 + 1e-15).isfinite()

    @pytest.mark.parametrize("lam", [0.0, 0.4])
    @pytest.mark.parametrize(
        ("shares", "message"),
        [
            (torch.tensor([0.5, 0.0, 0.5]), "label 1: .* > 0 .* got 0"),
            ([0.5, 0.5, -1.0], "label 2: .* got -1"),
            ([np.nan, 0.5, 0.5], "label 0: .* got nan"),
            ([np.inf, 0.5, 0.5], "label 0: .* got inf"),
            (torch.ones(2), r"shape \(3,\), one per label, got \(2,\)"),
            (torch.tensor(0.5), r"got \(\)"),
            (["a", "b", "c"], "must be numbers, one per label"),
            ([[0.5, 0.5], [0.5]], "must be numbers, one per label"),
        ],
    )
    def test_unusable_shares_of_labels_are_named(self, lam, shares, message):
        with pytest.raises(ValueError, match=f"label_shares.*{message}"):
            NAIM3LLoss(lam)(self.A, self.Y, label_shares=shares)

    def test_shares_of_labels_are_any_array(self):
        shares = [0.5, 0.25, 1.0]
        expected = NAIM3LLoss()(self.A, self.Y, label_shares=torch.tensor(shares))
        for given in (shares, tuple(shares), np.array(shares), np.array(shares, np.float32)):
            found = NAIM3LLoss()(self.A, self.Y, label_shares=given)
            torch.testing.assert_close(found, expected)

    def test_label_without_rows_in_the_batch_may_have_none(self):
        Y = self.Y.clone()
        Y[:, 1] = 0
        expected = NAIM3LLoss()(self.A, Y, label_shares=[0.5, 0.5, 0.5])
        for none in (0.0, np.nan):  # of 0 / 3 rows, and of 0 / 0
            found = NAIM3LLoss()(self.A, Y, label_shares=[0.5, none, 0.5])
            torch.testing.assert_close(found, expected)


class TestLabels:
    @pytest.mark.parametrize("value", [0.5, 2, -1, 1e-30, 1 + 1e-6, np.inf, -np.inf])
    def test_others_than_yes_no_and_unknown_are_named(self, value):
        A, good = torch.ones(4, 3), torch.eye(4, 3)
        good[1, 1] = torch.nan
        bad = good.clone()
        bad[2, 1] = value
        loss = NAIM3LLoss()
        with pytest.raises(
            ValueError, match=r"view 'b', row 2, label 1: .* is not a label; .*1 = yes"
        ):
            loss({"a": A, "b": A}, {"a": good, "b": bad})
        with pytest.raises(ValueError, match="view '1', row 2, label 1"):
            loss.parts([A, A], [good, bad], label_shares=[0.0, 0.0, 0.0])
        with pytest.raises(ValueError, match="row 2, label 1"):
            NAIM3LLoss(0.0)(A, bad)

    @pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int64,
                                       torch.float16, torch.float64])  # fmt: skip
    def test_of_every_type_are_taken(self, dtype):
        A, Y = torch.ones(4, 3), torch.eye(4, 3)
        torch.testing.assert_close(NAIM3LLoss()(A, Y.to(dtype)), NAIM3LLoss()(A, Y))
        if dtype.is_floating_point or dtype == torch.bool:
            return
        wrong = Y.to(dtype)
        wrong[3, 0] = 2
        with pytest.raises(ValueError, match="row 3, label 0: 2 is not a label"):
            NAIM3LLoss()(A, wrong)
