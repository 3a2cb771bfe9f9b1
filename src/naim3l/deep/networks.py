"""The network of one view: an encoder of its features, and a linear head to the labels."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from naim3l.deep.refusals import check_encoded, named_failures

# Rows per forward pass when scores are computed.
ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Architecture:
    """Parameters of the default encoder.

    Attributes
    ----------
    hidden : tuple of int
        Widths of the hidden layers; an empty tuple gives a linear model.
    dropout : float
        Share of the units of each hidden layer that is dropped in training.
    noise : float
        Standard deviation of the noise that is added to the scaled features in training.
    shared_head : bool
        Whether the views have the head of the last hidden layer in common.
    """

    hidden: tuple[int, ...]
    dropout: float
    noise: float = 0.0
    shared_head: bool = False


class SkipEncoder(nn.Module):
    """Concatenation of the features and the output of a multilayer perceptron.

    With a linear head, the linear model is a special case. Features are first centred and divided
    by one number, so that their mean square is 1; both are fixed before training.

    Parameters
    ----------
    n_features : int
    architecture : Architecture
    """

    centre: Tensor
    scale: Tensor

    def __init__(self, n_features: int, architecture: Architecture) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = n_features
        for n_units in architecture.hidden:
            layers += [nn.Linear(width, n_units), nn.LayerNorm(n_units), nn.ReLU()]
            layers.append(nn.Dropout(architecture.dropout))
            width = n_units
        self.layers = nn.Sequential(*layers) if layers else None
        self.n_outputs = n_features + (width if layers else 0)
        self.noise = architecture.noise
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
        features = (features - self.centre) / self.scale
        if self.training and self.noise > 0:
            features = features + self.noise * torch.randn_like(features)
        if self.layers is None:
            return features
        return torch.cat([features, self.layers(features)], dim=1)


class ViewNetwork(nn.Module):
    """Encoder and head of a view, from (n_rows, n_features) to scores (n_rows, n_labels).

    Parameters
    ----------
    encoder : torch module
    width : int
        Number of columns of the encoder's output.
    n_labels : int
    shared_head : torch module, optional
        Head of the last columns of the output, which several views have in common. The view's own
        head is that of the other columns.
    """

    def __init__(
        self, encoder: nn.Module, width: int, n_labels: int, shared_head: nn.Linear | None = None
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.shared_head = shared_head
        n_own = width if shared_head is None else width - shared_head.in_features
        self.head = nn.Linear(n_own, n_labels)
        nn.init.zeros_(self.head.weight)

    def forward(self, features: Tensor) -> Tensor:
        encoded = self.encoder(features)
        if self.shared_head is None:
            return self.head(encoded)
        n_own = self.head.in_features
        return self.head(encoded[:, :n_own]) + self.shared_head(encoded[:, n_own:])

    def start_at(self, bias: Tensor) -> None:
        """Set the scores of all rows before training, (n_labels,)."""
        with torch.no_grad():
            self.head.bias.copy_(bias)


def make_shared_head(architecture: Architecture, n_labels: int) -> nn.Linear | None:
    """Head that all views have in common, None if each has its own; it starts at zero."""
    if not architecture.shared_head or not architecture.hidden:
        return None
    head = nn.Linear(architecture.hidden[-1], n_labels, bias=False)
    nn.init.zeros_(head.weight)
    return head


def default_network(n_features: int, n_labels: int, architecture: Architecture) -> ViewNetwork:
    """Network with the default encoder; weights are drawn from torch's global generator."""
    encoder = SkipEncoder(n_features, architecture)
    shared = make_shared_head(architecture, n_labels)
    return ViewNetwork(encoder, encoder.n_outputs, n_labels, shared)


def make_networks(
    encoders: Any, features: Mapping[str, Any], n_labels: int, architecture: Architecture
) -> dict[str, ViewNetwork]:
    """Untrained network of each view.

    Parameters
    ----------
    encoders : None, mapping of view to module or None, or callable
        None gives default encoders. A callable gets the name of the view and its number of
        features. Modules are always copied.
    features : mapping of view to ndarray or CSR array of shape (n_rows, n_features)
        Features of the training rows.
    n_labels : int
    architecture : Architecture
        Parameters of default encoders.
    """
    networks, shared = {}, make_shared_head(architecture, n_labels)
    for view, X in features.items():
        own = None if encoders is None else _user_encoder(encoders, view, X.shape[1])
        if own is not None:
            networks[view] = ViewNetwork(own, _width(own, view, X), n_labels)
            continue
        encoder = SkipEncoder(X.shape[1], architecture)
        encoder.fit_scale(X)
        if not encoder.scale > 0:  # it was positive in float64
            raise ValueError(
                f"view {view!r}: its values, {abs(X).max():g} at most, are too small for float32, "
                "in which networks compute; rescale them."
            )
        networks[view] = ViewNetwork(encoder, encoder.n_outputs, n_labels, shared)
    return networks


def _user_encoder(
    encoders: Mapping[str, nn.Module | None] | Callable[[str, int], nn.Module | None],
    view: str,
    n_features: int,
) -> nn.Module | None:
    """Encoder that the user gave for a view; None for the default one."""
    own = encoders[view] if isinstance(encoders, Mapping) else encoders(view, n_features)
    if own is not None and not isinstance(own, nn.Module):
        raise TypeError(
            f"view {view!r}: its encoder must be a torch module or None, got {type(own).__name__}."
        )
    # A callable may return the same module for every fit: training it in place would make the next
    # fit start from the weights of this one.
    try:
        return copy.deepcopy(own)
    except Exception as error:  # whatever a user's module raises
        raise ValueError(
            f"view {view!r}: its encoder cannot be copied, and only copies are trained: {error}"
        ) from error


def _width(encoder: nn.Module, view: str, features: Any) -> int:
    """Number of columns of an encoder's output, found with two rows."""
    sample = as_tensor(features[:2], torch.device("cpu"))
    with named_failures(view, f"on rows {tuple(sample.shape)}"), torch.no_grad():
        output = encoder.cpu().eval()(sample)
    check_encoded(output, view, sample)
    return int(output.shape[1])


def as_tensor(features: Any, device: torch.device) -> Tensor:
    """Rows of features as float32 on a device; sparse rows become dense."""
    dense = features.toarray() if sparse.issparse(features) else features
    return torch.from_numpy(np.ascontiguousarray(dense, dtype=np.float32)).to(device)


def score_rows(
    network: ViewNetwork, features: Any, device: torch.device, view: str
) -> NDArray[np.float64]:
    """Scores of features, an ndarray or CSR array, by the network of a view on the device."""
    network.eval()
    with torch.no_grad(), named_failures(view, f"on rows {features.shape}"):
        parts = [
            network(as_tensor(features[start : start + ROWS_AT_ONCE], device)).cpu()
            for start in range(0, features.shape[0], ROWS_AT_ONCE)
        ]
    return torch.cat(parts).numpy().astype(np.float64)


def state_arrays(module: nn.Module) -> dict[str, NDArray[Any]]:
    """Weights and buffers of a module by name, as copied NumPy arrays."""
    return {name: tensor.detach().cpu().numpy().copy()
            for name, tensor in module.state_dict().items()}  # fmt: skip


def load_arrays(module: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Restore what `state_arrays` returned."""
    module.load_state_dict({name: torch.from_numpy(np.array(a)) for name, a in arrays.items()})


def prior_scores(
    labels: NDArray[Any], rates: NDArray[np.float64], positive_weight: float, data_term: str
) -> Tensor:
    """Best-fitting scores (n_labels,) if all rows have the same scores.

    Parameters
    ----------
    labels : ndarray of shape (n_rows, n_labels)
        Labels of one view: 1 = yes, -1 = no, 0 = unknown.
    rates : ndarray of shape (n_labels,)
        Share of positives of each label over all views, strictly between 0 and 1.
    positive_weight : float
    data_term : {"squared", "logistic"}
    """
    # Adds two pseudo-entries at the rate over all views: a label that is never known in this view
    # starts at that rate, and one that is never positive here does not start at -inf.
    yes = positive_weight * ((labels > 0).sum(axis=0) + 2 * rates)
    no = (labels < 0).sum(axis=0) + 2 * (1 - rates)
    best = (yes - no) / (yes + no) if data_term == "squared" else np.log(yes / no)
    return torch.from_numpy(best.astype(np.float32))
