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
from naim3l.files.checkpoint import Checkpoint, fingerprint, kept_in, whole_seed
from naim3l.input.tables import Table
from naim3l.problem.on_device import find_device
from naim3l.problem.rows import Problem

# Parameters in which a fit must agree with the one that it resumes.
RESUMED_WITH = (
    "lam", "low_rank", "high_rank", "data_term", "positive_weight", "learning_rate",
    "weight_decay", "max_epochs", "batch_size", "validation", "patience", "amp",
)  # fmt: skip


@dataclass(eq=False, repr=False)
class DeepNAIM3L(ViewModel):
    """Multi-label networks for several views whose rows cannot be matched.

    Each view has an encoder and a linear head for the labels. Views share only the loss, that of
    :class:`naim3l.NAIM3L` with networks in place of linear models, and with ``shared_head`` a head.
    :class:`naim3l.deep.NAIM3LLoss` defines the loss, also on batches.

    Parameters
    ----------
    lam : float, default=0.1
        Weight of the regulariser; 0 leaves it out. Larger values couple the views more strongly.
    views, n_components, low_rank, high_rank, positive_weight, label_coding, threshold, calibrate, \
fusion
        As in :class:`naim3l.NAIM3L`.
    transformer : default="scale"
        The choices of :class:`naim3l.NAIM3L`, whose default is "auto". Encoders receive its
        output as float32; with None they receive the columns unchanged.
    encoders : mapping of str to torch module, callable, or None, default=None
        One module per view, from (n_rows, n_features) to (n_rows, n_outputs), both float32; or a
        function of the name of a view and its number of features that returns the module. Copies
        of the modules are trained. None, for all views or for one, is a perceptron next to the
        features themselves, so that the linear model is a special case. In training, modules
        receive at least two rows, so that they may normalise over rows, unless their view has
        only one.
    hidden : sequence of int, default=(1024, 512)
        Widths of the hidden layers of default encoders; () is the linear model.
    dropout : float, default=0.5
        Share of the hidden units of default encoders that is left out in each training step.
    noise : float, default=0.0
        Standard deviation of the noise that is added to the features, whose mean square is 1, in
        each training step; for default encoders only.
    shared_head : bool, default=False
        Whether the head of the last hidden layer is the same for all views, so that a rare label
        learns from its positives in all tables; ``lam=0`` is then about as accurate, and faster.
        Each view has a linear model of its own next to it. For default encoders only.
    data_term : {"logistic", "squared"}, default="logistic"
        "squared" is the loss of the linear model.
    learning_rate : float, default=1e-3
        Largest learning rate of AdamW. It rises in the first tenth of the steps, and then falls
        along a cosine to zero.
    weight_decay : float, default=1e-2
        Weight decay of AdamW, for weights but not for biases.
    max_epochs : int or "auto", default="auto"
        Number of epochs. "auto" is 25, or more if these have fewer than 50 steps.
    batch_size : int, default=256
        Rows of the longest view in a batch; other views are divided into as many batches.
    validation : float, default=0.0
        Share of the observed entries to hold out of the training, at most 0.5. The weights are
        then those of the epoch with the lowest loss on these entries.
    patience : int, default=10
        With ``validation``, the number of epochs without improvement after which training ends.
    device : str or torch.device, default="auto"
        "auto" is CUDA if it is available, otherwise the CPU. Trace norms need float64, which MPS
        does not support.
    amp : bool, default=False
        Whether networks compute in bfloat16 during training on CUDA.
    checkpoint : path, optional
        File for the state of a running fit. A later fit with the same data and parameters resumes
        there, and on a CPU ends at the same weights. The file remains after the fit until `save`
        deletes it. It needs an integer ``random_state``.
    random_state : int, RandomState or None, default=None
        Determines start weights, batches, dropout and the entries to hold out. On a CPU, the same
        integer gives the same weights with the same number of threads. The global generators of
        torch are not used.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    networks_ : dict of str to torch module
        Networks by view; their parts are ``.encoder``, ``.head`` and ``.shared_head`` or None.
    encoders_ : dict of str to torch module
        Encoders by view.
    weights_ : dict of str to dict of str to ndarray
        State of each network, as NumPy arrays.
    best_epoch_ : int
        Epoch of the weights; without ``validation``, it is the last one.
    n_iter_ : int
        Number of epochs.
    history_ : list of dict
        One record per epoch: "objective" and its parts "loss", "low_rank" and "high_rank", which
        are means over batches of estimates for all rows; "learning_rate"; with ``validation`` also
        "held_out", the loss on held-out entries.
    thresholds_, calibration_, fusion_weights_, fusion_overlap_, base_rates_, transformers_, \
views_, label_names_, n_features_in_, feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> from naim3l import evaluate
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l.deep import DeepNAIM3L
    >>> data = make_unpaired(
    ...     200, n_features=(12, 9), n_labels=5, missing_labels=0.3, random_state=0
    ... )
    >>> model = DeepNAIM3L(hidden=(32,), learning_rate=0.01, random_state=0)
    >>> model = model.fit(data.views, data.labels)
    >>> metrics = evaluate(data.complete_labels, model.decision_function(data.views))
    >>> metrics["AP"] > 0.9
    True
    """

    _schema = NETWORK_PARAMETERS

    lam: float = 0.1
    _: KW_ONLY
    transformer: Any = "scale"
    fusion: str = "mean"
    encoders: Any = None
    hidden: Any = (1024, 512)
    dropout: float = 0.5
    noise: float = 0.0
    shared_head: bool = False
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
            As for :meth:`naim3l.NAIM3L.fit`.
        y : mapping of str to label table, or one label table of shape (n_rows, n_labels)
            Labels of the rows of ``X``, as for :meth:`naim3l.NAIM3L.fit`.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C. The model has the best weights so far.

        Examples
        --------
        >>> from naim3l.datasets import make_unpaired
        >>> from naim3l.deep import DeepNAIM3L
        >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = DeepNAIM3L(hidden=(16,), max_epochs=3, device="cpu", random_state=0)
        >>> model = model.fit(data.views, data.labels)
        >>> [record["objective"] > 0 for record in model.history_]
        [True, True, True]
        """
        self._check_parameters(X)
        problem = self._read_training(X, y)
        check_encoders(self.encoders, self.views_, shared_head=self.shared_head)
        self._architecture: dict[str, Any] = {
            "hidden": [int(n_units) for n_units in self.hidden], "dropout": float(self.dropout),
            "noise": float(self.noise), "shared_head": bool(self.shared_head),
        }  # fmt: skip
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
        """Write the fitted model to a file, completely or not at all; `naim3l.load` reads it.

        This works for default encoders only: loading never runs code, which other modules need.
        The checkpoint of the fit, if there is one, is deleted once the file is on disk.

        Parameters
        ----------
        path : str or path-like
            File to write, such as "model.skops". An existing file is replaced.

        Raises
        ------
        TypeError
            The model has encoders of the user, or a part that could not be loaded again.

        Examples
        --------
        >>> import naim3l
        >>> from naim3l.datasets import make_unpaired
        >>> from naim3l.deep import DeepNAIM3L
        >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = DeepNAIM3L(hidden=(16,), max_epochs=3, device="cpu", random_state=0)
        >>> model = model.fit(data.views, data.labels)
        >>> model.save("model.skops")
        >>> naim3l.load("model.skops").best_epoch_
        3
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
        """Default encoders of the fit, even if the parameters have been changed since."""
        check_layers(**self._architecture)
        return Architecture(**self._architecture | {"hidden": tuple(self._architecture["hidden"])})

    def _loss(self) -> NAIM3LLoss:
        return NAIM3LLoss(
            self.lam,
            low_rank=self.low_rank,
            high_rank=self.high_rank,
            data_term=self.data_term,
            positive_weight=self.positive_weight,
        )

    def _training(self, problem: Problem, Y: NDArray, seed: int) -> Training:
        """Training of networks with start weights on labels ``Y``."""
        device = find_device(self.device)
        features = dict(zip(self.views_, problem.X, strict=True))
        labels = {view: Y[rows] for view, rows in zip(self.views_, problem.row_slices, strict=True)}
        with own_random_numbers(device):
            seed_torch(seed, device)
            networks = make_networks(self.encoders, features, problem.n_labels, self._layers())
        rates = problem.with_labels(Y).base_rates  # of Y, without hidden labels
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
        settings = {name: getattr(self, name) for name in RESUMED_WITH}
        settings |= {**self._architecture, "random_state": whole_seed(self.random_state)}
        # Weights do not show to which modules they belong, nor which of them are frozen.
        settings["networks"] = [repr(network) for network in training.networks]
        settings["trained"] = [
            [name for name, weight in network.named_parameters() if weight.requires_grad]
            for network in training.networks
        ]
        start = [a for network in training.networks for a in state_arrays(network).values()]
        # Entries of one sample are held out together.
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
        # From here on the model can predict, even if the rest of the fit is interrupted.
        self._keep_decisions(self._fixed_decisions())

    def _scores_of_fit(self, problem: Problem, Y: NDArray, seed: int) -> NDArray[np.float64]:
        """Stacked scores of all rows, of networks trained on labels Y for as many epochs."""
        training = self._training(problem, Y, seed)
        if training.run(last_epoch=self.best_epoch_):
            raise KeyboardInterrupt
        scores = training.scores()
        for view, X, rows in zip(self.views_, problem.X, problem.row_slices, strict=True):
            check_scores(scores[rows], X, f"view {view!r}")
        return scores

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

    def _weight_shapes(self, view: str) -> dict[str, tuple[int, ...]]:
        """Names and shapes that ``weights_`` of a view must have, for default encoders."""
        n_features = len(self.weights_[view]["encoder.centre"])
        with torch.device("meta"):  # tensors without memory
            network = default_network(n_features, len(self.label_names_), self._layers())
        return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if state.get("_default_encoders", False):
            state.pop("_networks", None)  # made again from weights_ and _architecture
        return state
