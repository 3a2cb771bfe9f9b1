"""DeepNAIM3L: networks per view, coupled by the regulariser of the linear model."""

import copy
import os
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from naim3l._progress import progress_bar
from naim3l.deep.loss import NAIM3LLoss
from naim3l.deep.network_options import (
    NETWORK_PARAMETERS,
    all_default,
    check_encoders,
    check_layers,
    find_device,
)
from naim3l.deep.networks import (
    Architecture,
    ViewNetwork,
    default_network,
    load_arrays,
    make_networks,
    prior_scores,
    score_rows,
    state_arrays,
)
from naim3l.deep.refusals import check_features, check_scores
from naim3l.deep.training import Plan, Training, own_random_numbers, seed_torch
from naim3l.deep.validation import Judge, as_scores, hold_out_validation
from naim3l.estimators.base import ViewModel
from naim3l.files.checkpoint import Checkpoint, fingerprint, kept_in
from naim3l.input.tables import Table
from naim3l.problem.rows import Problem

# Parameters that a fit must share with the one whose checkpoint it goes on from.
RESUMED_WITH = (
    "lam", "low_rank", "high_rank", "data_term", "positive_weight", "learning_rate",
    "weight_decay", "max_epochs", "batch_size", "validation", "patience", "amp",
)  # fmt: skip


@dataclass(eq=False, repr=False)
class DeepNAIM3L(ViewModel):
    """Multi-label networks for several views whose rows cannot be matched.

    Each view has an encoder and a linear head to the labels. Nothing is shared between views but
    the loss, which is that of :class:`naim3l.NAIM3L` with networks in place of linear models: see
    :class:`naim3l.deep.NAIM3LLoss`, also for what batches change.

    Parameters
    ----------
    lam : float, default=0.1
        Weight of the regulariser; 0 leaves it out.
    views, n_components, label_coding, threshold, calibrate, fusion
        As in :class:`naim3l.NAIM3L`.
    transformer : default="scale"
        The choices of :class:`naim3l.NAIM3L`, whose default is "auto". Encoders get what it makes
        of a row, as float32; with None the columns as they are.
    encoders : mapping of str to torch module, callable, or None
        One module per view, from (n_rows, n_features) to (n_rows, n_outputs), both float32. A
        callable gets the name of a view and its number of features, and returns the module. Copies
        are trained, also of what a callable returns. None, for all views or for one, is a
        perceptron beside the features themselves, so that the linear model is contained. Modules
        get two rows or more in training, so that they may normalise over them, unless their view
        has one row in all.
    hidden : sequence of int, default=(1024, 512)
        Widths of the hidden layers of default encoders; () is the linear model.
    dropout : float, default=0.5
        Share of the hidden units of default encoders left out of each training step.
    low_rank, high_rank : bool, default=True
        Keep the term, as in :class:`naim3l.NAIM3L`.
    data_term : {"logistic", "squared"}, default="logistic"
        "squared" is the loss of the linear model.
    positive_weight : float, default=1.0
        Factor of entries observed positive in the loss.
    learning_rate : float, default=1e-3
        Of AdamW; it rises in the first tenth of the steps, then falls along a cosine to zero.
    weight_decay : float, default=1e-2
        Of weights, not of biases.
    max_epochs : int or "auto", default="auto"
        "auto": 25, or as many as it takes to make 50 steps.
    batch_size : int, default=256
        Rows of the longest view in a batch; other views are divided into as many batches.
    validation : float, default=0.0
        Share of the observed entries to hold out of the training, at most 0.5. The weights kept
        are then those of the epoch with the least loss on them.
    patience : int, default=10
        With ``validation``: epochs without a better one after which training ends.
    device : str or torch.device, default="auto"
        "auto" is CUDA where it is available, else the CPU. Trace norms need float64, which MPS
        has not.
    amp : bool, default=False
        On CUDA, networks compute in bfloat16 while training.
    checkpoint : path, optional
        File to keep the state of a running fit in. A fit of the same data with the same parameters
        that finds it resumes there, and on a CPU ends at the same weights. A finished fit leaves
        it until `save` deletes it. Needs a whole number as ``random_state``.
    random_state : int, RandomState or None
        Draws start weights, batches, dropout and the entries to hold out. The same number gives
        the same weights on a CPU with as many threads. Torch's own generators are left alone.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    networks_ : dict of str to torch module
        Encoder and head of each view, as ``.encoder`` and ``.head``.
    encoders_ : dict of str to torch module
    weights_ : dict of str to dict of str to ndarray
        What is in each network, as NumPy arrays.
    best_epoch_ : int
        Epoch whose weights are kept; the last without ``validation``.
    n_iter_ : int
        Epochs trained.
    history_ : list of dict
        One record per epoch: "objective" and its parts "loss", "low_rank", "high_rank", means over
        batches, each as an estimate for all rows; "learning_rate"; with ``validation`` "held_out".
    thresholds_, calibration_, fusion_weights_, fusion_overlap_, base_rates_, transformers_, \
views_, label_names_, n_features_in_, feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l.deep import DeepNAIM3L
    >>> data = make_unpaired(200, n_features=(12, 9), n_labels=5, missing_labels=0.3,
    ...                      random_state=0)
    >>> model = DeepNAIM3L(max_epochs=3, random_state=0).fit(data.views, data.labels)
    >>> model.decision_function({"view1": data.views["view1"]})["view1"].shape
    (200, 5)
    """

    _schema = NETWORK_PARAMETERS

    lam: float = 0.1
    _: KW_ONLY
    transformer: Any = "scale"
    encoders: Any = None
    hidden: Any = (1024, 512)
    dropout: float = 0.5
    low_rank: bool = True
    high_rank: bool = True
    data_term: str = "logistic"
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    max_epochs: int | str = "auto"
    batch_size: int = 256
    validation: float = 0.0
    patience: int = 10
    device: Any = "auto"
    amp: bool = False
    checkpoint: str | os.PathLike[str] | None = None
    verbose: int = 0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train the networks of all views.

        Parameters
        ----------
        X : mapping of str to table, or one wide table of shape (n_rows, n_columns)
        y : mapping of str to label table, or one label table of shape (n_rows, n_labels)
            Both as for :meth:`naim3l.NAIM3L.fit`.

        Returns
        -------
        self
            Fitted. After Ctrl-C the best weights so far are kept, too, and the interrupt goes on
            to the caller.
        """
        self._check_parameters(X)
        problem = self._read_training(X, y)
        check_encoders(self.encoders, self.views_)
        widths = [int(n_units) for n_units in self.hidden]
        self._architecture: dict[str, Any] = {"hidden": widths, "dropout": float(self.dropout)}
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        judge, Y = None, problem.Y
        if self.validation > 0:
            hidden = hold_out_validation(problem, self.validation, rng)
            judge, Y = Judge(problem.Y, hidden, self._loss()), np.where(hidden, 0, problem.Y)
        training = self._training(problem, Y, seed)
        checkpoint = self._open_checkpoint(problem, training)
        interrupted = self._run(training, judge=judge, checkpoint=checkpoint)
        if training.history:
            self._keep_networks(training)
        if interrupted:
            raise KeyboardInterrupt
        scores_of_fit = kept_in(checkpoint, lambda part: self._scores_of_fit(problem, part.Y, seed))
        self._learn(as_scores(problem), scores_of_fit)
        self._keep_checkpoint(checkpoint)
        return self

    @property
    def networks_(self) -> dict[str, ViewNetwork]:
        check_is_fitted(self)
        if not hasattr(self, "_networks"):  # loaded from a file
            self._networks: dict[str, ViewNetwork] = {}
            for view, arrays in self.weights_.items():
                n_features, n_labels = len(arrays["encoder.centre"]), len(self.label_names_)
                self._networks[view] = default_network(n_features, n_labels, self._layers())
                load_arrays(self._networks[view], arrays)
        return self._networks

    @property
    def encoders_(self) -> dict[str, nn.Module]:
        return {view: network.encoder for view, network in self.networks_.items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, whole or not at all; `naim3l.load` reads it.

        For default encoders only: modules of your own are code, which loading never runs.
        """
        check_is_fitted(self)
        if not self._default_encoders:
            raise TypeError(
                "a model with encoders of your own cannot be saved whole: loading it would have to "
                "run their code. Keep networks_[view].state_dict() of each view, which holds "
                "encoders_[view] and the head (torch.save), and load it with weights_only=True."
            )
        model = self
        if all_default(self.encoders):
            model = copy.copy(self)
            model.encoders = None  # the one form that files have for default encoders
        ViewModel.save(model, path)
        self._remove_checkpoint()

    # Parts of a fit.

    def _forget(self) -> None:
        super()._forget()
        self.__dict__.pop("_networks", None)

    def _layers(self) -> Architecture:
        """Default encoders of the fit, whatever the parameters say now."""
        hidden, dropout = self._architecture["hidden"], self._architecture["dropout"]
        check_layers(hidden, dropout)
        return Architecture(tuple(hidden), dropout)

    def _loss(self) -> NAIM3LLoss:
        return NAIM3LLoss(
            self.lam,
            low_rank=self.low_rank,
            high_rank=self.high_rank,
            data_term=self.data_term,
            positive_weight=self.positive_weight,
        )

    def _training(self, problem: Problem, Y: NDArray, seed: int) -> Training:
        """Networks with start weights, and all it takes to train them on labels ``Y``."""
        device = find_device(self.device)
        features = dict(zip(self.views_, problem.X, strict=True))
        labels = {view: Y[rows] for view, rows in zip(self.views_, problem.row_slices, strict=True)}
        with own_random_numbers(device):
            seed_torch(seed, device)
            networks = make_networks(self.encoders, features, problem.n_labels, self._layers())
        rates = problem.with_labels(Y).base_rates  # of Y: hidden labels must not show
        for view, network in networks.items():
            network.start_at(
                prior_scores(labels[view], rates, self.positive_weight, self.data_term)
            )
        names = ("max_epochs", "batch_size", "learning_rate", "weight_decay", "patience", "amp")
        plan = Plan(**{name: getattr(self, name) for name in names})
        return Training(networks, features, labels, self._loss(), plan, seed=seed, device=device)

    def _open_checkpoint(self, problem: Problem, training: Training) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        if not isinstance(self.random_state, int | np.integer):
            raise ValueError(
                f"checkpoint= needs a whole number as random_state, got {self.random_state!r}: "
                "else a resumed fit would draw other numbers."
            )
        settings = {name: getattr(self, name) for name in RESUMED_WITH}
        settings |= {**self._architecture, "random_state": int(self.random_state)}
        # Weights alone do not tell which functions they belong to, nor which of them are frozen.
        settings["networks"] = [repr(network) for network in training.networks]
        settings["trained"] = [
            [name for name, weight in network.named_parameters() if weight.requires_grad]
            for network in training.networks
        ]
        start = [a for network in training.networks for a in state_arrays(network).values()]
        # Samples decide which entries are held out together.
        samples = [] if problem.samples is None else [problem.samples]
        arrays = [*problem.X, problem.Y, *samples, *start]
        return Checkpoint(self.checkpoint, fingerprint(arrays, settings))

    def _run(self, training: Training, **options: Any) -> bool:
        with progress_bar("fit", training.max_epochs, shown=self.verbose > 0) as advance:
            return training.run(
                callback=lambda record: advance(f"objective {record['objective']:.6g}"), **options
            )

    def _keep_networks(self, training: Training) -> None:
        self._default_encoders = all_default(self.encoders)
        self._networks = dict(zip(self.views_, training.networks, strict=True))
        self.weights_ = {view: state_arrays(network) for view, network in self._networks.items()}
        self.history_, self.best_epoch_ = training.history, training.best_epoch
        self.n_iter_ = len(training.history)
        # Whatever interrupts the fit from here on, the model can decide.
        self._keep_decisions(self._fixed_decisions())

    def _scores_of_fit(self, problem: Problem, Y: NDArray, seed: int) -> NDArray[np.float64]:
        """Scores of all rows, stacked, by networks trained as long as those kept, on labels Y."""
        training = self._training(problem, Y, seed)
        if training.run(last_epoch=self.best_epoch_):
            raise KeyboardInterrupt
        scores = training.scores()
        for view, X, rows in zip(self.views_, problem.X, problem.row_slices, strict=True):
            check_scores(scores[rows], X, f"view {view!r}")
        return scores

    # Features, as networks can take them.

    def _encode(self, view: str, table: Table, *, fit: bool = False) -> tuple[Any, NDArray]:
        features, present = super()._encode(view, table, fit=fit)
        as_given = self.features_[view].transformer is None
        check_features(table, features, present, as_given=as_given)
        return features, present

    # Prediction.

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def _check_scores(self, scores: Any, features: Any, table: Table, present: NDArray) -> None:
        check_scores(scores, features, table.where, np.flatnonzero(present))

    def _score_features(self, view: str, features: Any) -> NDArray[np.float64]:
        device = find_device(self.device)
        return score_rows(self.networks_[view].to(device), features, device, view)

    # Files.

    def weight_shapes(self, view: str) -> dict[str, tuple[int, ...]]:
        """Names and shapes that ``weights_`` of a view must have, with default encoders."""
        n_features = len(self.weights_[view]["encoder.centre"])
        with torch.device("meta"):  # shapes alone take no memory
            network = default_network(n_features, len(self.label_names_), self._layers())
        return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if state.get("_default_encoders", False):
            state.pop("_networks", None)  # weights_ and _architecture say all
        return state
