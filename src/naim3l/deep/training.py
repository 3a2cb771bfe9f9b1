"""Training of the networks of all views on batches of rows; it can be interrupted and resumed.

All random numbers of epoch e depend only on the seed and e, so that resumed training is the same.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from naim3l._arrays import Arrays, Mask, Matrix
from naim3l.decisions.held_out import hold_out_folds
from naim3l.deep import networks as nets
from naim3l.deep.loss import NAIM3LLoss
from naim3l.deep.networks import Options, SkipEncoder, ViewNetwork, as_tensor
from naim3l.estimators.linear import FACTOR
from naim3l.files.checkpoint import Checkpoint
from naim3l.files.stored import Plain
from naim3l.input.batches import first_cell
from naim3l.problem.rows import Problem

Rows = NDArray[np.intp]

# Share of the steps in which the learning rate rises from a tenth to its full value.
WARM_UP = 0.1
# Minimum numbers of steps and epochs if max_epochs is "auto".
LEAST_STEPS, LEAST_EPOCHS = 50, 25
# Number of parts of the known entries, of which some are held out: shares are accurate to 0.1 %.
N_PARTS = 1000
# Labels are 1 and -1; beyond this, squares of scores have no correct digits in float32.
LARGEST_SCORE = 1e9
_SECTION = "training"  # of a checkpoint
_COUNT = Interval(Integral, 1, None, closed="left")


@dataclass(frozen=True)
class Training(Options):
    """How long and how fast :class:`naim3l.deep.DeepNAIM3L` trains its networks.

    Parameters
    ----------
    max_epochs : int or "auto", default="auto"
        Number of epochs. "auto" is 25, or more if these have fewer than 50 steps.
    batch_size : int, default=256
        Rows of the longest view in a batch; other views are divided into as many batches.
    learning_rate : float, default=1e-3
        Largest learning rate of AdamW. It rises in the first tenth of the steps, and then falls
        along a cosine to zero.
    weight_decay : float, default=1e-2
        Weight decay of AdamW, for weights but not for biases.
    validation : float, default=0.0
        Share of the observed entries to hold out of the training, at most 0.5. The weights are
        then those of the epoch with the lowest loss on these entries.
    patience : int, default=10
        With ``validation``, the number of epochs without improvement after which training ends.
    amp : bool, default=False
        Whether networks compute in bfloat16 during training on CUDA.

    Examples
    --------
    >>> from naim3l.deep import DeepNAIM3L, Training
    >>> DeepNAIM3L(training=Training(max_epochs=100, validation=0.1)).training.batch_size
    256
    """

    max_epochs: int | str = "auto"
    batch_size: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    validation: float = 0.0
    patience: int = 10
    amp: bool = False

    _constraints: ClassVar[dict[str, Any]] = {
        "max_epochs": [_COUNT, StrOptions({"auto"})],
        "batch_size": [_COUNT],
        "learning_rate": [FACTOR],
        "weight_decay": [Interval(Real, 0, 1e10, closed="both")],
        # With more, a fit on the other entries would say little about a fit on all of them.
        "validation": [Interval(Real, 0, 0.5, closed="both")],
        "patience": [_COUNT],
        "amp": ["boolean"],
    }
    _stored: ClassVar[Mapping[str, Any]] = dict.fromkeys(_constraints, Plain())


class Trainer:
    """Networks by view, which are trained in place, their optimiser, and their history.

    Features are ndarrays or CSR arrays (n_rows, n_features); labels (n_rows, n_labels) are 1 = yes,
    -1 = no, 0 = unknown. ``history`` and ``best_epoch`` are as in `DeepNAIM3L`.
    """

    def __init__(
        self,
        networks: Mapping[str, ViewNetwork],
        features: Mapping[str, Any],
        labels: Mapping[str, NDArray[Any]],
        loss: NAIM3LLoss,
        options: Training,
        seed: int,
        device: torch.device,
    ) -> None:
        self.views, self.features = list(features), list(features.values())
        self.networks = nn.ModuleList(networks[view] for view in features).to(device)
        self.loss, self.options, self.seed, self.device = loss, options, seed, device
        # Dense rows are on the device; sparse ones are converted batch by batch.
        self._rows = [X if sparse.issparse(X) else as_tensor(X, device) for X in self.features]
        self._truth = [as_tensor(np.where(Y == 0, np.nan, Y > 0), device) for Y in labels.values()]
        self.positives = [Y > 0 for Y in labels.values()]
        self.n_rows = sum(map(len, self.positives))
        self._n_positive = torch.from_numpy(sum(Y.sum(axis=0) for Y in self.positives)).to(device)
        # The user's modules may normalise over rows, which needs at least two.
        self._least = [1 if isinstance(n.encoder, SkipEncoder) else 2 for n in self.networks]
        self.n_batches = count_batches([*map(len, self.positives)], options.batch_size, self._least)
        enough = max(LEAST_EPOCHS, -(-LEAST_STEPS // self.n_batches))
        self.max_epochs = enough if isinstance(options.max_epochs, str) else options.max_epochs
        weights = [p for p in self.networks.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in weights if p.ndim > 1], "weight_decay": options.weight_decay},
            {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=options.learning_rate)
        self.history: list[dict[str, float]] = []
        self.best_epoch, self.best_value = 0, math.inf
        self.best_state: Arrays = {}

    def run(
        self,
        judge: Callable[[Matrix], float] | None = None,
        checkpoint: Checkpoint | None = None,
        callback: Callable[[Mapping[str, float]], None] = lambda record: None,
        *,
        last_epoch: int | None = None,
    ) -> None:
        """Train until all epochs are done, patience runs out, or the user interrupts.

        The best epoch, of which networks get the weights, is that with the smallest ``judge`` of
        stacked scores. ``last_epoch`` ends early, with the learning rates of all epochs.
        """
        if checkpoint is not None and (arrays := checkpoint.get(_SECTION)) is not None:
            self._resume(arrays)
        n_epochs = last_epoch or self.max_epochs
        try:
            # Without a judge the last epoch is the best one.
            while len(self.history) < min(n_epochs, self.best_epoch + self.options.patience):
                self._run_epoch(len(self.history), judge)
                if checkpoint is not None:
                    checkpoint.offer(_SECTION, self._state)
                callback(self.history[-1])
            if checkpoint is not None:
                checkpoint.put(_SECTION, self._state())
        finally:
            if self.best_state:
                nets.load_arrays(self.networks, self.best_state)

    def scores(self) -> Matrix:
        """Scores of the rows of all views, stacked, (n_rows, n_labels)."""
        found = []
        for view, network, X in zip(self.views, self.networks, self.features, strict=True):
            found.append(network.score_rows(X, self.device, view))
            nets.check_scores(found[-1], X, partial(nets.row_of_view, view))
        return np.concatenate(found)

    def _run_epoch(self, epoch: int, judge: Any) -> None:
        """Train on all batches, add the record, and keep the weights if they are the best."""
        rng = np.random.default_rng([self.seed, epoch])
        totals = torch.zeros(3, dtype=torch.float64)
        with seeded(self.device, int(rng.integers(2**63 - 1))):
            self.networks.train()
            batches = deal_batches(self.positives, self.n_batches, rng, self._least)
            for step, batch in enumerate(batches, epoch * self.n_batches):
                rate = self._learning_rate(step)
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                parts = self._step(batch)
                totals += torch.stack(list(parts.values())).detach().cpu()
            terms = dict(zip(parts, (totals / self.n_batches).tolist(), strict=True))
            record = {"objective": sum(terms.values()), **terms, "learning_rate": rate}
            if judge is not None:
                record["held_out"] = judge(self.scores())
        self.history.append(record)
        if judge is None or record["held_out"] < self.best_value:
            self.best_epoch, self.best_value = epoch + 1, record.get("held_out", math.inf)
            self.best_state = nets.state_arrays(self.networks)

    def _step(self, batch: list[Rows]) -> dict[str, Tensor]:
        amp = self.options.amp and self.device.type == "cuda"
        with torch.autocast("cuda", torch.bfloat16, enabled=amp):
            A = torch.cat([self._score(v, rows) for v, rows in enumerate(batch) if len(rows)])
        Y = torch.cat([Y[rows] for Y, rows in zip(self._truth, batch, strict=True)])
        if not bool((A.abs() < LARGEST_SCORE).all()):  # false for NaN, too
            self._refuse(batch, A.detach().cpu().numpy())
        label_shares = (Y > 0).sum(dim=0) / self._n_positive.clamp(min=1)
        # Labels have been checked, and with rows that were added for their labels a batch may
        # have more than all rows.
        parts = self.loss._terms(A, Y, len(A) / self.n_rows, label_shares)
        self.optimizer.zero_grad()
        # Per row, so that gradients of small and large problems have the same scale.
        (torch.stack(list(parts.values())).sum() / self.n_rows).backward()
        self.optimizer.step()
        return parts

    def _score(self, v: int, rows: Rows) -> Tensor:
        # Batch normalisation fails, for example, if a view has only one row.
        with nets.named_failures(self.views[v], f"in training on {len(rows)} of its rows"):
            X = self._rows[v][rows]
            X = X if isinstance(X, Tensor) else as_tensor(X, self.device)
            scores = self.networks[v](X).float()
            if scores.shape != (len(rows), self._truth[v].shape[1]):
                raise ValueError(f"it should return as many, the scores are {tuple(scores.shape)}.")
        return scores

    def _refuse(self, batch: list[Rows], A: Matrix) -> None:
        """Raise an error for the first of the stacked scores of a batch that cannot be used."""
        i, k = first_cell(~(np.abs(A) < LARGEST_SCORE)) or (0, 0)
        rows = [nets.row_of_view(self.views[v], row) for v, of in enumerate(batch) for row in of]
        raise FloatingPointError(
            f"training diverged in epoch {len(self.history) + 1}: {rows[i]}, has a score of "
            f"{A[i, k]:g}, where {LARGEST_SCORE:g} is the most; lower learning_rate, or scale the "
            "features. Your own encoder must return finite numbers."
        )

    def _learning_rate(self, step: int) -> float:
        progress = (step + 1) / (self.n_batches * self.max_epochs)
        if progress < WARM_UP:
            factor = 0.1 + 0.9 * progress / WARM_UP
        else:
            factor = 0.5 * (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP)))
        return self.options.learning_rate * factor

    def _state(self) -> Arrays:
        """Everything that a resumed training needs, after at least one epoch."""
        columns = {name: np.array([r[name] for r in self.history]) for name in self.history[0]}
        parts = {"history": columns, "network": nets.state_arrays(self.networks)}
        parts |= {"best": self.best_state, "epoch": {"best": np.array(self.best_epoch)}}
        for i, moments in self.optimizer.state_dict()["state"].items():
            parts[str(i)] = {name: t.cpu().numpy() for name, t in moments.items()}
        return {f"{part} {name}": a for part, arrays in parts.items() for name, a in arrays.items()}

    def _resume(self, arrays: Arrays) -> None:
        parts = defaultdict[str, Arrays](dict)
        for name, a in arrays.items():
            part, key = name.split(" ", 1)
            parts[part][key] = a
        history, self.best_epoch = parts.pop("history"), int(parts.pop("epoch")["best"])
        columns = zip(*(a.tolist() for a in history.values()), strict=True)
        self.history = [dict(zip(history, values, strict=True)) for values in columns]
        self.best_value = self.history[self.best_epoch - 1].get("held_out", math.inf)
        nets.load_arrays(self.networks, parts.pop("network"))
        self.best_state, state = parts.pop("best"), self.optimizer.state_dict()
        for i, moments in parts.items():
            state["state"][int(i)] = {name: torch.tensor(a) for name, a in moments.items()}
        self.optimizer.load_state_dict(state)


@contextmanager
def seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch's generators of the CPU and of a device, and restore their state on exit."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def hold_out_validation(problem: Problem, share: float, rng: np.random.RandomState) -> Mask:
    """Mask of the known entries to judge networks on, at least one, of the shape of ``problem.Y``.

    With a share of at most 0.5, no two consecutive ones are, so no label loses all its positives.
    """
    part_of = hold_out_folds(problem, N_PARTS, rng, entries=True)
    held_out, n_parts = part_of >= 0, max(1, round(share * N_PARTS))
    if not held_out.any():
        raise ValueError(f"validation={share:g}: too few labels are known to hold some out.")
    # The parts are evenly spaced, from the first that has entries. Entries of a label are in
    # consecutive parts, so holding out the first parts would take all entries of some labels and
    # none of others.
    first = part_of[held_out].min()
    return held_out & ((part_of - first) * n_parts % N_PARTS < n_parts)


def loss_of_hidden(problem: Problem, hidden: Mask, loss: NAIM3LLoss) -> Callable[[Any], float]:
    """Function of stacked scores (n_rows, n_labels): their mean loss on hidden entries."""
    # The data term alone: most rows have at most one hidden entry, so a ranking metric would be
    # too noisy to choose an epoch.
    truth, n_hidden = torch.from_numpy(problem.truth_of(hidden)), int(hidden.sum())
    return lambda scores: float(loss._data_term(torch.from_numpy(scores), truth)) / n_hidden


def count_batches(n_rows: Sequence[int], batch_size: int, least: Sequence[int]) -> int:
    """Number of batches of the longest view, in all of which some view has its ``least`` rows."""
    most = max(n // few for n, few in zip(n_rows, least, strict=True))
    return max(1, min(-(-max(n_rows) // batch_size), most))


def deal_batches(
    positives: Sequence[Mask], n_batches: int, rng: np.random.Generator, least: Sequence[int]
) -> list[list[Rows]]:
    """Rows of each view in each batch of one epoch, given masks of observed positives.

    Every row is in one batch. Rows with the same rarest label are distributed in turn, so that
    labels are spread evenly. If a label has no row of any view in a batch, one of its rows is drawn
    at random and added. A batch has no or at least ``least`` rows of a view, if the view has that
    many: it may be left out of some batches, and a row that is added brings others with it.
    """
    counts = np.sum([mask.sum(axis=0) for mask in positives], axis=0)
    dealt = [
        _deal(mask, counts, n_batches, few, rng) for mask, few in zip(positives, least, strict=True)
    ]
    batches = [[rows[b] for rows in dealt] for b in range(n_batches)]
    if n_batches > 1:
        _fill_up(batches, positives, counts, rng)
        for batch in batches:
            for v, few in enumerate(least):
                if 0 < len(batch[v]) < few:
                    others = np.setdiff1d(np.arange(len(positives[v])), batch[v])
                    n_more = min(few - len(batch[v]), len(others))
                    batch[v] = np.append(batch[v], rng.choice(others, n_more, replace=False))
    return batches


def _deal(
    mask: Mask, counts: NDArray, n_batches: int, least: int, rng: np.random.Generator
) -> list[Rows]:
    """Rows of one view by batch; each row occurs once."""
    # Position of each label from rare to common; rows without a positive come last.
    rank, n_labels = np.argsort(np.argsort(counts, kind="stable")), len(counts)
    rarest = np.where(mask, rank, n_labels).min(axis=1, initial=n_labels)
    shuffled = rng.permutation(len(mask))
    order = shuffled[np.argsort(rarest[shuffled], kind="stable")]
    n_own = max(1, min(n_batches, len(order) // least))  # batches that get rows of this view
    batch_of = rng.permutation(n_batches)[np.arange(len(order)) % n_own]
    return [rng.permutation(order[batch_of == b]) for b in range(n_batches)]


def _fill_up(
    batches: list[list[Rows]], positives: Sequence[Mask], counts: NDArray, rng: np.random.Generator
) -> None:
    """Add a row of each missing label to each batch, in place."""
    first = np.cumsum([0, *(len(mask) for mask in positives)])
    stacked = np.concatenate(positives)
    for batch in batches:
        taken = [mask[rows].any(axis=0) for mask, rows in zip(positives, batch, strict=True)]
        present = np.any(taken, axis=0)
        for label in np.flatnonzero((counts > 0) & ~present):
            row = rng.choice(np.flatnonzero(stacked[:, label]))
            view = int(np.searchsorted(first, row, side="right")) - 1
            batch[view] = np.append(batch[view], row - first[view])
