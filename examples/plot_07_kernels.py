"""
Kernels on curved data
======================

A linear model separates by straight lines. A kernel compares rows with landmarks, and can follow
curves.
"""

# %%
# Two tables with two columns each. A row is "inside" if it lies in a ring, and "right" if it lies
# to the right of a wave; the tables show both in different coordinates. 30 % of the labels are
# unknown.

import matplotlib.pyplot as plt
import numpy as np

from naim3l import NAIM3L, Kernel, evaluate

rng = np.random.default_rng(0)


def sample(n_rows):
    """Points in the plane, and their two labels."""
    points = rng.uniform(-2, 2, size=(n_rows, 2))
    radius = np.hypot(*points.T)
    wave = 0.6 * np.sin(2.5 * points[:, 1])
    labels = np.column_stack([np.abs(radius - 1.2) < 0.4, points[:, 0] > wave])
    return points, labels.astype(float)


turn = np.array([[0.8, -0.6], [0.6, 0.8]])
tables = {"first": sample(400), "second": sample(300)}
tables["second"] = tables["second"][0] @ turn, tables["second"][1]
X = {view: points for view, (points, _) in tables.items()}
Y = {view: np.where(rng.random(L.shape) < 0.3, np.nan, L) for view, (_, L) in tables.items()}

kernel = Kernel("rbf", n_landmarks=100, gamma=2.0, recipe=None)
models = {
    "linear": NAIM3L(lam=0.1, ridge=0.1, features=None, random_state=0),
    "kernel": NAIM3L(lam=0.1, ridge=0.1, features=kernel, random_state=0),
}

# %%
# Scores of the first table, as colours; dots are its rows with a known label.

grid = np.stack(np.meshgrid(np.linspace(-2, 2, 120), np.linspace(-2, 2, 120)), axis=-1)
test, test_labels = sample(2000)
fig, axes = plt.subplots(2, 2, figsize=(7, 6.4), sharex=True, sharey=True, layout="constrained")
for row, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(X, Y)
    scores = model.decision_function({"first": grid.reshape(-1, 2)})["first"].reshape(120, 120, 2)
    AUC = evaluate(test_labels, model.decision_function({"first": test})["first"])["macro-AUC"]
    for k, (ax, label) in enumerate(zip(row, ("in the ring", "right of the wave"), strict=True)):
        ax.contourf(
            *np.moveaxis(grid, -1, 0),
            scores[..., k],
            levels=np.linspace(-1.6, 1.6, 17),
            cmap="RdBu",
            extend="both",
            alpha=0.8,
        )
        ax.contour(*np.moveaxis(grid, -1, 0), scores[..., k], levels=[0], colors="black")
        known = ~np.isnan(Y["first"][:, k])
        ax.scatter(
            *X["first"][known].T,
            c=Y["first"][known, k],
            cmap="RdBu",
            s=9,
            edgecolor="black",
            linewidth=0.3,
        )
        ax.set_title(f"{label}: {name}")
    print(f"{name}: macro-AUC of new rows {AUC:.3f}")
plt.show()

# %%
# The wave is nearly a line, so the linear model does well; the ring it cannot see at all.
