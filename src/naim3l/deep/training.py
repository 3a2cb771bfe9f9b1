"""Training of the networks of all views on batches of rows; it can be interrupted and resumed.

All random numbers of epoch e depend only on the seed and e, so that resumed training is the same.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from naim3l._arrays import Arrays, Mask, Matrix
from naim3l._device import free_memory
from naim3l.decisions.held_out import hold_out_folds
from naim3l.deep import networks as nets
from naim3l.deep.loss import NAIM3LLoss
from naim3l.deep.networks import ROWS_AT_ONCE, Options, Perturbation, ViewNetwork, as_tensor
from naim3l.estimators.linear import FACTOR
from naim3l.files.checkpoint import Checkpoint, fingerprint
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
# Networks that are trained together may take this share of the free memory of a device, or these
# bytes on a CPU: there, large ones are as fast one by one, as products of matrices take the time.
DEVICE_SHARE, CPU_BYTES = 0.25, 2**30
# Labels are 1 and -1; beyond this, squares of scores have no correct digits in float32.
LARGEST_SCORE = 1e9
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
    """A stack of networks that are trained together, their optimiser, and their history.

    All have the same ``networks`` by view to start from, and the same rows with other labels.
    Features by view are ndarrays or CSR arrays (n_rows_v, n_features); labels of each network,
    (n_rows, n_labels), stacked over the views, are 1 = yes, -1 = no, 0 = unknown. The batches of a
    network depend on the seed and its own labels, so that up to rounding it becomes what it would
    be in a stack of its own. ``history`` and ``best_epoch`` are as in `DeepNAIM3L`, and those of
    the first network.
    """

    def __init__(
        self,
        networks: Mapping[str, ViewNetwork],
        features: Mapping[str, Any],
        labels: Sequence[NDArray[Any]],
        loss: NAIM3LLoss,
        options: Training,
        seed: int,
        device: torch.device,
    ) -> None:
        self.views, self.features = list(features), list(features.values())
        self.loss, self.options, self.seed, self.device = loss, options, seed, device
        one, n = nn.ModuleList(networks[view] for view in features), len(labels)
        self.networks = nets.stacked(one, n).to(device)
        # Dense rows are on the device; sparse ones are converted batch by batch.
        self._rows = [X if sparse.issparse(X) else as_tensor(X, device) for X in self.features]
        n_rows = [X.shape[0] for X in self.features]
        self.n_rows, tables = sum(n_rows), [np.split(Y, np.cumsum(n_rows)[:-1]) for Y in labels]
        signed = torch.from_numpy(np.stack(labels).astype(np.int8)).to(device)
        truth = torch.where(signed == 0, torch.nan, (signed > 0).float())
        self._truth, self._n_positive = truth.split(n_rows, dim=1), (truth > 0).sum(dim=1)
        self._each = torch.arange(n, device=device)[:, None]
        # The user's modules may normalise over rows, which needs at least two, and learn from all.
        own = [nets.is_own(network) for network in self.networks]
        self._least, whole = [1 + of for of in own], any(own) or loss.lam > 0
        self.n_batches = m = count_batches(n_rows, options.batch_size, self._least)
        self._batches = [Batches(of, m, self._least, whole=whole) for of in tables]
        for network, rows in zip(self.networks, n_rows, strict=True):
            for module in network.modules():
                if isinstance(module, Perturbation):
                    module.n_drawn = max(1, -(-rows // m))
        enough = max(LEAST_EPOCHS, -(-LEAST_STEPS // self.n_batches))
        self.max_epochs = enough if isinstance(options.max_epochs, str) else options.max_epochs
        matrices = {name for name, weight in one.named_parameters() if weight.ndim > 1}
        groups: list[dict[str, Any]] = [{"params": []}, {"params": [], "weight_decay": 0.0}]
        for name, weight in self.networks.named_parameters():
            if weight.requires_grad:
                groups[name not in matrices]["params"].append(weight)
        fused = device.type in ("cpu", "cuda")
        self.optimizer = torch.optim.AdamW(
            groups, options.learning_rate, weight_decay=options.weight_decay, fused=fused
        )
        self.history: list[dict[str, float]] = []
        self.best_epoch, self.best_value = 0, math.inf
        self.best_state: dict[str, Tensor] = {}

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
        the scores of the first. ``last_epoch`` ends early, with the learning rates of all epochs.
        """
        if checkpoint is not None:
            section = fingerprint([Y.cpu().numpy() for Y in self._truth], {})
            if (arrays := checkpoint.get(section)) is not None:
                self._resume(arrays)
        n_epochs = last_epoch or self.max_epochs
        try:
            # Without a judge the last epoch is the best one.
            while len(self.history) < min(n_epochs, self.best_epoch + self.options.patience):
                self._run_epoch(len(self.history), judge)
                if checkpoint is not None:
                    checkpoint.offer(section, self._state)
                callback(self.history[-1])
            if checkpoint is not None:
                checkpoint.put(section, self._state())
        finally:
            if self.best_state:
                self.networks.load_state_dict(self.best_state)

    def scores(self) -> NDArray[np.float64]:
        """Scores of the rows of all views, (n_networks, n_rows, n_labels)."""
        found = []
        for view, network, X in zip(self.views, self.networks, self.features, strict=True):
            found.append(network.score_rows(X, self.device, view))
            for scores in found[-1]:
                nets.check_scores(scores, X, partial(nets.row_of_view, view))
        return np.concatenate(found, axis=1)

    def _run_epoch(self, epoch: int, judge: Any) -> None:
        """Train on all batches, add the record, and keep the weights if they are the best."""
        rngs = [np.random.default_rng([self.seed, epoch]) for _ in self._batches]
        seed, *_ = (int(rng.integers(2**63 - 1)) for rng in rngs)  # all are the same
        dealt = [of.deal(rng) for of, rng in zip(self._batches, rngs, strict=True)]
        of_steps = zip(*(of for of, _ in dealt), strict=True)
        batches = [list(map(_padded, *of)) for of in of_steps]
        n_used = np.transpose([n_rows for _, n_rows in dealt]).astype(np.float32)
        # Moved at once, as the device has to be waited for.
        shares = torch.from_numpy(n_used / self.n_rows).to(self.device)
        flat = torch.from_numpy(np.concatenate([rows.ravel() for b in batches for rows in b]))
        places = iter(flat.to(self.device).split([rows.size for b in batches for rows in b]))
        parts, self._largest = list[dict[str, Tensor]](), list[Tensor]()
        with seeded(self.device, seed):
            self.networks.train()
            try:
                for batch, share in zip(batches, shares, strict=True):
                    rate = self._learning_rate(epoch * self.n_batches + len(parts))
                    for group in self.optimizer.param_groups:
                        group["lr"] = rate
                    moved = [next(places).view(rows.shape) for rows in batch]
                    parts.append(self._step(batch, moved, share))
            except torch.linalg.LinAlgError:  # of scores that are not finite
                self._refuse_diverged(batches)
                raise
            self._refuse_diverged(batches)
            names = parts[0]
            terms = {k: float(torch.stack([of[k] for of in parts]).double().mean()) for k in names}
            record = {"objective": sum(terms.values()), **terms, "learning_rate": rate}
            if judge is not None:
                record["held_out"] = judge(self.scores()[0])
        self.history.append(record)
        if judge is None or record["held_out"] < self.best_value:
            self.best_epoch, self.best_value = epoch + 1, record.get("held_out", math.inf)
            self.best_state = {k: of.clone() for k, of in self.networks.state_dict().items()}

    def _step(self, batch: list[Rows], places: list[Tensor], share: Tensor) -> dict[str, Tensor]:
        """Terms of the loss of the first network on a batch, before one step of all networks."""
        # Views of the default encoders draw random numbers even if they have no rows.
        views = [v for v, rows in enumerate(batch) if rows.shape[1] >= self._least[v] - 1]
        amp = self.options.amp and self.device.type == "cuda"
        with torch.autocast("cuda", torch.bfloat16, enabled=amp):
            A = torch.cat([self._score(v, batch[v], places[v]) for v in views], dim=1)
        Y = torch.cat([self._truth[v][self._each, places[v]] for v in views], dim=1)
        pads = (torch.cat([places[v] for v in views], dim=1) < 0).unsqueeze(2)
        A, Y = A.masked_fill(pads, 0), Y.masked_fill(pads, torch.nan)
        self._largest.append(A.detach().abs().amax(dim=2))  # read after the epoch, as reading waits
        label_shares = (Y > 0).sum(dim=1) / self._n_positive.clamp(min=1)
        # Labels have been checked, and with rows that were added for their labels a batch may
        # have more than all rows.
        parts = self.loss._terms(A, Y, share, label_shares)
        self.optimizer.zero_grad()
        # Per row, so that gradients of small and large problems have the same scale.
        (torch.stack(list(parts.values())).sum() / self.n_rows).backward()
        self.optimizer.step()
        return {name: of[0].detach() for name, of in parts.items()}

    def _score(self, v: int, rows: Rows, places: Tensor) -> Tensor:
        # Batch normalisation fails, for example, if a view has only one row.
        with nets.named_failures(self.views[v], f"in training on {rows.shape[1]} of its rows"):
            X = self._rows[v]
            X = X[places] if isinstance(X, Tensor) else as_tensor(X[rows.ravel()], self.device)
            shape = rows.shape[1:] if nets.is_own(self.networks[v]) else rows.shape
            scores = self.networks[v](X.view(*shape, X.shape[-1])).float()
            if scores.shape != (*rows.shape, self._n_positive.shape[1]):
                found = tuple(scores.shape[1:])
                raise ValueError(f"it should return as many, the scores are {found}.")
        return scores

    def _refuse_diverged(self, batches: list[list[Rows]]) -> None:
        """Raise an error for the first row of an epoch whose scores cannot be used."""
        for batch, largest in zip(batches, self._largest, strict=False):
            cell = first_cell(~(largest < LARGEST_SCORE).cpu().numpy())  # true for NaN, too
            if cell is not None:
                pairs = zip(self.views, batch, strict=True)
                rows = [nets.row_of_view(view, row) for view, of in pairs for row in of[cell[0]]]
                raise FloatingPointError(
                    f"training diverged in epoch {len(self.history) + 1}: {rows[cell[1]]}, has a "
                    f"score of {largest[cell]:g}, where {LARGEST_SCORE:g} is the most; lower "
                    "learning_rate, or scale the features. Your own encoder must return finite "
                    "numbers."
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
        parts |= {"best": {name: of.cpu().numpy() for name, of in self.best_state.items()}}
        parts |= {"epoch": {"best": np.array(self.best_epoch)}}
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
        best = parts.pop("best")
        self.best_state = {k: torch.tensor(a, device=self.device) for k, a in best.items()}
        state = self.optimizer.state_dict()
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


def count_together(
    networks: Collection[ViewNetwork], problem: Problem, options: Training, device: torch.device
) -> int:
    """Number of networks that memory holds in a stack; one if the user has encoders of his own."""
    if any(map(nets.is_own, networks)):
        return 1
    weights = [weight for of in networks for weight in of.parameters()]
    rows = max(X.shape[0] for X in problem.X)
    # Gradients, moments and best weights; outputs of layers, in which each unit has a bias and two
    # weights of a norm; labels, scores, and blocks of positives.
    numbers = 6 * sum(weight.numel() for weight in weights)
    width = sum(weight.numel() for weight in weights if weight.ndim == 1)
    numbers += (4 * min(options.batch_size, rows) + min(ROWS_AT_ONCE, rows)) * width
    numbers += 8 * (problem.n_rows + problem.n_positives) * problem.n_labels
    free = free_memory(device)
    return max(1, int((CPU_BYTES if free is None else DEVICE_SHARE * free) / (4 * numbers)))


def count_batches(n_rows: Sequence[int], batch_size: int, least: Sequence[int]) -> int:
    """Number of batches of the longest view, in all of which some view has its ``least`` rows."""
    most = max(n // few for n, few in zip(n_rows, least, strict=True))
    return max(1, min(-(-max(n_rows) // batch_size), most))


class Batches:
    """Batches of the rows of all views, in each of which every label has a row.

    Every row is in one batch. Rows with the same rarest label are distributed in turn, so that
    labels are spread evenly. If a label has no row of any view in a batch, one of its rows is drawn
    at random and added. A batch has no or at least ``least`` rows of a view, if the view has that
    many: it may be left out of some batches, and a row that is added brings others with it.

    Labels of each view, (n_rows_v, n_labels), are 1 = yes, -1 = no, 0 = unknown. Rows without any
    known label are left out if they are not to be ``whole``.
    """

    def __init__(
        self, labels: Sequence[NDArray], n_batches: int, least: Sequence[int], *, whole: bool = True
    ) -> None:
        self.n_batches, self.least = n_batches, least
        self.positives = [Y > 0 for Y in labels]
        self.used = [whole | (Y != 0).any(axis=1) for Y in labels]
        self.counts = np.sum([mask.sum(axis=0) for mask in self.positives], axis=0)
        # Position of each label from rare to common; rows without a positive come last.
        rank, last = np.argsort(np.argsort(self.counts, kind="stable")), len(self.counts)
        of_rows = (np.where(mask, rank, last) for mask in self.positives)
        self.rarest = [ranks.min(axis=1, initial=last) for ranks in of_rows]
        self.first = np.cumsum([0, *map(len, labels)])
        # Stacked rows of the positives, label by label.
        self.rows = np.nonzero(np.concatenate(self.positives).T)[1]

    def deal(self, rng: np.random.Generator) -> tuple[list[list[Rows]], list[int]]:
        """Rows of each view in each batch of one epoch, and their number with those left out."""
        given = zip(self.rarest, self.least, strict=True)
        dealt = [_deal(rarest, self.n_batches, few, rng) for rarest, few in given]
        batches = [[rows[b] for rows in dealt] for b in range(self.n_batches)]
        if self.n_batches > 1:
            for batch in batches:
                self._fill_up(batch, rng)
            for batch in batches:
                for v, few in enumerate(self.least):
                    if 0 < len(batch[v]) < few:
                        others = np.setdiff1d(np.arange(len(self.rarest[v])), batch[v])
                        n_more = min(few - len(batch[v]), len(others))
                        batch[v] = np.append(batch[v], rng.choice(others, n_more, replace=False))
        used = [[r[of[r]] for r, of in zip(b, self.used, strict=True)] for b in batches]
        return used, [sum(map(len, batch)) for batch in batches]

    def _fill_up(self, batch: list[Rows], rng: np.random.Generator) -> None:
        """Add a row of each missing label to a batch, in place."""
        pairs = zip(self.positives, batch, strict=True)
        present = np.any([mask[rows].any(axis=0) for mask, rows in pairs], axis=0)
        missing = np.flatnonzero((self.counts > 0) & ~present)
        drawn = (np.cumsum(self.counts) - self.counts)[missing]
        rows = self.rows[drawn + rng.integers(0, self.counts[missing])]
        for v, (start, end) in enumerate(pairwise(self.first)):
            batch[v] = np.append(batch[v], rows[(start <= rows) & (rows < end)] - start)


def _deal(rarest: Rows, n_batches: int, least: int, rng: np.random.Generator) -> list[Rows]:
    """Rows of one view by batch; each row occurs once."""
    shuffled = rng.permutation(len(rarest))
    order = shuffled[np.argsort(rarest[shuffled], kind="stable")]
    n_own = max(1, min(n_batches, len(order) // least))  # batches that get rows of this view
    batch_of = rng.permutation(n_batches)[np.arange(len(order)) % n_own]
    return [rng.permutation(order[batch_of == b]) for b in range(n_batches)]


def _padded(*rows: Rows) -> Rows:
    """Rows of several networks, (n_networks, n_rows); -1 where one has fewer."""
    most = max(map(len, rows))
    return np.array([np.pad(of, (0, most - len(of)), constant_values=-1) for of in rows])
