"""Features of views: recipes and kernels."""
