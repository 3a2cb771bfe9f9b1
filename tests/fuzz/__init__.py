"""Damaged and hostile files of every format that the package reads; `fuzz_files.py` runs them."""
