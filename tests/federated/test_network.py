"""Rounds over a network: Flower's server and connections of this machine, with TLS and keys."""

import os
import signal
import subprocess
import sys
import time
from io import BytesIO
from shutil import rmtree
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from naim3l import NAIM3L, NAIM3LCV, load
from naim3l.datasets import make_unpaired
from naim3l.federated import simulate
from sites_apart import LABELS, JoinedSites, free_port, make_sites

pytest.importorskip("flwr", reason="needs flwr: pip install 'naim3l[flwr]'")

from naim3l.federated import network

pytestmark = [
    pytest.mark.flwr,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # in packages that Flower brings
]
MODEL = NAIM3L(lam=0.5, ridge=1.5)
SEARCH = NAIM3LCV(lams=[0.5], ridges=[1.0], cv=2, random_state=0)


@pytest.fixture
def make_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(network, "AGAIN", 0.2)
    monkeypatch.setattr(network, "PATIENCE", 1.0)
    return lambda *names: JoinedSites(tmp_path, names, MODEL)


@pytest.fixture(scope="module")
def data():
    data = make_unpaired((90, 80), n_features=(8, 9), n_labels=3, noise=1, random_state=0)
    views = zip(("north", "south"), data.views, strict=True)
    return {site: ({v: data.views[v]}, {v: data.labels[v]}) for site, v in views}


@pytest.mark.filterwarnings("ignore:.*unknown here")
@pytest.mark.parametrize("model, secure", [(MODEL, True), (SEARCH, False)])
def test_sites_apart_learn_the_weights_of_one_process(make_fit, model, secure):
    """See `test_same_weights`, too: here with secure sums, and a search."""
    sites = make_sites(3, "tables apart")
    expected = simulate(sites, model, labels=LABELS, minimum_count=0).models
    fit = make_fit(*sites)
    found = fit.of_all(sites, model, labels=LABELS, others=fit.public if secure else ())
    for site, (X, _) in sites.items():
        for view in X:
            mine, its = found[site].coef_[view], expected[site].coef_[view]
            assert_allclose(mine, its, atol=1e-8 if secure else 0, rtol=0)
    assert found["hub"].rounds > 10
    assert len(set(found["hub"].bytes_received.values())) == 1


def test_a_coordinator_and_sites_that_are_not_alike(make_fit, data):
    fit = make_fit(*data)
    fit.serve()
    for k, (site, rows) in enumerate(data.items()):
        fit.join(site, *rows, NAIM3L(lam=0.5, ridge=1.0 + k))
    found = fit.wait()
    assert "are not at the same step" in str(found["hub"])
    for site in data:
        assert "the coordinator has ended the fit: sites 'north' and 'south'" in str(found[site])


def test_a_stranger_is_refused(make_fit, data):
    fit = make_fit("north", "south")
    fit.serve(fit.public[:1])
    fit.join("south", *data["south"])
    fit.threads[-1].join(60)
    error = fit.found["south"]
    assert isinstance(error, PermissionError)
    assert "the coordinator refuses the key of site 'south'" in str(error)


def test_another_server_is_refused(make_fit, data, tmp_path):
    from naim3l.federated.keys import certificate_of

    fit = make_fit("north")
    fit.serve()
    other = certificate_of(tmp_path / "other", ["127.0.0.1"])[0]
    fit.join("north", *data["north"], certificate=other)
    fit.threads[-1].join(60)
    assert isinstance(fit.found["north"], PermissionError)
    assert "certificate is not the one that was given" in str(fit.found["north"])


def test_servers_and_certificates_that_are_none(make_fit, data):
    fit = make_fit("north")
    for more, reason in (
        (
            {"server": "https://hub"},
            "the server is a host and a port, such as hub:9443, got 'https",
        ),
        ({"certificate": fit.public[0]}, "north.pub is no certificate; get server.crt from the"),
    ):
        (fit.folder / "server.crt").write_text("-----BEGIN CERTIFICATE-----")
        fit.join("north", *data["north"], **more)
        fit.threads[-1].join(60)
        assert reason in str(fit.found["north"])
    assert [network.address_of(each) for each in ("hub", "hub:1", "[::1]")] == [
        "hub:9443",
        "hub:1",
        "[::1]:9443",
    ]


def test_a_key_that_belongs_to_another_site(make_fit, data, tmp_path):
    fit = make_fit("north", "south")
    fit.serve(fit.public[1:])
    fit.join("north", *data["north"], key=tmp_path / "south.key")
    found = fit.wait()
    assert "the key of site 'south' is used by a site that calls itself 'n" in str(found["hub"])


def test_secure_sums_need_all_keys(make_fit, data):
    fit = make_fit("north", "south")
    fit.serve()
    for others in (fit.public[:1], fit.public[1:]):
        fit.join("north", *data["north"], others=others)
        fit.threads[-1].join(60)
        assert "secure sums need the public keys of all sites" in str(fit.found.pop("north"))


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_a_folder_that_was_lost_is_noticed(make_fit, data):
    """One site has all turns but the end of a fit, the other has none."""
    fit = make_fit(*data)
    for _ in range(2):
        fit.serve()
        for site, rows in data.items():
            fit.join(site, *rows, NAIM3L(lam=0.5, ridge=1.5, max_iter=2))
        found = fit.wait()
        (fit.folder / "north" / "over").unlink(missing_ok=True)
        rmtree(fit.folder / "south")
    assert "site 'south' has lost its folder, or begun another fit" in str(found["hub"])


def test_only_sites_can_talk_to_the_server(make_fit, data):
    """Nobody can start an app, register a site or read documentation."""
    import ssl
    from http.client import HTTPSConnection

    fit = make_fit(*data)
    fit.serve()
    trusted = ssl.create_default_context(cafile=fit.folder / "server.crt")
    answers = {}
    for path in ("control/start-run", "control/register-node", "runtime/pull-messages"):
        answers[path] = 404
    answers |= {"fleet/pull-messages": 401, "fleet/register-node": 401, "../docs": 404}
    for path, status in answers.items():
        for _ in range(50):
            try:
                connection = HTTPSConnection("127.0.0.1", fit.port, context=trusted, timeout=10)
                connection.request(
                    "POST", f"/v1/{path}", b"", {"content-type": "application/protobuf"}
                )
                assert connection.getresponse().status == status, path
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        connection.close()


def test_a_letter_cannot_carry_code(tmp_path):
    """Arrays of objects, which Python would unpickle, are not read."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    from naim3l.federated.flower import _letter

    mark = tmp_path / "was-here"

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {mark}",)

    file = BytesIO()
    np.save(file, np.array([Evil()], dtype=object), allow_pickle=True)
    array = Array(dtype="object", shape=(1,), stype="numpy.ndarray", data=file.getvalue())
    content = RecordDict({"facts": ConfigRecord({}), "arrays": ArrayRecord({"x": array})})
    with pytest.raises(ValueError, match="allow_pickle=False"):
        _letter(SimpleNamespace(content=content))
    assert not mark.exists()
    np.load(BytesIO(file.getvalue()), allow_pickle=True)  # which would have run it
    assert mark.exists()


def test_nothing_is_reported_to_others():
    import naim3l.federated.flower  # noqa: F401

    assert os.environ["FLWR_TELEMETRY_ENABLED"] == "0"


SETTINGS = """
[views.{view}]
source = "{view}.csv"
labels = ["dx*"]

[model]
lam = 0.5
ridge = 1.5
max_iter = 12

[federated]
site = "{site}"
labels = {labels}
minimum_count = 0
"""


@pytest.fixture
def study(tmp_path):
    """Two sites with files, and the models that they have in one process."""
    data = make_unpaired((90, 80), n_features=(9, 10), n_labels=4, noise=1, random_state=1)
    labels = [f"dx{k}" for k in range(4)]
    sites = {}
    for site, view in zip(("north", "south"), data.views, strict=True):
        X = pd.DataFrame(data.views[view]).add_prefix("x").round(6)
        y = pd.DataFrame(data.labels[view], columns=labels)
        (tmp_path / site).mkdir()
        pd.concat([X, y.astype(int)], axis=1).to_csv(tmp_path / site / f"{view}.csv", index=False)
        text = SETTINGS.format(site=site, view=view, labels=labels)
        (tmp_path / site / "study.toml").write_text(text)
        sites[site] = view
    return tmp_path, sites


def command(folder, *words):
    log = (folder / "log").open("a")
    words = [sys.executable, "-m", "naim3l", "federate", *map(str, words)]
    return subprocess.Popen(words, cwd=folder, stdout=log, stderr=subprocess.STDOUT)


def turns(folder):
    return len(list(folder.glob("answer-*.npz")))


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_processes_that_are_killed_go_on_with_the_same_bits(study, rng):
    """Both commands, each killed with -9 in a random round; models equal those never killed."""
    folder, sites = study
    port, server = free_port(), None
    for site in sites:
        assert command(folder / site, "key", site).wait(60) == 0

    def start_server():
        keys = [folder / site / f"{site}.pub" for site in sites]
        return command(folder, "serve", *keys, "--folder", "hub", "--port", port)

    def start_site(site, out):
        where = ("--server", f"127.0.0.1:{port}", "--certificate", folder / "hub" / "server.crt")
        own = ("--config", "study.toml", "--key", f"{site}.key", "-o", out)
        return command(folder / site, "join", *own, *where)

    models = {}
    for run in ("whole", "killed"):
        server = start_server()
        while not (folder / "hub" / "server.crt").exists():
            time.sleep(0.1)
        processes = {site: start_site(site, run) for site in sites}
        if run == "killed":
            first, second = sorted(rng.integers(2, 15, 2))
            wait_for(folder / "south" / "killed.fit", first)
            kill(processes["south"])
            processes["south"] = start_site("south", run)
            wait_for(folder / "north" / "killed.fit", second + 4)
            kill(server)
            server = start_server()
        for site, process in processes.items():
            assert process.wait(150) == 0, (folder / site / "log").read_text()
        assert server.wait(60) == 0, (folder / "log").read_text()
        models[run] = {site: load(folder / site / run) for site in sites}
    for site, view in sites.items():
        one, other = models["whole"][site], models["killed"][site]
        assert_array_equal(one.coef_[view], other.coef_[view])
        assert one.n_iter_ == other.n_iter_


def wait_for(folder, n):
    end = time.monotonic() + 100
    while turns(folder) < n:
        assert time.monotonic() < end, f"{folder}: no turn {n}"
        time.sleep(0.05)
