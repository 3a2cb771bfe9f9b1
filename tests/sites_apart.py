"""Tables of several sites, for tests of what they learn together."""

import socket
import time
from threading import Thread

import numpy as np
import pandas as pd

from naim3l.datasets import make_unpaired

LABELS = [f"dx{k}" for k in range(5)]


def make_sites(n_sites, layout):
    """Tables and label tables by site, with missing labels, and a label that the last lacks.

    "tables apart": each has other columns; "several tables": the first has two; "rows of one
    table": the same columns everywhere.
    """
    n_tables = n_sites + (layout == "several tables")
    data = make_unpaired(
        [90 + 10 * v for v in range(n_tables)],
        n_features=[8 + v for v in range(n_tables)],
        n_labels=5,
        missing_labels=0.3,
        noise=1,
        random_state=0,
    )
    tables = list(zip(data.views.values(), data.labels.values(), strict=True))
    if layout == "rows of one table":
        X, Y = tables[-1]
        parts = np.array_split(np.arange(len(X)), n_sites)
        tables = [(X[rows], Y[rows]) for rows in parts]
    frames = [(pd.DataFrame(X).add_prefix("x"), pd.DataFrame(Y, columns=LABELS)) for X, Y in tables]
    X, Y = frames[-1]
    frames[-1] = X, Y.drop(columns="dx3")
    sites = {f"site{i}": {f"table{i}": frame} for i, frame in enumerate(frames[:n_sites])}
    if layout == "several tables":
        sites["site0"]["more"] = frames[n_sites]
    return {
        site: tuple({view: frame[i] for view, frame in of.items()} for i in range(2))
        for site, of in sites.items()
    }


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


class JoinedSites:
    """A coordinator, and sites that join it, each a thread; errors instead of results if any."""

    def __init__(self, folder, names, model):
        from naim3l.federated.keys import make_key

        self.model = model
        self.folder, self.port, self.said, self.threads = folder, free_port(), [], []
        self.found = {}
        self.public = [make_key(name, folder)[1] for name in names]

    def start(self, name, function, *args, **kwargs):
        def run():
            try:
                self.found[name] = function(*args, **kwargs)
            except Exception as error:
                self.found[name] = error

        self.threads.append(Thread(target=run, daemon=True))
        self.threads[-1].start()

    def serve(self, keys=None):
        from naim3l.federated import serve

        report = self.said.append
        self.start("hub", serve, keys or self.public, self.folder, port=self.port, report=report)
        while not (self.folder / "server.crt").exists():
            time.sleep(0.02)

    def join(self, site, X, y, model=None, **more):
        from naim3l.federated import join

        files = {"certificate": self.folder / "server.crt", "key": self.folder / f"{site}.key"}
        of = {"site": site, "server": f"127.0.0.1:{self.port}", "folder": self.folder / site}
        more = {"minimum_count": 0, "report": self.said.append} | more
        self.start(site, join, X, y, model or self.model, **(files | of | more))

    def wait(self, seconds=120):
        end = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(end - time.monotonic(), 0))
        return self.found

    def of_all(self, sites, model, **more):
        """What the coordinator and all sites have in the end."""
        self.serve()
        for site, rows in sites.items():
            self.join(site, *rows, model, **more)
        found = self.wait(300)
        for result in found.values():
            if isinstance(result, Exception):
                raise result
        return found
