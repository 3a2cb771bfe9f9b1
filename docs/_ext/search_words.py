"""Words by which the search finds the page that answers a question first."""

WORDS = {
    "start/index": ["install", "extras"],
    "guide/data": ["leak", "label shift"],
    "guide/decisions": ["missing labels", "unknown labels", "threshold", "calibration", "imputation"],
    "guide/explain": ["explain", "explanation", "importance"],
    "guide/fusion": ["fusion", "fuse", "join"],
    "guide/gpu": ["gpu", "cuda"],
    "guide/kernels": ["kernel", "nonlinear"],
    "guide/messages": ["error", "warning", "troubleshooting"],
    "guide/methods": ["boosting", "ridge regression", "methods"],
    "guide/networks": ["network", "torch", "deep"],
    "guide/report": ["report", "html"],
    "guide/saving": ["save", "load", "pickle"],
    "guide/scale": ["dask", "chunks", "memory", "cluster", "parquet"],
    "guide/statistics": ["months", "spark", "ray", "sufficient statistics"],
    "guide/tables": ["text", "dates", "categories", "missing values"],
    "guide/what-leaves-my-site": ["privacy", "federated", "flower", "hospital"],
    "research/method": ["objective", "admm", "trace norm"],
}


def add_words(app, docname, source):
    """Insert entries of the index after the title of a page."""
    if words := WORDS.get(docname):
        title, rest = source[0].split("\n", 1)
        entries = ", ".join(f"! {word}" for word in words)
        source[0] = f"{title}\n\n```{{index}} {entries}\n```\n{rest}"


def setup(app):
    app.connect("source-read", add_words)
    return {"version": "1", "parallel_read_safe": True}
