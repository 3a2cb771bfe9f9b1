"""Cases run in a process of their own, so that what ends or stops the process is noticed too.

The worker says on a pipe which case it begins and what it found. Where it says nothing for too
long, or nothing more at all, the case it had begun is the one.
"""

import contextlib
import faulthandler
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from random import Random

from fuzz import samples
from fuzz.cases import HAS_TORCH, attempt

LIMIT = 30.0  # seconds that a case may take
PATIENCE = 120.0  # seconds that a worker may take to start
MOST_MEMORY = 1 << 30  # bytes that a worker may come to; no sound file needs a tenth of it
# Where the system refuses more, so that a case cannot take the machine down with it.
ADDRESS_SPACE = 16 << 30
# What no file may make happen while it is read. pickle.find_class: something is unpickled.
FORBIDDEN = ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "socket.connect")


@dataclass(frozen=True)
class Found:
    """Something that should not be: of which format, in which case, and what."""

    form: str
    case: int
    what: str


def source_of(seed, form, case):
    """The random numbers of one case: the same on every machine, whatever ran before it."""
    return Random(f"{seed}/{form}/{case}")


def new_folder():
    """A folder for files that are read once, in memory where there is such a place."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="fuzz", dir=place)


def serve(seed, pipe, folder):
    """Run batches named on standard input in a folder, and tell of each case on a pipe."""
    import resource  # not on Windows, where this file can be imported nonetheless

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    faulthandler.enable()  # so that a crash, and the signal after a hang, leave a traceback
    # Now, for else the first case of a format would take the time, and exceed its limit.
    samples.make_all(HAS_TORCH)
    events = _watch()
    with os.fdopen(pipe, "w", buffering=1) as out:
        print(json.dumps(["ready", 0]), file=out)
        for line in sys.stdin:
            form, first, seconds = json.loads(line)
            end, case = time.monotonic() + seconds, first
            while time.monotonic() < end:
                print(json.dumps(["begin", case]), file=out)
                events.clear()
                what = attempt(form, source_of(seed, form, case), folder)
                what = f"reading the file led to {events[0]}" if events else what
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
                if memory > MOST_MEMORY:
                    what = f"reading the file took the process to {memory >> 20} MiB"
                if what:
                    print(json.dumps(["found", case, what]), file=out)
                case += 1
                if memory > MOST_MEMORY:
                    os._exit(0)  # the mark does not go down again
            print(json.dumps(["done", case]), file=out)


def _watch():
    """List to which every forbidden event is added from now on."""
    events = []

    def note(event, arguments):
        if event in FORBIDDEN:
            events.append(event)

    sys.addaudithook(note)
    return events


class Worker:
    """A process that runs batches; a new one is started where the last has ended."""

    def __init__(self, seed, limit=LIMIT):
        self.seed, self.limit = seed, limit
        self.process = self.pipe = None
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 -- as long as the worker
        self.folder = new_folder()  # not the process's own, which may not live to remove it

    def start(self):
        """Start a process and wait until it has imported all that it needs."""
        read, write = os.pipe()
        command = [sys.executable, sys.argv[0], "--seed", str(self.seed), "--worker", str(write),
                   "--out", self.folder.name]  # fmt: skip
        self.log.seek(0)
        self.log.truncate()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=self.log, stderr=self.log, pass_fds=[write]
        )
        os.close(write)
        self.pipe = os.fdopen(read, "rb", buffering=0)
        if not select.select([self.pipe], [], [], PATIENCE)[0] or not self.pipe.read(1 << 16):
            raise RuntimeError(f"the worker does not start: {self._end(hung=True)}")

    def run(self, form, first, seconds):
        """Number of the case after the last that was run, and what was found."""
        if self.process is None:
            self.start()
        self.process.stdin.write(json.dumps([form, first, seconds]).encode() + b"\n")
        self.process.stdin.flush()
        found, case, rest = [], first, b""
        while True:
            ready, _, _ = select.select([self.pipe], [], [], self.limit)
            piece = self.pipe.read(1 << 16) if ready else b""
            if not piece:
                ended = self._end(hung=not ready)
                if ended:
                    found.append(Found(form, case, ended))
                return case + 1, found
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                kind, case, *what = json.loads(line)
                if kind == "found":
                    found.append(Found(form, case, what[0]))
                elif kind == "done":
                    return case, found

    def _end(self, hung):
        """End a worker that hangs or has ended; say how, and where in the program it was."""
        if hung:
            self.process.send_signal(signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
        self.process.kill()
        code = self.process.wait()
        self.close()
        if code == 0:
            return None
        self.log.seek(0)
        told = self.log.read().decode(errors="replace").partition("Extension modules:")[0]
        how = f"took more than {self.limit:g} s" if hung else f"ended the process ({code})"
        return f"{how}\n{told[-3000:].strip()}"

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.pipe.close()
            self.process = None
