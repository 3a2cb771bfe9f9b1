"""Tables from files and databases, split into ids, features and labels.

pandas and pyarrow (``pip install 'naim3l[files]'``), SQLAlchemy (``'naim3l[sql]'``) and
python-calamine (``'naim3l[excel]'``) are loaded when they are needed.
"""

from naim3l.files.readers.cells import parse_labels
from naim3l.files.readers.columns import Roles, choose_columns, guess_roles
from naim3l.files.readers.errors import ReadError
from naim3l.files.readers.features import parse_features
from naim3l.files.readers.table import check_file, read_table, source_file
from naim3l.files.readers.writers import check_target, write_table

__all__ = [
    "ReadError",
    "Roles",
    "check_file",
    "check_target",
    "choose_columns",
    "guess_roles",
    "parse_features",
    "parse_labels",
    "read_table",
    "source_file",
    "write_table",
]
