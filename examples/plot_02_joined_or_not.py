"""
Not aligned against joined
==========================

What is lost if rows cannot be joined, and what happens if they are joined by guessing?
"""

# %%
# Half of the labels of the yeast genes are hidden. The same genes are given to four models:
#
# - *joined correctly*: ridge regression on the columns of both tables, with the true key;
# - *not joined*: one table of some genes and one of others, coupled by their labels alone. The
#   tables of new genes are known to belong together, so scores are averaged;
# - *one table*: ridge regression on the expression levels only;
# - *joined by row number*: the second table is in another order, but is pasted beside the first.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from naim3l import NAIM3L, DataWarning, PerViewRidge, evaluate
from naim3l.datasets import load_yeast
from naim3l.estimators import FusedRidge

yeast = load_yeast()
A, B = yeast.views["expression"], yeast.views["phylogenetic"]
views = {"expression": slice(0, 79), "phylogenetic": slice(79, 103)}
SIZES = [100, 200, 400, 800, 1600]
warnings.simplefilter("ignore", DataWarning)  # with 100 genes, a label may lack a known yes


def measure(n_rows, seed):
    """Average precision of each model on 800 new genes, by name."""
    rng = np.random.default_rng(seed)
    genes = rng.permutation(len(yeast.labels))
    test, train = genes[:800], genes[800 : 800 + n_rows]
    Y = np.where(rng.random((n_rows, 14)) < 0.5, np.nan, yeast.labels[train])
    new = np.hstack([A[test], B[test]])
    order = rng.permutation(n_rows)
    half = n_rows // 2

    joined = FusedRidge(ridge=10.0, views=views).fit(np.hstack([A[train], B[train]]), Y)
    pasted = FusedRidge(ridge=10.0, views=views).fit(np.hstack([A[train], B[train[order]]]), Y)
    alone = PerViewRidge(ridge=10.0).fit({"expression": A[train]}, {"expression": Y})
    apart = NAIM3L(lam=0.4, ridge=10.0, tol=1e-3).fit(
        {"expression": A[train[:half]], "phylogenetic": B[train[half:]]},
        {"expression": Y[:half], "phylogenetic": Y[half:]},
    )
    each = apart.decision_function({"expression": A[test], "phylogenetic": B[test]})
    scores = {
        "joined correctly": joined.decision_function(new),
        "not joined, half of the cells": (each["expression"] + each["phylogenetic"]) / 2,
        "one table": alone.decision_function({"expression": A[test]})["expression"],
        "joined by row number": pasted.decision_function(new),
    }
    return {name: evaluate(yeast.labels[test], S)["AP"] for name, S in scores.items()}


found = {n: [measure(n, seed) for seed in range(3)] for n in SIZES}

# %%
# If there is a key, use it: a correct join is best. Without one, each gene is in one of the two
# tables, so the model sees half of the cells; with enough rows it is still better than one
# complete table. Pasting rows together by their number is the one thing not to do: to the model,
# the second table is then noise, and it does worse than without that table.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, marker in zip(found[SIZES[0]][0], "osD^", strict=True):
    values = 100 * np.array([[run[name] for run in found[n]] for n in SIZES])
    ax.errorbar(
        SIZES, values.mean(axis=1), values.std(axis=1), marker=marker, capsize=3, label=name
    )
ax.set(xscale="log", xlabel="genes in training", ylabel="average precision of new genes (%)")
ax.set_xticks(SIZES, SIZES)
ax.minorticks_off()
ax.legend()
ax.grid(alpha=0.3)
plt.show()
