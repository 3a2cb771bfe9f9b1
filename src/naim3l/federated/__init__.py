"""Sites that share nothing but small sums over labels, so that rows never leave where they are."""

from naim3l.federated.network import join, serve
from naim3l.federated.shares import Share, combine, finish, share
from naim3l.federated.simulation import Simulation, simulate

__all__ = ["Share", "Simulation", "combine", "finish", "join", "serve", "share", "simulate"]
