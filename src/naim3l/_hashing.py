"""Hashes of whole numbers that are the same in every process and on every machine (SplitMix64)."""

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

STEP = np.uint64(0x9E3779B97F4A7C15)  # between two states of the generator
_MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31


def mix(bits: Hashes) -> Hashes:
    """Hashes whose bits depend on all bits of the given numbers, which are overwritten."""
    for shift, factor in _MIXING:
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    bits ^= bits >> np.uint64(_LAST_SHIFT)
    return bits


def splitmix64(bits: Hashes) -> Hashes:
    """One-to-one map of 64 bits in which every bit depends on all others."""
    return mix(bits + STEP)
