"""
What missing labels and missing rows cost
=========================================

Accuracy on new rows as more and more of the labels, or of the rows of each table, are taken away.
"""

# %%
# Three generated tables with 30 labels, most of them rare. The truth is known, so accuracy is
# measured on complete labels of new rows.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from naim3l import NAIM3L, DataWarning, PerViewRidge, evaluate
from naim3l.datasets import make_unpaired

warnings.simplefilter("ignore", DataWarning)  # labels that are left without a known yes
SHARES = [0.0, 0.3, 0.6, 0.8, 0.9]


def measure(model, hidden=0.0, removed=0.0, seed=0):
    """Macro-AUC on 500 new rows of each view."""
    data = make_unpaired(
        1100,
        n_features=(20, 20, 20),
        n_labels=30,
        n_latent=6,
        noise=1.0,
        labels_per_row=3.0,
        missing_labels=hidden,
        random_state=seed,
    )
    kept = int((1 - removed) * 600)
    X = {view: table[:kept] for view, table in data.views.items()}
    Y = {view: table[:kept].astype(float) for view, table in data.labels.items()}
    model.fit(X, Y)
    scores = model.decision_function({view: table[600:] for view, table in data.views.items()})
    truth = {view: table[600:] for view, table in data.complete_labels.items()}
    return 100 * evaluate(truth, scores)["macro-AUC"]


models = {
    "NAIM3L": NAIM3L(lam=0.4, ridge=10.0, tol=1e-3),
    "ridge in each table": PerViewRidge(ridge=10.0),
}
seeds = range(2)
labels_hidden = {
    name: [[measure(model, hidden=share, seed=s) for s in seeds] for share in SHARES]
    for name, model in models.items()
}
rows_removed = {
    name: [[measure(model, removed=share, seed=s) for s in seeds] for share in SHARES]
    for name, model in models.items()
}

# %%
# Half of the labels, or of the rows, can be missing at little cost; beyond 80 % accuracy falls
# quickly. Coupling adds about a point here, most of it where much is missing but not nearly
# everything.

fig, axes = plt.subplots(1, 2, figsize=(7.5, 3.6), sharey=True, layout="constrained")
for ax, (what, found) in zip(
    axes, {"labels unknown": labels_hidden, "rows missing": rows_removed}.items(), strict=True
):
    for (name, values), marker in zip(found.items(), "os", strict=True):
        means, spread = np.mean(values, axis=1), np.std(values, axis=1)
        ax.errorbar(100 * np.array(SHARES), means, spread, marker=marker, capsize=3, label=name)
    ax.set_xlabel(f"{what} (%)")
    ax.grid(alpha=0.3)
axes[0].set_ylabel("macro-AUC on new rows (%)")
axes[0].legend()
plt.show()
