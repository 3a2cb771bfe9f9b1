"""The problem to solve: rows, sums over rows, and the choice between the two."""
