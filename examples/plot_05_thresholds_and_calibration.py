"""
Thresholds and calibration
==========================

A score becomes a yes by a rule, and a probability by a calibration curve. Both are learned from
rows that were held out of the fit.
"""

# %%
# Generated data with 20 rare labels, 40 % of them unknown.

import matplotlib.pyplot as plt
import numpy as np

from naim3l import NAIM3L
from naim3l.datasets import make_unpaired

data = make_unpaired(
    2000,
    n_features=(20, 25),
    n_labels=20,
    labels_per_row=1.5,
    noise=0.7,
    missing_labels=0.4,
    random_state=1,
)
X = {view: table[:1000] for view, table in data.views.items()}
Y = {view: table[:1000] for view, table in data.labels.items()}
new = {view: table[1000:] for view, table in data.views.items()}
truth = {view: table[1000:] for view, table in data.complete_labels.items()}

model = NAIM3L(lam=0.4, ridge=1.0, decide="guarded", random_state=0).fit(X, Y)

# %%
# Every rule is a different bargain between accuracy and labels that are found. "sign" is the
# paper's rule.

rules = ("sign", "half", "guarded", "cardinality", "f1")
points = {}
for rule in rules:
    predicted = model.predict(new, decide=rule)
    right = np.mean([(predicted[v] == truth[v]).mean() for v in new])
    recall = np.mean([predicted[v][truth[v] == 1].mean() for v in new])
    points[rule] = 100 * recall, 100 * right
always_no = 100 * np.mean([(truth[v] == 0).mean() for v in new])

# %%
# The calibration curve compares probabilities with what is true on new rows. A score can be
# pressed into [0, 1] without calibration, but is then no probability.

probabilities = np.concatenate([P.ravel() for P in model.predict_proba(new).values()])
scores = np.concatenate([S.ravel() for S in model.decision_function(new).values()])
happened = np.concatenate([truth[view].ravel() for view in new])


def reliability(predicted):
    """Mean prediction and share of yes, in ten bins of equal width."""
    bins = np.digitize(predicted, np.linspace(0, 1, 11)[1:-1])
    kept = [b for b in range(10) if (bins == b).sum() >= 20]
    return [[values[bins == b].mean() for b in kept] for values in (predicted, happened)]


fig, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
for rule, (recall, right) in points.items():
    axes[0].plot(recall, right, "o", color="C0")
    below = -12 if rule == "f1" else 4
    axes[0].annotate(rule, (recall, right), xytext=(5, below), textcoords="offset points")
axes[0].axhline(always_no, linestyle="--", color="0.5", label="always no")
axes[0].legend(loc="lower left", bbox_to_anchor=(0, 0.15))
axes[0].set(xlabel="yes that are found (%)", ylabel="accuracy (%)", title="rules")
axes[0].margins(x=0.25, y=0.15)
axes[1].plot([0, 1], [0, 1], "--", color="0.5", label="exactly right")
axes[1].plot(*reliability(probabilities), "o-", label="calibrated")
axes[1].plot(*reliability(np.clip((scores + 1) / 2, 0, 1)), "s-", label="(score + 1) / 2")
axes[1].set(xlabel="predicted probability", ylabel="share of yes", title="probabilities")
axes[1].legend()
for ax in axes:
    ax.grid(alpha=0.3)
plt.show()
