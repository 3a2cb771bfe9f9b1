"""The paper's figures: the transcription against the paper, and against itself."""

import re
from pathlib import Path

import pytest

from naim3l_bench.datasets import CATALOG
from naim3l_bench.paper import published
from naim3l_bench.present import METRICS

DATASETS = ["corel5k", "pascal07", "espgame", "iaprtc12", "mirflickr"]
SVD_NAMES = {"SVD (full)": "SVD full", "SVD (econ)": "SVD economy", "SVD (trunc)": "SVD truncated"}


@pytest.fixture
def paper():
    """Text of the paper beside the checkout; tests that need it say so where it is not."""
    path = Path(__file__).resolve().parents[4] / "shared" / "paper" / "naim3l.tex"
    if not path.is_file():
        pytest.skip(f"the paper is not there: {path.name} beside the checkout")
    return path.read_text(encoding="utf-8")


def read_table(paper, number):
    """Cells of a table by row, freed of their type setting."""
    body = paper.split(f"\\label{{tab{number}}}")[1].split("\\end{tabular}")[0]
    body = body.split("\\toprule")[1].split("\\bottomrule")[0]
    rows = []
    for line in body.replace("\\midrule", "").split("\\\\"):
        line = re.sub(r"\\multirow\{4\}\{\*\}|\\textbf|\\downarrow|\(\\%\)|[\^{}$\\]", "", line)
        cells = [" ".join(cell.replace("times", "x").split()) for cell in line.split("&")]
        rows += [cells] if any(cells) else []
    return rows


def read_results(paper, number):
    (_, _, *methods), *rows = read_table(paper, number)
    results = {}
    for dataset, metric, *cells in rows:
        name = dataset.lower() or name  # noqa: F821 - a dataset's name stands in its first row
        for method, cell in zip(methods, cells, strict=True):
            mean, std = map(float, cell.rstrip(")").split("("))
            results.setdefault(name, {}).setdefault(method, {})[metric] = mean, std
    return results


@pytest.mark.parametrize("number", [2, 3, 4, 6])
def test_results_are_those_of_the_paper(paper, number):
    assert read_results(paper, number) == getattr(published, f"TABLE{number}")


def test_statistics_are_those_of_the_paper(paper):
    _, *rows = read_table(paper, 1)
    read = {name.lower(): [float(cell) for cell in cells] for name, *cells in rows}
    assert read == {name: list(row.values()) for name, row in published.TABLE1.items()}


def test_ranks_are_those_of_the_paper(paper):
    (_, *names), (_, *ranks) = read_table(paper, 5)
    read = dict(zip(map(str.lower, names), map(int, ranks), strict=True))
    assert read == published.TABLE5


def test_times_are_those_of_the_paper(paper):
    (_, *sizes), *rows = read_table(paper, 7)
    assert sizes == [f"{rows}x{columns}" for rows, columns in published.TABLE7_SIZES]
    read = {
        SVD_NAMES.get(name, name): [None if cell == "-" else float(cell) for cell in cells]
        for name, *cells in rows
    }
    assert read == published.TABLE7


@pytest.mark.parametrize("fact", ["259 and 249", "about 15 and 5", "= 2.850", "= 2.344"])
def test_facts_of_the_text_stand_there(paper, fact):
    assert fact in paper


@pytest.mark.parametrize("number", [2, 3, 4, 6])
def test_no_result_is_missing(number):
    table = getattr(published, f"TABLE{number}")
    assert list(table) == DATASETS
    for methods in table.values():
        assert list(methods) == list(table["corel5k"])
        for results in methods.values():
            assert tuple(results) == METRICS


def test_the_whole_model_is_the_same_in_tables_2_and_6():
    for dataset in DATASETS:
        assert published.TABLE2[dataset]["NAIM3L"] == published.TABLE6[dataset]["NAIM3L"]


def test_statistics_agree_with_the_catalogue():
    for dataset, row in published.TABLE1.items():
        facts = CATALOG[dataset]
        known = (facts.n_samples, facts.n_labels, facts.labels_per_row)
        assert (row["n"], row["c"], row["avg"]) == known
        assert (row["train_rank"], row["test_rank"]) == (facts.train_rank, facts.test_rank)


def test_seconds_of_a_size():
    assert published.table7_seconds("Algorithm 2", 100_000, 400) == 1.6042
    assert published.table7_seconds("SVD full", 100_000, 400) is None
    assert published.table7_seconds("SVD full", 7, 3) is None
