"""Tables from files and databases, split into ids, features and labels; settings in TOML.

pandas and pyarrow (``pip install 'naim3l[files]'``) and SQLAlchemy (``'naim3l[sql]'``) are
loaded when they are needed.
"""

from naim3l.readers.cells import parse_labels
from naim3l.readers.columns import Roles, choose_columns, guess_roles
from naim3l.readers.config import Config, LabelWords, ViewConfig, read_config, write_config
from naim3l.readers.draft import make_config
from naim3l.readers.errors import ReadError
from naim3l.readers.features import parse_features
from naim3l.readers.files import check_file, read_table, source_file
from naim3l.readers.options import check_options
from naim3l.readers.writers import check_target, write_table

__all__ = [
    "Config",
    "LabelWords",
    "ReadError",
    "Roles",
    "ViewConfig",
    "check_file",
    "check_options",
    "check_target",
    "choose_columns",
    "guess_roles",
    "make_config",
    "parse_features",
    "parse_labels",
    "read_config",
    "read_table",
    "source_file",
    "write_config",
    "write_table",
]
