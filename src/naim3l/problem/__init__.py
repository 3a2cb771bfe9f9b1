"""The problem to solve: rows, statistics of rows, and the choice between the two."""
