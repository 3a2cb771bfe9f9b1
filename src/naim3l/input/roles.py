"""Roles of the columns of training files, with which later files are read."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ViewRoles:
    """Roles of the columns of one view; all others are features.

    Names are those of columns, never patterns or paths, even in a model file from others.

    Attributes
    ----------
    id : str or None
        Column with the ids of the rows.
    labels : list of str
        Labels that are known in the view.
    yes, no, unknown : list of str
        Words of label cells, in addition to the usual ones.
    ignored : list of str
        Columns that were left out, or set aside.
    """

    id: str | None = None
    labels: list[str] = field(default_factory=list)
    yes: list[str] = field(default_factory=list)
    no: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
