"""What is solved: rows, or statistics of them that add up, and the choice between the two."""
