"""Tables of any library become views, labels and masks."""
