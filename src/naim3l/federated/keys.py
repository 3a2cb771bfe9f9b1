"""Keys by which sites are recognised, and the certificate of a coordinator.

The private file of a site is an OpenSSH key (ECDSA, P-384), by which it proves who it is. The
public one is a line of OpenSSH's, with the public key of its masks, which is made from the same
secret, and the name of the site. For secure sums, public files are exchanged on another way than
over the coordinator.
"""

import base64
import hashlib
import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from naim3l.files.atomic_write import Path_, check_outputs, written_whole

KIND = "ecdsa-sha2-nistp384"
DAYS = 365  # for which a certificate is valid


class PublicKey(NamedTuple):
    """What others know of a site."""

    site: str
    node: Any  # an elliptic curve public key
    masks: bytes

    @property
    def fingerprint(self) -> str:
        """What sites read to each other on the telephone, to compare their files."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        node = self.node.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
        return _in_groups(hashlib.sha256(node + self.masks + self.site.encode()).hexdigest())


def make_key(site: str, folder: Path_) -> tuple[Path, Path, PublicKey]:
    """Write the private and the public file of a new key of a site; neither may be there."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    from naim3l.files.atomic_write import file_names

    if not site.strip() or not site.isprintable():
        raise ValueError(f"a site needs a name, got {site!r}.")
    stem = Path(folder) / file_names([site])[site]
    paths = stem.with_name(f"{stem.name}.key"), stem.with_name(f"{stem.name}.pub")
    for path in paths:
        if path.exists():
            raise ValueError(f"{path} is there already; keys are not overwritten.")
    check_outputs(paths, ())
    private = ec.generate_private_key(ec.SECP384R1())
    public = private.public_key()
    _write_secret(paths[0], private, serialization.PrivateFormat.OpenSSH)
    line = public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    masks = mask_key(private).public_key().public_bytes_raw()
    with written_whole(paths[1]) as part:
        part.write_text(f"{line.decode()} {base64.b64encode(masks).decode()} {site}\n", "utf-8")
    return *paths, PublicKey(site, public, masks)


def read_key(path: Path_) -> Any:
    """The private key in a file."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        key = load_ssh_private_key(Path(path).read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{path} is no private key of a site: {error}. Make one with 'naim3l federate key'."
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp384r1":
        raise ValueError(f"{path} is a key of another kind; make one with 'naim3l federate key'.")
    return key


def read_public(paths: Sequence[Path_]) -> dict[str, PublicKey]:
    """Public keys by site, sorted by name, from their files."""
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    found: dict[str, PublicKey] = {}
    for path in paths:
        kind, *rest = Path(path).read_text("utf-8", "replace").strip().split(maxsplit=3) or [""]
        try:
            if kind != KIND:
                raise ValueError(f"it begins with {kind[:30]!r} instead of {KIND}")
            if len(rest) != 3:
                raise ValueError("it lacks the key of the masks, or the name of the site")
            node, masks, site = rest
            key = load_ssh_public_key(f"{kind} {node}".encode())
            public = PublicKey(site, key, base64.b64decode(masks, validate=True))
            if len(public.masks) != 32:
                raise ValueError("its second key has another length")
        except ValueError as error:
            raise ValueError(
                f"{path} is no public key from 'naim3l federate key': {error}."
            ) from error
        if site in found:
            raise ValueError(f"two public keys are of site {site!r}; give one of each site.")
        found[site] = public
    return dict(sorted(found.items()))


def mask_key(private: Any) -> Any:
    """The key of a site's masks (X25519), which is made from its private key."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    secret = private.private_numbers().private_value.to_bytes(48, "big")
    derived = HKDF(SHA256(), 32, salt=None, info=b"naim3l masks of a site").derive(secret)
    return X25519PrivateKey.from_private_bytes(derived)


def certificate_of(folder: Path_, hosts: Sequence[str]) -> tuple[Path, Path, str]:
    """Certificate, key and fingerprint of a server that sites reach under these names.

    Those in the folder, ``server.crt`` and ``server.key``, or new ones if there are none.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256

    folder = Path(folder)
    certificate, key = folder / "server.crt", folder / "server.key"
    if not certificate.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_certificate(certificate, key, hosts)
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except ValueError as error:
        raise ValueError(f"{certificate} is no certificate: {error}.") from error
    if found.not_valid_after_utc < datetime.now(UTC):
        raise ValueError(
            f"{certificate} has expired: remove it and {key.name}, and send the new one to all."
        )
    return certificate, key, _in_groups(found.fingerprint(SHA256()).hex())


def _make_certificate(certificate: Path, key: Path, hosts: Sequence[str]) -> None:
    """A certificate that signs itself: sites are given it, and trust no other."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "naim3l coordinator")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, private.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1))
    builder = builder.not_valid_after(now + timedelta(days=DAYS))
    own = x509.SubjectKeyIdentifier.from_public_key(private.public_key())
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
    )
    usage |= {"crl_sign": False, "encipher_only": False, "decipher_only": False}
    for extension, critical in (
        (x509.SubjectAlternativeName([_name(host) for host in hosts]), False),
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (x509.KeyUsage(digital_signature=True, key_cert_sign=True, **usage), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (own, False),
        (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), False),
    ):
        builder = builder.add_extension(extension, critical)
    signed = builder.sign(private, hashes.SHA256())
    _write_secret(key, private, serialization.PrivateFormat.PKCS8)
    with written_whole(certificate) as part:
        part.write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def _name(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_secret(path: Path, private: Any, form: Any) -> None:
    """A private key in a file that only its owner can read, from the first byte on."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption

    with written_whole(path) as part:
        part.chmod(0o600)
        part.write_bytes(private.private_bytes(Encoding.PEM, form, NoEncryption()))


def _in_groups(digits: str) -> str:
    return " ".join(digits[i : i + 4] for i in range(0, 32, 4))
