"""The paper's experiments with naim3l: its tables and figures, and what goes beyond them.

Experiments are functions from seeds to records of numbers; only the command line prints.
"""

__version__ = "0.1.0"
