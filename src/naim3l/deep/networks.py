"""The network of one view: an encoder of its features, and an output layer for the labels."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval, validate_parameter_constraints
from torch import Tensor, nn

from naim3l._arrays import Arrays, Mask, Matrix
from naim3l._text import plain
from naim3l.deep.loss import NAIM3LLoss
from naim3l.features.encoding import ViewFeatures
from naim3l.files.stored import Plain
from naim3l.input.batches import Batch, first_cell, mark_cells

ROWS_AT_ONCE = 4096  # per forward pass when scores are computed
MOST_UNITS = 2**24  # of a hidden layer
# Tables may have numbers up to 1e100, networks compute in float32.
LARGEST_FEATURE = float(np.finfo(np.float32).max)


class Options:
    """Base of groups of options: checked when they are made, and stored as plain values."""

    _constraints: ClassVar[dict[str, Any]]

    def __post_init__(self) -> None:
        name = type(self).__name__
        validate_parameter_constraints(self._constraints, vars(self), caller_name=name)

    def _to_stored(self) -> dict[str, Any]:
        return plain(vars(self))

    @classmethod
    def _from_stored(cls, values: dict[str, Any]) -> Self:
        return cls(**values)


@dataclass(frozen=True)
class Network(Options):
    """Layers of the default encoders of :class:`naim3l.deep.DeepNAIM3L`.

    Parameters
    ----------
    hidden : sequence of int, default=(1024, 512)
        Widths of the hidden layers; () is the linear model.
    dropout : float, default=0.5
        Share of the hidden units that is left out in each training step.
    noise : float, default=0.0
        Standard deviation of the noise that is added to the features, whose mean square is 1, in
        each training step.
    shared_head : bool, default=False
        Whether all views share the output layer of the last hidden layer, so that a rare label
        learns from its positives in all tables; ``lam=0`` is then about as accurate, and faster.
        Each view has a linear model of its own next to it.

    Examples
    --------
    >>> from naim3l.deep import DeepNAIM3L, Network
    >>> DeepNAIM3L(0.0, network=Network((64, 32), noise=0.4, shared_head=True)).network.hidden
    (64, 32)
    """

    hidden: Sequence[int] = (1024, 512)
    dropout: float = 0.5
    noise: float = 0.0
    shared_head: bool = False

    _constraints: ClassVar[dict[str, Any]] = {
        "hidden": "no_validation",
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "noise": [Interval(Real, 0, None, closed="left")],
        "shared_head": ["boolean"],
    }
    _stored: ClassVar[Mapping[str, Any]] = dict.fromkeys(_constraints, Plain())

    def __post_init__(self) -> None:
        super().__post_init__()
        widths = np.asarray(self.hidden)
        is_list = widths.ndim == 1 and (widths.dtype.kind in "iu" or not len(widths))
        if not is_list or not ((widths >= 1) & (widths <= MOST_UNITS)).all():
            raise ValueError(
                f"Network: hidden must be widths of layers, whole numbers from 1 to {MOST_UNITS}, "
                f"such as (256,), got {self.hidden!r}."
            )
        object.__setattr__(self, "hidden", tuple(widths.tolist()))


class Linear(nn.Linear):
    """A linear layer, of one network or of a stack, whose weights have a leading axis."""

    def forward(self, rows: Tensor) -> Tensor:
        # Those of a stack are transposed, as their gradients are: else these would be copied.
        product = rows @ (self.weight.mT if self.weight.ndim == 2 else self.weight)
        return product if self.bias is None else product + self.bias.unsqueeze(-2)


class LayerNorm(nn.LayerNorm):
    """A layer norm, of one network or of a stack, whose weights have a leading axis."""

    def forward(self, rows: Tensor) -> Tensor:
        rows = nn.functional.layer_norm(rows, self.normalized_shape)
        return torch.addcmul(self.bias.unsqueeze(-2), rows, self.weight.unsqueeze(-2))


class Perturbation(nn.Module):
    """Dropout or noise in training, with the same random numbers for all networks of a stack.

    Row i of a batch gets those of row i modulo ``n_drawn``, by default the number of rows.
    """

    n_drawn: int | None = None

    def __init__(self, *, dropout: float = 0.0, noise: float = 0.0) -> None:
        super().__init__()
        self.dropout, self.noise = dropout, noise

    def forward(self, rows: Tensor) -> Tensor:
        if not self.training or self.dropout == self.noise == 0:
            return rows
        n_rows, width = rows.shape[-2:]
        repeated = torch.arange(n_rows, device=rows.device) % (self.n_drawn or n_rows)
        if self.noise > 0:
            noise = rows.new_empty(self.n_drawn or n_rows, width).normal_(0, self.noise)
            return rows + noise[repeated]
        # Four numbers of 16 bits from one draw: a draw for each unit takes ten times as long.
        draws = repeated.new_empty(self.n_drawn or n_rows, -(-width // 4)).random_(-(2**63), None)
        n_kept = max(1, round((1 - self.dropout) * 2**16))
        kept = draws.view(torch.int16)[:, :width] < n_kept - 2**15
        return rows * (kept.to(rows.dtype) * (2**16 / n_kept))[repeated]


class SkipEncoder(nn.Module):
    """Concatenation of the features and the output of a multilayer perceptron.

    Features are first centred and divided by one number, so that their mean square is 1.
    """

    centre: Tensor
    scale: Tensor

    def __init__(self, n_features: int, network: Network) -> None:
        super().__init__()
        layers, width = list[nn.Module](), n_features
        for n_units in network.hidden:
            layers += [Linear(width, n_units), LayerNorm(n_units), nn.ReLU()]
            layers.append(Perturbation(dropout=network.dropout))
            width = n_units
        self.layers = nn.Sequential(*layers) if layers else None
        self.n_outputs = n_features + (width if layers else 0)
        self.noise = Perturbation(noise=network.noise)
        self.register_buffer("centre", torch.zeros(n_features))
        self.register_buffer("scale", torch.ones(()))

    def fit_scale(self, features: Any) -> None:
        """Set centre and scale from training features, an ndarray or CSR array."""
        centre = np.asarray(features.mean(axis=0)).ravel()
        square = (features.power(2) if sparse.issparse(features) else features**2).mean(axis=0)
        variance = float(np.mean(np.asarray(square).ravel() - centre**2))
        self.centre.copy_(torch.from_numpy(centre))
        self.scale.fill_(variance**0.5 if variance > 0 else 1.0)

    def forward(self, features: Tensor) -> Tensor:
        features = self.noise((features - self.centre) / self.scale)
        if self.layers is None:
            return features
        hidden = self.layers(features)
        return torch.cat([features.expand(*hidden.shape[:-1], -1), hidden], dim=-1)


class ViewNetwork(nn.Module):
    """Encoder, whose output has ``width`` columns, and output layer of a view.

    An output layer that views share is that of the last columns, and their own, of the others.
    A stack of several networks, see `Trainer`, has scores (n_networks, n_rows, n_labels), of
    rows (n_networks, n_rows, n_features), or of the same rows (n_rows, n_features) for all.
    """

    def __init__(
        self, encoder: nn.Module, width: int, n_labels: int, shared_head: Linear | None = None
    ) -> None:
        super().__init__()
        self.encoder, self.shared_head = encoder, shared_head
        n_own = width if shared_head is None else width - shared_head.in_features
        self.head = Linear(n_own, n_labels)
        nn.init.zeros_(self.head.weight)

    def forward(self, features: Tensor) -> Tensor:
        encoded = self.encoder(features)
        if self.shared_head is None:
            return self.head(encoded)
        n_own = self.head.in_features
        return self.head(encoded[..., :n_own]) + self.shared_head(encoded[..., n_own:])

    def score_rows(self, features: Any, device: torch.device, view: str) -> NDArray[np.float64]:
        """Scores of features, an ndarray or CSR array, on the device of the network."""
        self.eval()
        with torch.no_grad(), named_failures(view, f"on rows {features.shape}"):
            parts = [
                self(as_tensor(features[start : start + ROWS_AT_ONCE], device)).cpu()
                for start in range(0, features.shape[0], ROWS_AT_ONCE)
            ]
            scores = torch.cat(parts, dim=-2).numpy().astype(np.float64)
            if scores.shape[-2] != features.shape[0]:
                raise ValueError(f"it returns {scores.shape[-2]} rows.")
        return scores


def make_networks(
    encoders: Any, features: Mapping[str, Any], n_labels: int, network: Network
) -> dict[str, ViewNetwork]:
    """Untrained network of each view; weights are drawn from torch's global generator."""
    _check_encoders(encoders, list(features), network)
    networks, shared = {}, _make_shared_head(network, n_labels)
    for view, X in features.items():
        own = encoders(view, X.shape[1]) if callable(encoders) else (encoders or {}).get(view)
        if own is not None:
            # A function may return the same module for every fit: training it in place would make
            # the next fit start from the weights of this one.
            own = _copy_module(own, view)
            networks[view] = ViewNetwork(own, _width(own, view, X), n_labels)
            continue
        encoder = SkipEncoder(X.shape[1], network)
        encoder.fit_scale(X)
        networks[view] = ViewNetwork(encoder, encoder.n_outputs, n_labels, shared)
    return networks


def _make_shared_head(network: Network, n_labels: int) -> Linear | None:
    """Output layer that all views share, None if each has its own; it starts at zero."""
    if not network.shared_head or not network.hidden:
        return None
    head = Linear(network.hidden[-1], n_labels, bias=False)
    nn.init.zeros_(head.weight)
    return head


def is_own(network: ViewNetwork) -> bool:
    """Whether the encoder is a module of the user, which cannot be stacked."""
    return not isinstance(network.encoder, SkipEncoder)


def stacked(networks: Any, n: int) -> Any:
    """Stack of n copies of a list of networks; encoders of the user, of one network, remain."""
    return _with_weights(networks, lambda w: torch.stack([w.mT if w.ndim == 2 else w] * n))


def unstacked(networks: Any, i: int) -> Any:
    """Copy of the list of networks at a position of a stack."""
    return _with_weights(networks, lambda w: (w[i].mT if w.ndim == 3 else w[i]).contiguous())


def _with_weights(networks: Any, change: Callable[[Tensor], Tensor]) -> Any:
    own = {id(w) for of in networks if is_own(of) for w in of.encoder.parameters()}
    weights = [weight for weight in networks.parameters() if id(weight) not in own]
    # Copies take what is in the memo for the original; views share their output layer there, too.
    memo = {id(w): nn.Parameter(change(w.data).clone()) for w in weights}
    return copy.deepcopy(networks, memo)


def restore_networks(
    weights: Mapping[str, Arrays],
    encoders: Mapping[str, nn.Module],
    n_labels: int,
    network: Network,
) -> dict[str, ViewNetwork]:
    """Trained network of each view, from the arrays of its layers, and no others."""
    with torch.device("meta"):  # tensors without memory, until the arrays take their places
        shared = _make_shared_head(network, n_labels)
    networks: dict[str, ViewNetwork] = {}
    for view, arrays in weights.items():
        if view in encoders:
            networks[view] = _user_network(encoders[view], arrays, n_labels, view)
            continue
        # Each hidden layer has four arrays, so that a network is no larger than its arrays.
        if len(arrays) >= 4 * len(network.hidden):
            n_features = max(1, arrays.get("encoder.centre", np.empty(0)).size)
            with torch.device("meta"):
                encoder = SkipEncoder(n_features, network)
                networks[view] = ViewNetwork(encoder, encoder.n_outputs, n_labels, shared)
        if view not in networks or not _are_weights_of(networks[view], arrays):
            raise ValueError(f"view {view!r}: these are not the finite weights of its layers.")
        load_arrays(networks[view], arrays, assign=True)
    heads = [arrays["shared_head.weight"] for arrays in weights.values() if shared is not None]
    if not all(np.array_equal(head, heads[0]) for head in heads):
        raise ValueError("the output layer that all views share has different weights in some.")
    return networks


def _are_weights_of(module: nn.Module, arrays: Arrays) -> bool:
    """Whether arrays are finite, and have the names, shapes and types of a default network."""
    state = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    return (
        state == {name: array.shape for name, array in arrays.items()}
        and all(a.dtype == np.float32 and np.isfinite(a).all() for a in arrays.values())
        and bool(arrays["encoder.scale"] > 0)
    )


def _user_network(encoder: nn.Module, arrays: Arrays, n_labels: int, view: str) -> ViewNetwork:
    """Network with a copy of the user's encoder, which gets the arrays of the fit."""
    width = max(1, np.atleast_1d(arrays.get("head.weight", 0)).shape[-1])
    with torch.random.fork_rng(devices=[]):  # start weights are drawn, and replaced
        network = ViewNetwork(_copy_module(encoder, view), width, n_labels)
    try:
        load_arrays(network, arrays)
        for name, found in state_arrays(network).items():
            if found.dtype != arrays[name].dtype:
                raise TypeError(f"{name} is {found.dtype}, and was {arrays[name].dtype}.")
    except Exception as error:  # whatever a user's module raises
        raise ValueError(f"view {view!r}: its encoder is not that of the fit: {error}") from error
    return network


def state_arrays(module: nn.Module) -> Arrays:
    """Weights and buffers of a module by name, as copied NumPy arrays."""
    state = module.state_dict()
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in state.items()}


def load_arrays(module: nn.Module, arrays: Arrays, *, assign: bool = False) -> None:
    """Restore what `state_arrays` returned; with ``assign`` in place of tensors without memory."""
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    module.load_state_dict(tensors, assign=assign)


def as_tensor(features: Any, device: torch.device) -> Tensor:
    """Rows of features as float32 on a device; sparse rows become dense."""
    dense = features.toarray() if sparse.issparse(features) else features
    with np.errstate(over="ignore"):  # what float32 cannot hold is reported with its place
        single = np.ascontiguousarray(dense, dtype=np.float32)
    return torch.from_numpy(single).to(device)


def prior_scores(labels: NDArray[Any], rates: NDArray[np.float64], loss: NAIM3LLoss) -> Tensor:
    """Best-fitting scores (n_labels,) if all rows of a view have the same scores.

    ``rates`` are the shares of positives over all views, strictly between 0 and 1.
    """
    # Adds two pseudo-entries at the rate over all views: a label that is never known in this view
    # starts at that rate, and one that is never positive here does not start at -inf.
    yes = loss.positive_weight * ((labels > 0).sum(axis=0) + 2 * rates)
    no = (labels < 0).sum(axis=0) + 2 * (1 - rates)
    best = (yes - no) / (yes + no) if loss.data_term == "squared" else np.log(yes / no)
    return torch.from_numpy(best.astype(np.float32))


def _check_encoders(encoders: Any, views: list[str], network: Network) -> None:
    """Refuse encoders that do not belong to the views, or cannot share an output layer."""
    given, usable = [encoders], encoders is None or callable(encoders)
    if isinstance(encoders, Mapping):
        given, usable = list(encoders.values()), set(encoders) == set(views)
    if not usable or isinstance(encoders, nn.Module):
        got = f"one of {list(encoders)}" if isinstance(encoders, Mapping) else repr(encoders)
        raise ValueError(
            f"encoders must be a mapping of each of the views {views} to a torch module or "
            f"None; a function of a view's name and number of features; or None; got {got}."
        )
    if network.shared_head and any(encoder is not None for encoder in given):
        raise ValueError(
            "shared_head=True needs the default encoders, whose last layers are equally wide; "
            "leave encoders= or shared_head= out."
        )


def _copy_module(own: Any, view: str) -> nn.Module:
    if not isinstance(own, nn.Module):
        raise TypeError(
            f"view {view!r}: its encoder must be a torch module or None, got {type(own).__name__}."
        )
    with named_failures(view, "to be copied, and only copies are trained"):
        return copy.deepcopy(own)


def _width(encoder: nn.Module, view: str, features: Any) -> int:
    """Number of columns of an encoder's output, found with two rows, and checked."""
    sample = as_tensor(features[:2], torch.device("cpu"))
    with named_failures(view, f"on rows {tuple(sample.shape)}"), torch.no_grad():
        output = encoder.cpu().eval()(sample)
    found = type(output).__name__
    if isinstance(output, Tensor):
        if output.shape[:-1] == sample.shape[:1] and output.dtype == torch.float32:
            return int(output.shape[1])
        found = f"{output.dtype} of shape {tuple(output.shape)}"
    raise ValueError(
        f"view {view!r}: its encoder must return torch.float32 of shape (n_rows, n_outputs), and "
        f"returns {found} for {len(sample)} rows; end it with Flatten() or .float()."
    )


@contextmanager
def named_failures(view: str, doing: str) -> Iterator[None]:
    """Turn any exception of an encoder into an error that names its view and the operation."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:  # not the fault of the encoder
        raise
    except Exception as error:
        raise ValueError(f"view {view!r}: its encoder fails {doing}: {error}") from error


def row_of_view(view: str, i: int) -> str:
    """Name of a row in errors if its position in the table is not known."""
    return f"view {view!r}, row {i} of those that have the view"


def check_features(fitted: ViewFeatures, batch: Batch, features: Any, present: Mask) -> None:
    """Refuse features (n_present, n_features) of the present rows that float32 cannot hold."""
    cell = first_cell(mark_cells(features, lambda values: np.abs(values) > LARGEST_FEATURE))
    if cell is None:
        return
    origin, column = batch.origin.take(present), f"column {cell[1]}"
    if any(step is not None for step in vars(fitted).values()):
        origin = origin.of_table(f"{origin.table} after its features")
    else:
        column = batch.column_label(cell[1])
    raise ValueError(
        f"{origin.place(cell[0], column)}: {features[cell]} is too large for float32, in which "
        "networks compute; remove or rescale it."
    )


def check_scores(scores: Matrix, features: Any, name_row: Callable[[int], str]) -> None:
    """Refuse scores (n_rows, n_labels) that are not finite: NaN means that a row lacks the view."""
    cell = first_cell(~np.isfinite(scores))
    if cell is not None:
        raise ValueError(
            f"{name_row(cell[0])}: its network gives {scores[cell]} as a score, from values up to "
            f"{abs(features[[cell[0]]]).max():g}. Remove or rescale values far beyond those of the "
            "fit; your own encoder must return finite numbers; if all rows are affected, lower "
            "learning_rate."
        )
