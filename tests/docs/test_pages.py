"""The code of the README, of the user guide and of other pages runs as it stands."""

import contextlib
import io
import re
import warnings
from pathlib import Path
from pkgutil import resolve_name

import pytest

from fenced_blocks import ROOT, check_output, fenced_blocks, with_output

# Blocks of these need torch, dask or a GPU, and have tests of their own.
ELSEWHERE = ("networks.md", "scale.md", "gpu.md")
GUIDE = sorted(p for p in (ROOT / "docs" / "guide").glob("*.md") if p.name not in ELSEWHERE)
OTHERS = ["README.md", "docs/index.md", "docs/develop/extend.md"]
PAGES = [*OTHERS, *(str(p.relative_to(ROOT)) for p in GUIDE)]
WITH_CODE = [
    pytest.param(page, marks=[pytest.mark.places] if "elsewhere" in page else [])
    for page in PAGES
    if "python" in dict(fenced_blocks(page))
]


@pytest.mark.parametrize("page", WITH_CODE)
def test_every_block_of_a_page_runs_as_pasted_in_an_empty_folder(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny tables; what they warn of is tested elsewhere
        for code, shown in with_output(page, "python"):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(code, namespace)
            check_output(shown or "", printed.getvalue())


def test_the_front_page_is_short_and_leads_to_pages_that_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert len(links) > 5
    assert not [link for link in links if not (ROOT / link).exists()]


def test_paths_of_the_documents_in_the_repository_exist():
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in texts
        if path.name != "CHANGELOG.md"
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8"))
    }
    assert named and not sorted(pair for pair in named if not Path(ROOT / pair[1]).exists())


def test_names_on_the_pages_for_developers_exist():
    pages = [(ROOT / "docs" / "develop" / f"{name}.md") for name in ("architecture", "extend")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    named = re.findall(r"`((?:files|input|features|problem|solvers|estimators)\.[\w.]+)`", text)
    assert len(named) > 5
    for name in named:
        assert resolve_name(f"naim3l.{name}"), name
    marked = re.findall(r"`([\w/]+\.py)::(\w+)`", text)
    assert len(marked) > 5
    folders = [ROOT / "src" / "naim3l", ROOT / "bench" / "src" / "naim3l_bench", ROOT]
    for file, name in marked:
        paths = [folder / file for folder in folders if (folder / file).exists()]
        assert paths and re.search(rf"\b{name}\b", paths[0].read_text(encoding="utf-8")), file
