"""What can be told from what sites send: each attack of the page succeeds, or fails, as it says."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from naim3l import NAIM3L, NAIM3LCV, LabelSubspaceRidge, PerViewRidge, evaluate
from naim3l.datasets import make_unpaired
from naim3l.estimators import base
from naim3l.federated import combine, share, simulate, simulation
from naim3l.federated.rounds import SHRINK, SiteProblem
from naim3l.federated.shares import symmetric

RIDGE, ROUNDS = LabelSubspaceRidge(ridge=1.0, shrinkage=0.7), NAIM3L(lam=0.4, ridge=1.0)
N_LABELS = 6


def make_sites(n_sites=2, **rare):
    """Sites whose labels are all known; of the first site's label k, the first rows are yes."""
    data = make_unpaired(
        (80,) * n_sites,
        n_features=(10,) * n_sites,
        n_labels=N_LABELS,
        n_latent=8,
        noise=0.5,
        labels_per_row=2.5,
        random_state=0,
    )
    sites = {f"site{v[4:]}": ({v: X}, {v: data.labels[v]}) for v, X in data.views.items()}
    for name, n in rare.items():
        k = int(name.removeprefix("label"))
        sites["site0"][1]["view0"][:, k] = np.arange(80) < n
    return sites


@pytest.fixture
def traffic(monkeypatch):
    """All that crosses in rounds: asks, what each site sends, and the answers."""
    found, original = [], simulation.answer

    def recorded(asks, sent):
        answers = original(asks, sent)
        found.append((next(iter(asks.values())), dict(sent), answers))
        return answers

    monkeypatch.setattr(simulation, "answer", recorded)
    return found


@pytest.fixture
def blocks(monkeypatch):
    """Scores whose Gram matrices are sent first: by the number of rows of each label."""
    found, original = [], SiteProblem.shrink

    def recorded(self, A, threshold):
        found.append({int(k): A[self.label_slices[k]].copy() for k in self.seen})
        return original(self, A, threshold)

    monkeypatch.setattr(SiteProblem, "shrink", recorded)
    return found


def first_grams(traffic, site):
    sent = next(sent for ask, sent, _ in traffic if ask.what == SHRINK)
    return symmetric(sent[site]["grams"])


def score_vector(gram):
    """The row of scores that a Gram matrix of rank one has, up to its sign."""
    squares, vectors = np.linalg.eigh(gram)
    row = np.sqrt(squares[-1]) * vectors[:, -1]
    return row * np.sign(row @ np.ones(len(row)))


def rows_of_label(blocks, k, n):
    """The scores behind the first Gram matrix of a label at the site that has n rows of it."""
    return next(of[k] for of in blocks if len(of[k]) == n)


# One positive of a label.


def test_in_rounds_one_positive_shows_the_scores_of_its_row(traffic, blocks):
    simulate(make_sites(label2=1), ROUNDS, minimum_count=0)
    [truth] = rows_of_label(blocks, 2, 1)
    found = score_vector(first_grams(traffic, "site0")[2])
    assert_allclose(found, truth * np.sign(truth.sum()), atol=1e-10)


def test_in_one_round_it_does_too_relative_to_the_mean():
    (X, y), view = make_sites(label2=1)["site0"], "view0"
    products = share(X, y, RIDGE, site="site0", minimum_count=0).matrices[1.0]
    scores = PerViewRidge(ridge=1.0).fit(X, y).view_scores(X)[view]
    assert_allclose(products[2], 2 * (scores[0] - scores.mean(axis=0)), atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*nothing is said of them")
def test_not_with_a_minimum_count(traffic, blocks):
    sites = make_sites(label2=1)
    products = share(*sites["site0"], RIDGE, site="site0").matrices[1.0]
    assert not products[2].any() and not products[:, 2].any()
    simulate(sites, ROUNDS)
    grams = first_grams(traffic, "site0")
    assert not grams[2].any()
    # Of labels with enough positives, the Gram matrix is a mixture that is nobody's.
    for of in blocks[:2]:
        for k, rows in of.items():
            if len(rows):
                near = score_vector(rows.T @ rows)
                distance = np.linalg.norm(rows - near, axis=1).min()
                assert distance > 0.25 * np.linalg.norm(near), k


def test_not_with_secure_sums(traffic, blocks):
    pytest.importorskip(
        "cryptography", reason="needs cryptography: pip install 'naim3l[federated]'"
    )
    simulate(make_sites(3, label2=1), ROUNDS, minimum_count=0, secure=True)
    [truth] = rows_of_label(blocks, 2, 1)
    _, sent, answers = next(each for each in traffic if each[0].what == SHRINK)
    masked = np.ldexp(sent["site0"]["grams"].view(np.int64), -36)
    vectors = np.linalg.eigh(symmetric(masked)[2])[1]
    likeness = np.abs(vectors.T @ truth) / np.linalg.norm(truth)
    assert likeness.max() < 1 - 1e-6
    # A second time, what is sent for the same scores has nothing in common with it.
    assert set(answers) == {"shrinkage", "norm"}
    assert np.abs(masked).max() > 1e6 > np.abs(truth).max()


# Measures of held-out rows.


@pytest.mark.parametrize(("cv", "succeeds"), [(4, True), (2, False)])
def test_a_search_shows_what_a_row_does_to_a_measure_if_few_are_held_out(
    cv, succeeds, traffic, monkeypatch
):
    """A site sends measures without each of 20 blocks of rows: with 20 held-out rows, each."""
    folds, original = {}, base.hold_out_folds

    def deal(problem, *given, **options):
        folds[problem.names[0]] = found = original(problem, *given, **options)
        return found

    monkeypatch.setattr(base, "hold_out_folds", deal)
    search = NAIM3LCV(lams=[0.4], ridges=[1.0], cv=cv, decide="sign", random_state=0)
    sites = make_sites()
    simulate(sites, search)
    sums = next(
        sent["site0"]["sums"]
        for _, sent, _ in traffic
        if "sums" in sent["site0"] and sent["site0"]["sums"].shape == (2, 21)
    )
    X, y = ({v: of for pair in sites.values() for v, of in pair[i].items()} for i in (0, 1))
    hidden = folds["view0"] == 0
    without = {v: np.where(folds[v] == 0, np.nan, Y) for v, Y in y.items()}
    scores = NAIM3L(lam=0.4, ridge=1.0).fit(X, without).decision_function(X)["view0"]
    rows = np.flatnonzero(hidden.any(axis=1))
    truth = np.where(hidden, y["view0"], np.nan)

    def measure(rows):
        return evaluate(truth[rows], scores[rows])["macro-AUC"]

    assert (len(rows) == 20) == succeeds
    assert_allclose(sums[0, 0], measure(rows), atol=0.01)  # of a coarser fit
    effects = np.array([measure(np.delete(rows, i)) for i in range(20)]) - measure(rows)
    likeness = np.corrcoef(sums[0, 1:] - sums[0, 0], effects)[0, 1]
    assert (likeness > 0.99) == succeeds


# A Gram matrix and its rows.


def test_a_gram_has_the_number_of_its_rows_and_fixes_them_up_to_a_rotation(traffic, blocks):
    simulate(make_sites(label2=3), ROUNDS, minimum_count=0)
    gram, rows = first_grams(traffic, "site0")[2], rows_of_label(blocks, 2, 3)
    assert np.linalg.matrix_rank(gram, tol=1e-8) == 3
    squares, vectors = np.linalg.eigh(gram)
    found = np.sqrt(squares[-3:])[:, None] * vectors[:, -3:].T
    U, _, Vt = np.linalg.svd(rows @ found.T)
    assert_allclose(U @ Vt @ found, rows, atol=1e-8)  # by the best rotation: exactly
    assert np.abs(np.abs(found) - np.abs(rows)).max() > 0.1  # but not without knowing it


def test_with_more_rows_than_labels_the_rank_does_not_tell_their_number(traffic):
    simulate(make_sites(label2=20), ROUNDS, minimum_count=0)
    assert np.linalg.matrix_rank(first_grams(traffic, "site0")[2], tol=1e-8) == N_LABELS


def test_co_occurrence_of_labels_shows_through():
    X, y = make_sites()["site0"]
    found = share(X, y, RIDGE, site="site0").matrices[1.0]
    upper = np.triu_indices(N_LABELS, 1)
    together = np.cov(y["view0"].T)[upper]
    assert np.corrcoef(found[upper], together)[0, 1] > 0.8


# Sums, and what is left of them without one's own.


def test_with_two_sites_each_learns_the_sums_of_the_other():
    shares = [share(*of, RIDGE, site=site) for site, of in make_sites().items()]
    rest = combine(shares)._plus(shares[0], -1)
    assert_allclose(rest.products, shares[1].products, atol=1e-10)
    assert rest.sites == shares[1].sites


def test_with_three_it_takes_two_together():
    shares = [share(*of, RIDGE, site=site) for site, of in make_sites(3).items()]
    rest = combine(shares)._plus(shares[0], -1)
    for other in shares[1:]:
        assert np.abs(rest.products - other.products).max() > 1.0
    alone = rest._plus(shares[1], -1)
    assert_allclose(alone.products, shares[2].products, atol=1e-10)


@pytest.mark.parametrize("secure", [False, True])
def test_secure_sums_do_not_help_two_sites(secure, monkeypatch):
    if secure:
        pytest.importorskip(
            "cryptography", reason="needs cryptography: pip install 'naim3l[federated]'"
        )
    found, original = [], SiteProblem.add_gram

    def recorded(self, K):
        total = original(self, K)
        found.append((K, total))
        return total

    monkeypatch.setattr(SiteProblem, "add_gram", recorded)
    simulate(make_sites(), ROUNDS, secure=secure)
    (own, total), (other, _) = found[:2]  # each site's first
    assert_allclose(total - own, other, atol=1e-9)


def test_shrinkage_matrices_can_be_inverted_on_what_they_keep(traffic):
    simulate(make_sites(), NAIM3L(lam=5.0, ridge=1.0))
    ask, sent, answers = next(each for each in traffic if each[0].what == SHRINK)
    total = symmetric(sum(of["grams"] for of in sent.values()))
    lost = 0
    for gram, T in zip(total, symmetric(answers["shrinkage"]), strict=True):
        factors, vectors = np.linalg.eigh(T)
        kept = factors > 1e-9
        singular = ask.threshold / (1 - factors[kept])
        found = (vectors[:, kept] * singular**2) @ vectors[:, kept].T
        P = vectors[:, kept] @ vectors[:, kept].T
        assert_allclose(found, P @ gram @ P, atol=1e-6 * np.abs(gram).max())
        lost += np.count_nonzero(~kept)
    assert lost  # there, nothing is told but that singular values are below the threshold


# Why fits start at the ridge solution.


def test_known_weights_would_give_sums_of_columns_away(rng):
    X, W = rng.normal(size=(12, 5)), rng.normal(size=(5, N_LABELS))
    gram, moments = (X @ W).T @ (X @ W), X.T @ X

    def attack(weights):
        inverse = np.linalg.pinv(weights)
        return inverse.T @ gram @ inverse

    assert_allclose(attack(W), moments, atol=1e-9)
    assert np.abs(attack(rng.normal(size=W.shape)) - moments).max() > 1.0
    with pytest.raises(ValueError, match="no init: weights that others know"):
        simulate(make_sites(), NAIM3L(ridge=1.0, init={"view0": W}))
