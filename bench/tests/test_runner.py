import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from naim3l_bench.records import Store, append
from naim3l_bench.runner import missing_tasks, run_tasks
from naim3l_bench.tasks import Plan, Task


@pytest.fixture
def tasks(plan):
    return [
        task
        for protocol in ("paper", "clean")
        for task in plan.fits("small", "NAIM3L", {"lam": 0.4}, protocol=protocol)
    ]


def values(store, tasks):
    return [store.get(task)["metrics"] for task in tasks]


def test_key_names_everything():
    one = Task("fit", {"seed": 1, "parameters": {"lam": 0.4, "mu": None}})
    same = Task("fit", {"parameters": {"mu": None, "lam": 0.4}, "seed": 1})
    assert one.key == same.key
    others = [Task("labels", one.settings), Task("fit", {**one.settings, "seed": 2}),
              Task("fit", {**one.settings, "parameters": {"lam": 0.5, "mu": None}})]  # fmt: skip
    assert len({task.key for task in [one, *others]}) == 4


def test_protocols_share_fits(plan):
    make = [
        {task.key for task in plan.fits("small", "NAIM3L", {"lam": 1}, protocol=protocol)}
        for protocol in ("paper", "clean", "fused")
    ]
    assert make[1] == make[2] and not make[0] & make[1]


def test_two_views_cannot_lose_half(source):
    plan = Plan({"two": source.select(["view0", "view1"])}, repeats=1)
    (task,) = plan.fits("two", "NAIM3L", {"lam": 1}, protocol="clean")
    assert task.settings["alpha"] < 0.5


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_records_do_not_depend_on_jobs_and_are_kept(n_jobs, plan, tasks, tmp_path):
    alone = Store(tmp_path / "alone")
    run_tasks(tasks, plan.sources, alone)
    store, seen = Store(tmp_path / "store"), []
    run_tasks(tasks[:1], plan.sources, store)
    run_tasks(tasks, plan.sources, store, n_jobs=n_jobs, on_record=seen.append)
    assert len(seen) == 3  # the first was there
    assert values(store, tasks) == values(alone, tasks)
    assert values(Store(tmp_path / "store"), tasks) == values(alone, tasks)
    assert missing_tasks(tasks, store) == []


def test_record_holds_ratios_seed_masks_and_both_scorings(plan, tasks, tmp_path):
    store = Store(tmp_path)
    run_tasks(tasks[:1], plan.sources, store)
    record = store.get(tasks[0])
    assert {"alpha", "beta", "seed", "features", "data"} <= set(record["settings"])
    assert set(record["metrics"]) == {"per view", "fused", "views"}
    assert len(record["masks"]) == 64


def test_impossible_ratio_is_recorded_not_raised(plan, tmp_path):
    store = Store(tmp_path)
    tasks = plan.fits("small", "NAIM3L", {"lam": 1}, protocol="clean", alpha=0.9)
    run_tasks(tasks, plan.sources, store)
    assert "must be at most" in store.get(tasks[0])["impossible"]
    assert store.find(tasks) == [] and missing_tasks(tasks, store) == []


def test_divergence_is_recorded_not_raised(plan, tmp_path):
    store = Store(tmp_path)
    parameters = {"lam": 0.4, "solver": "paper", "mu": 1e-3}
    tasks = plan.fits("small", "NAIM3L", parameters, protocol="clean")
    run_tasks(tasks, plan.sources, store)
    assert "diverged" in store.get(tasks[0])["impossible"]


def test_half_written_line_is_computed_again(plan, tasks, tmp_path):
    store = Store(tmp_path)
    run_tasks(tasks[:2], plan.sources, store)
    (path,) = (tmp_path / "records").glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-30])  # as a kill in the middle of the write leaves it
    damaged = Store(tmp_path)
    assert missing_tasks(tasks[:2], damaged) == [tasks[1]]
    run_tasks(tasks[:2], plan.sources, damaged)
    whole = Store(tmp_path)
    assert values(whole, tasks[:2]) == values(store, tasks[:2])


def test_numbers_survive_the_file(tmp_path):
    task = Task("fit", {"seed": np.int64(3).item()})
    (tmp_path / "records").mkdir()
    append(tmp_path, task, {"a": np.float64(0.1), "b": np.array([1, 2]), "c": [np.bool_(True)]})
    record = Store(tmp_path).get(task)
    assert (record["a"], record["b"], record["c"]) == (0.1, [1, 2], [True])


def test_killed_run_loses_at_most_the_fit_under_way(tmp_path):
    script = tmp_path / "long_run.py"
    script.write_text(
        textwrap.dedent("""
        import sys
        sys.path.insert(0, sys.argv[1])
        from small_data import small_source
        from naim3l_bench.runner import run_tasks
        from naim3l_bench.records import Store
        from naim3l_bench.tasks import Plan
        plan = Plan({"small": small_source()}, repeats=400)
        tasks = plan.fits("small", "NAIM3L", {"lam": 0.4}, protocol="clean")
        run_tasks(tasks, plan.sources, Store(sys.argv[2]),
                  on_record=lambda record: print(record["settings"]["seed"], flush=True))
    """)
    )
    command = [sys.executable, str(script), str(Path(__file__).parent), str(tmp_path / "out")]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    told = [int(running.stdout.readline()) for _ in range(3)]
    running.kill()
    told += [int(line) for line in running.communicate()[0].split()]
    lines = [
        json.loads(line)
        for path in (tmp_path / "out" / "records").glob("*.jsonl")
        for line in path.read_text().splitlines()
        if line.endswith("}") and line.startswith("{")
    ]
    kept = {line["settings"]["seed"] for line in lines}
    assert set(told) <= kept and len(kept) < 400
