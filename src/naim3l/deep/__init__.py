"""The regulariser for networks: a loss for any training loop, and an estimator that uses it.

This module needs torch (``pip install "naim3l[torch]"``); the rest of the package does not.
"""

try:
    import torch  # noqa: F401 -- only whether it is there
except ImportError as error:
    raise ImportError('naim3l.deep needs torch: pip install "naim3l[torch]"') from error

from naim3l.deep.deep_naim3l import DeepNAIM3L
from naim3l.deep.loss import NAIM3LLoss, trace_norm
from naim3l.deep.networks import Network
from naim3l.deep.training import Training

__all__ = ["DeepNAIM3L", "NAIM3LLoss", "Network", "Training", "trace_norm"]
