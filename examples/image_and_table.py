"""Train on digits that one source has as images and another as a table, with unmatched rows.

The images (8 x 8 pixels, from scikit-learn) have a small convolutional network, and the table of
row and column sums of other digits has the default network. Both are trained together, and half of
the labels are unknown. The linear model on the same tables is fitted for comparison.

    python examples/image_and_table.py

Needs torch: pip install "naim3l[torch]".
"""

import numpy as np
from sklearn.datasets import load_digits
from torch import nn

from naim3l import NAIM3L, evaluate
from naim3l.deep import DeepNAIM3L

# The digits that have each property.
PROPERTIES = {
    "even": (0, 2, 4, 6, 8),
    "prime": (2, 3, 5, 7),
    "has a loop": (0, 6, 8, 9),
    "five or more": (5, 6, 7, 8, 9),
    "multiple of 3": (0, 3, 6, 9),
    "straight": (1, 4, 7),
}
UNKNOWN = 0.5


def make_sources(rng):
    """Training and test tables with labels for both views, which contain different digits."""
    images, digits = load_digits(return_X_y=True)
    labels = np.column_stack([np.isin(digits, members) for members in PROPERTIES.values()])
    pixels = images / 16
    squares = pixels.reshape(-1, 8, 8)
    sums = np.hstack([squares.sum(axis=1), squares.sum(axis=2)])
    order = rng.permutation(len(digits))
    train, test = {}, {}
    for view, table, rows in (
        ("image", pixels, order[:900]),
        ("table", sums, order[900:]),
    ):
        known = labels[rows].astype(float)
        n_train = len(rows) * 2 // 3
        hidden = rng.random(known.shape) < UNKNOWN
        hidden[n_train:] = False
        known[hidden] = np.nan
        train[view] = table[rows[:n_train]], known[:n_train]
        test[view] = table[rows[n_train:]], known[n_train:]
    return train, test


def image_encoder():
    """Network that maps the pixels of a row to 256 numbers."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
    )


def compare(max_epochs=30, seed=0):
    """Metrics of both models by view, on digits that neither model has seen."""
    train, test = make_sources(np.random.default_rng(seed))
    X, Y = ({view: pair[i] for view, pair in train.items()} for i in (0, 1))
    shared = {"transformer": {"image": None, "table": "scale"}, "random_state": seed}
    models = {
        "linear": NAIM3L(lam=0.1, ridge=1.0, **shared),
        "networks": DeepNAIM3L(
            encoders=lambda view, n_features: image_encoder() if view == "image" else None,
            batch_size=100,
            max_epochs=max_epochs,
            learning_rate=5e-3,
            **shared,
        ),
    }
    found = {}
    for name, model in models.items():
        scores = model.fit(X, Y).decision_function({view: pair[0] for view, pair in test.items()})
        found[name] = {view: evaluate(test[view][1], S) for view, S in scores.items()}
    return found


def main():
    """Print a table of average precision and AUC."""
    print(f"{'':10}{'image':>20}{'table':>20}")
    print(f"{'':10}" + 2 * f"{'AP':>10}{'AUC':>10}")
    for name, views in compare().items():
        cells = [
            views[view][metric] for view in ("image", "table") for metric in ("AP", "macro-AUC")
        ]
        print(f"{name:10}" + "".join(f"{100 * value:10.1f}" for value in cells))


if __name__ == "__main__":
    main()
