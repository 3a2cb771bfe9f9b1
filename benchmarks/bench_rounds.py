"""Rounds over a network: how many, how large and how long, against labels, rows and sites.

All processes are on this machine, with TLS and keys, so that the network itself costs nothing: what
remains is the work of the sites, of the coordinator, and of the messages. Needs the extra "flwr".

    python benchmarks/bench_rounds.py
"""

import argparse
import multiprocessing
import os
import socket
import tempfile
import time
from pathlib import Path

# Labels, rows of a site, sites.
CASES = ((12, 2_000, 2), (12, 20_000, 2), (12, 2_000, 4), (35, 2_000, 2), (120, 2_000, 2))
QUICK = ((4, 200, 2),)


def make_tables(labels, rows, sites):
    from naim3l.datasets import make_unpaired

    return make_unpaired(
        rows,
        n_features=(40,) * sites,
        n_labels=labels,
        labels_per_row=labels / 8,
        noise=1,
        random_state=0,
    )


def fit_site(number, labels, rows, sites, port, folder):
    """One site's part of a fit."""
    from naim3l import NAIM3L
    from naim3l.federated import join

    data = make_tables(labels, rows, sites)
    view = f"view{number}"
    own = folder / f"site{number}.fit"
    join(
        {view: data.views[view]},
        {view: data.labels[view]},
        NAIM3L(lam=0.5, ridge=1.0),
        site=f"site{number}",
        server=f"127.0.0.1:{port}",
        certificate=folder / "server.crt",
        key=folder / f"site{number}.key",
        folder=own,
        minimum_count=0,
    )


def measure(labels, rows, sites):
    """Rounds, bytes from and to a site, seconds of the rounds, and of the fit in one process."""
    from naim3l import NAIM3L
    from naim3l.federated import serve
    from naim3l.federated.keys import make_key
    from naim3l.federated.simulation import simulate

    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = [make_key(f"site{k}", folder)[1] for k in range(sites)]
        start = multiprocessing.get_context("spawn").Process
        given = labels, rows, sites, port, folder
        processes = [start(target=fit_site, args=(k, *given)) for k in range(sites)]
        for process in processes:
            process.start()
        done = serve(keys, folder, port=port)
        for process in processes:
            process.join()
    data = make_tables(labels, rows, sites)
    tables = {v: ({v: data.views[v]}, {v: data.labels[v]}) for v in data.views}
    began = time.perf_counter()
    simulate(tables, NAIM3L(lam=0.5, ridge=1.0), minimum_count=0)
    here = time.perf_counter() - began
    sizes = [sum(of.values()) / sites for of in (done.bytes_received, done.bytes_sent)]
    return done.rounds, *sizes, done.seconds, here


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tiny case")
    cases = QUICK if parser.parse_args().quick else CASES
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    of_fit = "labels | rows of a site | sites | rounds | sent by a site | received"
    print(f"| {of_fit} | seconds | of a round | in one process |")
    print("| --- " * 9 + "|")
    for case in cases:
        rounds, sent, received, seconds, here = measure(*case)
        sizes = " | ".join(f"{size / 1e6:.2f} MB" for size in (sent, received))
        cells = " | ".join(f"{n:,}" for n in case)
        of_round = f"{seconds / rounds:.2f}"
        print(f"| {cells} | {rounds} | {sizes} | {seconds:.0f} | {of_round} | {here:.1f} |")


if __name__ == "__main__":
    main()
