"""Sums of which nobody sees the terms: numbers plus masks that cancel each other.

A sketch by people who are not cryptographers, around standard parts of the package cryptography.
Each pair of sites agrees on a key (X25519, HKDF with SHA-256), from which both make the same stream
of masks (AES-256 in counter mode); one adds it, the other subtracts it. Numbers are multiples of
2^-36 modulo 2^64, so that sums are exact. Keys are made for one fit and thrown away. Sites must
compare the public keys on another way than through the coordinator, who could otherwise put in its
own. All sites must take part to the end; if one fails, the fit starts again with new keys.
"""

import hashlib
from collections.abc import Mapping
from itertools import count
from typing import Any

import numpy as np

from naim3l._arrays import Arrays

BITS, LARGEST = 36, 2.0**26


class Masks:
    """The masks of one site, for one fit."""

    def __init__(self, site: str, private: Any = None) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        except ImportError as error:
            message = "secure sums need cryptography: pip install 'naim3l[federated]'."
            raise ImportError(message) from error
        self.site, self._private = site, private or X25519PrivateKey.generate()
        self.public: bytes = self._private.public_key().public_bytes_raw()

    def agree(self, publics: Mapping[str, bytes], fresh: bytes = b"") -> "Masks":
        """Make a key with every other site, given the public keys of all.

        If keys are used for several fits, ``fresh`` must have something that is new at every site.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        everyone = b"".join(site.encode() + b"\0" + key for site, key in sorted(publics.items()))
        about = b"naim3l masks " + hashlib.sha256(everyone + fresh).digest()
        self._keys: dict[str, bytes] = {}
        for other, key in publics.items():
            if other != self.site:
                pair = "\0".join(sorted((self.site, other))).encode()
                secret = self._private.exchange(X25519PublicKey.from_public_bytes(key))
                self._keys[other] = HKDF(SHA256(), 32, salt=None, info=about + pair).derive(secret)
        return self

    def hide(self, arrays: Arrays, turn: int) -> Arrays:
        """Arrays as masked whole numbers, of which only the sum over all sites tells anything.

        No two arrays may be hidden in the same turn: their difference would show.
        """
        hidden: Arrays = {}
        for i, (name, array) in enumerate(arrays.items()):
            if not (np.abs(array) < LARGEST / (1 + len(self._keys))).all():
                raise ValueError(f"secure sums are below {LARGEST:.3g}; {name} has larger numbers.")
            total = np.rint(np.ldexp(array, BITS)).astype(np.int64).view(np.uint64)
            for other, key in self._keys.items():
                mask = _stream(key, turn, i, array.size).reshape(array.shape)
                total = total + mask if self.site < other else total - mask
            hidden[name] = total
        return hidden


def reveal(total: Any) -> Any:
    """Numbers from sums of masked ones of all sites; other sums as they are."""
    return np.ldexp(total.view(np.int64), -BITS) if total.dtype == np.uint64 else total


def secured(exchanges: Mapping[str, Any]) -> dict[str, Any]:
    """Exchanges of all sites that hide what is sent; keys are compared in the process."""
    masks = {site: Masks(site) for site in exchanges}
    publics = {site: of.public for site, of in masks.items()}

    def hide(site: str) -> Any:
        own, exchange, turns = masks[site].agree(publics), exchanges[site], count()
        return lambda ask, arrays: exchange(ask, own.hide(arrays, next(turns)))

    return {site: hide(site) for site in exchanges}


def _stream(key: bytes, turn: int, i: int, n: int) -> Any:
    """Masks (n,) of the i-th array of a turn, which has a part of the counter of its own."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    start = turn.to_bytes(6, "big") + i.to_bytes(2, "big") + bytes(8)
    stream = Cipher(AES(key), CTR(start)).encryptor().update(bytes(8 * n))
    return np.frombuffer(stream, dtype="<u8")
