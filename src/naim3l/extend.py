"""Names for packages that add methods to naim3l, or compare methods with it.

Everything else that such a package needs is in the public modules: models in
`naim3l.estimators`, data in `naim3l.datasets`, metrics in `naim3l.metrics`. The names here are
lower-level and change more often, but only with an entry in the changelog; no other module that is
not public should be imported. The distribution ``naim3l-bench``, in the same repository, is built
on them.

A method is a dataclass whose fields are its parameters; its base reads tables and labels, fits
transformers and kernels, and learns thresholds and probabilities on held-out entries:

- `AlignedModel`: rows are samples that several views describe. The method says what it learns from
  `AlignedRows` (`_solve`), the shapes of these arrays (`_shapes`), and how they score new rows
  (`_score_rows`).
- `ConcatenatedModel`: the same, for scores that are linear in the features of all views side by
  side; only ``_solve`` is left to write, and `linear_arrays` makes its arrays from weights.
- `ViewModel`: each view is scored by itself, and rows of different views need not match.

A method with kernels derives from `KernelModel` as well. The class attribute ``_schema`` has the
allowed values of the parameters.

Examples
--------
A method for aligned rows that scores every sample by the means of its most similar label:

>>> from dataclasses import dataclass
>>> import numpy as np
>>> from naim3l.extend import PARAMETERS, AlignedModel, Learned, in_range
>>> @dataclass(eq=False, repr=False)
... class NearestMean(AlignedModel):
...     shift: float = 0.5
...     _shapes = {"centres": "dc"}
...     _schema = PARAMETERS | {"shift": in_range("lam")}
...
...     def _solve(self, rows, rng):
...         X = np.hstack(rows.features)
...         positive = np.maximum(rows.Y, 0)
...         return Learned({"centres": X.T @ positive / np.maximum(positive.sum(axis=0), 1)})
...
...     def _score_rows(self, arrays, features, present):
...         return np.hstack(features) @ arrays["centres"] - self.shift
>>> from naim3l import join_views
>>> from naim3l.datasets import make_unpaired
>>> data = make_unpaired(80, n_features=(9, 8), n_labels=3, aligned=True, random_state=0)
>>> wide, views = join_views(data.views)
>>> model = NearestMean(views=views, threshold="f1", random_state=0)
>>> model.fit(wide, data.labels["view0"]).predict(wide).shape
(80, 3)
"""

from naim3l._parameters import check_number
from naim3l.decisions.calibration import Calibration, calibration_error, fit_calibration
from naim3l.decisions.fusion import add_evidence
from naim3l.decisions.held_out import hidden_metric, hold_out_folds
from naim3l.decisions.thresholds import fit_thresholds
from naim3l.estimators.aligned import AlignedModel, ConcatenatedModel, Learned, linear_arrays
from naim3l.estimators.base import ViewModel
from naim3l.estimators.candidates import compare_on_held_out
from naim3l.estimators.kernel_model import KernelModel
from naim3l.estimators.logistic import masked_logistic
from naim3l.estimators.ridge import masked_ridge
from naim3l.estimators.schema import PARAMETERS, SWITCH, Parameter, in_range, whole_number
from naim3l.features.encoding import make_transformer
from naim3l.features.kernels import KernelMap
from naim3l.features.recipes import LeadingComponents, RootHistogram
from naim3l.problem.aligned_rows import AlignedRows
from naim3l.problem.rows import Problem
from naim3l.report.plots import COLOURS, GREY, MARKERS, new_figure, styled
from naim3l.report.svg import inline_svg
from naim3l.solvers import solve_fast, solve_paper
from naim3l.solvers.nuclear import singular_value_threshold, trace_norm, trace_norm_subgradient
from naim3l.solvers.objective import Objective

__all__ = [  # noqa: RUF022 (grouped by purpose)
    # Bases of methods, and what they learn.
    "AlignedModel",
    "ConcatenatedModel",
    "KernelModel",
    "Learned",
    "ViewModel",
    "linear_arrays",
    # Allowed values of parameters.
    "PARAMETERS",
    "SWITCH",
    "Parameter",
    "check_number",
    "in_range",
    "whole_number",
    # Data of a fit: rows per view, or samples with several views.
    "AlignedRows",
    "Problem",
    # Features of a view.
    "KernelMap",
    "LeadingComponents",
    "RootHistogram",
    "make_transformer",
    # The objective of NAIM3L, its solvers and their building blocks.
    "Objective",
    "masked_logistic",
    "masked_ridge",
    "singular_value_threshold",
    "solve_fast",
    "solve_paper",
    "trace_norm",
    "trace_norm_subgradient",
    # Held-out entries, and what is learned from them.
    "Calibration",
    "add_evidence",
    "calibration_error",
    "compare_on_held_out",
    "fit_calibration",
    "fit_thresholds",
    "hidden_metric",
    "hold_out_folds",
    # Figures in the style of reports.
    "COLOURS",
    "GREY",
    "MARKERS",
    "inline_svg",
    "new_figure",
    "styled",
]
