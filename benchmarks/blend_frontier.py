"""Members of the blend of networks on Corel5k, alone and together, without alignment.

    python benchmarks/blend_frontier.py --data DATA --seeds 10 11

Protocol "fused" of naim3l-bench: half of the rows of each view and half of the labels of the
training rows missing, rows not aligned, half of the test views hidden. Each member is trained on
all entries and without each fifth of them, in one stack; calibrations and weights of blends are
learned on held-out entries. Prints AP, 1-RL and label AP in percent. Needs torch, and a GPU to end
in minutes.

The name of a member is that of its features, and what is changed in its networks, joined by "+":

- codebook: the second hidden layer becomes the nearest tokens of 4 numbers, of a codebook of 2048
- layer: all views share the second hidden layer, each with a scale and shift of its own
- rebuild: each view's features are rebuilt from its second hidden layer, through a shared layer
- soft: unknown labels are filled with probabilities of the first two members, given the known
  labels of the row, by networks that were not trained on it (it needs --pairs)
- filled: the same, without the known labels
- sure: filled labels count as much as known ones, not half as much
- s1, s2, ...: another seed of the networks

Views are fused with an overlap of 0.5; with overlaps of pairs, learned from the test rows without
their labels; and with these and a share of the mean of similar test rows.
"""

import argparse
import json
import os
import warnings
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from common import print_machine, print_table, progress
from scipy.special import expit, logit
from sklearn.metrics import average_precision_score
from torch import nn
from torch.nn.functional import normalize, softplus

from naim3l import evaluate
from naim3l.decisions.bridge import learn_bridge
from naim3l.decisions.calibration import HeldOutScores, fit_calibrations
from naim3l.decisions.fusion import add_evidence, blend, blend_weights, learn_covariance
from naim3l.decisions.held_out import Folds, hold_out_folds
from naim3l.deep import NAIM3LLoss, Network, Training
from naim3l.deep import networks as nets
from naim3l.deep.deep_naim3l import as_scores
from naim3l.deep.training import Trainer
from naim3l.problem.rows import Problem
from naim3l_bench.datasets import open_dataset
from naim3l_bench.trials import draw_challenge, make_trial, shown_by_sample

SETTINGS = {"alpha": 0.5, "beta": 0.5, "aligned": False}
OVERLAP, N_FOLDS, REBUILD, COMMIT = 0.5, 5, 5.0, 1.0
# Samples of the batch that are most similar, and their share in log-odds.
NEIGHBOURS, NEIGHBOURS_SHARE = 10, 0.2
PAIRS = list(combinations(range(N_FOLDS), 2))
METRICS = ("AP", "1-RL", "label AP")


def histogram_roots(X, n_roots):
    for _ in range(n_roots):
        X = normalize(X, p=1, dim=1).sqrt()
    return X


def components(train, test, kernel):
    """Components of the rows in the space of a kernel, or, with None, of the rows themselves."""
    if kernel is None:
        K, k = train @ train.T, test @ train.T
    else:
        distance = {
            "laplacian": lambda A, B: torch.cdist(A, B, p=1.0),
            "hellinger": lambda A, B: torch.cdist(A, B).square(),
            "chi2": _chi2,
        }[kernel]
        D, d = distance(train, train), distance(test, train)
        gamma = 1 / D[:1000, :1000][tuple(torch.triu_indices(1000, 1000, 1))].median()
        K, k = (-gamma * D).exp(), (-gamma * d).exp()
    centre = K.mean(dim=0)
    Kc = K - centre - K.mean(dim=1, keepdim=True) + K.mean()
    kc = k - centre - k.mean(dim=1, keepdim=True) + K.mean()
    return Kc, kc


def _chi2(A, B):
    return torch.cat(
        [
            ((a[:, None] - B).square() / (a[:, None] + B).clamp(min=1e-30)).sum(-1)
            for a in A.split(64)
        ]
    )


def make_features(trial, kind, device):
    """{view: features} of training and of test rows."""
    kernel = {"roots": None, "eighth": None}.get(kind, kind)
    n_roots = {"laplacian": 1, "hellinger": 1, "chi2": 0, "roots": 2, "eighth": 3}[kind]
    found = {}, {}
    for view, X in trial.X_train.items():
        rows = [torch.from_numpy(A).to(device) for A in (X, trial.X_test[view])]
        rows = [histogram_roots(A, n_roots) if n_roots else normalize(A, p=1, dim=1) for A in rows]
        K, k = components(*rows, kernel)
        n = 400 if kernel else 200
        values, U = torch.linalg.eigh(K)
        n = min(n, int((values > 1e-9 * values[-1]).sum()))
        values, U = values[-n:].flip(0), U[:, -n:].flip(1)
        axes = U / values.sqrt()
        for of, A in zip(found, (K, k), strict=True):
            F = A @ axes
            of[view] = (F if kernel else normalize(F, dim=1)).cpu().numpy()
    return found


EXTRA = {}  # terms of the loss that modules add, by name


class Codebook(nn.Module):
    """The nearest token of each 4 numbers of a row; tokens are moving averages of such numbers."""

    tokens = None

    def __init__(self, n_tokens=2048, width=4, decay=0.99):
        super().__init__()
        self.n_tokens, self.width, self.decay = n_tokens, width, decay

    def forward(self, rows):
        x = rows.detach().reshape(len(rows), -1, self.width)
        if self.tokens is None:
            chosen = torch.randint(x.shape[1], (self.n_tokens,), device=x.device)
            self.tokens = x[:, chosen].clone()
            self.counts, self.sums = torch.ones_like(self.tokens[..., 0]), self.tokens.clone()
        half = self.tokens.square().sum(-1) / 2
        nearest = torch.cat(
            [(p @ self.tokens.mT - half[:, None]).argmax(-1) for p in x.split(2**17, dim=1)], dim=1
        )
        index = nearest + torch.arange(len(x), device=x.device)[:, None] * self.n_tokens
        found = self.tokens.reshape(-1, self.width)[index].view(rows.shape)
        if not self.training:
            return found
        flat = index.flatten()
        counts = (
            torch.zeros_like(self.counts)
            .flatten()
            .index_add_(0, flat, torch.ones_like(flat, dtype=x.dtype))
        )
        sums = (
            torch.zeros_like(self.sums)
            .view(-1, self.width)
            .index_add_(0, flat, x.reshape(-1, self.width))
        )
        self.counts = self.decay * self.counts + (1 - self.decay) * counts.view_as(self.counts)
        self.sums = self.decay * self.sums + (1 - self.decay) * sums.view_as(self.sums)
        self.tokens = self.sums / self.counts.clamp(min=1e-5)[..., None]
        _add("commit", COMMIT * (rows - found).square().mean(-1).sum(-1))
        return rows + (found - rows).detach()


def _add(name, value):
    EXTRA[name] = EXTRA.get(name, 0) + value


class Rebuilding(nets.SkipEncoder):
    """Encoder that also rebuilds its features from its last hidden layer."""

    def forward(self, features):
        found = super().forward(features)
        if self.training:
            rebuilt = self.decoder(found[..., -self.decoder[0].in_features :])
            clean = (features - self.centre) / self.scale
            _add("rebuild", REBUILD * (rebuilt - clean).square().mean(-1).sum(-1))
        return found


class Loss(NAIM3LLoss):
    """Logistic loss of soft labels, with the terms that modules add.

    Labels above 1.5 are those of unknown entries, plus 2.
    """

    def _terms(self, A, Y, share, label_shares):
        found = super()._terms(A, Y, share, label_shares)
        found |= {name: value / share for name, value in EXTRA.items()}
        EXTRA.clear()
        return found

    def _data_term(self, A, Y):
        filled = Y > 1.5
        target = torch.where(filled, Y - 2, Y).nan_to_num(0.0)  # NaN would spread to gradients
        entries = 2 * (softplus(A) - target * A) * torch.where(filled, self.filled_weight, 1.0)
        return torch.where(Y.isnan(), 0, entries).sum(dim=(-2, -1))

    filled_weight = 0.5


class Case:
    """A split: its trial, problem and folds, and the members that were trained."""

    def __init__(self, source, seed, device, arguments):
        settings = SETTINGS | {"seed": seed}
        self.trial = make_trial(source, draw_challenge(source, settings), features="raw", seed=seed)
        self.seed, self.device, self.arguments = seed, device, arguments
        tables = [np.where(np.isnan(Y), 0, 2 * Y - 1) for Y in self.trial.Y_train.values()]
        self.problem = as_scores(Problem([np.zeros((len(Y), 1)) for Y in tables], tables))
        rng = np.random.RandomState(seed)
        self.folds = Folds.of(self.problem, hold_out_folds(self.problem, N_FOLDS, rng))
        self.features, self.held_out, self.test = {}, {}, {}
        self.pairs, self.teachers = {}, {}
        self.fold_of_row = self.folds.fold_of.max(axis=1)
        base = np.empty(self.problem.Y.shape)
        for rows, rates in zip(self.problem.row_slices, self.problem.view_rates, strict=True):
            base[rows] = logit(rates)
        self.base, self.truth = base, self.problem.truth_of(self.problem.Y != 0)

    def add(self, name):
        """Train a member, and keep its calibrated log-odds."""
        kind, *changes = name.split("+")
        if kind not in self.features:
            self.features[kind] = make_features(self.trial, kind, self.device)
        train, test = self.features[kind]
        trainer = self._trainer(train, changes)
        trainer.run()
        scores = trainer.scores()
        final, held_out = scores[0], self.folds.scores(list(scores[1 : 1 + N_FOLDS]), scores[0])
        tables = HeldOutScores.of_views(self.problem, held_out, final)
        curves = fit_calibrations(tables, self.problem.view_rates)
        self.held_out[name] = self._log_odds(curves, held_out)
        if len(scores) > 1 + N_FOLDS:
            self.pairs[name] = [
                self._log_odds(curves, self._without(scores, i)) for i in range(N_FOLDS)
            ]
        self.test[name] = {
            view: of.log_odds(network.score_rows(X, self.device, view)[0])
            for (view, X), of, network in zip(test.items(), curves, trainer.networks, strict=True)
        }

    def _log_odds(self, curves, scores):
        parts = [scores[rows] for rows in self.problem.row_slices]
        return np.concatenate([of.log_odds(S) for of, S in zip(curves, parts, strict=True)])

    def _without(self, scores, i):
        """Scores of the rows of each other fold by the fit without it and fold i; NaN in fold i."""
        at = {pair: 1 + N_FOLDS + k for k, pair in enumerate(PAIRS)}
        fits = [
            scores[1 + i] if i == j else scores[at[min(i, j), max(i, j)]] for j in range(N_FOLDS)
        ]
        found = self.folds.scores(fits, scores[0])
        found[self.fold_of_row == i] = np.nan
        return found

    def _trainer(self, train, changes):
        seed = self.seed + 1000 * sum(
            int(of[1:]) for of in changes if of[0] == "s" and of[1:].isdigit()
        )
        torch.manual_seed(seed)
        network = Network(self.arguments.hidden, noise=0.4, shared_head=True)
        networks = nets.make_networks(None, train, self.problem.n_labels, network)
        encoders = [of.encoder for of in networks.values()]
        if "layer" in changes:
            for encoder in encoders:
                encoder.layers[4] = encoders[0].layers[4]
        if "codebook" in changes:
            codebook = Codebook()
            for encoder in encoders:
                encoder.layers[6] = codebook
        if "rebuild" in changes:
            width = network.hidden[-1]
            shared = nets.Linear(width, width)
            for encoder in encoders:
                own = nets.Linear(width, len(encoder.centre))
                encoder.decoder = nn.Sequential(shared, nn.ReLU(), own)
                encoder.__class__ = Rebuilding
        Y = self.problem.Y
        labels = [Y, *(np.where(self.folds.hidden(i), 0, Y) for i in range(N_FOLDS))]
        filled = "soft" in changes or "filled" in changes
        if self.arguments.pairs and not filled and len(self.pairs) < 2:
            hidden = self.folds.hidden
            labels += [np.where(hidden(i) | hidden(j), 0, Y) for i, j in PAIRS]
        loss = Loss(0.0, data_term="logistic")
        options = Training(max_epochs=self.arguments.epochs)
        trainer = Trainer(networks, train, labels, loss, options, seed, self.device)
        known = [(of, self.problem.with_labels(of).base_rates) for of in labels]
        for of_view, rows in zip(trainer.networks, self.problem.row_slices, strict=True):
            priors = [nets.prior_scores(of[rows], rates, loss) for of, rates in known]
            of_view.head.bias.data.copy_(torch.stack(priors))
        loss.filled_weight = 1.0 if "sure" in changes else 0.5
        if filled:
            truth = self._filled(labels, bridged="soft" in changes)
            sizes = [len(X) for X in train.values()]
            trainer._truth = truth.to(self.device).split(sizes, dim=1)
        return trainer

    def _teachers(self, i, bridged):
        """Probabilities for students without fold i (-1: none), NaN in its rows."""
        names = list(self.pairs)
        L = np.stack([self.held_out[n] if i < 0 else self.pairs[n][i] for n in names])
        held_out = np.stack([self.held_out[name] for name in names])
        L, found = blend(L, self.base, blend_weights(held_out, self.base, self.truth)), []
        tables = [(L[rows], self.truth[rows]) for rows in self.problem.row_slices]
        bridge = learn_bridge([(of, np.where(np.isnan(of), np.nan, Y)) for of, Y in tables])
        for of, Y in tables:
            seen = np.isfinite(of).all(axis=1)
            found.append(np.where(seen[:, None], expit(of), np.nan))
            if bridged:
                found[-1][seen] = expit(bridge.log_odds(of[seen], Y[seen]))
        return np.concatenate(found)

    def _filled(self, labels, bridged):
        """Labels of each fit, whose unknown entries are probabilities + 2; NaN in its own fold."""
        if bridged not in self.teachers:
            folds = range(-1, N_FOLDS)
            self.teachers[bridged] = [self._teachers(i, bridged) for i in folds]
        found = []
        for Y, P in zip(labels, self.teachers[bridged], strict=True):
            truth = np.where(Y == 0, np.nan, Y > 0)
            found.append(np.where(np.isnan(truth) & ~np.isnan(P), P + 2, truth))
        return torch.from_numpy(np.array(found, dtype=np.float32))

    def blended(self, names):
        """Log-odds of held-out entries, and of test rows by view."""
        held_out = np.stack([self.held_out[name] for name in names])
        W = np.full((len(names), self.problem.n_labels), 1 / len(names))
        if len(names) > 1:
            W = blend_weights(held_out, self.base, self.truth)
        test = {}
        for v, view in enumerate(self.test[names[0]]):
            rows = np.stack([self.test[name][view] for name in names])
            test[view] = blend(rows, logit(self.problem.view_rates[v]), W)
        return blend(held_out, self.base, W), test

    def metrics(self, names):
        """Metrics by way of fusion."""
        views = self.blended(names)[1]
        log_odds = shown_by_sample(self.trial, views)
        base = logit(self.problem.base_rates)
        by_pairs = add_evidence(log_odds, base, learn_covariance(log_odds, base))
        fused = {
            "overlap": add_evidence(log_odds, base, OVERLAP),
            "pairs": by_pairs,
            "neighbours": with_neighbours(by_pairs, base),
        }
        return {way: self._measured(F) for way, F in fused.items()}

    def _measured(self, fused):
        values = evaluate(self.trial.truth, fused, protocol="fused")
        seen = np.isfinite(fused).all(axis=1)
        truth = self.trial.truth[seen]
        labels = np.flatnonzero(truth.any(axis=0))
        precisions = [average_precision_score(truth[:, k], fused[seen, k]) for k in labels]
        return [100 * x for x in (values["AP"], values["1-RL"], np.mean(precisions))]


def with_neighbours(fused, base):
    """Log-odds of which a share is the mean of those of samples with similar probabilities."""
    seen = np.flatnonzero(np.isfinite(fused).all(axis=1))
    P = expit(fused[seen])
    P /= np.linalg.norm(P, axis=1, keepdims=True)
    similar = P @ P.T
    np.fill_diagonal(similar, -1)
    nearest = np.argsort(-similar, axis=1)[:, :NEIGHBOURS]
    weights = np.take_along_axis(similar, nearest, axis=1) ** 2
    weights /= weights.sum(axis=1, keepdims=True)
    means = np.einsum("rn,rnk->rk", weights, fused[seen][nearest])
    found = fused.copy()
    found[seen] = (1 - NEIGHBOURS_SHARE) * fused[seen] + NEIGHBOURS_SHARE * means
    return found


def run(source, seed, arguments):
    """Records of a split: the metrics of each member and blend, by way of fusion."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    case, found = Case(source, seed, device, arguments), []
    for name in arguments.members:
        start = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about rare labels, as expected
            case.add(name)
        found.append({"models": name, "metrics": case.metrics([name])})
        progress(f"seed {seed}: {name} ({perf_counter() - start:.1f} s)")
    for names in arguments.blends:
        metrics = case.metrics(names.split(","))
        found.append({"models": names.replace(",", ", "), "metrics": metrics})
    return [{"seed": seed} | record for record in found]


def print_means(records):
    by_models = defaultdict(list)
    for record in records:
        by_models[record["models"]].append(record["metrics"])
    for way in records[0]["metrics"] if records else ():
        rows = []
        for name, found in by_models.items():
            values = np.array([of[way] for of in found])
            texts = [
                f"{m:.2f} ({s:.2f})" for m, s in zip(values.mean(0), values.std(0), strict=True)
            ]
            rows.append(
                {"models": name, **dict(zip(METRICS, texts, strict=True)), "seeds": len(found)}
            )
        print_table(f"Fusion: {way}. Test rows, percent, mean (standard deviation).", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11])
    parser.add_argument("--members", nargs="+", default=["laplacian", "roots"])
    parser.add_argument("--blends", nargs="*", default=["laplacian,roots"])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--hidden", nargs="+", type=int, default=[2048, 1024])
    parser.add_argument(
        "--pairs", action="store_true", help="for soft: train without pairs of folds"
    )
    parser.add_argument("--runs", help="JSON lines to keep; seeds that it has are not run again")
    arguments = parser.parse_args()
    print_machine()
    source, kept = open_dataset("corel5k", arguments.data), Path(arguments.runs or os.devnull)
    lines = kept.read_text().splitlines() if kept.exists() else []
    records = [json.loads(line) for line in lines]
    for seed in arguments.seeds:
        if seed not in {record["seed"] for record in records}:
            found = run(source, seed, arguments)
            records += found
            with kept.open("a") as file:
                file.writelines(json.dumps(record) + "\n" for record in found)
    print_means([record for record in records if record["seed"] in arguments.seeds])


if __name__ == "__main__":
    main()
