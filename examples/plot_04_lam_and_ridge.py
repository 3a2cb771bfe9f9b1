"""
Choosing lam and ridge: a map
=============================

``NAIM3LCV`` tries pairs of ``lam``, the strength of the coupling, and a ridge, on labels that are
held out. The map of its results shows how sharp the optimum is.
"""

# %%
# Three generated tables with 30 labels, of which 60 % are unknown.

import matplotlib.pyplot as plt
import numpy as np

from naim3l import NAIM3L, NAIM3LCV, evaluate
from naim3l.datasets import make_unpaired

data = make_unpaired(
    800,
    n_features=(20, 20, 20),
    n_labels=30,
    n_latent=6,
    noise=1.0,
    labels_per_row=3.0,
    missing_labels=0.6,
    random_state=0,
)
X = {view: table[:300] for view, table in data.views.items()}
Y = {view: table[:300] for view, table in data.labels.items()}

lams = [0.03, 0.1, 0.3, 1.0, 3.0]
ridges = [0.3, 1.0, 3.0, 10.0]
model = NAIM3LCV(lams=lams, ridges=ridges, cv=2, decide="sign", random_state=0).fit(X, Y)
print(f"chosen: lam {model.lam_:.2g}, ridge {model.ridge_:.2g}")

# %%
# The second map is what one would like to know and cannot in practice: the accuracy on new rows
# with complete labels.

results = model.cv_results_
held_out = dict(
    zip(zip(results["lam"], results["ridge"], strict=True), results["mean_test_score"], strict=True)
)
new = {view: table[300:] for view, table in data.views.items()}
truth = {view: table[300:] for view, table in data.complete_labels.items()}
unseen = {
    (lam, ridge): evaluate(
        truth, NAIM3L(lam, ridge=ridge, tol=1e-3).fit(X, Y).decision_function(new)
    )["AP"]
    for lam, ridge in held_out
}

fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for ax, (title, found) in zip(
    axes, {"held-out rows": held_out, "new rows, all labels": unseen}.items(), strict=True
):
    values = np.array([[100 * found[lam, ridge] for lam in lams] for ridge in ridges])
    image = ax.imshow(values, origin="lower", aspect="auto", cmap="viridis")
    fig.colorbar(image, ax=ax, label="average precision (%)")
    best = np.unravel_index(np.nanargmax(values), values.shape)
    ax.plot(best[1], best[0], "w*", markersize=16, markeredgecolor="black")
    ax.set_xticks(range(len(lams)), [f"{lam:g}" for lam in lams])
    ax.set_yticks(range(len(ridges)), [f"{ridge:g}" for ridge in ridges])
    ax.set(xlabel="lam", ylabel="ridge", title=title)
plt.show()

# %%
# The maps agree about where it is good, a broad plateau, rather than about the single best pair
# (the star). To some extent, lam and ridge can replace each other.
