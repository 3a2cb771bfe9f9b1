"""Records on disk, appended one by one, so that a killed run resumes where it stopped."""

import json
import os
import uuid
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from naim3l_bench.tasks import Task

Record = dict[str, Any]


class Store:
    """Records of a results folder, by the key of their task.

    Every process appends to a file of its own, so that no two ever write to one; what a killed
    process left half-written is the last line of its file, which is skipped and computed again.

    Parameters
    ----------
    folder : path
        Made where it does not exist.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        _records(self.folder).mkdir(parents=True, exist_ok=True)
        self.records: dict[str, Record] = {}
        self.reload()

    def reload(self) -> None:
        """Read what is on disk; damaged lines are skipped."""
        self.records = {}
        for path in sorted(_records(self.folder).glob("*.jsonl")):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    record = json.loads(line)
                    self.records[record["key"]] = record
                except (ValueError, KeyError, TypeError):
                    continue

    def __contains__(self, task: Task) -> bool:
        return task.key in self.records

    def get(self, task: Task) -> Record | None:
        return self.records.get(task.key)

    def find(self, tasks: Iterable[Task]) -> list[Record]:
        """Records of those tasks that are done and were possible."""
        found = (self.get(task) for task in tasks)
        return [record for record in found if record is not None and "impossible" not in record]

    def add(self, record: Record) -> None:
        """Take over a record that `append` has written."""
        self.records[record["key"]] = record


def append(folder: Path, task: Task, outcome: Record) -> Record:
    """Write the record of a task at the end of this process's file, and onto the disk."""
    record = {"key": task.key, "kind": task.kind, "settings": dict(task.settings), **outcome}
    # A line before it that a full disk cut short must not swallow this one; empty ones are skipped.
    line = "\n" + json.dumps(record, default=lambda array: array.tolist()) + "\n"
    with (_records(folder) / _own_file(os.getpid())).open("ab") as file:
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())
    return record


def is_store(folder: Path) -> bool:
    """Whether a folder holds records."""
    return _records(folder).is_dir()


def _records(folder: Path) -> Path:
    return folder / "records"


@lru_cache(maxsize=1)
def _own_file(pid: int) -> str:
    """Name for this process alone, on whichever computer; anew after a fork."""
    return f"{pid}-{uuid.uuid4().hex[:8]}.jsonl"
