"""Features of a view that are fitted to a table in parts: from surveys, moments and a sample."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline

from naim3l._arrays import Mask
from naim3l.features.cell_encoder import CellEncoder
from naim3l.features.encoding import ViewFeatures
from naim3l.features.moments import Moments, count_fitted_by_moments, fit_steps
from naim3l.features.recipes import RootHistogram
from naim3l.features.survey import TableSurvey
from naim3l.input.numeric import check_not_tiny
from naim3l.input.tables import Table


@dataclass(frozen=True)
class PartFit:
    """Steps of a view's transformer, by what they are fitted to.

    Attributes
    ----------
    view : str
    features : ViewFeatures
        Not fitted yet.
    before : list of transformers
        First steps, fitted: the encoder of cells, by a survey of all rows, or roots of histograms,
        which learn nothing.
    by_moments : list of transformers
        Next steps of a recipe, which depend on means, variances and ranges of all rows alone.
    by_sample : list of transformers
        All further steps, which are fitted to a sample of the rows.
    """

    view: str
    features: ViewFeatures
    before: list[Any]
    by_moments: list[Any]
    by_sample: list[Any]

    @classmethod
    def plan(
        cls, view: str, features: ViewFeatures, survey: TableSurvey | None, n_columns: int
    ) -> "PartFit":
        """Division of the steps; the encoder of cells is fitted to a survey."""
        steps = _flat(features.transformer)
        before: list[Any] = []
        if steps and isinstance(steps[0], CellEncoder):
            assert survey is not None
            before.append(steps.pop(0).fit_survey(survey))
        if steps and isinstance(steps[0], RootHistogram):
            before.append(steps.pop(0).fit(np.zeros((1, n_columns))))
        # Other transformers may accept missing cells, or need names of columns: they get a sample.
        by_name = features.as_numbers or before
        n_by_moments = count_fitted_by_moments(steps) if by_name else 0
        return cls(view, features, before, steps[:n_by_moments], steps[n_by_moments:])

    @property
    def needs_pass(self) -> bool:
        """Whether something has to be learned from the rows after the survey."""
        return bool(self.by_moments or self.by_sample)

    def moments(self, table: Table) -> tuple[Moments | None, Mask]:
        """Moments of the rows of a part that have the view, and which rows these are."""
        if not self.by_moments:
            return None, self.features.rows(table)[1]
        rows, present = self._after(self.before).encode(table)
        if not present.any():
            return None, present
        return Moments.of(rows, table.where), present

    def finish(self, moments: Moments | None, sample: Table | None) -> ViewFeatures:
        """The fitted features; ``sample`` has rows of the view as users give them."""
        if self.by_moments:
            assert moments is not None
            self._check_not_tiny(moments)
            fit_steps(self.by_moments, moments)
        if self.by_sample:
            assert sample is not None
            done = [*self.before, *self.by_moments]
            if done:
                rows, _ = self._after(done).encode(sample)
                _joined(self.by_sample).fit(rows)
            else:
                self.features.fit_encode(sample)
        return self.features

    def _check_not_tiny(self, moments: Moments) -> None:
        """Refuse columns whose squares vanish, as a fit to rows does."""
        if self.features.as_numbers:
            ends = np.stack([moments.lowest, moments.highest])
            check_not_tiny(Table(ends, f"view {self.view!r}"), ends)

    def _after(self, steps: list[Any]) -> ViewFeatures:
        """Features after the first steps, which are fitted."""
        return replace(self.features, transformer=_joined(steps))


def _flat(transformer: Any) -> list[Any]:
    """Steps of a pipeline, also of nested ones; a transformer of its own is one step."""
    if transformer is None:
        return []
    if not isinstance(transformer, Pipeline):
        return [transformer]
    parts = [part for _, part in transformer.steps if part not in (None, "passthrough")]
    return [step for part in parts for step in _flat(part)]


def _joined(steps: list[Any]) -> Any:
    if not steps:
        return None
    return steps[0] if len(steps) == 1 else make_pipeline(*steps)
