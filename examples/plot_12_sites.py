"""
Sites that share only sums
==========================

Four sites have tables of their own, with other columns and other rows, and may not show them to
each other. Each writes one small file of sums over labels, and finishes its own model with the
total.
What does that add at each site, and what was sent?
"""

# %%
# Generated tables of four sites: two large ones and two small ones, with the same twelve labels, of
# which half are unknown. The last rows of each are set aside.

from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import numpy as np

from naim3l import LabelSubspaceRidge, evaluate
from naim3l.datasets import make_unpaired
from naim3l.federated import Share, combine, finish, share

names, n_rows, n_test = ["north", "south", "east", "west"], (400, 300, 120, 90), 600
data = make_unpaired(
    [n + n_test for n in n_rows],
    n_features=(20, 25, 30, 22),
    n_labels=12,
    labels_per_row=3,
    noise=1.5,
    missing_labels=0.5,
    random_state=0,
)
sites, tests = {}, {}
for name, view, n in zip(names, data.views, n_rows, strict=True):
    sites[name] = {name: data.views[view][:n]}, {name: data.labels[view][:n]}
    tests[name] = {name: data.views[view][n:]}, data.complete_labels[view][n:]

# %%
# Each site computes its share. It depends on the labels alone: 78 pairs of labels for each of four
# ridges, and how often each label is yes and known. Labels with fewer than ten yes or no are left
# out; they are named in a warning.

ridge, folder = LabelSubspaceRidge(random_state=0, decide="sign"), Path(mkdtemp())
for name, (X, y) in sites.items():
    made = share(X, y, ridge, site=name)
    made.save(folder / f"{name}.share")
    numbers = made.products.size + made.counts.size
    print(f"{name}: {X[name].size} numbers in the table, {numbers} in the share")

# %%
# Somebody adds up the files, and each site finishes its own model.

common = combine([Share.load(folder / f"{name}.share") for name in names])
common.save(folder / "common.share")
sent = {name: (folder / f"{name}.share").stat().st_size for name in names}
print("bytes sent:", sent, "and received by each:", (folder / "common.share").stat().st_size)
models = {name: finish(common, *rows, ridge, site=name) for name, rows in sites.items()}

# %%
# New rows of each site, ranked by the model of the site alone, and by the one that knows the sums.


def auc(model, name):
    """Macro-AUC on the test rows of a site, in percent."""
    X, truth = tests[name]
    return 100 * evaluate(truth, model.decision_function(X)[name])["macro-AUC"]


alone = {
    name: LabelSubspaceRidge(random_state=0, decide="sign").fit(*sites[name]) for name in names
}
before = np.array([auc(alone[name], name) for name in names])
after = np.array([auc(models[name], name) for name in names])
for name, a, b in zip(names, before, after, strict=True):
    print(f"{name}: alone {a:.1f}, with the sums {b:.1f}")

# %%
# The sums tell each site in which directions of the label space anything can be explained. A small
# site cannot find these in its own rows.

fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
at = np.arange(len(names))
ax.bar(at - 0.2, before, 0.4, label="alone")
ax.bar(at + 0.2, after, 0.4, label="with the sums of all sites")
ax.set(ylabel="macro-AUC of new rows (%)", ylim=(50, None))
ax.set_xticks(at, [f"{name}\n{n} rows" for name, n in zip(names, n_rows, strict=True)])
fig.legend(loc="outside upper center", ncols=2, frameon=False)
plt.show()

# %%
# Shares are read with ``naim3l inspect north.share``. What can be told from them, and what not, is
# on the page "What leaves my site?" of the user guide.
