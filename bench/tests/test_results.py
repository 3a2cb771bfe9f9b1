import json

import pytest

from naim3l_bench import results
from naim3l_bench.items import ITEMS
from naim3l_bench.records import Store
from naim3l_bench.runner import run_tasks
from naim3l_bench.tasks import Plan
from small_data import small_source

NAMES = ["table1", "table2", "table5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def written(folder):
    plan = Plan({"small": small_source()}, repeats=2, protocols=("paper", "clean", "fused"))
    store = Store(folder)
    for name in NAMES:
        run_tasks(ITEMS[name].tasks(plan), plan.sources, store)
    found = results.collect_results(plan, [*NAMES, "fig5"], store)
    page = results.write_results(folder, plan, found, "naim3l reproduce table2")
    return found, page


def test_folder_holds_numbers_tables_figures_and_a_page(written, folder):
    _, page = written
    stored = json.loads((folder / "results.json").read_text())
    mean = stored["numbers"]["table2"]["small"]["clean"]["NAIM3L"]["AP"]["mean"]
    assert f"{mean:.2f} (" in page.read_text(encoding="utf-8")
    assert f"{mean:.2f} (" in (folder / "tables.md").read_text(encoding="utf-8")
    assert stored["setup"]["seeds"] == [0, 1]
    assert stored["setup"]["datasets"][0]["views"]["view0"] == [90, 7]
    assert (folder / "figures" / "fig3.svg").exists()
    assert not list(folder.rglob("*.part"))


def test_what_is_missing_is_told(written):
    found, page = written
    assert [bool(result.missing) for result in found] == [False, False, False, True]
    assert found[-1].missing[0] in page.read_text(encoding="utf-8")


def test_document_keeps_what_is_outside_of_the_marks(written, tmp_path):
    document = tmp_path / "page.md"
    document.write_text(f"before\n{results.BEGIN}\nold\n{results.END}\nafter\n")
    for _ in range(2):  # renewing twice changes nothing more
        results.update_document(document, results.markdown(written[0]))
        text = document.read_text(encoding="utf-8")
        assert text.startswith("before\n") and text.endswith("\nafter\n")
        assert "old" not in text and text.count("**Table 2: small**") == 1


def test_document_without_marks_is_left_alone(tmp_path):
    document = tmp_path / "page.md"
    document.write_text("no marks here")
    with pytest.raises(ValueError, match="needs one line"):
        results.update_document(document, "tables")
    assert document.read_text() == "no marks here"
