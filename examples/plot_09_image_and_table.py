"""
An image encoder beside a table
===============================

One source has digits as images, another has sums of the pixels of *other* digits as a table. A
small convolutional network reads the images, and the default network reads the table. Both are
trained together, coupled by the labels alone. This example needs torch: ``pip install '.[torch]'``.
"""

# %%
# The labels are properties of a digit. Half of them are unknown in training.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from torch import nn

from naim3l import NAIM3L, evaluate
from naim3l.deep import DeepNAIM3L, Training

PROPERTIES = {
    "even": (0, 2, 4, 6, 8),
    "prime": (2, 3, 5, 7),
    "has a loop": (0, 6, 8, 9),
    "five or more": (5, 6, 7, 8, 9),
    "multiple of 3": (0, 3, 6, 9),
    "straight": (1, 4, 7),
}
rng = np.random.default_rng(0)
pixels, digits = load_digits(return_X_y=True)
squares = pixels.reshape(-1, 8, 8) / 16
labels = np.column_stack([np.isin(digits, members) for members in PROPERTIES.values()]) * 1.0
tables = {
    "image": squares.reshape(-1, 64),
    "table": np.hstack([squares.sum(axis=1), squares.sum(axis=2)]),
}
order = rng.permutation(len(digits))
rows = {"image": order[:900], "table": order[900:]}  # no digit is in both
train = {view: r[:600] for view, r in rows.items()}
test = {view: r[600:] for view, r in rows.items()}
X = {view: tables[view][r] for view, r in train.items()}
Y = {
    view: np.where(rng.random((600, len(PROPERTIES))) < 0.5, np.nan, labels[r])
    for view, r in train.items()
}
new = {view: tables[view][r] for view, r in test.items()}

# %%
# An encoder is a torch module, or a function of a view's name that makes one; None is the default
# network. Rows arrive as flat vectors.


def encoder(view, n_features):
    """Network for the pixels of a row; the table has the default network."""
    if view == "table":
        return None
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


shared = {"features": {"image": None, "table": "scale"}, "random_state": 0}
models = {
    "linear": NAIM3L(lam=0.1, ridge=1.0, **shared),
    "networks": DeepNAIM3L(
        encoders=encoder,
        training=Training(max_epochs=20, batch_size=100, learning_rate=5e-3),
        **shared,
    ),
}
found = {}
for name, model in models.items():
    scores = model.fit(X, Y).decision_function(new)
    found[name] = {
        view: [
            evaluate(labels[test[view]][:, [k]], S[:, [k]])["macro-AUC"]
            for k in range(len(PROPERTIES))
        ]
        for view, S in scores.items()
    }

# %%
# The table gains most: its sums determine the properties of a digit, but not linearly. The images
# are nearly linear already.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
height = np.arange(len(PROPERTIES))
for ax, view in zip(axes, ("image", "table"), strict=True):
    for shift, (name, by_view) in zip((0.2, -0.2), found.items(), strict=True):
        ax.barh(height + shift, 100 * np.array(by_view[view]), height=0.38, label=name)
    ax.set(xlim=(50, 100), xlabel="AUC of new digits (%)", title=f"view: {view}")
    ax.grid(axis="x", alpha=0.3)
axes[0].set_yticks(height, list(PROPERTIES))
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
plt.show()
# sphinx_gallery_thumbnail_path = "figures/image_and_table.svg"
