"""What every HTML page of this package is made of: the look of figures, drawings within a page."""
