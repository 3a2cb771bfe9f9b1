"""Experiments that the paper does not have, an item each."""
