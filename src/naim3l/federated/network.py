"""NAIM3L in rounds over a network: a coordinator, and sites that join it.

The coordinator keeps nothing but public keys: it asks each site how far it is, and resumes
there. Sites keep a `Journal`. So either can be killed and started again at any time.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from naim3l._arrays import Arrays
from naim3l._text import some
from naim3l._threads import limited_blas
from naim3l.federated.journal import Journal
from naim3l.federated.keys import certificate_of, mask_key, read_key, read_public
from naim3l.federated.rounds import THE_END, Ask, answer, fit_in_rounds
from naim3l.federated.secure import Masks
from naim3l.federated.shares import MINIMUM_COUNT
from naim3l.files.atomic_write import Path_

VERSION = 1  # of the messages
PORT = 9443
# Seconds: between looks for letters, before a lost connection is tried again, and for which one
# that is refused is tried, because a site that was killed is still taken for present.
LOOK, AGAIN, PATIENCE = 0.1, 2.0, 60.0
TELL = 10.0  # seconds between reports of how far the fit is
FIRST = -1  # the turn in which sites only say how far they are

Report = Callable[[str], None]


class Conducted(NamedTuple):
    """What a coordinator has done.

    Attributes
    ----------
    rounds : int
        How often all sites have asked for something.
    bytes_received, bytes_sent : dict of str to int
        By site: arrays, without what the network adds.
    seconds : float
        From the first round to the last.
    """

    rounds: int
    bytes_received: dict[str, int]
    bytes_sent: dict[str, int]
    seconds: float


def join(
    X: Any,
    y: Any,
    estimator: Any,
    *,
    site: str,
    server: str,
    certificate: Path_,
    key: Path_,
    folder: Path_,
    others: Sequence[Path_] = (),
    labels: Sequence[str] | None = None,
    minimum_count: int = MINIMUM_COUNT,
    report: Report = lambda line: None,
) -> Any:
    """The model of a site, fitted in rounds with other sites over a network.

    Nothing that the server sends is run. A fit that is stopped, in any way, resumes when it is
    started again with the same folder.

    Parameters
    ----------
    X, y, estimator, site, labels, minimum_count
        As for `simulate`, of this site.
    server : str
        Address of the coordinator, such as "hub.example.org:9443"; the port is by default 9443.
    certificate : path
        The coordinator's certificate; another server is refused.
    key : path
        The private key of this site.
    folder : path
        Where the fit is kept until it has ended, on the site's own disk; one folder for each fit.
    others : sequence of paths, optional
        Public keys of all sites, this one included, for secure sums: of what a site says, the
        coordinator then sees nothing but the sum of all. The same at all sites.
    report : callable, optional
        Is given lines of text about the connection.

    Returns
    -------
    NAIM3L
        Fitted.

    Examples
    --------
    See the guide, "What leaves my site?".
    """
    private, publics = read_key(key), read_public(others)
    journal = Journal(folder)
    exchange = _masked(journal, site, private, publics) if others else journal.exchange
    fit: Any = {"site": site, "labels": labels, "minimum_count": minimum_count}
    if getattr(estimator, "random_state", 0) is None:  # the same folds after a restart
        seed = int.from_bytes(sha256(journal.secret()).digest()[:4], "big")
        estimator = clone(estimator).set_params(random_state=seed)
    if journal.over:
        report(f"the fit in {folder} has ended; the model is made from what is kept there")
        return fit_in_rounds(X, y, estimator, exchange, **fit)
    from naim3l.federated.flower import Connection

    trusted = Path(certificate).read_bytes()
    if not trusted.lstrip().startswith(b"-----BEGIN CERTIFICATE"):
        raise ValueError(f"{certificate} is no certificate; get server.crt from the coordinator.")
    connection = Connection(address_of(server), trusted, private)
    with _connected(journal, connection, site, report), limited_blas():
        return fit_in_rounds(X, y, estimator, exchange, **fit)


def serve(
    keys: Sequence[Path_],
    folder: Path_,
    *,
    hosts: Sequence[str] = ("localhost", "127.0.0.1"),
    listen: str = "127.0.0.1",
    port: int = PORT,
    report: Report = lambda line: None,
) -> Conducted:
    """Add up what sites say in one fit, until it has ended at all of them.

    Parameters
    ----------
    keys : sequence of paths
        Public keys of all sites. All take part to the end, and no other can connect.
    folder : path
        Where the certificate and key of the server are; they are made if they are not there.
    hosts : sequence of str
        Names and addresses by which sites reach the server, for a new certificate.
    listen, port
        Where the server listens; "0.0.0.0" is on all networks of this machine.
    report : callable, optional
        Is given lines of text: fingerprints, who is waited for, and how far the fit is.

    Returns
    -------
    Conducted
        Rounds, bytes and seconds.

    Examples
    --------
    See the guide, "What leaves my site?".
    """
    publics = read_public(keys)
    if not publics:
        raise ValueError("give the public keys of the sites that take part.")
    certificate, key, fingerprint = certificate_of(folder, hosts)
    for each in publics.values():
        report(f"Site {each.site}: key {each.fingerprint}")
    report(f"Give {certificate} to all sites; fingerprint {fingerprint}")
    report(f"They join with --server {hosts[0]}:{port}")
    from naim3l.federated.flower import Server

    nodes = {site: of.node for site, of in publics.items()}
    server = Server(nodes, listen, port, str(certificate), str(key))
    try:
        return _conduct(_Sites(server, list(publics), report))
    finally:
        server.close()


def address_of(server: str) -> str:
    """Host and port of a server, by default `PORT`."""
    found = re.fullmatch(r"([\w.-]+|\[[\da-fA-F:.]+\])(?::(\d{1,5}))?", server)
    if found is None:
        raise ValueError(f"the server is a host and a port, such as hub:{PORT}, got {server!r}.")
    return f"{found[1]}:{found[2] or PORT}"


class _Sites:
    """All sites of a fit, which get a letter and answer it at the same time."""

    def __init__(self, server: Any, names: list[str], report: Report) -> None:
        self.server, self.names, self.report = server, names, report
        self.received, self.sent = dict.fromkeys(names, 0), dict.fromkeys(names, 0)

    def call(self, facts: dict[str, Any], arrays: Arrays, timeout: float = np.inf) -> Any:
        """The answers of all sites; a site that goes away is called again when it is back."""
        from naim3l.federated.flower import Letter

        letter, found = Letter(facts, arrays), dict[str, Any]()
        called: dict[str, tuple[str, str]] = {}  # number of the letter, and since when it is there
        end, reported = time.monotonic() + timeout, ""
        quiet = time.monotonic() + AGAIN
        while len(found) < len(self.names) and time.monotonic() < end:
            present = self.server.present()
            for site, since in present.items():
                if site not in found and called.get(site, ("", ""))[1] != since:
                    called[site] = self.server.send(site, letter), since
            numbers = {site: of[0] for site, of in called.items() if site not in found}
            for site, reply in self.server.receive(numbers).items():
                if reply is None:
                    del called[site]
                    continue
                found[site] = reply
                self.sent[site] += _size(arrays)
                self.received[site] += _size(reply.arrays)
            absent = [site for site in self.names if site not in present and site not in found]
            waiting = f"waiting for {some(absent)}" if absent else ""
            if waiting != reported and time.monotonic() > quiet and timeout == np.inf:
                self.report(waiting or "all sites are there")
                reported = waiting
            time.sleep(LOOK / 5)
        return found


def _conduct(sites: _Sites) -> Conducted:
    try:
        return _add_up(sites)
    except ValueError as error:
        sites.call({"turn": FIRST, "stop": str(error)}, {}, timeout=5 * AGAIN)
        raise


def _add_up(sites: _Sites) -> Conducted:
    """Turn by turn, from the first that not all sites have an answer to."""
    answers: Arrays = {}
    first = sites.call({"turn": FIRST}, {})
    for site, (facts, _) in first.items():
        if facts.get("version") != VERSION:
            raise ValueError(f"site {site!r} has another version of naim3l; use the same at all.")
        if facts["site"] != site:
            raise ValueError(
                f"the key of site {site!r} is used by a site that calls itself {facts['site']!r}; "
                "each needs its own."
            )
    answered = {site: int(facts["answered"]) for site, (facts, _) in first.items()}
    begin = turn = min(answered.values())
    if max(answered.values()) > turn + 1:
        _refuse_lost(min(answered, key=lambda site: answered[site]))
    started = reported = time.monotonic()
    while True:
        found = sites.call({"turn": turn}, answers)
        for site, (facts, _) in found.items():
            if facts["answered"] < turn:
                _refuse_lost(site)
        asks = {site: Ask(of["what"], of["threshold"]) for site, (of, _) in found.items()}
        if time.monotonic() > reported + TELL:
            reported = time.monotonic()
            sites.report(f"round {turn + 1}, after {reported - started:.0f} s")
        if all(ask.what == THE_END for ask in asks.values()):
            break
        answers = answer(asks, {site: arrays for site, (_, arrays) in found.items()})
        turn += 1
    seconds = time.monotonic() - started
    sites.call({"turn": FIRST, "over": 1}, {}, timeout=2 * AGAIN)
    return Conducted(turn - begin + 1, sites.received, sites.sent, seconds)


def _refuse_lost(site: str) -> None:
    raise ValueError(
        f"site {site!r} has lost its folder, or begun another fit: remove the folders of this fit "
        "at all sites, and start all again."
    )


@contextmanager
def _connected(journal: Journal, connection: Any, site: str, report: Report) -> Iterator[None]:
    """A thread that brings questions to the coordinator, and answers back, during the block."""
    talk = _Talk(journal, connection, site)

    def speak() -> None:
        try:
            _speak(talk, report)
        except BaseException as error:
            journal.fail(error)
        finally:
            connection.close()

    thread = Thread(target=speak, daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        talk.last = 0.0
        raise
    finally:
        thread.join(2 * PATIENCE)


def _speak(talk: "_Talk", report: Report) -> None:
    """Answer letters until the end, and connect again whenever the connection is lost."""
    from naim3l.federated.flower import Lost

    connection, lost = talk.connection, 0.0  # since when there is no connection
    while not talk.over:
        try:
            connection.connect()
            if lost:
                report("connected")
                lost = 0.0
            talk.go_on()
        except Lost as error:
            talk.letter = None
            connection.forget()
            if not lost:
                report(f"no connection to the coordinator: {error}; trying again")
            lost = lost or time.monotonic()
            if error.refused and time.monotonic() - lost > PATIENCE:
                raise PermissionError(
                    f"the coordinator refuses the key of site {talk.site!r}. It needs the public "
                    "key, and one program at a time may use a key."
                ) from error
            time.sleep(AGAIN)


class _Talk:
    """A site's side of the letters: at most one is open."""

    def __init__(self, journal: Journal, connection: Any, site: str) -> None:
        self.journal, self.connection, self.site = journal, connection, site
        self.letter: Any = None
        self.last = np.inf  # until when a last word is awaited

    @property
    def over(self) -> bool:
        return time.monotonic() > self.last

    def go_on(self) -> None:
        """Answer the open letter if the fit has something to say, or look for one."""
        from naim3l.federated.flower import BEAT, Letter

        self.letter = self.letter or self.connection.receive()
        if self.letter is None:
            time.sleep(LOOK)
            return
        number, (facts, arrays) = self.letter
        reply = _respond(self.journal, self.site, facts, arrays, BEAT)
        if reply is None:
            return
        self.connection.reply(number, Letter(*reply))
        self.letter = None
        if stop := facts.get("stop"):
            raise ValueError(f"the coordinator has ended the fit: {stop}")
        if reply[0].get("what") == THE_END:
            self.journal.end()
            self.last = time.monotonic() + PATIENCE
        if facts.get("over"):
            self.last = 0.0


def _respond(
    journal: Journal, site: str, facts: Mapping[str, Any], arrays: Arrays, timeout: float
) -> tuple[dict[str, Any], Arrays] | None:
    """What a site says to a letter; None if it does not know yet."""
    turn = int(facts["turn"])
    known = {"version": VERSION, "site": site}
    if arrays and turn > 0:
        journal.keep_answer(turn - 1, arrays)
    if turn == FIRST or journal.answered < turn:
        return known | {"answered": journal.answered}, {}
    if (question := journal.question(turn, timeout)) is None:
        return None
    ask, own = question
    return known | {"answered": journal.answered, "what": ask.what, "threshold": ask.threshold}, own


def _masked(journal: Journal, site: str, private: Any, publics: Mapping[str, Any]) -> Any:
    """The exchange of a journal, of which only sums over all sites can be read.

    Keys are those of the sites; in the first turn each adds a random number, so that no two fits
    have the same masks.
    """
    masks, own = Masks(site, mask_key(private)), publics.get(site)
    if own is None or own.masks != masks.public or len(publics) < 2:
        raise ValueError(
            f"secure sums need the public keys of all sites, among them that of {site!r} which "
            f"belongs to its key; given are those of {some(list(publics))}."
        )
    numbers = np.zeros((len(publics), 32))
    numbers[list(publics).index(site)] = list(journal.secret())

    def exchange(ask: Ask, arrays: Arrays) -> Arrays:
        if journal.hide is None:
            fresh = journal.exchange(Ask("random numbers"), {"numbers": numbers})["numbers"]
            keys = {name: of.masks for name, of in publics.items()}
            journal.hide = masks.agree(keys, fresh.astype(np.uint8).tobytes()).hide
        return journal.exchange(ask, arrays)

    return exchange


def _size(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays.values())
