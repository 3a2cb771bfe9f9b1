"""
First fit: fill in unknown labels
=================================

Two tables describe different genes, and most of their labels are unknown. A model is fitted to both
tables at once, and fills in what is unknown.
"""

# %%
# The yeast data come with the package. Here the first table gets the expression levels of some
# genes, the second one the phylogenetic profiles of others, so no row of one table has a partner
# in the other. 70 % of the labels are hidden.

import matplotlib.pyplot as plt
import numpy as np

from naim3l import NAIM3L, evaluate
from naim3l.datasets import load_yeast

yeast = load_yeast()
rng = np.random.default_rng(0)
genes = rng.permutation(len(yeast.labels))
rows = {"expression": genes[:1200], "phylogenetic": genes[1200:]}
X = {view: yeast.views[view][rows[view]] for view in rows}
truth = {view: yeast.labels[rows[view]] for view in rows}
Y = {view: np.where(rng.random(T.shape) < 0.7, np.nan, T) for view, T in truth.items()}

# %%
# One call fits both views. A rule that is learned from held-out rows comes with probabilities.

model = NAIM3L(lam=0.4, ridge=1.0, decide="half", random_state=0).fit(X, Y)
probabilities = model.predict_proba(X)

# %%
# How good are the answers for entries whose label was hidden? Known entries are set to NaN, which
# ``evaluate`` skips.

hidden_truth = {view: np.where(np.isnan(Y[view]), truth[view], np.nan) for view in Y}
scores = model.decision_function(X)
found = evaluate(hidden_truth, scores)
print(f"macro-AUC of hidden labels: {found['macro-AUC']:.3f} (guessing has 0.5)")

# %%
# Forty genes of the first table: what was known, what the model says, and the truth.

shown = slice(0, 40)
fig, axes = plt.subplots(3, 1, figsize=(7.5, 6), sharex=True, layout="constrained")
panels = {
    "Known labels (grey: unknown)": Y["expression"][shown],
    "Predicted probabilities": probabilities["expression"][shown],
    "The truth": truth["expression"][shown].astype(float),
}
cmap = plt.get_cmap("Blues").with_extremes(bad="0.8")
for ax, (title, values) in zip(axes, panels.items(), strict=True):
    image = ax.imshow(np.ma.masked_invalid(values).T, cmap=cmap, vmin=0, vmax=1, aspect="auto")
    ax.set(title=title, yticks=[0, 6, 13], yticklabels=["1", "7", "14"], ylabel="label")
axes[-1].set_xlabel("gene")
fig.colorbar(image, ax=axes, label="probability", shrink=0.6)
plt.show()
