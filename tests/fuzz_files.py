"""Damaged files of every format, for minutes on end: ``python tests/fuzz_files.py --minutes 5``.

A case is named by a seed, a format and a number, and is the same on every machine. What is found is
printed, its file saved, and the exit code is 1.
"""

import argparse
import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle
from pathlib import Path
from random import Random

from fuzz import samples
from fuzz.cases import FORMATS, attempt, draw_file

# Seconds of a format of weight 1 before the next has its turn, of a case, and of a worker's start.
SLICE, LIMIT, PATIENCE = 1.5, 30.0, 120.0
MOST_MEMORY = 1 << 30  # bytes that a worker may come to; no sound file needs a tenth of it
# Where the system refuses more, so that a case cannot take the machine down with it.
ADDRESS_SPACE = 16 << 30
# What no file may make happen while it is read. pickle.find_class: something is unpickled.
FORBIDDEN = {"pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "os.fork"}
FORBIDDEN |= {"subprocess.Popen", "socket.connect"}


def source_of(seed, form, case):
    return Random(f"{seed}/{form}/{case}")


def serve(connection, seed, folder):
    """In a process of its own: run the cases that are asked for, and tell of each as it begins."""
    import resource  # not on Windows, where this file can be imported nonetheless

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    log = (folder / "log").open("w")
    faulthandler.enable(log)  # so that a crash, and the signal after a hang, leave a traceback
    for make in samples.ALL:
        make()  # now, for else the first case of a format would exceed its limit of time
    events = []
    sys.addaudithook(lambda event, _: events.append(event) if event in FORBIDDEN else None)
    connection.send(("ready", 0))
    while True:
        form, case, last, seconds = connection.recv()
        end = time.monotonic() + seconds
        while time.monotonic() < end and case < last:
            connection.send(("begin", case))
            events.clear()
            what = attempt(form, source_of(seed, form, case), folder)
            what = f"reading the file led to {events[0]}" if events else what
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            if memory > MOST_MEMORY:
                connection.send(("found", case, f"the process came to {memory >> 20} MiB"))
                os._exit(0)  # the mark does not go down again
            if what:
                connection.send(("found", case, what))
            case += 1
        connection.send(("done", case))


class Worker:
    """A process that runs cases; a new one is started where the last has ended."""

    def __init__(self, seed, folder, limit=LIMIT):
        self.seed, self.folder, self.limit, self.process = seed, folder, limit, None

    def run(self, form, first, last, seconds):
        """Number of the case after the last that was run, and the cases that went wrong, how."""
        if self.process is None:
            self._start()
        self.connection.send((form, first, last, seconds))
        found, case = {}, first
        while True:
            kind, case, *what = self._next(self.limit) or ("end", case)
            if kind == "end" and (how := self.end(hung=self.process.is_alive())):
                what = [how]
            for how in what:
                found[form, case] = how
            if kind in ("done", "end"):
                return case + (kind == "end"), found

    def _start(self):
        spawn = multiprocessing.get_context("spawn")
        self.connection, other = spawn.Pipe()
        self.process = spawn.Process(target=serve, args=(other, self.seed, self.folder))
        self.process.start()
        other.close()
        if not self._next(PATIENCE):
            raise RuntimeError(f"the worker does not start: {self.end(hung=True)}")

    def _next(self, seconds):
        """What the worker says next; None if it hangs or has ended."""
        try:
            return self.connection.recv() if self.connection.poll(seconds) else None
        except (EOFError, ConnectionError):
            return self.process.join(5)

    def end(self, hung=False):
        """End the worker; how it ended and where in the program it was, if not as it should."""
        if self.process is None:
            return None
        if hung:
            os.kill(self.process.pid, signal.SIGABRT)
            self.process.join(5)
        code = self.process.exitcode
        self.process.kill()
        self.process.join()
        self.process = None
        how = f"took more than {self.limit:g} s" if hung else f"ended the process ({code})"
        told = (self.folder / "log").read_text().partition("Extension modules:")[0]
        return f"{how}\n{told[-3000:].strip()}" if hung or code else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=FORMATS, action="append", help="default: all of them")
    parser.add_argument("--case", type=int, help="run this case of a format, in this process")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that a case may take")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="where files are kept")
    options = parser.parse_args()
    formats, seed = options.format or list(FORMATS), options.seed
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if options.case is not None:
            sys.exit(attempt(formats[0], source_of(seed, formats[0], options.case), folder))
        counts, found, worker = Counter(), {}, Worker(seed, folder, options.limit)
        end = time.monotonic() + 60 * options.minutes
        for form in cycle(formats):  # which take turns
            left = end - time.monotonic()
            if left <= 0 and counts[form]:
                break
            seconds = max(0.1, min(SLICE * FORMATS[form].weight, left))
            counts[form], wrong = worker.run(form, counts[form], 10**9, seconds)
            found |= wrong
        worker.end()
        for form in formats:
            print(f"{form:15} {counts[form]:8} cases {sum(f == form for f, _ in found):6} wrong")
        print(f"{'all':15} {counts.total():8} cases {len(found):6} wrong, seed {seed}")
        # The first of those that begin alike: the same line of code, most likely.
        alike = {(form, what[:60]): case for (form, case), what in reversed(found.items())}
        options.out.mkdir(parents=True, exist_ok=True)
        for (form, _), case in alike.items():
            drawn = draw_file(form, source_of(seed, form, case), folder)
            name = f"{form.replace(' ', '-')}-{seed}-{case}"
            path = options.out / drawn.name.replace("case", name, 1)
            path.write_bytes(drawn.read_bytes())
            print(f"\n{form}, case {case}: {found[form, case]}\n  {path}")
            print(f"  again: --seed {seed} --format '{form}' --case {case}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
