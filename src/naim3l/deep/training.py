"""Training of the networks of all views on batches of rows; it can be interrupted and resumed.

All random numbers of epoch e depend only on the seed and e. So training that resumes from a
checkpoint ends at the same weights, and the caller's generators are not changed.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from naim3l.deep.batches import count_batches, deal_batches
from naim3l.deep.loss import NAIM3LLoss
from naim3l.deep.networks import (
    SkipEncoder,
    ViewNetwork,
    as_tensor,
    load_arrays,
    score_rows,
    state_arrays,
)
from naim3l.deep.refusals import describe_divergence, named_failures
from naim3l.files.checkpoint import Checkpoint

Arrays = dict[str, NDArray[Any]]

# Share of the steps in which the learning rate rises from a tenth to its full value.
WARM_UP = 0.1
# Minimum numbers of steps and epochs if max_epochs is "auto".
LEAST_STEPS, LEAST_EPOCHS = 50, 25
# Labels are 1 and -1; beyond this, squares of scores have no correct digits in float32.
LARGEST_SCORE = 1e9
_PART = "training"


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train.

    Attributes
    ----------
    max_epochs : int or "auto"
        "auto" means 25, or more if needed to make 50 steps.
    batch_size : int
        Rows per batch of the view with the most rows; the other views have as many batches.
    learning_rate : float
        Maximum learning rate: it rises in the first steps, then decreases along a cosine to zero at
        ``max_epochs``.
    weight_decay : float
        Weight decay of matrices; biases and scales have none.
    patience : int
        Number of epochs without a better held-out loss after which training ends.
    amp : bool
        Whether networks compute in bfloat16, on CUDA only.
    """

    max_epochs: int | str
    batch_size: int
    learning_rate: float
    weight_decay: float
    patience: int
    amp: bool


class Training:
    """Networks, their optimiser, and the history of their training.

    Parameters
    ----------
    networks : mapping of view to ViewNetwork
        Trained in place.
    features : mapping of view to ndarray or CSR array of shape (n_rows, n_features)
    labels : mapping of view to ndarray of shape (n_rows, n_labels)
        1 = yes, -1 = no, 0 = unknown.
    loss : NAIM3LLoss
    plan : Plan
    seed : int
    device : torch.device

    Attributes
    ----------
    history : list of dict
        One record per epoch: "objective" and its terms "loss", "low_rank", "high_rank", each a
        mean over batches; "learning_rate"; "held_out" if there is a judge.
    best_epoch : int
        Counted from 1; 0 before the first epoch has ended. It is the first epoch as long as the
        judge returns only NaN or infinity.
    best_state : list of dict of str to ndarray
        Weights of each view after the best epoch, or after the last epoch without a judge.
    """

    def __init__(
        self,
        networks: Mapping[str, ViewNetwork],
        features: Mapping[str, Any],
        labels: Mapping[str, NDArray[Any]],
        loss: NAIM3LLoss,
        plan: Plan,
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        self.views = list(features)
        self.networks = [networks[view].to(device) for view in features]
        self.loss, self.plan, self.seed, self.device = loss, plan, seed, device
        self.features = list(features.values())
        # Dense features are on the device; sparse rows are converted batch by batch.
        self._rows = [X if sparse.issparse(X) else as_tensor(X, device) for X in self.features]
        truth = [np.where(Y == 0, np.nan, Y > 0) for Y in labels.values()]
        self._truth = [as_tensor(Y, device) for Y in truth]
        self.positives = [Y > 0 for Y in labels.values()]
        self.n_rows = sum(len(mask) for mask in self.positives)
        self._n_positive = torch.stack([(Y > 0).sum(dim=0) for Y in self._truth]).sum(dim=0)
        # The user's modules may normalise over rows, which needs at least two.
        self._least = [1 if isinstance(n.encoder, SkipEncoder) else 2 for n in self.networks]
        sizes = [len(mask) for mask in self.positives]
        self.n_batches = count_batches(sizes, plan.batch_size, self._least)
        self.max_epochs = (
            max(LEAST_EPOCHS, -(-LEAST_STEPS // self.n_batches))
            if isinstance(plan.max_epochs, str)
            else plan.max_epochs
        )
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
        """Train until the plan is completed, patience runs out, or the user interrupts.

        Parameters
        ----------
        judge : callable, optional
            Maps the stacked scores of the rows of all views to a number; smaller is better.
        last_epoch : int, optional
            Stop after this epoch, with the learning rates of the whole plan.
        checkpoint : Checkpoint, optional
        callback : callable, optional
            Called with the record of each epoch.

        Returns
        -------
        bool
            Whether training was interrupted. In either case, the networks have the weights of the
            best epoch, if one has ended.
        """
        self._resume(checkpoint)
        interrupted = False
        try:
            with own_random_numbers(self.device):
                while not self._done(judge, last_epoch):
                    record = self._run_epoch(len(self.history))
                    self._note(record, judge)
                    if checkpoint is not None:
                        checkpoint.offer(_PART, self._state)
                    if callback is not None:
                        callback(record)
            if checkpoint is not None:
                checkpoint.put(_PART, self._state())
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
        return judge is not None and n_epochs - self.best_epoch >= self.plan.patience > 0

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
        batches = deal_batches(self.positives, self.n_batches, rng, self._least)
        for b, batch in enumerate(batches):
            rate = self._learning_rate(epoch * self.n_batches + b)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            parts = self._step(batch)
            totals += torch.stack(list(parts.values())).detach().cpu()
        loss, low_rank, high_rank = (totals / len(batches)).tolist()
        return {"objective": loss + low_rank + high_rank, "loss": loss, "low_rank": low_rank,
                "high_rank": high_rank, "learning_rate": rate}  # fmt: skip

    def _step(self, batch: list[NDArray[np.intp]]) -> dict[str, Tensor]:
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
        parts = self.loss.terms(A, Y, len(A) / self.n_rows, label_shares)
        self.optimizer.zero_grad()
        # Per row, so that gradients of small and large problems have the same scale.
        (torch.stack(list(parts.values())).sum() / self.n_rows).backward()
        self.optimizer.step()
        return parts

    def _score(self, v: int, rows: NDArray[np.intp]) -> Tensor:
        # Batch normalisation fails, for example, if a view has only one row.
        with named_failures(self.views[v], f"in training on a batch of {len(rows)} of its rows"):
            scores = self.networks[v](self._take(v, rows)).float()
        if scores.shape != (len(rows), self._truth[v].shape[1]):
            raise ValueError(
                f"view {self.views[v]!r}: its encoder must return (n_rows, n_outputs) in training, "
                f"too; {len(rows)} rows give scores of shape {tuple(scores.shape)}."
            )
        return scores

    def _refuse(self, batch: list[NDArray[np.intp]], A: Tensor) -> None:
        """Raise an error for the first view of a batch whose scores in ``A`` cannot be used."""
        blocks = A.detach().split([len(rows) for rows in batch])
        v = next(v for v, B in enumerate(blocks) if not bool((B.abs() < LARGEST_SCORE).all()))
        encoder, encoded = self.networks[v].encoder, None
        if not isinstance(encoder, SkipEncoder):
            with torch.no_grad():
                encoded = encoder(self._take(v, batch[v]))
        epoch, view = len(self.history) + 1, self.views[v]
        raise FloatingPointError(
            describe_divergence(epoch, view, batch[v], blocks[v], encoded, LARGEST_SCORE)
        )

    @property
    def _amp(self) -> bool:
        return self.plan.amp and self.device.type == "cuda"

    def _take(self, v: int, rows: NDArray[np.intp]) -> Tensor:
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
        return self.plan.learning_rate * factor

    def _make_optimizer(self) -> torch.optim.AdamW:
        # A dict, because views may have a head in common.
        parameters = dict.fromkeys(p for network in self.networks for p in network.parameters())
        weights = [p for p in parameters if p.requires_grad]
        groups = [
            {"params": [p for p in weights if p.ndim > 1], "weight_decay": self.plan.weight_decay},
            {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=self.plan.learning_rate)

    # Checkpoints: everything as arrays, so that reading one runs no code.

    def _state(self) -> Arrays:
        # Python's JSON supports infinity and NaN.
        told = {"history": self.history, "best_epoch": self.best_epoch,
                "best_value": self.best_value}  # fmt: skip
        arrays: Arrays = {"told": np.array(json.dumps(told))}
        for v, network in enumerate(self.networks):
            arrays |= {f"network {v} {name}": a for name, a in state_arrays(network).items()}
            arrays |= {f"best {v} {name}": a for name, a in self.best_state[v].items()}
        for i, state in self.optimizer.state_dict()["state"].items():
            arrays |= {f"optimizer {i} {name}": t.cpu().numpy() for name, t in state.items()}
        return arrays

    def _resume(self, checkpoint: Checkpoint | None) -> None:
        arrays = None if checkpoint is None else checkpoint.get(_PART)
        if arrays is None:
            return
        told = json.loads(str(arrays["told"]))
        self.history, self.best_epoch = told["history"], told["best_epoch"]
        self.best_value = told["best_value"]
        for v, network in enumerate(self.networks):
            load_arrays(network, _part(arrays, f"network {v} "))
        self.best_state = [_part(arrays, f"best {v} ") for v in range(len(self.networks))]
        state = self.optimizer.state_dict()
        n_tensors = sum(len(group["params"]) for group in state["param_groups"])
        state["state"] = {
            i: {name: torch.from_numpy(a) for name, a in moments.items()}
            for i in range(n_tensors)
            if (moments := _part(arrays, f"optimizer {i} "))
        }
        self.optimizer.load_state_dict(state)


def _part(arrays: Arrays, prefix: str) -> Arrays:
    """Arrays under a prefix, without it."""
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}


@contextmanager
def own_random_numbers(device: torch.device) -> Iterator[None]:
    """Restore the state of torch's generators, which may be seeded inside, on exit."""
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        yield


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed the generators that `own_random_numbers` restores, and no others."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
