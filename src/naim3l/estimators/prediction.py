"""Predictions of models per view: scores, decisions, probabilities, imputed labels."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from naim3l._parameters import check_choice
from naim3l.decisions.calibration import Calibration
from naim3l.decisions.fusion import Evidence
from naim3l.decisions.rules import Rulebook, Thresholds, fuse_views, thresholds_of
from naim3l.estimators.calibrated import CalibratedMethod, check_confidence, most_probable
from naim3l.estimators.lazy import lazily, scores_of_parts
from naim3l.estimators.output import contain
from naim3l.features.encoding import ViewFeatures
from naim3l.input.labels import CODINGS, LabelTable, fill_unknown
from naim3l.input.partitions import any_partitioned
from naim3l.input.reader import TableReader, of_reader
from naim3l.input.tables import OUTPUTS, Table, warn_of_rows
from naim3l.input.views import FUSED
from naim3l.metrics import evaluate


class ViewPredictor(BaseEstimator):
    """Base of the models per view: what a fitted model computes.

    A subclass has the two methods below, and its ``fit`` sets the attributes.
    """

    calibrate: bool
    reader_: TableReader  # form and names of the fit; checks tables and labels against it
    features_: dict[str, ViewFeatures]
    thresholds_: Thresholds
    rules_: Rulebook
    calibration_: dict[str, Calibration]
    evidence_: Evidence | None  # how the views of a wide table are fused; None is the mean

    @abstractmethod
    def __sklearn_is_fitted__(self) -> bool:
        """Whether everything that ``_score_features`` needs has been learned."""

    @abstractmethod
    def _score_features(self, view: str, features: Any) -> NDArray[np.floating]:
        """Scores of the rows of one view.

        Parameters
        ----------
        view : str
        features : ndarray or CSR array of shape (n_rows, n_features)
            Output of the view's transformer for at least one row.

        Returns
        -------
        ndarray of shape (n_rows, n_labels)
        """

    views_ = of_reader("views_")
    label_names_ = of_reader("label_names_")
    classes_ = of_reader("classes_")
    n_features_in_ = of_reader("n_features_in_")
    feature_names_in_ = of_reader("feature_names_in_")

    @property
    def transformers_(self) -> dict[str, Any]:
        return {view: features.transformer for view, features in self.features_.items()}

    @lazily
    def decision_function(self, X: Any) -> Any:
        """Scores of the labels, which are larger for labels that are more likely.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit. A mapping need not have all views.

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels), or ndarray of that shape
            By view for a mapping. For a wide table, scores are fused over the views that a row
            has: their mean, or log-odds with ``fusion="evidence"`` or "learned". Scores are NaN
            in a row that lacks the view, or, in a wide table, every view. For tables in parts
            (dask collections, Parquet files) all methods return dask data frames or arrays.

        Examples
        --------
        >>> from naim3l import NAIM3L
        >>> from naim3l.datasets import make_unpaired
        >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = NAIM3L().fit(data.views, data.labels)
        >>> model.decision_function({"view1": data.views["view1"][:2]})["view1"].round(2)
        array([[ 1.05,  0.74, -0.65],
               [ 0.85,  0.59,  1.61]])
        """
        scores = self._scores(X)
        if self.reader_.wide:
            lacking = np.asarray(np.isnan(scores[FUSED]).all(axis=1))
            if lacking.any():
                warn_of_rows(lacking, "have no view at all: their scores are NaN")
        return self._contain(scores, X)

    @lazily
    def view_scores(self, X: Any) -> dict[str, NDArray[np.float64]]:
        """Scores of each view by itself, before those of a wide table are fused.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit. A mapping need not have all views.

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels)
            NumPy arrays, regardless of `set_output`; NaN in a row that lacks the view.

        Examples
        --------
        >>> from naim3l import NAIM3L, join_views
        >>> from naim3l.datasets import make_unpaired
        >>> data = make_unpaired(
        ...     60, n_features=(9, 8), n_labels=3, aligned=True, noise=0.1, random_state=0
        ... )
        >>> wide, views = join_views(data.views)
        >>> model = NAIM3L(views=views).fit(wide, data.labels["view0"])
        >>> {view: scores[0].round(2) for view, scores in model.view_scores(wide).items()}
        {'view0': array([0.55, 0.96, 0.47]), 'view1': array([0.49, 0.91, 0.48])}
        """
        check_is_fitted(self)
        return {view: self._score_view(view, t) for view, t in self.reader_.tables(X).items()}

    @lazily
    def predict(self, X: Any, decide: str | None = None) -> Any:
        """Predicted labels: yes where the score is above the threshold of the label, else no.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit. A mapping need not have all views, but every row must have
            the view; a row of a wide table must have at least one view.
        decide : {"sign", "guarded", "cardinality", "f1", "half"}, optional
            Rule to use instead of ``threshold``. All but "sign" need a model that has learned
            probabilities or a threshold rule.

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels), or ndarray of that shape
            By view for a mapping; 1 is yes, and 0 is no (-1 with ``label_coding="signed"``).

        Examples
        --------
        >>> from naim3l import NAIM3L
        >>> from naim3l.datasets import make_unpaired
        >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = NAIM3L().fit(data.views, data.labels)
        >>> model.predict({"view1": data.views["view1"][:2]})["view1"]
        array([[1, 1, 0],
               [1, 1, 1]])
        """
        scores = self._scores(X)
        for view, S in scores.items():
            lacking = np.flatnonzero(np.isnan(S).any(axis=1))
            if len(lacking):
                where = "X" if self.reader_.wide else f"view {view!r}"
                raise ValueError(
                    f"{where}, row {lacking[0]}: all values are missing, so there is nothing to "
                    f"predict from ({len(lacking)} such rows); drop these rows first."
                )
        at = thresholds_of(decide, self.thresholds_, self.rules_)
        decided = {view: self._coded(at[view] < S) for view, S in scores.items()}
        return self._contain({view: D.astype(np.int64) for view, D in decided.items()}, X)

    @CalibratedMethod
    @lazily
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the labels, for models with ``calibrate=True``.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit. A mapping need not have all views.

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels), or ndarray of that shape
            By view for a mapping. Each entry is the probability that the row has the label, so
            the probabilities of different labels need not sum to one. NaN where
            `decision_function` returns NaN.

        Examples
        --------
        >>> from naim3l import NAIM3L
        >>> from naim3l.datasets import make_unpaired
        >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = NAIM3L(calibrate=True, random_state=0).fit(data.views, data.labels)
        >>> model.predict_proba({"view1": data.views["view1"][:2]})["view1"].round(2)
        array([[1.  , 0.97, 0.1 ],
               [0.99, 0.94, 1.  ]])
        """
        check_is_fitted(self)
        found = {view: self._probabilities(view, S) for view, S in self._scores(X).items()}
        return self._contain(found, X)

    @lazily
    def impute_labels(self, X: Any, y: Any, min_confidence: float | None = None) -> Any:
        """Label tables with predictions in place of unknown entries.

        With ``calibrate=True``, an unknown entry gets its most probable value, whatever the
        thresholds. Otherwise it gets the decision of `predict`.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit.
        y : mapping of str to label table, or one label table
            Labels of the rows of ``X``. For Parquet files, names of columns of the same files
            are accepted, too.
        min_confidence : float, optional
            Smallest probability, from 0.5 to 1, of a value that is filled in; other entries stay
            unknown. Only with ``calibrate=True``.

        Returns
        -------
        label tables of the type of ``y``
            Known entries are unchanged. An unknown entry stays unknown in a row without features.

        Examples
        --------
        >>> import numpy as np
        >>> from naim3l import NAIM3L
        >>> from naim3l.datasets import make_unpaired
        >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = NAIM3L().fit(data.views, data.labels)
        >>> labels = {"view1": np.array([[1, np.nan, 0], [np.nan, 1, np.nan]])}
        >>> model.impute_labels({"view1": data.views["view1"][:2]}, labels)["view1"]
        array([[1., 1., 0.],
               [1., 1., 1.]])
        """
        check_confidence(min_confidence, self.calibrate)
        filled = {}
        for view, S, labels in self._scores_and_labels(X, y):
            thresholds = self.thresholds_[view]
            if self.calibrate:
                is_yes = most_probable(self._probabilities(view, S), min_confidence)
            else:
                is_yes = np.where(np.isnan(S), np.nan, thresholds < S)
            values = self._coded(is_yes)[:, self.reader_.label_positions(labels)]
            filled[view] = fill_unknown(labels, values, self.reader_.label_coding)
        return filled[FUSED] if self.reader_.wide else filled

    def score(self, X: Any, y: Any) -> float:
        """Average precision on the known labels, averaged over views.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit. Rows that lack the view are left out.
        y : mapping of str to label table, or one label table
            Labels of the rows of ``X``. For tables in parts, scores and labels of all rows must
            fit in memory.

        Returns
        -------
        float
            From 0 to 1, larger is better. A single label leaves nothing to rank, so that the
            share of correct decisions is returned instead.

        Examples
        --------
        >>> from naim3l import NAIM3L
        >>> from naim3l.datasets import make_unpaired
        >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = NAIM3L().fit(data.views, data.labels)
        >>> model.score(data.views, data.labels)
        1.0
        """
        values = []
        for view, S, labels in self._scores_and_labels(X, y):
            signed = self.reader_.signed(labels)
            truth = np.where(signed == 0, np.nan, signed > 0)
            present = ~np.isnan(S).any(axis=1)
            metrics = evaluate(truth[present], S[present], threshold=self.thresholds_[view][0])
            values.append(metrics["1-HL" if S.shape[1] == 1 else "AP"])
        return float(np.mean(values))

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of scores and predictions, as for scikit-learn's transformers.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            "default" is NumPy. Data frames have the label names as columns and, in pandas, the
            index of the rows. None changes nothing.

        Returns
        -------
        self
            The same model.

        Examples
        --------
        >>> from naim3l import NAIM3L
        >>> from naim3l.datasets import make_unpaired
        >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = NAIM3L().fit(data.views, data.labels)
        >>> model = model.set_output(transform="pandas")
        >>> model.predict({"view1": data.views["view1"][:2]})["view1"]
           label0  label1  label2
        0       1       1       0
        1       1       1       1
        """
        if transform is not None:
            check_choice("transform", transform, OUTPUTS)
            self._sklearn_output_config = {"transform": transform}
        return self

    @property
    def fusion_weights_(self) -> dict[str, NDArray[np.float64]] | None:
        if self.evidence_ is None:
            return None
        return dict(zip(self.views_, self.evidence_.weights, strict=True))

    @property
    def fusion_overlap_(self) -> NDArray[np.floating] | None:
        return None if self.evidence_ is None else self.evidence_.overlap

    def _encode(self, view: str, table: Table, *, fit: bool = False) -> tuple[Any, NDArray]:
        """Features of the rows that have the view, and the mask (n_rows,) of these rows."""
        features = self.features_[view]
        return features.fit_encode(table) if fit else features.encode(table)

    def _score_view(self, view: str, table: Table) -> NDArray[np.float64]:
        features, present = self._encode(view, table)
        scores = np.full((table.shape[0], len(self.label_names_)), np.nan)
        if present.any():
            scores[present] = self._score_features(view, features)
            self._check_scores(scores[present], features, table, present)
        return scores

    def _check_scores(self, scores: Any, features: Any, table: Table, present: NDArray) -> None:
        """Refuse scores that are NaN in rows that have the view, if the method can have some."""

    def _scores(self, X: Any) -> dict[str, NDArray[np.float64]]:
        """Scores by view; for a wide table under FUSED, over the views that a row has."""
        scores = self.view_scores(X)
        if not self.reader_.wide:
            return scores
        return {FUSED: fuse_views(np.stack(list(scores.values())), self.evidence_)}

    def _scores_and_labels(
        self, X: Any, y: Any
    ) -> Iterator[tuple[str, NDArray[np.float64], LabelTable]]:
        """Name, scores and labels of each view, or of a wide table, whose name is FUSED."""
        if any_partitioned(X):
            yield from scores_of_parts(self, X, y)
            return
        scores = self._scores(X)
        labels = self.reader_.labels(X, y)
        for view, S in scores.items():
            yield view, S, next(iter(labels.values())) if self.reader_.wide else labels[view]

    def _probabilities(self, block: str, scores: NDArray[np.float64]) -> Any:
        if not self.calibration_:
            raise NotFittedError(
                "the fit was stopped before probabilities were learned; fit again, or use "
                "decision_function."
            )
        return self.calibration_[block].probabilities(scores)

    def _coded(self, is_yes: NDArray) -> NDArray[np.float64]:
        """Labels in the coding of the fit: yes where 1, no where 0, NaN where NaN."""
        yes, no, _ = CODINGS[self.reader_.label_coding][0]
        return np.asarray(no + (yes - no) * is_yes, dtype=np.float64)

    def _contain(self, values: dict[str, NDArray], X: Any) -> Any:
        """Scores or decisions in the container that `set_output` chose."""
        container = getattr(self, "_sklearn_output_config", {}).get("transform", "default")
        return contain(values, X, self.reader_, container)
