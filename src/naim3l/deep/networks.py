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

# Rows that pass through an encoder at once when scores are made.
ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Architecture:
    """Default encoder: numbers that, with the numbers of features and labels, determine it.

    Attributes
    ----------
    hidden : tuple of int
        Widths of the hidden layers; none of them make a linear model.
    dropout : float
        Share of each hidden layer that is dropped in training.
    """

    hidden: tuple[int, ...]
    dropout: float


class SkipEncoder(nn.Module):
    """Features beside what a multilayer perceptron makes of them.

    A linear head on both contains the linear model. Features are first centred and divided by one
    number, so that their mean square is 1; both are fixed before training.

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
        self.register_buffer("centre", torch.zeros(n_features))
        self.register_buffer("scale", torch.ones(()))

    def fit_scale(self, features: Any) -> None:
        """Centre and scale of training features, an ndarray or CSR array."""
        centre = np.asarray(features.mean(axis=0)).ravel()
        square = (features.power(2) if sparse.issparse(features) else features**2).mean(axis=0)
        variance = float(np.mean(np.asarray(square).ravel() - centre**2))
        self.centre.copy_(torch.from_numpy(centre))
        self.scale.fill_(variance**0.5 if variance > 0 else 1.0)

    def forward(self, features: Tensor) -> Tensor:
        features = (features - self.centre) / self.scale
        if self.layers is None:
            return features
        return torch.cat([features, self.layers(features)], dim=1)


class ViewNetwork(nn.Module):
    """Encoder and head of one view: features (n_rows, n_features) to scores (n_rows, n_labels)."""

    def __init__(self, encoder: nn.Module, width: int, n_labels: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(width, n_labels)
        nn.init.zeros_(self.head.weight)

    def forward(self, features: Tensor) -> Tensor:
        return self.head(self.encoder(features))

    def start_at(self, bias: Tensor) -> None:
        """Scores of all rows before training, (n_labels,)."""
        with torch.no_grad():
            self.head.bias.copy_(bias)


def default_network(n_features: int, n_labels: int, architecture: Architecture) -> ViewNetwork:
    """Network with the default encoder; its weights are drawn from torch's own generator."""
    encoder = SkipEncoder(n_features, architecture)
    return ViewNetwork(encoder, encoder.n_outputs, n_labels)


def make_networks(
    encoders: Any, features: Mapping[str, Any], n_labels: int, architecture: Architecture
) -> dict[str, ViewNetwork]:
    """Untrained network of each view.

    Parameters
    ----------
    encoders : None, mapping of view to module or None, or callable
        None makes default encoders. A callable gets the name of the view and its number of
        features. Modules are copied, wherever they come from.
    features : mapping of view to ndarray or CSR array of shape (n_rows, n_features)
        Of the training rows.
    n_labels : int
    architecture : Architecture
        Of default encoders.
    """
    networks = {}
    for view, X in features.items():
        own = None if encoders is None else _user_encoder(encoders, view, X.shape[1])
        if own is not None:
            networks[view] = ViewNetwork(own, _width(own, view, X), n_labels)
            continue
        encoder = SkipEncoder(X.shape[1], architecture)
        encoder.fit_scale(X)
        if not encoder.scale > 0:  # it was, in float64
            raise ValueError(
                f"view {view!r}: its values, {abs(X).max():g} at most, are too small for float32, "
                "in which networks compute; rescale them."
            )
        networks[view] = ViewNetwork(encoder, encoder.n_outputs, n_labels)
    return networks


def _user_encoder(
    encoders: Mapping[str, nn.Module | None] | Callable[[str, int], nn.Module | None],
    view: str,
    n_features: int,
) -> nn.Module | None:
    """Encoder that a user gave for a view, None for the default one."""
    own = encoders[view] if isinstance(encoders, Mapping) else encoders(view, n_features)
    if own is not None and not isinstance(own, nn.Module):
        raise TypeError(
            f"view {view!r}: its encoder must be a torch module or None, got {type(own).__name__}."
        )
    # A callable may hand out a module that is there already, and again for the next fit: training
    # it in place would let that fit start from what this one has learned.
    try:
        return copy.deepcopy(own)
    except Exception as error:  # whatever a user's module raises
        raise ValueError(
            f"view {view!r}: its encoder cannot be copied, and only copies are trained: {error}"
        ) from error


def _width(encoder: nn.Module, view: str, features: Any) -> int:
    """Columns of an encoder's output, seen on two rows."""
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
    """Scores of features, ndarray or CSR array, by the network of a view, on the device."""
    network.eval()
    with torch.no_grad(), named_failures(view, f"on rows {features.shape}"):
        parts = [
            network(as_tensor(features[start : start + ROWS_AT_ONCE], device)).cpu()
            for start in range(0, features.shape[0], ROWS_AT_ONCE)
        ]
    return torch.cat(parts).numpy().astype(np.float64)


def state_arrays(module: nn.Module) -> dict[str, NDArray[Any]]:
    """Weights and buffers of a module by name, as copies in NumPy."""
    return {name: tensor.detach().cpu().numpy().copy()
            for name, tensor in module.state_dict().items()}  # fmt: skip


def load_arrays(module: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put back what `state_arrays` gave."""
    module.load_state_dict({name: torch.from_numpy(np.array(a)) for name, a in arrays.items()})


def prior_scores(
    labels: NDArray[Any], rates: NDArray[np.float64], positive_weight: float, data_term: str
) -> Tensor:
    """Scores (n_labels,) that fit best when all rows get the same.

    Parameters
    ----------
    labels : ndarray of shape (n_rows, n_labels)
        1 = yes, -1 = no, 0 = unknown, of one view.
    rates : ndarray of shape (n_labels,)
        Share of positives of each label over all views, between 0 and 1 without these.
    positive_weight : float
    data_term : {"squared", "logistic"}
    """
    # Two known entries on top, in the ratio of all views: a label never known in this view starts
    # at its rate in the others, and one never positive here not at -inf.
    yes = positive_weight * ((labels > 0).sum(axis=0) + 2 * rates)
    no = (labels < 0).sum(axis=0) + 2 * (1 - rates)
    best = (yes - no) / (yes + no) if data_term == "squared" else np.log(yes / no)
    return torch.from_numpy(best.astype(np.float32))
