"""DeepNAIM3L: networks per view, coupled by the regulariser of the linear model."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from naim3l._arrays import Mask, Matrix
from naim3l._device import CPU, find_device
from naim3l._progress import progress_bar
from naim3l._text import documented
from naim3l.decisions.learning import N_FOLDS
from naim3l.decisions.rules import Decisions
from naim3l.deep import networks as nets
from naim3l.deep.loss import DATA_TERMS, LOSS_OPTIONS, NAIM3LLoss
from naim3l.deep.networks import Network, ViewNetwork
from naim3l.deep.training import (
    Trainer,
    Training,
    count_together,
    hold_out_validation,
    loss_of_hidden,
    seeded,
)
from naim3l.estimators.base import ViewModel
from naim3l.estimators.naim3l import VARIANTS, Path_
from naim3l.estimators.saved import PARAMETER
from naim3l.features.encoding import FeatureSpec
from naim3l.files.archive import Refusal
from naim3l.files.checkpoint import Checkpoint, check_seed
from naim3l.files.stored import Array, ListOf, MapOf, Nested, OneOf, Plain, Text, Whole
from naim3l.input.batches import Batch
from naim3l.problem.rows import Problem

# Parameters that are options of the loss.
OF_LOSS = ("lam", "variant", "data_term", "positive_weight")


class SinglePrecisionSpec(FeatureSpec):
    """What the parameter ``features`` says about one view whose features become float32."""

    def fit(self, batch: Batch, plan: Any, device: Any = CPU) -> Any:
        fitted, features, present = super().fit(batch, plan, str(device))
        nets.check_features(fitted, batch, features, present)
        return fitted, features, present


@documented(variants=VARIANTS, data_terms=reversed(DATA_TERMS))
@dataclass(eq=False, repr=False)
class DeepNAIM3L(ViewModel):
    """Multi-label networks for several views whose rows cannot be matched.

    Each view has an encoder and a linear output layer for the labels. Views share only the loss,
    that of :class:`naim3l.NAIM3L` with networks in place of linear models, and on request an output
    layer, see `Network`. :class:`naim3l.deep.NAIM3LLoss` defines the loss, also on batches.

    Parameters
    ----------
    lam : float, default=0.1
        Weight of the regulariser; 0 leaves it out. Larger values couple the views more strongly.
    variant : <variants>, default="full"
        Terms of the regulariser. "low-rank" leaves out the high-rank term, "loss" both.
    data_term : <data_terms>, default="logistic"
        "squared" is the loss of the linear model.
    views, positive_weight, decide
        As in :class:`naim3l.NAIM3L`.
    features : default="auto"
        The choices of :class:`naim3l.NAIM3L`. Encoders receive the features as float32; with None
        they receive the columns unchanged.
    encoders : mapping of str to torch module, callable, or None, default=None
        One module per view, from (n_rows, n_features) to (n_rows, n_outputs), both float32; or a
        function of the name of a view and its number of features that returns the module. Copies
        of the modules are trained, on at least two rows at a time, so that they may normalise over
        rows. None, for all views or for one, is a perceptron next to the features themselves, so
        that the linear model is a special case. A model file has the weights of your modules, but
        not their code: see `naim3l.load`.
    network : Network, optional
        Layers of default encoders; None is ``Network()``.
    training : Training, optional
        Number of epochs, batches, learning rate, and early stopping; None is ``Training()``.
    device : str or torch.device, default="auto"
        "auto" is CUDA if it is available, otherwise the CPU; MPS lacks float64 for trace norms.
    random_state : int, RandomState or None, default=None
        Determines start weights, batches, dropout and the entries to hold out. On a CPU, the same
        integer gives the same weights with the same number of threads.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    networks_ : dict of str to torch module
        Networks by view; their parts are ``.encoder``, the output layer ``.head``, and the shared
        output layer ``.shared_head`` or None.
    own_encoders_ : list of str
        Views whose encoder is not the default one.
    network_ : Network
        Layers of the default encoders that were trained.
    weights_ : dict of str to dict of str to ndarray
        State of each network, as NumPy arrays.
    best_epoch_ : int
        Epoch of the weights; the last one, unless entries are held out for validation.
    n_iter_ : int
        Number of epochs.
    history_ : list of dict
        One record per epoch: "objective" and its parts "loss", "low_rank" and "high_rank", which
        are means over batches of estimates for all rows; "learning_rate"; with ``validation`` also
        "held_out", the loss on held-out entries.
    features_, decisions_, thresholds_, fusion_overlap_, base_rates_, \
view_rates_, columns_, views_, label_names_, n_features_in_, feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> from naim3l import evaluate
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l.deep import DeepNAIM3L, Network, Training
    >>> data = make_unpaired(200, n_features=(12, 9), n_labels=5, random_state=0)
    >>> training = Training(learning_rate=0.01)
    >>> model = DeepNAIM3L(network=Network(hidden=(32,)), training=training, random_state=0)
    >>> model = model.fit(data.views, data.labels)
    >>> metrics = evaluate(data.complete_labels, model.decision_function(data.views))
    >>> metrics["AP"] > 0.9
    True
    """

    _spec_type = SinglePrecisionSpec
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ViewModel._parameter_constraints,
        **{name: LOSS_OPTIONS[name] for name in OF_LOSS},
        "encoders": "no_validation",  # checked by `make_networks`
        "network": [Network, None],
        "training": [Training, None],
        "device": [str, torch.device],
        "verbose": ["verbose"],
    }
    _stored: ClassVar[dict[str, Any]] = {
        **ViewModel._stored,
        "parameters": MapOf(OneOf({"network": Network, "training": Training, **PARAMETER.kinds})),
        "network_": Nested(Network),
        "own_encoders_": ListOf(Text()),
        "weights_": MapOf(MapOf(Array("biuf", ..., finite=False)), keys="views"),
        "best_epoch_": Whole(1),
        "n_iter_": Whole(1),
        "history_": Plain(),
    }

    lam: float = 0.1
    _: KW_ONLY
    variant: str = "full"
    data_term: str = "logistic"
    encoders: Any = None
    network: Network | None = None
    training: Training | None = None
    device: Any = "auto"
    verbose: int = 0

    def fit(self, X: Any, y: Any = None, *, checkpoint: Path_ | None = None) -> Self:
        """Train the networks of all views; Ctrl-C keeps the best weights so far.

        Parameters
        ----------
        X : mapping of str to table, or one wide table of shape (n_rows, n_columns)
            As for :meth:`naim3l.NAIM3L.fit`, in memory.
        y : mapping of str to label table, or one label table of shape (n_rows, n_labels)
            Labels of the rows of ``X``, as for :meth:`naim3l.NAIM3L.fit`.
        checkpoint : path, optional
            File for the state of the fit. A later fit with the same data and parameters resumes
            there, and on a CPU ends at the same weights. The file remains after the fit until
            `save` deletes it. It needs an integer ``random_state``.

        Returns
        -------
        self
            The fitted model.

        Examples
        --------
        >>> from naim3l.datasets import make_unpaired
        >>> from naim3l.deep import DeepNAIM3L, Training
        >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = DeepNAIM3L(training=Training(max_epochs=3), device="cpu", random_state=0)
        >>> [record["objective"] > 0 for record in model.fit(data.views, data.labels).history_]
        [True, True, True]
        """
        problem = self._read_training(X, y)
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        judge, Y, (network, training) = None, problem.Y, self._options
        device, features = find_device(self.device), dict(zip(self.views_, problem.X, strict=True))
        if training.validation > 0:
            hidden = hold_out_validation(problem, training.validation, rng)
            judge = loss_of_hidden(problem, hidden, self._loss())
            Y = np.where(hidden, 0, problem.Y)
        with seeded(device, seed):
            start = nets.make_networks(self.encoders, features, problem.n_labels, network)
        labels, folds = [Y], None
        if Decisions.of(self.decide)._learn:
            folds = self._hold_out(as_scores(problem), N_FOLDS)
            labels += [np.where(folds.hidden(i), 0, problem.Y) for i in range(len(folds))]
        size = count_together(start.values(), problem, training, device)
        # With validation, the first network tells for how many epochs to train the others.
        ends = [*range(1 if judge else size, len(labels), size), len(labels)]
        stacks = [labels[i:j] for i, j in pairwise([0, *ends])]
        kept = None if checkpoint is None else self._open(checkpoint, problem, start)
        scores = list[Matrix]()
        for stack in stacks:
            trainer = self._trainer(problem, start, stack, seed)
            if scores:
                self._train(trainer, None, kept, self.best_epoch_)
            else:
                try:
                    self._train(trainer, judge, kept)
                except KeyboardInterrupt:
                    self._keep_networks(trainer)
                    raise
                self._keep_networks(trainer)
            scores += list(trainer.scores())
        if folds is not None:
            self._learn_decisions(folds, scores[1:], scores[0])
        self._checkpoint = kept
        return self

    def _train(self, trainer: Trainer, judge: Any, kept: Any, last: int | None = None) -> None:
        with progress_bar("fit", last or trainer.max_epochs, shown=self.verbose > 0) as advance:
            show = lambda record: advance(f"objective {record['objective']:.6g}")  # noqa: E731
            trainer.run(judge, kept, show, last_epoch=last)

    @cached_property
    def networks_(self) -> dict[str, ViewNetwork]:
        check_is_fitted(self)
        return self._restored({})  # of a model from a file, or a copy

    @property
    def _options(self) -> tuple[Network, Training]:
        return self.network or Network(), self.training or Training()

    def _loss(self) -> NAIM3LLoss:
        return NAIM3LLoss(**{name: getattr(self, name) for name in OF_LOSS})

    def _trainer(
        self, problem: Problem, start: Mapping[str, ViewNetwork], labels: list[Matrix], seed: int
    ) -> Trainer:
        """Training of a stack of networks, with start weights, on labels (n_rows, n_labels)."""
        device, loss = find_device(self.device), self._loss()
        features = dict(zip(self.views_, problem.X, strict=True))
        trainer = Trainer(start, features, labels, loss, self._options[1], seed, device)
        known = [(Y, problem.with_labels(Y).base_rates) for Y in labels]  # without hidden labels
        for network, rows in zip(trainer.networks, problem.row_slices, strict=True):
            priors = [nets.prior_scores(Y[rows], rates, loss) for Y, rates in known]
            network.head.bias.data.copy_(torch.stack(priors))
        return trainer

    def _open(self, path: Path_, problem: Problem, start: Mapping[str, ViewNetwork]) -> Checkpoint:
        """The checkpoint of a fit, which depends on everything that its weights depend on."""
        networks = nn.ModuleList(start.values())
        settings: dict[str, Any] = {name: getattr(self, name) for name in OF_LOSS}
        settings |= {type(of).__name__: asdict(of) for of in self._options}
        settings["random_state"] = check_seed(self.random_state)
        # Weights do not show to which modules they belong, nor which of them are frozen.
        settings["networks"] = repr(networks)
        parameters = networks.named_parameters()
        settings["trained"] = [name for name, weight in parameters if weight.requires_grad]
        weights = nets.state_arrays(networks).values()
        return Checkpoint(path, [*problem.identity, *weights], settings)

    def _keep_networks(self, trainer: Trainer) -> None:
        if not trainer.history:  # interrupted in the first epoch
            return
        networks = nets.unstacked(trainer.networks, 0)
        self.networks_ = dict(zip(self.views_, networks, strict=True))
        self.network_ = self._options[0]
        made = self.networks_.items()
        self.own_encoders_ = [view for view, network in made if nets.is_own(network)]
        self.weights_ = {view: nets.state_arrays(network) for view, network in made}
        self.history_, self.best_epoch_ = trainer.history, trainer.best_epoch
        self.n_iter_ = len(trainer.history)
        # From here on the model can predict, even if the rest of the fit is interrupted.
        self.decisions_ = self._fixed_decisions()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def _score_features(self, view: str, features: Any) -> Matrix:
        device = find_device(self.device)
        return self.networks_[view].to(device).score_rows(features, device, view)

    def _check_scores(
        self, view: str, scores: Matrix, features: Any, batch: Batch, present: Mask
    ) -> None:
        nets.check_features(self.features_[view], batch, features, present)
        nets.check_scores(scores, features, batch.origin.take(present).place)

    def _to_stored(self) -> dict[str, Any]:
        values = super()._to_stored()
        values["parameters"] |= {"encoders": None, "device": str(self.device)}
        return values

    def _restored(self, encoders: Mapping[str, nn.Module]) -> dict[str, ViewNetwork]:
        """Networks from ``weights_``; those of the user's encoders only if these are given."""
        lacking = set(self.own_encoders_) - set(encoders)
        weights = {view: arrays for view, arrays in self.weights_.items() if view not in lacking}
        return nets.restore_networks(weights, encoders, len(self.label_names_), self.network_)

    def _check_stored(self) -> None:
        """Refuse weights that are not those of the layers, or of the features."""
        if not set(self.own_encoders_) <= set(self.views_):
            raise ValueError(f"own encoders of {self.own_encoders_}, and views {self.views_}.")
        for view, network in self._restored({}).items():
            n = self.features_[view].n_features(len(self.names_.used[view]))
            found = len(network.encoder.centre)
            if n is not None and n != found:
                raise ValueError(f"view {view!r}: a network of {found} features, not {n}.")

    def _attach_encoders(self, encoders: Mapping[str, nn.Module | None]) -> None:
        """Complete a model from a file, which lacks the code of the user's encoders."""
        own, given = self.own_encoders_, {v: of for v, of in encoders.items() if of is not None}
        if set(given) != set(own):
            raise Refusal(
                f"it has the weights of your own encoders of the views {own}, and encoders= has "
                f"{list(given)}. A file does not hold the code of modules: build those of these "
                "views as for the fit, and give them as load(path, encoders={view: module})."
            )
        if own:
            self.encoders = {view: given.get(view) for view in self.views_}
            try:
                self.networks_ = self._restored(given)
            except ValueError as error:
                raise Refusal(str(error)) from error

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if not state.get("own_encoders_", True):
            state.pop("networks_", None)  # made again from weights_ and network_
        return state


def as_scores(problem: Problem) -> Problem:
    """The labels of a problem with the identity as features, so that weights are scores."""
    sizes = [rows.stop - rows.start for rows in problem.row_slices]
    identity = [sparse.eye_array(n, format="csr") for n in sizes]
    same: Any = {"samples": problem.samples, "groups": problem.groups}
    found = Problem(identity, [problem.Y], fit_intercept=False, **same)
    found.shared = problem.shared
    return found
