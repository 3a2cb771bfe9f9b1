"""The built site: its names, its pictures, and how it behaves in a browser.

`make docs` builds the site and sets NAIM3L_SITE to its folder; other runs skip these tests.
"""

import os
import re
from importlib import import_module

import pytest

import naim3l
from browser import Browser, find_browser
from fenced_blocks import ROOT

pytestmark = pytest.mark.docs
MODULES = ["naim3l", *(f"naim3l.{name}" for name in naim3l._PUBLIC_MODULES)]
PHONE, DESK = 400, 1280  # CSS pixels
# The elements that reach beyond the page, unless something around them scrolls or hides the rest.
TOO_WIDE = """
[...document.querySelectorAll('body *')].filter(e => {
  if (e.getBoundingClientRect().right <= window.innerWidth + 1 || !e.offsetParent) return false;
  for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
    if (getComputedStyle(p).overflowX !== 'visible') return false;
  return true;
}).map(e => e.outerHTML.slice(0, 120)).slice(0, 3)
"""
# Whether the page, or the text in it, can be moved to the side.
SCROLLS = """
[document.documentElement, ...document.querySelectorAll('.bd-article-container')]
  .some(e => e.scrollWidth > e.clientWidth + 1)
"""


@pytest.fixture(scope="module")
def site():
    if "NAIM3L_SITE" not in os.environ:
        pytest.skip("needs the built site: make docs")
    return (ROOT / os.environ["NAIM3L_SITE"]).resolve()


@pytest.fixture(scope="module")
def browser(site, tmp_path_factory):
    if find_browser() is None:
        pytest.skip("no browser on the path")
    found = Browser(tmp_path_factory.mktemp("browser"))
    yield found
    found.close()


def pages(site):
    """All pages but those of single names, of which there are a hundred of the same kind."""
    return [
        page
        for page in sorted(site.rglob("*.html"))
        if "_static" not in page.parts
        and ("generated" not in page.parts or page.stem.count(".") < 2)
    ]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_api_reference(site, module):
    if module == "naim3l.deep":  # which cannot be imported without torch
        names = re.search(r"__all__ = \[(.*)\]", (ROOT / "src/naim3l/deep/__init__.py").read_text())
        names = re.findall(r'"(\w+)"', names[1])
    else:
        names = [name for name in import_module(module).__all__ if name != "__version__"]
    folder = site / "api" / "generated"
    listed = (folder / f"{module}.html").read_text(encoding="utf-8")
    for name in names:
        home = "naim3l" if name in naim3l.__all__ else module
        assert f'href="{home}.{name}.html#{home}.{name}"' in listed, name
        assert f'id="{home}.{name}"' in (folder / f"{home}.{name}.html").read_text("utf-8"), name


def test_nothing_is_fetched_from_elsewhere(site):
    loading = re.compile(r'<(?:script|img|iframe|link)\b[^>]*?(?:src|href)="(?:https?:)?//[^"]*"')
    found = {page: loading.findall(page.read_text("utf-8")) for page in pages(site)}
    assert len(found) > 40
    assert not {name: tags for name, tags in found.items() if tags}


def test_every_picture_has_a_text(site):
    for page in pages(site):
        text = page.read_text(encoding="utf-8")
        pictures = re.findall(r"<img\b[^>]*>", text) + re.findall(
            r'<svg class="drawing[^>]*>', text
        )
        for picture in pictures:
            if "_thumb." not in picture:  # beside the title of the example, which is enough
                assert re.search(r'(?:alt|aria-label)="[^"]+"', picture), f"{page}: {picture}"


def test_the_drawing_has_every_package(site):
    text = (site / "develop" / "architecture.html").read_text(encoding="utf-8")
    rooms = {path.stem for path in (ROOT / "src" / "naim3l").glob("[a-z_]*")}
    drawn = set(re.findall(r'<text class="name"[^>]*>(\w+)<', text))
    assert rooms - drawn <= {"__init__", "__pycache__", "py"}


def test_at_least_eight_examples_were_run(site):
    drawn = {
        picture.name.split(".")[0]
        for picture in (site / "_images").glob("sphx_glr_plot_*_001*.png")
    }
    assert len(drawn) >= 8


def test_pages_fit_a_phone_and_scripts_do_not_complain(site, browser):
    wrong = {}
    for page in pages(site):
        errors = browser.open(page.as_uri(), PHONE)
        too_wide = browser.evaluate(TOO_WIDE)
        if browser.evaluate(SCROLLS) or too_wide or errors:
            wrong[str(page.relative_to(site))] = [*errors, *too_wide]
    shown = "\n".join(f"{page}: {found}" for page, found in wrong.items())
    assert not wrong, shown


def test_pages_fit_a_desk_in_the_dark(site, browser):
    browser.open((site / "index.html").as_uri(), DESK)
    browser.evaluate("localStorage.setItem('mode', 'dark'), localStorage.setItem('theme', 'dark')")
    for name in ("index.html", "start/index.html", "research/reproduction.html"):
        assert not browser.open((site / name).as_uri(), DESK)
        assert browser.evaluate("document.documentElement.dataset.theme") == "dark"
        assert not browser.evaluate(SCROLLS)
        assert browser.evaluate("document.documentElement.scrollHeight") > 900
    browser.evaluate("localStorage.clear()")


# What readers ask for, and the page that answers it.
QUESTIONS = {
    "dask": "guide/scale.html",
    "privacy": "guide/what-leaves-my-site.html",
    "text": "guide/tables.html",
    "missing labels": "guide/decisions.html",
    "probabilities": "guide/decisions.html",
    "threshold": "guide/decisions.html",
    "fusion": "guide/fusion.html",
    "kernel": "guide/kernels.html",
    "network": "guide/networks.html",
    "gpu": "guide/gpu.html",
    "explain": "guide/explain.html",
    "save": "guide/saving.html",
    "boosting": "guide/methods.html",
    "install": "start/index.html",
}
FOUND = """new Promise(done => {
  const look = left => {
    const found = [...document.querySelectorAll('#search-results li a')].map(a => a.href);
    const over = document.querySelector('#search-results .search-summary')?.innerText;
    over?.match(/found/) || !left ? done(found) : setTimeout(look, 50, left - 1);
  };
  look(100);
})"""


@pytest.mark.parametrize("words", QUESTIONS)
def test_search_finds_the_page_that_answers_first(site, browser, words):
    errors = browser.open(f"{(site / 'search.html').as_uri()}?q={words.replace(' ', '+')}", DESK)
    found = [link.split("#")[0].split("?")[0] for link in browser.evaluate(FOUND)]
    assert not errors + browser.errors()
    assert found and found[0].endswith(QUESTIONS[words]), found[:4]


def test_the_site_is_small(site):
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 15e6


def test_names_in_the_reference_are_links(site):
    text = (site / "api" / "generated" / "naim3l.NAIM3LCV.html").read_text("utf-8")
    assert 'href="naim3l.evaluate.html' in text and "_modules/naim3l/estimators" in text
    assert "gallery/plot_" in text  # examples that use it
