"""Names of columns that are typical of ids."""

import re
from collections.abc import Iterable

_ID_NAMES = (  # the most certain first
    re.compile(r"id|uid|uuid|guid|pid|mrn|ssn|key|index|idx|row[_ ]?id", re.IGNORECASE),
    re.compile(
        r".*[_\-. ](id|uid|uuid|guid|pid|mrn|key|nr|no)|(id|key)[_\-. ].*"
        r"|(patient|case|subject|record|sample|participant|person)[_\-. ]?(no|nr|num|number|code)",
        re.IGNORECASE,
    ),
    re.compile(r".*[a-z](Id|ID|Key|Nr|No)"),
    re.compile(r"case|subject|record|participant", re.IGNORECASE),
    re.compile(r"row[_ ]?names?|unnamed(_|: ?)\d+", re.IGNORECASE),
    # Words in them repeat, as in free text, but they name persons.
    re.compile(
        r"(patient|person|participant|subject|first|last|full|family|given|sur)[_\-. ]?names?",
        re.IGNORECASE,
    ),
)


def is_named_like_id(name: str) -> bool:
    """Whether a column has a name that is typical of ids."""
    return any(names.fullmatch(name) for names in _ID_NAMES)


def in_order_of_names(names: Iterable[str]) -> list[str]:
    """The names that are typical of ids, the most certain first."""
    listed = list(names)
    found = [name for pattern in _ID_NAMES for name in listed if pattern.fullmatch(name)]
    return list(dict.fromkeys(found))
