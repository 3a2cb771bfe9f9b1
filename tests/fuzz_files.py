"""Damaged files of every format, for minutes on end: ``python tests/fuzz_files.py --minutes 5``.

Every file that the package reads is damaged in many ways and read, in a process that may crash or
hang. A case is named by a seed, a format and a number, and is the same on every machine. What is
found is printed, its file saved, and the exit code is 1.
"""

import argparse
import shutil
import sys
import time
from collections import Counter, defaultdict
from itertools import cycle
from pathlib import Path

from fuzz.cases import FORMATS, attempt, draw_file
from fuzz.worker import LIMIT, Worker, new_folder, serve, source_of

SLICE = 1.5  # seconds of a format of weight 1 before the next has its turn
MOST_SHOWN = 20


def main():
    options = _options()
    if options.worker is not None:
        serve(options.seed, options.worker, options.out)
        return 0
    if options.case is not None:
        return _one_case(options)
    counts, found = run(options.formats, options.minutes, options.seed, options.limit)
    for form in options.formats:
        wrong = sum(entry.form == form for entry in found)
        print(f"{form:15} {counts[form]:8} cases {wrong:6} wrong")
    print(f"{'all':15} {sum(counts.values()):8} cases {len(found):6} wrong, seed {options.seed}")
    for entry in _different(found)[:MOST_SHOWN]:
        path = save(entry, options.seed, options.out)
        print(
            f"\n{entry.form}, case {entry.case}: {entry.what}\n  {path}\n  again: "
            f"{sys.argv[0]} --seed {options.seed} --formats '{entry.form}' --case {entry.case}"
        )
    return 1 if found else 0


def run(formats, minutes, seed, limit=LIMIT):
    """Cases run per format, and all that was found in them; formats take turns."""
    counts, found = Counter(), []
    worker = Worker(seed, limit)
    worker.start()
    end = time.monotonic() + 60 * minutes
    try:
        for form in cycle(formats):
            left = end - time.monotonic()
            if left <= 0 and counts[form]:
                break
            seconds = max(0.1, min(SLICE * FORMATS[form].weight, left))
            counts[form], wrong = worker.run(form, counts[form], seconds)
            found += wrong
    finally:
        worker.close()
        worker.folder.cleanup()
    return counts, found


def save(entry, seed, folder):
    """Draw the file of a case again, and keep it; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    with new_folder() as place:
        drawn, _ = draw_file(entry.form, source_of(seed, entry.form, entry.case), Path(place))
        ending = drawn.name.removeprefix("case")
        path = folder / f"{entry.form.replace(' ', '-')}-{seed}-{entry.case}{ending}"
        shutil.copyfile(drawn, path)
    path.with_name(f"{path.name}.txt").write_text(entry.what, encoding="utf-8")
    return path


def _different(found):
    """The first of those that begin alike: the same line of code, most likely."""
    groups = defaultdict(list)
    for entry in found:
        groups[entry.form, entry.what[:60]].append(entry)
    return [group[0] for group in groups.values()]


def _one_case(options):
    """One case in this very process, for the debugger."""
    (form,) = options.formats
    with new_folder() as folder:
        what = attempt(form, source_of(options.seed, form, options.case), Path(folder))
    print(what or "nothing is wrong")
    return 1 if what else 0


def _options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--formats",
        type=lambda text: text.split(","),
        default=list(FORMATS),
        help=f"separated by commas; all of them: {', '.join(FORMATS)}",
    )
    parser.add_argument("--case", type=int, help="run this case of one format alone")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that a case may take")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="where files are kept")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.formats) - set(FORMATS):
        parser.error(f"no format {unknown}; there are {', '.join(FORMATS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
