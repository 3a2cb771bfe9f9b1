"""Training of the networks of all views on batches of rows; it can be interrupted and resumed.

All random numbers of epoch e depend only on the seed and e. So training that resumes from a
checkpoint ends at the same weights, and the caller's generators are not changed.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from naim3l._arrays import Mask
from naim3l.decisions.held_out import hold_out_folds
from naim3l.deep.loss import NAIM3LLoss
from naim3l.deep.networks import (
    Arrays,
    Options,
    SkipEncoder,
    ViewNetwork,
    as_tensor,
    load_arrays,
    named_failures,
    row_of_view,
    score_rows,
    state_arrays,
)
from naim3l.estimators.coupled import FACTOR
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
    """Networks, their optimiser, and the history of their training.

    Parameters
    ----------
    networks : mapping of view to ViewNetwork
        Trained in place.
    features : mapping of view to ndarray or CSR array of shape (n_rows, n_features)
    labels : mapping of view to ndarray of shape (n_rows, n_labels)
        1 = yes, -1 = no, 0 = unknown.
    loss, options, seed, device

    Attributes
    ----------
    history, best_epoch
        As ``history_`` and ``best_epoch_`` of `DeepNAIM3L`. The first epoch is the best one as long
        as all losses on held-out entries are NaN or infinity.
    best_state : list of dict of str to ndarray
        Weights of each view after the best epoch.
    """

    def __init__(
        self,
        networks: Mapping[str, ViewNetwork],
        features: Mapping[str, Any],
        labels: Mapping[str, NDArray[Any]],
        loss: NAIM3LLoss,
        options: Training,
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        self.views = list(features)
        self.networks = [networks[view].to(device) for view in features]
        self.loss, self.options, self.seed, self.device = loss, options, seed, device
        self.features = list(features.values())
        # Dense features are on the device; sparse rows are converted batch by batch.
        self._rows = [X if sparse.issparse(X) else as_tensor(X, device) for X in self.features]
        self._truth = [as_tensor(np.where(Y == 0, np.nan, Y > 0), device) for Y in labels.values()]
        self.positives = [Y > 0 for Y in labels.values()]
        self.n_rows = sum(map(len, self.positives))
        self._n_positive = torch.stack([(Y > 0).sum(dim=0) for Y in self._truth]).sum(dim=0)
        # The user's modules may normalise over rows, which needs at least two.
        self._least = [1 if isinstance(n.encoder, SkipEncoder) else 2 for n in self.networks]
        self.n_batches = count_batches([*map(len, self.positives)], options.batch_size, self._least)
        enough = max(LEAST_EPOCHS, -(-LEAST_STEPS // self.n_batches))
        given = options.max_epochs
        self.max_epochs = enough if isinstance(given, str) else given
        self.optimizer = self._make_optimizer()
        self.history: list[dict[str, float]] = []
        self.best_epoch, self.best_value = 0, math.inf
        self.best_state: list[Arrays] = []

    def run(
        self,
        *,
        judge: Callable[[NDArray[np.float64]], float] | None = None,
        last_epoch: int | None = None,
        checkpoint: Checkpoint | None = None,
        callback: Callable[[Mapping[str, float]], None] | None = None,
    ) -> bool:
        """Train until all epochs are done, patience runs out, or the user interrupts.

        Parameters
        ----------
        judge : callable, optional
            Maps the stacked scores of the rows of all views to a number; smaller is better.
        last_epoch : int, optional
            Stop after this epoch, with the learning rates of all epochs.
        checkpoint : Checkpoint, optional
        callback : callable, optional
            Called with the record of each epoch.

        Returns
        -------
        bool
            Whether it was interrupted. The networks have the weights of the best epoch so far.
        """
        self._resume(checkpoint)
        interrupted = False
        try:
            with own_random_numbers(self.device):
                while not self._done(judge, last_epoch):
                    record = self._run_epoch(len(self.history))
                    self._note(record, judge)
                    if checkpoint is not None:
                        checkpoint.offer(_SECTION, self._state)
                    if callback is not None:
                        callback(record)
            if checkpoint is not None:
                checkpoint.put(_SECTION, self._state())
        except KeyboardInterrupt:
            interrupted = True
        # There is no best state before the end of the first epoch.
        for network, arrays in zip(self.networks, self.best_state, strict=False):
            load_arrays(network, arrays)
        return interrupted

    def scores(self) -> NDArray[np.float64]:
        """Scores of the rows of all views, stacked, (n_rows, n_labels)."""
        parts = zip(self.networks, self.features, self.views, strict=True)
        return np.concatenate([score_rows(net, X, self.device, view) for net, X, view in parts])

    def _done(self, judge: Any, last_epoch: int | None) -> bool:
        n_epochs = len(self.history)
        if n_epochs >= min(last_epoch or self.max_epochs, self.max_epochs):
            return True
        return judge is not None and n_epochs - self.best_epoch >= self.options.patience > 0

    def _note(self, record: dict[str, float], judge: Any) -> None:
        """Add the record of an epoch, and keep the weights if they are the best."""
        value = -math.inf
        if judge is not None:
            value = record["held_out"] = judge(self.scores())
        self.history.append(record)
        if judge is None or not self.best_state or value < self.best_value:
            # No number compares as less than NaN, but any number is better.
            self.best_value = math.inf if math.isnan(value) else value
            self.best_epoch = len(self.history)
            self.best_state = [state_arrays(network) for network in self.networks]

    # One epoch.

    def _run_epoch(self, epoch: int) -> dict[str, float]:
        rng = np.random.default_rng([self.seed, epoch])
        seed_torch(int(rng.integers(2**63 - 1)), self.device)
        for network in self.networks:
            network.train()
        totals = torch.zeros(3, dtype=torch.float64)
        for b, batch in enumerate(deal_batches(self.positives, self.n_batches, rng, self._least)):
            rate = self._learning_rate(epoch * self.n_batches + b)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            parts = self._step(batch)
            totals += torch.stack(list(parts.values())).detach().cpu()
        terms = dict(zip(parts, (totals / self.n_batches).tolist(), strict=True))
        return {"objective": sum(terms.values()), **terms, "learning_rate": rate}

    def _step(self, batch: list[Rows]) -> dict[str, Tensor]:
        scores, truth = [], []
        with torch.autocast("cuda", torch.bfloat16, enabled=self._amp):
            for v, rows in enumerate(batch):
                if len(rows):
                    scores.append(self._score(v, rows))
                    truth.append(self._truth[v][torch.from_numpy(rows).to(self.device)])
        A, Y = torch.cat(scores), torch.cat(truth)
        if not bool((A.abs() < LARGEST_SCORE).all()):  # false for NaN, too
            self._refuse(batch, A)
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
        with named_failures(self.views[v], f"in training on a batch of {len(rows)} of its rows"):
            scores = self.networks[v](self._take(v, rows)).float()
        if scores.shape != (len(rows), self._truth[v].shape[1]):
            raise ValueError(
                f"view {self.views[v]!r}: its encoder must return (n_rows, n_outputs) in training, "
                f"too; {len(rows)} rows give scores of shape {tuple(scores.shape)}."
            )
        return scores

    def _refuse(self, batch: list[Rows], A: Tensor) -> None:
        """Raise an error for the first view of a batch whose scores in ``A`` cannot be used."""
        blocks = A.detach().split([len(rows) for rows in batch])
        v = next(v for v, B in enumerate(blocks) if not bool((B.abs() < LARGEST_SCORE).all()))
        encoder, view, epoch = self.networks[v].encoder, self.views[v], len(self.history) + 1
        advice = "lower learning_rate, or scale the features"
        if not isinstance(encoder, SkipEncoder):
            with torch.no_grad():
                encoded = encoder(self._take(v, batch[v]))
            cell = first_cell(~encoded.isfinite().cpu().numpy())
            if cell is not None:
                raise FloatingPointError(
                    f"{row_of_view(view, batch[v][cell[0]])}: its encoder returns "
                    f"{float(encoded[cell])} in epoch {epoch}; it must return finite numbers. If "
                    f"it did so before training, {advice}."
                )
        i, k = first_cell(~(blocks[v].abs() < LARGEST_SCORE).cpu().numpy()) or (0, 0)
        raise FloatingPointError(
            f"training diverged in epoch {epoch}: {row_of_view(view, batch[v][i])}, has a score of "
            f"{float(blocks[v][i, k]):g}, where {LARGEST_SCORE:g} is the most; {advice}."
        )

    @property
    def _amp(self) -> bool:
        return self.options.amp and self.device.type == "cuda"

    def _take(self, v: int, rows: Rows) -> Tensor:
        X = self._rows[v]
        if isinstance(X, Tensor):
            return X[torch.from_numpy(rows).to(self.device)]
        return as_tensor(X[rows], self.device)

    def _learning_rate(self, step: int) -> float:
        progress = (step + 1) / (self.n_batches * self.max_epochs)
        if progress < WARM_UP:
            factor = 0.1 + 0.9 * progress / WARM_UP
        else:
            factor = 0.5 * (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP)))
        return self.options.learning_rate * factor

    def _make_optimizer(self) -> torch.optim.AdamW:
        # A dict, because views may share an output layer.
        parameters = dict.fromkeys(p for network in self.networks for p in network.parameters())
        weights = [p for p in parameters if p.requires_grad]
        decay = self.options.weight_decay
        groups = [
            {"params": [p for p in weights if p.ndim > 1], "weight_decay": decay},
            {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=self.options.learning_rate)

    # Checkpoints.

    def _state(self) -> Arrays:
        """Everything that a resumed training needs, after at least one epoch."""
        arrays = {"best": np.array([self.best_epoch, self.best_value])}
        for name in self.history[0]:
            arrays[f"history {name}"] = np.array([record[name] for record in self.history])
        for v, network in enumerate(self.networks):
            arrays |= {f"network {v} {name}": a for name, a in state_arrays(network).items()}
            arrays |= {f"best {v} {name}": a for name, a in self.best_state[v].items()}
        for i, state in self.optimizer.state_dict()["state"].items():
            arrays |= {f"optimizer {i} {name}": t.cpu().numpy() for name, t in state.items()}
        return arrays

    def _resume(self, checkpoint: Checkpoint | None) -> None:
        arrays = None if checkpoint is None else checkpoint.get(_SECTION)
        if arrays is None:
            return
        self.best_epoch, self.best_value = int(arrays["best"][0]), float(arrays["best"][1])
        history = {name: a.tolist() for name, a in _under(arrays, "history ").items()}
        columns = zip(*history.values(), strict=True)
        self.history = [dict(zip(history, values, strict=True)) for values in columns]
        for v, network in enumerate(self.networks):
            load_arrays(network, _under(arrays, f"network {v} "))
        self.best_state = [_under(arrays, f"best {v} ") for v in range(len(self.networks))]
        state = self.optimizer.state_dict()
        n_tensors = sum(len(group["params"]) for group in state["param_groups"])
        state["state"] = {
            i: {name: torch.tensor(a) for name, a in moments.items()}
            for i in range(n_tensors)
            if (moments := _under(arrays, f"optimizer {i} "))
        }
        self.optimizer.load_state_dict(state)


def _under(arrays: Arrays, prefix: str) -> Arrays:
    """Arrays under a prefix, without it."""
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}


@contextmanager
def own_random_numbers(device: torch.device, seed: int | None = None) -> Iterator[None]:
    """Restore the state of torch's generators, which may be seeded inside, on exit."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if seed is not None:
            seed_torch(seed, device)
        yield


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed the generators that `own_random_numbers` restores, and no others."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


# Entries held out of the training, and the loss of networks on them.


def hold_out_validation(problem: Problem, share: float, rng: np.random.RandomState) -> Mask:
    """Mask of the known entries to judge networks on, of the shape of ``problem.Y``.

    At least one entry is held out if possible. With a share of at most 0.5, no two consecutive
    entries are held out, so no label loses all its positives.
    """
    part_of, n_parts = hold_out_folds(problem, N_PARTS, rng), max(1, round(share * N_PARTS))
    # The parts are evenly spaced. Entries of a label are in consecutive parts, so holding out the
    # first parts would take all entries of some labels and none of others.
    hidden = (part_of >= 0) & (part_of * n_parts % N_PARTS < n_parts)
    if not hidden.any():
        raise ValueError(
            f"validation={share:g}: too few labels are known to hold some of them out."
        )
    return hidden


def loss_of_hidden(problem: Problem, hidden: Mask, loss: NAIM3LLoss) -> Callable[[Any], float]:
    """Function of stacked scores (n_rows, n_labels): their mean loss on hidden entries.

    It is the data term alone: most rows have at most one hidden entry, so a ranking metric would be
    too noisy to choose an epoch.
    """
    truth, n_hidden = torch.from_numpy(problem.truth_of(hidden)), int(hidden.sum())
    return lambda scores: float(loss._data_term(torch.from_numpy(scores), truth)) / n_hidden


# Batches of rows, drawn separately for each view, in which every label has rows.


def count_batches(n_rows: Sequence[int], batch_size: int, least: Sequence[int]) -> int:
    """Number of batches in an epoch, which is determined by the view with the most rows.

    With ``least`` as for `deal_batches`, it is limited so that at least one view can be in all
    batches.
    """
    most = max(n // few for n, few in zip(n_rows, least, strict=True))
    return max(1, min(-(-max(n_rows) // batch_size), most))


def deal_batches(
    positives: Sequence[Mask], n_batches: int, rng: np.random.Generator, least: Sequence[int]
) -> list[list[Rows]]:
    """Rows of each view in each batch of one epoch; rows of different views are not matched.

    Every row is in one batch. Rows with the same rarest label are distributed in turn, so that
    labels are spread evenly. If a label has no row of any view in a batch, one of its rows is drawn
    at random and added; that row is then in more than one batch.

    Parameters
    ----------
    positives : sequence of bool ndarray, each of shape (n_rows_v, n_labels)
        Where a label is observed positive.
    n_batches, rng
    least : sequence of int
        Minimum number of rows of each view in a batch, if the view has that many rows. To reach it,
        a view may be left out of some batches, and a row that is added for its label brings other
        rows with it.
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
                batch[v] = _join_others(batch[v], len(positives[v]), few, rng)
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


def _join_others(rows: Rows, n_rows: int, least: int, rng: np.random.Generator) -> Rows:
    """Rows of a view in a batch, with random additional rows if there are some but too few."""
    if not 0 < len(rows) < least:
        return rows
    others = np.setdiff1d(np.arange(n_rows), rows)
    n_more = min(least - len(rows), len(others))
    return np.append(rows, rng.choice(others, n_more, replace=False))
