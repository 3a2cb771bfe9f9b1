"""What the columns of a file were at the fit, so that later files need no explanation."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ViewRoles:
    """Roles of the columns of one view; its features are the columns of the fit.

    Names are those of columns, never patterns or paths, whoever wrote the model file.

    Attributes
    ----------
    id : str or None
        Column with the ids of the rows.
    labels : list of str
        Labels that the view knows.
    yes, no, unknown : list of str
        Words of label cells, in addition to the usual ones.
    text : list of str
        Features that were read as text; the others are numbers.
    ignored : list of str
        Columns that were left out, or set aside.
    """

    id: str | None = None
    labels: list[str] = field(default_factory=list)
    yes: list[str] = field(default_factory=list)
    no: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
