"""Keys of sites, and the certificate of a coordinator."""

import ssl
import stat
import subprocess
from shutil import which

import pytest

pytest.importorskip("cryptography", reason="needs cryptography: pip install 'naim3l[federated]'")

from naim3l.federated.keys import certificate_of, make_key, mask_key, read_key, read_public
from naim3l.federated.secure import Masks


@pytest.fixture
def north(tmp_path):
    return make_key("north hospital", tmp_path)


def test_files_of_a_key(north):
    private, public, made = north
    assert (private.name, public.name) == ("north hospital.key", "north hospital.pub")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    key, found = read_key(private), read_public([public])["north hospital"]
    assert found.node == key.public_key() == made.node
    assert found.masks == mask_key(key).public_key().public_bytes_raw() == made.masks
    assert found.fingerprint == made.fingerprint and len(made.fingerprint) == 39


@pytest.mark.skipif(which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_ssh_knows_them(north):
    private, public, _ = north
    made = subprocess.run(["ssh-keygen", "-y", "-f", private], capture_output=True, text=True)
    assert public.read_text().startswith(made.stdout.strip())


def test_masks_of_keys_from_files_cancel(tmp_path):
    import numpy as np

    sites = ("north", "south", "west")
    paths = {site: make_key(site, tmp_path)[:2] for site in sites}
    publics = {site: of.masks for site, of in read_public([p for _, p in paths.values()]).items()}

    def hidden(turn, fresh):
        made = {s: Masks(s, mask_key(read_key(paths[s][0]))).agree(publics, fresh) for s in sites}
        return [made[s].hide({"x": np.ones(2)}, turn)["x"] for s in sites]

    one = hidden(0, b"1")
    assert np.sum(one, axis=0).view(np.int64) / 2**36 == pytest.approx(3)
    assert (one[0] == hidden(0, b"1")[0]).all()  # after a restart
    assert (one[0] != hidden(1, b"1")[0]).all() and (one[0] != hidden(0, b"2")[0]).all()


def test_keys_are_not_overwritten(north, tmp_path):
    with pytest.raises(ValueError, match=r"hospital.key is there already; keys are not overwr"):
        make_key("north hospital", tmp_path)
    with pytest.raises(ValueError, match="a site needs a name, got ' '"):
        make_key(" ", tmp_path)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "it begins with ''"),
        ("ssh-rsa AAAA x", "it begins with 'ssh-rsa'"),
        ("ecdsa-sha2-nistp384 AAAA", "it lacks the key of the masks"),
        ("ecdsa-sha2-nistp384 AAAA bWFza3M= north", ""),
        ("{line} bWFza3M= north", "its second key has another length"),
    ],
)
def test_other_files_are_no_public_keys(north, tmp_path, text, reason):
    line = " ".join(north[1].read_text().split()[:2])
    path = tmp_path / "other.pub"
    path.write_text(text.format(line=line))
    with pytest.raises(ValueError, match=rf"other.pub is no public key from .*{reason}"):
        read_public([path])


def test_a_site_has_one_key(north):
    with pytest.raises(ValueError, match="two public keys are of site 'north hospital'"):
        read_public([north[1], north[1]])


def test_other_private_keys(tmp_path, north):
    path = tmp_path / "x.key"
    path.write_text("nothing")
    with pytest.raises(ValueError, match=r"x.key is no private key of a site"):
        read_key(path)
    with pytest.raises(ValueError, match=r"hospital.pub is no private key"):
        read_key(north[1])


def test_a_certificate_is_made_once(tmp_path):
    made = certificate_of(tmp_path / "hub", ["hub.example.org", "127.0.0.1", "::1"])
    certificate, key, _ = made
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert certificate_of(tmp_path / "hub", ["other"]) == made
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    found = ssl._ssl._test_decode_cert(str(certificate))
    names = {name for _, name in found["subjectAltName"]}
    assert names == {"hub.example.org", "127.0.0.1", "0:0:0:0:0:0:0:1"}


def test_an_expired_certificate_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("naim3l.federated.keys.DAYS", 0)
    with pytest.raises(ValueError, match=r"has expired: remove it and server.key"):
        certificate_of(tmp_path, ["localhost"])
    (tmp_path / "server.crt").write_text("nothing")
    with pytest.raises(ValueError, match=r"server.crt is no certificate"):
        certificate_of(tmp_path, ["localhost"])
