"""Constraints for pip that pin every requirement of pyproject.toml to its lower bound.

``python tools/oldest.py > oldest.txt; pip install -c oldest.txt '.[test]'`` installs the oldest
versions that the package says it works with; ``make test-oldest`` does this and runs the tests.
"""

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
# torch brings gigabytes; it has an environment of its own.
LEFT_OUT = {"torch"}
_REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)(\[[^\]]*\])?>=([0-9][0-9.a-z]*)(,.*)?")


def main() -> None:
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    for requirement in {entry: None for entries in lists for entry in entries}:
        if requirement.startswith(f"{project['name']}["):
            continue  # one extra that includes another
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None:
            raise SystemExit(f"{PYPROJECT.name}: {requirement!r} has no lower bound.")
        if match[1] not in LEFT_OUT:
            print(f"{match[1]}=={match[3]}")


if __name__ == "__main__":
    main()
