"""BlendNAIM3L: unlike models of the same tables, blended with weights from held-out entries."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import logit
from sklearn.base import clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import _BaseComposition

from naim3l._arrays import Matrix
from naim3l._progress import progress_bar
from naim3l.decisions.calibration import HeldOutScores, fit_calibrations
from naim3l.decisions.fusion import Blend, blend, blend_weights, calibrated
from naim3l.decisions.learning import fixed_decisions, learn_decisions
from naim3l.decisions.rules import Decisions
from naim3l.estimators.aligned import AlignedModel
from naim3l.estimators.base import ViewModel, ViewPredictor
from naim3l.estimators.boosting import PerViewBoosting
from naim3l.estimators.naim3l import NAIM3L
from naim3l.estimators.naim3l_cv import NAIM3LCV
from naim3l.estimators.saved import MODELS, Model
from naim3l.files.archive import Refusal
from naim3l.files.stored import Array, MapOf, Nested, OneOf
from naim3l.problem.rows import Problem

# Members that can be saved with a blend; networks are imported when one is there.
MEMBERS = [name for name in MODELS if name not in ("FusedRidge", "BlendNAIM3L")]


@dataclass(eq=False, repr=False)
class BlendNAIM3L(_BaseComposition, ViewPredictor):
    """Unlike models of the same tables, blended: usually more accurate than each of them.

    Every member is fitted to all rows, and without each fifth of them to score these. From the
    scores of held-out entries follow the log-odds of each member and view, and the weights with
    which the blended log-odds have the lowest log-loss. Models that err differently gain most, for
    example linear models, kernels of several kinds, boosting, and networks.

    Parameters
    ----------
    members : list of (name, model), optional
        Models of this package that take separate tables, such as :class:`naim3l.NAIM3L`,
        :class:`naim3l.NAIM3LCV`, :class:`naim3l.estimators.PerViewBoosting` and
        :class:`naim3l.deep.DeepNAIM3L`. Their parameters ``views``, ``random_state`` and
        ``verbose`` are those of the blend. By default `NAIM3LCV`, a `NAIM3L` with kernels, and
        `PerViewBoosting`.
    weights : {"learned", "equal"}, default="learned"
        "learned" weights minimise the log-loss of held-out entries; where little is known, they
        are close to the share of each member in what all say. "equal" is the mean of the
        members' log-odds, for members that are about equally good, such as `NAIM3LCV` and
        :class:`naim3l.LabelSubspaceRidge`.
    views
        As in :class:`naim3l.NAIM3L`.
    decide : default="sign"
        As in :class:`naim3l.NAIM3L`, but blends have probabilities in any case.
    random_state : int, RandomState or None, default=None
        Determines the folds, and the random numbers of the members.
    verbose : int, default=0
        1 shows progress bars on a terminal.

    Attributes
    ----------
    members_ : dict of str to model
        Fitted members by name.
    weights_ : dict of str to ndarray of shape (n_labels,)
        Weight of each member, by name: one for rare, one for medium and one for frequent labels.
    blends_ : dict of str to Blend
        Calibrations and weights by view.
    decisions_, thresholds_, fusion_overlap_, base_rates_, views_, \
label_names_, n_features_in_, feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets
    >>> from naim3l.estimators import BlendNAIM3L
    >>> data = datasets.make_unpaired(90, n_features=(9, 8), n_labels=3, noise=0.5, random_state=0)
    >>> members = [("coupled", NAIM3L(ridge=1.0)), ("kernel", NAIM3L(features="rbf", ridge=1.0))]
    >>> model = BlendNAIM3L(members, random_state=0).fit(data.views, data.labels)
    >>> sorted(model.weights_)
    ['coupled', 'kernel']
    """

    has_probabilities = True
    kernel_maps_: ClassVar[dict[str, Any]] = {}  # they belong to the members

    members: Any = None
    _: KW_ONLY
    weights: str = "learned"
    views: Mapping[str, Any] | None = None
    decide: Any = "sign"
    random_state: Any = None
    verbose: int = 0

    _stored = ViewPredictor._stored | {
        "members_": MapOf(OneOf({name: Model(name) for name in MEMBERS})),
        "weights_": MapOf(Array("f", "labels")),
        "blends_": MapOf(Nested(Blend), keys="views"),
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "members": "no_validation",  # checked by `_checked_members`
        "weights": [StrOptions({"learned", "equal"})],
        "views": [Mapping, None],
        "decide": "no_validation",
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the blend, and with ``deep`` those of its members, as in a pipeline.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include members by name, and their parameters as "name__parameter".

        Returns
        -------
        dict of str to object
            Values by name.

        Examples
        --------
        >>> from naim3l.estimators import NAIM3L, BlendNAIM3L
        >>> BlendNAIM3L([("linear", NAIM3L(0.2))]).get_params()["linear__lam"]
        0.2
        """
        return dict(self._get_params("members", deep=deep))

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters of the blend, members by name, or parameters of members.

        Parameters
        ----------
        **parameters : object
            Values by name; "name__parameter" is a parameter of a member.

        Returns
        -------
        self
            The same model.

        Examples
        --------
        >>> from naim3l.estimators import NAIM3L, BlendNAIM3L
        >>> model = BlendNAIM3L([("linear", NAIM3L())]).set_params(linear__lam=0.3)
        >>> model.members[0][1].lam
        0.3
        """
        self._set_params("members", **parameters)
        return self

    def _fit(self, X: Any, y: Any) -> None:
        self._validate_params()
        rules = replace(Decisions.of(self.decide), probabilities=True)
        members = self._checked_members()
        self._forget()
        # One seed, so that all members hold the same entries out.
        whole = isinstance(self.random_state, Integral)
        rng = check_random_state(self.random_state)
        seed = int(self.random_state if whole else rng.randint(2**31 - 1))
        fitted, found, problem = dict[str, Any](), [], None
        with progress_bar("members", len(members), shown=self.verbose > 0) as advance:
            for name, member in members:
                fitted[name] = self._prepared(member, seed)
                rows, *of_member = fitted[name]._fit_held_out(X, y)
                problem = rows if problem is None else problem
                if not np.array_equal(rows.Y, problem.Y):
                    raise ValueError(
                        f"members[{name!r}] was fitted to other rows than {next(iter(fitted))!r}: "
                        "all members must be able to use the same rows of every view."
                    )
                found.append(of_member)
                advance(name)
        assert problem is not None
        self._learn(rules, fitted, problem, np.swapaxes(found, 0, 1))

    def _view_scores(self, X: Any) -> dict[str, Matrix]:
        found = [member._view_scores(X) for member in self.members_.values()]
        return {
            view: self.blends_[view].log_odds(np.stack([of[view] for of in found]))
            for view in found[0]
        }

    def _to_stored(self) -> dict[str, Any]:
        values = super()._to_stored()
        del values["parameters"]["members"]  # as the fitted ones have their parameters
        return values

    @classmethod
    def _from_stored(cls, values: dict[str, Any]) -> Self:
        model = super()._from_stored(values)
        model._copy_members()
        return model

    def _check_stored(self) -> None:
        """Refuse weights and calibrations of other members."""
        if not self.members_ or list(self.weights_) != list(self.members_):
            raise ValueError(f"weights of {list(self.weights_)}, members {list(self.members_)}.")
        for view, of_view in self.blends_.items():
            if len(of_view.calibrations) != len(self.members_):
                raise ValueError(f"view {view!r}: {len(of_view.calibrations)} calibrations.")

    def _attach_encoders(self, encoders: Mapping[str, Any]) -> None:
        """Complete a blend from a file, given the user's encoders by member and view."""
        networks = [n for n, of in self.members_.items() if hasattr(of, "_attach_encoders")]
        given = [name for name, of in encoders.items() if isinstance(of, Mapping)]
        if len(given) < len(encoders) or not set(given) <= set(networks):
            raise Refusal(
                f"encoders= has {list(encoders)}, and the networks of this blend are {networks}: "
                "it should be a mapping {member: {view: module}}."
            )
        for name in networks:
            try:
                self.members_[name]._attach_encoders(encoders.get(name, {}))
            except Refusal as refusal:
                raise Refusal(f"member {name!r}: {refusal}") from refusal
        self._copy_members()

    def _copy_members(self) -> None:
        """Members of the next fit, like those that were fitted."""
        self.members = [(name, clone(member)) for name, member in self.members_.items()]

    @property
    def columns_(self) -> dict[str, Any]:
        """How each column of a view is used by the first member that has judged them."""
        found: dict[str, Any] = {}
        for member in self.members_.values():
            found = member.columns_ | found
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "blends_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        taken = [get_tags(member).input_tags for _, member in self._checked_members()]
        tags.input_tags.sparse = all(of.sparse for of in taken)
        tags.input_tags.allow_nan = all(of.allow_nan for of in taken)
        return tags

    def _checked_members(self) -> Sequence[tuple[str, ViewModel]]:
        members = self.members
        if members is None:
            kernel = NAIM3L(features="rbf", ridge=1.0)
            members = [("coupled", NAIM3LCV()), ("kernel", kernel), ("boosting", PerViewBoosting())]
        is_list = isinstance(members, Sequence) and len(members) > 0
        if not is_list or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in members):
            raise ValueError(f"members must be a list of pairs (name, model), got {members!r}.")
        self._validate_names([name for name, _ in members])
        for name, member in members:
            if not isinstance(member, ViewModel) or isinstance(member, AlignedModel):
                raise TypeError(
                    f"members[{name!r}] must be a model that scores every view by itself, such as "
                    f"NAIM3L, PerViewRidge or DeepNAIM3L; got {type(member).__name__}."
                )
        return members

    def _prepared(self, member: ViewModel, seed: int) -> Any:
        """Unfitted copy of a member, with the parameters of the blend."""
        copied = clone(member)
        own: dict[str, Any] = {"views": self.views, "verbose": self.verbose, "random_state": seed}
        if not Decisions.of(member.decide).probabilities:  # its folds are held out
            own["decide"] = "half"
        names = copied.get_params(deep=False)
        return copied.set_params(**{name: v for name, v in own.items() if name in names})

    def _learn(
        self, rules: Decisions, fitted: dict[str, ViewModel], problem: Problem, scores: Matrix
    ) -> None:
        """Learn calibrations, weights and decisions from scores of held-out entries.

        Scores are (2, n_members, n_rows, n_labels): those of held-out entries, NaN elsewhere, and
        those of all rows by the final fits.
        """
        first, truth = next(iter(fitted.values())), problem.truth_of(problem.Y != 0)
        rates = problem.view_rates
        by_member = [
            fit_calibrations(HeldOutScores.of_views(problem, held_out, final), rates)
            for held_out, final in scores.swapaxes(0, 1)
        ]
        curves = dict(zip(first.views_, map(list, zip(*by_member, strict=True)), strict=True))
        log_odds, base = np.full_like(scores, np.nan), np.empty(truth.shape)
        for v, (view, rows) in enumerate(zip(first.views_, problem.row_slices, strict=True)):
            base[rows] = logit(rates[v])
            for of, S in zip(log_odds, scores, strict=True):
                of[:, rows] = calibrated(curves[view], S[:, rows])
        weights = np.full((len(fitted), problem.n_labels), 1 / len(fitted))
        if self.weights == "learned":
            weights = blend_weights(log_odds[0], base, truth)
        for name in ("names_", "base_rates_", "view_rates_", "roles_", "made_"):
            setattr(self, name, getattr(first, name))
        self.shared_ = None  # members have their own
        self.members_, self.weights_ = fitted, dict(zip(fitted, weights, strict=True))
        start = fixed_decisions(rules, self.names_.blocks, self.label_names_)
        held_out, final = (blend(of, base, weights) for of in log_odds)
        self.decisions_ = learn_decisions(rules, start, problem, held_out, final)
        self.blends_ = {view: Blend(curves[view], weights) for view in curves}
