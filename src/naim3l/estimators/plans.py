"""A plan: how the columns and labels of a study are read, for statistics that can be added."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from numbers import Integral
from typing import Annotated, Any
from uuid import uuid4

from sklearn.base import clone

from naim3l._text import some
from naim3l.estimators.saved import PACKAGES, PARAMETER, storable
from naim3l.features.encoding import FeatureSpec, ViewFeatures
from naim3l.features.shared import SharedColumns
from naim3l.features.survey import TEXT
from naim3l.files import stored
from naim3l.files.checkpoint import fingerprint
from naim3l.files.stored import (
    Flag,
    ListOf,
    MapOf,
    Maybe,
    Nested,
    Plain,
    Text,
    Whole,
)
from naim3l.input.batches import Batch
from naim3l.input.labels import USUAL_WORDS, LabelDecoder, LabelWords
from naim3l.input.views import TableNames

PLAN_FORMAT = ("naim3l plan", 1, 1)
OF_PLAN = ("features", "views", "fit_intercept", "random_state")  # parameters of an estimator
Path_ = str | os.PathLike[str]


@dataclass(frozen=True, eq=False, repr=False)
class ColumnPlan:
    """How the columns and labels of a study are read, learned once, from some of its rows.

    It has no rows, but what was learned from them: names, means, frequent values, components. For
    kernels and transformers it may have rows as well, as landmarks.

    Attributes
    ----------
    names : TableNames
        Names of views, columns and labels.
    features : dict of str to ViewFeatures
        Fitted features of each view.
    shared : SharedColumns or None
        Columns that several tables have.
    words : dict of str to dict of str to int
        For each table, which of the ``meanings`` the words of each label have.
    meanings : list of dict of str to int
        Meanings of words: 1 is yes, -1 is no, 0 is unknown.
    parameters : dict
        Parameters of the estimator that the plan depends on.
    seed, n_folds, free : int, int, bool
        What decides on the rows that are held out; in how many folds, 0 if none are; and whether
        statistics have what ``ridge="auto"`` needs.
    roles, titles : dict
        Roles of columns in files, by view, and titles of columns and labels, for the command line.
    mark : str
        Random text, if the plan has objects of other packages, which cannot be compared.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets
    >>> from naim3l.statistics import ColumnPlan
    >>> data = datasets.make_unpaired(200, n_labels=3, random_state=0)
    >>> plan = ColumnPlan.of(data.views, data.labels, estimator=NAIM3L(ridge=1.0))
    >>> plan.save("study.plan")
    >>> ColumnPlan.load("study.plan").fingerprint == plan.fingerprint
    True
    """

    names: Annotated[TableNames, Nested(TableNames)]
    features: Annotated[dict[str, ViewFeatures], MapOf(Nested(ViewFeatures), keys="views")]
    shared: Annotated[SharedColumns | None, Maybe(Nested(SharedColumns))]
    words: Annotated[dict[str, dict[str, int]], MapOf(MapOf(Whole(0)))]
    meanings: Annotated[list[dict[str, int]], ListOf(MapOf(Whole(-1, 1)))]
    parameters: Annotated[dict[str, Any], MapOf(PARAMETER)]
    seed: Annotated[int, Whole(0)]
    n_folds: Annotated[int, Whole(0, 127)]
    free: Annotated[bool, Flag()]
    roles: Annotated[dict[str, Any], MapOf(Plain())] = field(default_factory=dict)
    titles: Annotated[dict[str, str], MapOf(Text())] = field(default_factory=dict)
    mark: Annotated[str, Text()] = ""

    def __repr__(self) -> str:
        return f"<plan {self.fingerprint} of views {some(self.names.views)}>"

    @classmethod
    def of(cls, X: Any, y: Any, *, estimator: Any) -> "ColumnPlan":
        """The plan of tables, which are read once or twice.

        Parameters
        ----------
        X, y : tables and label tables
            As for the fit of the estimator, in memory or in chunks. Rows that are like those of the
            study will do: values of text that they lack are unknown later.
        estimator : NAIM3L, NAIM3LCV or LabelSubspaceRidge
            Unfitted, as it will be fitted.

        Returns
        -------
        ColumnPlan
            To be saved, and for `naim3l.statistics.collect`.

        Examples
        --------
        See `ColumnPlan`.
        """
        if not hasattr(estimator, "fit_statistics"):
            raise TypeError(
                "plans are for NAIM3L, NAIM3LCV and LabelSubspaceRidge, got "
                f"{type(estimator).__name__}."
            )
        return clone(estimator)._plan_columns(X, y)

    @classmethod
    def _made(cls, model: Any, decoders: Any, positions: Any, **values: Any) -> "ColumnPlan":
        """The plan of a model that has its names and features, given what labels mean by table."""
        numbers, words = dict[str, int](), dict[str, dict[str, int]]()
        meanings = list[dict[str, int]]()
        for table, decoder in decoders.items():
            places = zip(positions[table], model.names_.labels, strict=True)
            words[table] = of_table = {}
            for at, label in sorted((at, of) for at, of in places if at is not None):
                key = repr(sorted(decoder.meanings[at].items()))
                if key not in numbers:
                    numbers[key] = len(meanings)
                    meanings.append(decoder.meanings[at])
                of_table[label] = numbers[key]
        parameters = {name: storable(getattr(model, name)) for name in OF_PLAN}
        if not isinstance(parameters["random_state"], Integral):
            parameters["random_state"] = None
        guests = any(of.transformer is not None for of in model.features_.values())
        mark = uuid4().hex if guests else ""
        given = model.names_, model.features_, values.pop("shared"), words, meanings, parameters
        return cls(*given, **values, mark=mark)

    def _check_stored(self) -> None:
        """Refuse parts that do not fit together."""
        missing = [name for name in OF_PLAN if name not in self.parameters]
        if missing or list(self.words) != list(self.names.tables):
            raise ValueError("parameters, or the words of a table, are missing.")
        for of_table in self.words.values():
            if not set(of_table) <= set(self.names.labels):
                raise ValueError("words are those of other labels.")
            if max(of_table.values(), default=0) >= len(self.meanings):
                raise ValueError("a label has words without a meaning.")
        for view in self.names.views:
            self._n_columns(view)

    def _n_columns(self, view: str) -> int | None:
        """Number of encoded columns of a view, with that of ones; None if a transformer decides."""
        n = self.features[view].n_features(len(self.names.used[view]))
        return None if n is None else n + self.parameters["fit_intercept"]

    @cached_property
    def digests(self) -> dict[str, str]:
        """Fingerprints of the parts, by what they are, which must be equal to add statistics."""
        names, fields_of = self.names, stored.declared_fields(ColumnPlan)
        parts: dict[str, Any] = {
            "views and columns": (replace(names, owner="", labels=["-"]), Nested(TableNames))
        }
        parts["labels"] = names.labels, Plain()
        for view, features in self.features.items():
            parts[f"features of view {view!r}"] = features, Nested(ViewFeatures)
        of_field = {"words": "words of labels", "meanings": "meanings of words", "seed": "seed"}
        of_field |= {"shared": "shared columns", "n_folds": "folds", "mark": "transformers"}
        of_field |= {"free": "sums for ridge='auto'"}
        parts |= {what: (getattr(self, name), fields_of[name]) for name, what in of_field.items()}
        parts["fit_intercept"] = self.parameters["fit_intercept"], Plain()
        found = {}
        for what, (value, declared) in parts.items():
            of_part = stored.dump(value, declared)
            found[what] = fingerprint(of_part.arrays, {"document": of_part.document})
        return found

    @cached_property
    def fingerprint(self) -> str:
        """Text that is the same for plans by which statistics can be added."""
        return fingerprint([], self.digests)[:32]

    def _check_same(self, other: "ColumnPlan", mine: str, its: str) -> None:
        """Refuse another plan; the message says what differs."""
        if self is other or self.fingerprint == other.fingerprint:
            return
        parts = [w for w, of in (self.digests | other.digests).items()
                 if (self.digests.get(w), other.digests.get(w)) != (of, of)]  # fmt: skip
        raise ValueError(
            f"{mine} and {its} have different plans, which differ in {some(parts, show=str)}: "
            "collect all sources by one plan."
        )

    def _decoder(
        self, table: str, labels: Batch, words: LabelWords = USUAL_WORDS
    ) -> tuple[LabelDecoder, list[int]]:
        """Decoder of a label table, and the position there of each label of the study, or -1.

        Further ``words`` take precedence over those of the plan.
        """
        meanings, given = words.meanings()
        more = {word: meanings[word] for word in given}
        own = self.words[table]
        if labels.columns is None and labels.shape[1] != len(own):
            raise ValueError(
                f"{labels.origin}: {labels.shape[1]} columns of labels, and {len(own)} in the plan."
            )
        columns = list(own) if labels.columns is None else labels.columns
        if unknown := [name for name in columns if name not in own]:
            raise ValueError(
                f"{labels.origin}: labels {some(unknown)} are not in the plan of this table, which "
                f"has {some(list(own))}."
            )
        positions = [columns.index(k) if k in columns else -1 for k in self.names.labels]
        return LabelDecoder([self.meanings[own[name]] | more for name in columns]), positions

    @property
    def text(self) -> set[str]:
        """Columns that are read as text."""
        plans = [of.plan for of in self.features.values() if of.plan is not None]
        return {c.name for plan in plans for c in plan.columns if c.kind == TEXT and c.name}

    def _check(self, model: Any, *, n_folds: int, free: bool = False, **_: Any) -> None:
        """Refuse parameters of an estimator that contradict the plan."""
        own = {name: getattr(model, name) for name in OF_PLAN}
        given = {name: (self.parameters[name], own[name]) for name in OF_PLAN}
        random = given.pop("random_state")
        if all(isinstance(seed, Integral) for seed in random):
            given["random_state"] = random
        specs = given.pop("features")
        for view in self.names.views:
            pair = tuple(model._spec_type.of(of, view) for of in specs)
            given[f"features of view {view!r}"] = pair
        for what, (of_plan, of_model) in given.items():
            if repr(storable(of_plan)) != repr(storable(of_model)):
                raise ValueError(
                    f"{what} of the plan is {_shown(of_plan)}, and of the {type(model).__name__} "
                    f"{_shown(of_model)}: use the estimator of the plan, or make another plan."
                )
        if n_folds and n_folds != self.n_folds:
            raise ValueError(
                f"the {type(model).__name__} needs held-out rows in {n_folds} folds, and the plan "
                f"has {self.n_folds or 'none'}: make the plan with this estimator, or fit one with "
                "decide='sign' and given parameters."
            )
        if free and not self.free:
            raise ValueError(
                "ridge='auto' needs sums over rows without a yes, which these statistics do not "
                "have: give a number as ridge, or make the plan with ridge='auto'."
            )

    def _apply(self, model: Any) -> None:
        """Give a model the names and features of the plan."""
        model.names_ = replace(self.names, owner=type(model).__name__)
        model.features_, model.roles_, model.shared_ = dict(self.features), dict(self.roles), None
        if self.titles:
            model.titles_ = dict(self.titles)

    def save(self, path: Path_) -> None:
        """Write the plan to a file, completely or not at all.

        Parameters
        ----------
        path : str or path-like
            Such as "study.plan".

        Examples
        --------
        See `ColumnPlan`.
        """
        save_file(self, path, PLAN_FORMAT)

    @classmethod
    def load(cls, path: Path_, *, trusted: Iterable[str | type] = ()) -> "ColumnPlan":
        """Plan from a file that `save` wrote, checked; nothing in it is run.

        Parameters
        ----------
        path : str or path-like
            Path of the file. One that is damaged, or of another kind or version, is a
            ModelFileError.
        trusted : iterable of types or functions, or of their full names, default=()
            Types of transformers, as for `naim3l.load`.

        Returns
        -------
        ColumnPlan
            As it was saved.

        Examples
        --------
        See `ColumnPlan`.
        """
        return stored.read_model(path, {"ColumnPlan": cls}, trusted=trusted, format=PLAN_FORMAT)


def _shown(value: Any) -> str:
    if isinstance(value, FeatureSpec):
        value = next((of for of in vars(value).values() if of is not None), None)
    return repr(value)


def save_file(value: Any, path: Path_, format: tuple[str, int, int]) -> None:
    versions = {name: version(name) for name in PACKAGES}
    classes = {type(value).__name__: type(value)}
    try:
        stored.write_model(path, value, classes, versions=versions, format=format)
    except ValueError as error:
        raise TypeError(str(error)) from error
