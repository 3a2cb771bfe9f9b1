"""Names for packages that add methods to naim3l, or compare methods with it.

Everything else that such a package needs is in the public modules: models in
`naim3l.estimators`, data in `naim3l.datasets`, metrics in `naim3l.metrics`, and `naim3l.Recipe`
and `naim3l.Kernel` for features. The names here are lower-level and change more often, but only
with an entry in the changelog; no other module that is not public should be imported. The
distribution ``naim3l-bench``, in the same repository, is built on them.

A method is a dataclass whose fields are its parameters, with their allowed values in
``_parameter_constraints``, as in scikit-learn. Its base reads tables and labels, fits features,
learns thresholds and probabilities on held-out entries, predicts, and saves:

- `PerViewModel`: each view has linear weights of its own, and rows of different views need not
  match. The method computes weights from a `Problem` (``_solve``).
- `AlignedModel`: rows are samples that several views describe. The method says what it learns from
  `AlignedRows` (``_solve``), the shapes of these arrays (``_shapes``), and how they score new rows
  (``_score_rows``).
- `ConcatenatedModel`: the same, for scores that are linear in the features of all views side by
  side; only ``_solve`` is left to write, and `linear_arrays` makes its arrays from weights.

Examples
--------
A method for tables that cannot be joined, whose weights point from the mean of all rows to the
mean of those that have the label:

>>> from dataclasses import dataclass
>>> import numpy as np
>>> from naim3l.extend import PerViewModel
>>> @dataclass(eq=False, repr=False)
... class MeanDifference(PerViewModel):
...     shift: float = 0.5
...     _parameter_constraints = PerViewModel._parameter_constraints | {"shift": [float]}
...
...     def _solve(self, problem):
...         W = np.zeros((problem.n_weights, problem.n_labels))
...         for X, rows, at in zip(problem.X, problem.row_slices, problem.weight_slices):
...             yes = problem.Y[rows] > 0
...             W[at] = X.T @ (yes / np.maximum(yes.sum(axis=0), 1)) - X.mean(axis=0)[:, None]
...             W[at.stop - 1] -= self.shift  # the intercept
...         return W
>>> from naim3l.datasets import make_unpaired
>>> data = make_unpaired(80, n_features=(9, 8), n_labels=3, aligned=True, random_state=0)
>>> model = MeanDifference(decide="f1", random_state=0).fit(data.views, data.labels)
>>> round(model.score(data.views, data.labels), 2)
0.99

For samples that both views describe, arrays of any shape can be learned, here the mean of the rows
that have a label ("dc": of all features by labels):

>>> from naim3l.extend import AlignedModel, Learned
>>> @dataclass(eq=False, repr=False)
... class LabelMeans(AlignedModel):
...     _shapes = {"means": "dc"}
...
...     def _solve(self, rows, rng):
...         yes = rows.Y > 0
...         X = np.hstack(rows.features)
...         return Learned({"means": X.T @ (yes / np.maximum(yes.sum(axis=0), 1))})
...
...     def _score_rows(self, arrays, features, present):
...         return np.hstack(features) @ arrays["means"]
>>> import naim3l
>>> wide, views = naim3l.join_views(data.views)
>>> model = LabelMeans(views=views, decide="f1", random_state=0).fit(wide, data.labels["view0"])
>>> model.means_.shape
(16, 3)
>>> model.save("means.naim3l")
>>> naim3l.load("means.naim3l", trusted=[LabelMeans]).predict(wide).shape
(80, 3)
"""

from naim3l.decisions.bridge import Bridge, learn_bridge
from naim3l.decisions.calibration import Calibration, fit_calibration
from naim3l.decisions.fusion import add_evidence
from naim3l.decisions.rules import fit_cuts
from naim3l.estimators.aligned import AlignedModel, ConcatenatedModel, Learned, linear_arrays
from naim3l.estimators.linear import PerViewModel
from naim3l.features.kernels import HISTOGRAM_KERNELS
from naim3l.problem.aligned_rows import AlignedRows
from naim3l.problem.rows import Problem
from naim3l.report.plots import COLOURS, GREY, MARKERS, inline_svg, new_figure, styled
from naim3l.solvers import solve_fast, solve_paper
from naim3l.solvers.nuclear import singular_value_threshold, trace_norm, trace_norm_subgradient
from naim3l.solvers.objective import Objective

__all__ = [  # noqa: RUF022 (grouped by purpose)
    # Bases of methods, the data that they learn from, and what they learn.
    "AlignedModel",
    "AlignedRows",
    "ConcatenatedModel",
    "Learned",
    "PerViewModel",
    "Problem",
    "linear_arrays",
    "HISTOGRAM_KERNELS",
    # The objective of NAIM3L, its solvers and their building blocks.
    "Objective",
    "singular_value_threshold",
    "solve_fast",
    "solve_paper",
    "trace_norm",
    "trace_norm_subgradient",
    # Held-out entries, and what is learned from them.
    "Bridge",
    "Calibration",
    "add_evidence",
    "fit_calibration",
    "fit_cuts",
    "learn_bridge",
    # Figures in the style of reports.
    "COLOURS",
    "GREY",
    "MARKERS",
    "inline_svg",
    "new_figure",
    "styled",
]
