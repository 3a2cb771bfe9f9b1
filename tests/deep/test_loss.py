import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

import oracle  # noqa: E402
from naim3l.deep import NAIM3LLoss, trace_norm  # noqa: E402
from naim3l.deep.loss import label_trace_norms  # noqa: E402
from naim3l.estimators.naim3l import VARIANTS  # noqa: E402
from naim3l.solvers.nuclear import trace_norm as numpy_trace_norm  # noqa: E402
from naim3l.solvers.nuclear import trace_norm_subgradient  # noqa: E402
from naim3l.solvers.objective import Objective  # noqa: E402

SHAPES = [(5, 3), (3, 5), (4, 4), (1, 6), (2, 3, 6, 2)]


def with_singular_values(values, shape, rng, dtype=torch.float64):
    U, _, Vt = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
    return torch.tensor(U[:, : len(values)] * values @ Vt[: len(values)], dtype=dtype)


def gradient(A, **options):
    A = A.clone().requires_grad_()
    trace_norm(A, **options).sum().backward()
    return A.grad


class TestTraceNorm:
    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_gradient_is_that_of_finite_differences_and_of_numpy(self, shape, rng):
        A = rng.normal(size=shape)
        assert torch.autograd.gradcheck(trace_norm, (torch.tensor(A, requires_grad=True),))
        np.testing.assert_allclose(trace_norm(torch.tensor(A)), numpy_trace_norm(A), rtol=1e-12)
        np.testing.assert_allclose(gradient(torch.tensor(A)), trace_norm_subgradient(A), atol=1e-12)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
    @pytest.mark.parametrize(
        "values", [[2, 2, 2], [3, 1, 1, 1], [1, 1, 0, 0], [1, 1e-9], [0], [1e-15]], ids=str
    )
    @pytest.mark.parametrize("shape", [(7, 5), (5, 7)], ids=str)
    def test_gradient_is_bounded_where_values_repeat_or_vanish(self, values, shape, dtype, rng):
        A = with_singular_values(np.array(values, dtype=float), shape, rng, dtype)
        G = gradient(A)
        assert G.dtype == dtype and torch.isfinite(G).all()
        assert torch.linalg.matrix_norm(G, 2) <= 1 + 1e-3
        # A sub-gradient: <G, A> is the norm itself, up to singular values that count as zero.
        slack = max(values) * max(shape) ** 1.5 * torch.finfo(dtype).eps ** 0.5
        assert abs(float((G * A).sum()) - sum(values)) <= slack

    def test_inequality_of_sub_gradients_holds_at_repeated_singular_values(self, rng):
        A = with_singular_values(np.array([2.0, 2.0, 0.0]), (6, 4), rng)
        G = gradient(A)
        for _ in range(50):
            B = A + torch.tensor(rng.normal(size=A.shape)) * float(rng.choice([1e-3, 1.0]))
            assert trace_norm(B) >= trace_norm(A) + (G * (B - A)).sum() - 1e-12

    def test_zero_matrix_and_empty_ones_have_gradient_zero(self):
        for shape in [(3, 2), (0, 4), (4, 0), (2, 0, 3)]:
            A = torch.zeros(shape, dtype=torch.float64)
            assert trace_norm(A).sum() == 0
            assert torch.equal(gradient(A), A)

    def test_small_singular_values_beside_a_large_offset_count_in_float32(self, rng):
        A = (-5 + 0.01 * rng.normal(size=(2000, 30))).astype(np.float32)
        exact = numpy_trace_norm(A.astype(float))
        assert float(trace_norm(torch.from_numpy(A))) == pytest.approx(exact, rel=1e-5)
        expected = trace_norm_subgradient(A.astype(float))
        np.testing.assert_allclose(gradient(torch.from_numpy(A)), expected, atol=1e-5)

    def test_cutoff_leaves_small_singular_values_out(self, rng):
        A = with_singular_values(np.array([2.0, 0.05]), (5, 4), rng)
        assert float(trace_norm(A, cutoff=0.005)) == pytest.approx(2.0)
        assert torch.linalg.matrix_rank(gradient(A, cutoff=0.005)) == 1
        assert torch.linalg.matrix_rank(gradient(A)) == 2


def binary(signed):
    return torch.tensor(np.where(signed == 0, np.nan, signed > 0))


@pytest.fixture
def case(make_problem, rng):
    features, labels, problem = make_problem(seed=2)
    return features, labels, problem, rng.normal(size=(problem.n_weights, problem.n_labels))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("form", ["list", "mapping", "stacked"])
def test_on_all_rows_it_is_the_linear_objective_with_its_gradient(case, variant, form):
    features, labels, problem, W = case
    objective = Objective(problem, 0.4, *VARIANTS[variant])
    layers = [
        [torch.tensor(array, requires_grad=True) for array in arrays]
        for arrays in zip(*problem.split_weights(W), strict=True)
    ]
    scores = [torch.tensor(X) @ w + b for X, (w, b) in zip(features, layers, strict=True)]
    truth = [binary(Y) for Y in labels]
    if form == "mapping":
        scores, truth = ({str(v): t for v, t in enumerate(ts)} for ts in (scores, truth))
    elif form == "stacked":
        scores, truth = torch.cat(scores), torch.cat(truth)
    loss = NAIM3LLoss(0.4, variant=variant)
    value = loss(scores, truth)
    assert value.item() == pytest.approx(objective.value(W), rel=1e-6)
    value.backward()
    found = [torch.cat([w.grad, b.grad[None]]) for w, b in layers]
    low_rank, high_rank = VARIANTS[variant]
    expected = oracle.gradient(features, labels, W, lam=0.4, low_rank=low_rank, high_rank=high_rank)
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-6)
    expected = objective.parts(W)
    for name, part in loss.parts(scores, truth).items():
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
    assert float(NAIM3LLoss(0.0)(scores, truth)) == pytest.approx(0.5 * (0.25 + 1))
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
            chosen = [torch.tensor(rng.permutation(len(A))[: int(p * len(A))]) for _ in range(200)]
            ratio = float(np.mean([float(trace_norm(A[rows])) for rows in chosen])) / whole
            assert p <= ratio <= p**0.5
            assert (ratio > 0.98 * p**0.5) == tight


def test_batches_estimate_the_whole(rng):
    A = torch.tensor(rng.normal(size=(600, 2)) @ rng.normal(size=(2, 5)))
    Y = torch.tensor((rng.random((600, 5)) < 0.4).astype(float))
    loss = NAIM3LLoss(0.4)
    whole = loss.parts(A, Y)
    batches = torch.tensor(rng.permutation(600)).chunk(4)
    parts = [loss.parts(A[rows], Y[rows], share=1 / 4) for rows in batches]
    mean = {name: float(np.mean([float(part[name]) for part in parts])) for name in whole}
    assert mean["loss"] == pytest.approx(float(whole["loss"]), rel=1e-12)
    for name in ("low_rank", "high_rank"):
        assert mean[name] == pytest.approx(float(whole[name]), rel=0.03)


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


def test_errors_name_the_view_and_the_option():
    loss, A, Y = NAIM3LLoss(), torch.zeros(4, 3), torch.zeros(4, 3)
    for scores, labels, message in (
        ({"a": A, "b": A}, {"a": Y, "b": A[:2]}, r"'b': scores \(4, 3\) and labels \(2"),
        ([A, torch.zeros(4, 2)], [Y, torch.zeros(4, 2)], "view 1: "),
        ({"a": A}, {"c": Y}, r"views \['a'\], labels of \['c'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            loss(scores, labels)
    with pytest.raises(TypeError, match="both"):
        loss({"a": A}, Y)
    for wrong in ({"lam": -1}, {"data_term": "hinge"}, {"positive_weight": 0}, {"variant": "II"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            NAIM3LLoss(**wrong)


class TestShares:
    A, Y = torch.ones(4, 3), torch.eye(4, 3)

    @pytest.mark.parametrize("share", [0, -1, np.nan, np.inf, 2.0, "half", None, torch.ones(2)])
    def test_share_out_of_range_is_named(self, share):
        with pytest.raises(ValueError, match="share must be"):
            NAIM3LLoss()(self.A, self.Y, share=share)

    @pytest.mark.parametrize(
        ("shares", "message"),
        [
            (torch.tensor([0.5, 0.0, 0.5]), "label 1: .* > 0 .* got 0"),
            ([np.nan, 0.5, 0.5], "label 0: .* got nan"),
            ([0.5, 0.5, np.inf], "label 2: .* got inf"),
            *((s, "must be 3 numbers") for s in (torch.ones(2), ["a", "b", "c"], [[1, 1], [1]])),
        ],
    )
    def test_unusable_shares_of_labels_are_named(self, shares, message):
        with pytest.raises(ValueError, match=f"label_shares.*{message}"):
            NAIM3LLoss()(self.A, self.Y, label_shares=shares)

    def test_label_without_rows_in_the_batch_may_have_none(self):
        Y = self.Y.clone()
        Y[:, 1] = 0
        expected = NAIM3LLoss()(self.A, Y, label_shares=[0.5, 0.5, 0.5])
        for none in (0.0, np.nan):  # of 0 / 3 rows, and of 0 / 0
            found = NAIM3LLoss()(self.A, Y, label_shares=[0.5, none, 0.5])
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("value", [0.5, 2, -1, 1e-30, 1 + 1e-6, np.inf])
def test_others_than_yes_no_and_unknown_are_named(value):
    A, good = torch.ones(4, 3), torch.eye(4, 3)
    good[1, 1] = torch.nan
    bad = good.clone()
    bad[2, 1] = value
    with pytest.raises(ValueError, match=r"view 'b', row 2, label 1: .* is not a label; .*1 = yes"):
        NAIM3LLoss()({"a": A, "b": A}, {"a": good, "b": bad})
    with pytest.raises(ValueError, match="row 2, label 1"):
        NAIM3LLoss(0.0).parts(A, bad, label_shares=[0.0, 0.0, 0.0])


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16])
def test_labels_of_every_type_are_taken(dtype):
    A, Y = torch.ones(4, 3), torch.eye(4, 3)
    torch.testing.assert_close(NAIM3LLoss()(A, Y.to(dtype)), NAIM3LLoss()(A, Y))
