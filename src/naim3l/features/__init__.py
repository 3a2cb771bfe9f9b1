"""From cells to features: recipes per view, and kernels."""
