"""
Fusing views
============

If rows of several tables are known to belong to the same sample, their predictions can be combined.
How much is gained, and how honest are the combined probabilities?
"""

# %%
# Four generated views of the same samples, each a noisy look at them. One wide table has the
# columns of all views, with NaN where a sample lacks a view.

import matplotlib.pyplot as plt
import numpy as np

from naim3l import NAIM3L, Decisions, evaluate
from naim3l.datasets import make_unpaired

rng = np.random.default_rng(0)
n_train, n_features = 800, 12
data = make_unpaired(
    1600,
    n_features=(n_features,) * 4,
    n_labels=12,
    noise=1.5,
    aligned=True,
    missing_labels=0.3,
    random_state=0,
)
columns = {view: slice(n_features * v, n_features * (v + 1)) for v, view in enumerate(data.views)}
labels, truth = data.labels["view0"][:n_train], data.complete_labels["view0"][n_train:]


def wide(rows, n_views):
    """Rows of all views, in which each sample has this number of them, chosen at random."""
    table = np.hstack([view[rows] for view in data.views.values()])
    present = np.argsort(rng.random((len(table), 4)), axis=1) < n_views
    return np.where(np.repeat(present, n_features, axis=1), table, np.nan)


# %%
# Two ways to fuse. "mean" averages scores; "evidence" adds up what each view says beyond the base
# rate of a label, as far as other views do not say the same.

train, test = slice(0, n_train), slice(n_train, None)
tests = {n_views: wide(test, n_views) for n_views in (1, 2, 3, 4)}
precision, models = {}, {}
for fusion in ("mean", "evidence"):
    decide = Decisions("half", fusion=fusion)
    model = NAIM3L(lam=0.4, ridge=1.0, views=columns, decide=decide, random_state=0)
    models[fusion] = model.fit(wide(train, 3), labels)
    precision[fusion] = [
        100 * evaluate(truth, model.decision_function(table))["AP"] for table in tests.values()
    ]

# %%
# Separate tables, whose rows do not match in training, can be fused afterwards for samples that
# are in all of them. As the views overlap in what they know, the plain sum of their evidence would
# be too sure of itself. By default ``fuse`` learns the overlap from the rows at hand, without their
# labels.

separate = NAIM3L(lam=0.4, ridge=1.0, decide="half", random_state=0).fit(
    {view: table[train] for view, table in data.views.items()}, dict.fromkeys(data.views, labels)
)
new = {view: table[test] for view, table in data.views.items()}
curves = {
    "separate tables, plain sum": separate.fuse(new, overlap=0.0),
    "separate tables": separate.fuse(new),
    "wide table": models["evidence"].predict_proba(tests[4]),
}
print(f"overlap: {separate.fusion_overlap_:.2f}")

fig, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
for (fusion, values), marker in zip(precision.items(), "os", strict=True):
    axes[0].plot(list(tests), values, marker=marker, label=fusion)
axes[0].set(xlabel="views of a sample", ylabel="average precision (%)", title="ranking of labels")
axes[0].set_xticks(list(tests))
axes[1].plot([0, 1], [0, 1], "--", color="0.5", label="exactly right")
for (name, predicted), marker, colour in zip(
    curves.items(), "vsD", ("C3", "C1", "C2"), strict=True
):
    bins = np.digitize(predicted, np.linspace(0, 1, 11)[1:-1])
    kept = [b for b in range(10) if (bins == b).sum() >= 15]
    x, y = ([values[bins == b].mean() for b in kept] for values in (predicted, truth))
    axes[1].plot(x, y, marker=marker, color=colour, label=name)
axes[1].set(
    xlabel="predicted probability", ylabel="share of yes", title="probabilities, four views"
)
for ax in axes:
    ax.legend()
    ax.grid(alpha=0.3)
plt.show()
