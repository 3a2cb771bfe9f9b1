"""Settings of the documentation site; `make docs` builds it."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent / "src")]
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # matrices in the examples are small

from sphinx.ext.autodoc.mock import _MockObject  # noqa: E402

import naim3l  # noqa: E402

HAS_TORCH = find_spec("torch") is not None
_MockObject.__or__ = _MockObject.__ror__ = lambda self, other: (
    self
)  # for the annotation "Tensor | float"

project = "naim3l"
author = "the naim3l developers"
copyright = "the naim3l developers. BSD-3-Clause"
release = version = naim3l.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "collapsed_tables",
    "drawings",
    "mathml",
    "own_members",
    "search_words",
    "smaller",
    "unrun_example",
]
exclude_patterns = ["_build", "_ext", "_templates"]
templates_path = ["_templates"]
nitpicky = False
default_role = "py:obj"  # a name between backticks is a link, if it is one of the reference

# API reference: the names in __all__ of each public module, and the methods that naim3l defines.
autosummary_ignore_module_all = False
autosummary_imported_members = True
autosummary_context = {"top_names": naim3l.__all__}  # which have their page under naim3l only
autodoc_mock_imports = [] if HAS_TORCH else ["torch"]
autodoc_typehints = "none"  # the docstrings have the types, with shapes
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_validation_checks: set[str] = set()  # `make lint` validates

myst_enable_extensions = ["colon_fence", "dollarmath"]
html_math_renderer = "mathml"
myst_heading_anchors = 3

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_" if HAS_TORCH else r"/plot_(?!09)",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("naim3l",),
    "ignore_pattern": r"messy_files\.py",
    "within_subsection_order": "FileNameSortKey",
    "image_srcset": ["2x"],
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "naim3l"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(DOCS / "_ext" / "scorer.js")
html_context = {"default_mode": "auto"}  # without it the theme complains on the first page
html_copy_source = False
html_show_sourcelink = False
html_use_index = html_domain_indices = False  # the API reference lists the names
# Summaries would be fetched, which browsers refuse for pages that are opened from a disk.
html_show_search_summary = False
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {"text": "naim3l"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_nav_level": 1,
    "navigation_depth": 2,
    "collapse_navigation": True,  # the whole tree on each page would double the site
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
