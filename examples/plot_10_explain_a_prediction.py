"""
Why does this patient have this probability?
============================================

A clinic and a laboratory have tables of *different* people. A model of both is asked about a new
patient whom both have seen: what raises the probability of gout, and what lowers it? The tables are
generated, so that the answer is known.
"""

# %%
# Uric acid raises the odds of gout threefold per standard deviation, and weight and age raise them,
# too. The colour of the eyes says nothing. Kidney stones go with gout beyond all columns. Both
# tables know the age.

from io import BytesIO

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from naim3l import NAIM3L
from naim3l.estimators import PerViewRidge
from naim3l.explain import draw_explanations, explain_row

rng = np.random.default_rng(1)


def people(n, first_id):
    """Columns of the clinic and of the laboratory, and diagnoses, of some people."""
    age, weight, acid, pulse, hidden = rng.normal(size=(5, n))
    log_odds = np.log(3) * acid + 0.7 * weight + 0.5 * age - 1
    gout = log_odds + 1.5 * hidden + rng.logistic(size=n) > 0
    stones = 1.5 * hidden - 1 + rng.logistic(size=n) > 0
    index = [f"P{i:04d}" for i in range(first_id, first_id + n)]
    clinic = {
        "age": (50 + 12 * age).round(),
        "weight": (78 + 14 * weight).round(),
        "pulse": (70 + 8 * pulse).round(),
        "eyes": rng.choice(["blue", "brown", "green"], n),
    }
    lab = {"uric_acid": (5.5 + 1.4 * acid).round(1), "sodium": rng.normal(140, 3, n).round()}
    lab["age"] = clinic["age"]
    labels = {"gout": gout * 1.0, "kidney stones": stones * 1.0}
    return [pd.DataFrame(of, index=index) for of in (clinic, lab, labels)]


clinic, _, of_clinic = people(1000, 0)
_, lab, of_lab = people(1000, 1000)
new_clinic, new_lab, truth = people(100, 2000)

model = NAIM3L(ridge=1.0, decide="guarded", random_state=0)
model.fit({"clinic": clinic, "lab": lab}, {"clinic": of_clinic, "lab": of_lab})

# %%
# No training row is in both tables. The new patients are, and the evidence of both is added up;
# what the age says, which both tables know, counts once. We ask about the patient with the most
# uric acid, of whom the clinic knows the kidney stones.

new = {"clinic": new_clinic, "lab": new_lab}
patient = new_lab["uric_acid"].idxmax()
known = {"clinic": truth.assign(gout=np.nan)}
(gout,) = explain_row(model, new, patient, labels=["gout"], known=known)
print(gout.describe())

# %%
# The parts add up to the log-odds of the probability, without a rest. Without known labels, that is
# the probability of ``fuse``.

(alone,) = explain_row(model, new, patient, labels=["gout"])
added = sum(part.log_odds for part in alone.parts)
fused = model.fuse(new).loc[patient, "gout"]
print(f"{1 / (1 + np.exp(-alone.base_log_odds - added)):.6f} {fused:.6f}")

# %%
# Averaged over all patients, columns that say something add or take more than those that do not.

sizes = []
for row in new_clinic.index:
    (found,) = explain_row(model, new, row, labels=["gout"])
    columns = pd.DataFrame([part for part in found.parts if part.kind == "column"])
    sizes.append(columns.groupby("name")["log_odds"].sum().abs())
print(pd.concat(sizes, axis=1).mean(axis=1).sort_values().round(2))

# %%
# A kernel has no weights of columns. Its parts are estimated, by moving one column at a time.

kernel = PerViewRidge(features="rbf", decide="guarded", random_state=0)
kernel.fit({"clinic": clinic, "lab": lab}, {"clinic": of_clinic, "lab": of_lab})
print(explain_row(kernel, new, patient, labels=["gout"])[0].describe())

# %%
# The figure of the linear model begins with the rate of gout, dotted, and ends at the probability.

file = BytesIO()
draw_explanations([gout]).savefig(file, dpi=200)
file.seek(0)
plt.figure(figsize=(6.3, 2.8), layout="constrained")
plt.imshow(plt.imread(file))
plt.axis("off")
plt.show()

# %%
# What the data were made with is found: on average uric acid moves the log-odds of gout by 0.55,
# age by 0.3, weight by 0.2, and pulse, sodium and the colour of the eyes, which say nothing, by
# 0.1, the noise of the fit. For this patient uric acid more than doubles the odds, and the kidney
# stones nearly do; the kernel agrees on uric acid and age, but takes the colour of the eyes for
# more than it is.
