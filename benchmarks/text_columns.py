"""Free text in tables of different titles, beside the same tables without it, and TF-IDF.

Genres of titles from three tables with different rows: what they are about, who made them, and
other details. Macro-AUC on titles that were set aside, per table, of NAIM3LCV with all columns, of
NAIM3LCV without those that are free text, and of a logistic regression for each genre on TF-IDF of
the free text alone, and beside the other columns, with the C of each table chosen by the macro-AUC
of three folds.

    python benchmarks/text_columns.py --data DATA
"""

import argparse
import itertools
import os
import warnings
from pathlib import Path

import numpy as np

TABLES = {
    "plot": (["description"], ["release_year", "country"]),
    "names": (["cast", "director"], ["release_year", "type"]),
    "details": (["title"], ["type", "country", "release_year", "rating", "duration"]),
}
N_TEST = 2000
CS, N_FOLDS = (0.3, 1, 3, 10, 30, 100), 3
METHODS = ("with text", "without text", "TF-IDF", "TF-IDF and other columns")


def measure(folder, seed):
    """Macro-AUC in percent by table and method."""
    import pandas as pd
    from sklearn.preprocessing import MultiLabelBinarizer

    titles = pd.read_csv(Path(folder) / "netflix_titles.csv.gz")
    coder = MultiLabelBinarizer()
    genres = pd.DataFrame(coder.fit_transform(titles["listed_in"].str.split(", ")))
    genres.columns = coder.classes_
    order = np.random.default_rng(seed).permutation(len(titles))
    test, parts = order[:N_TEST], np.array_split(order[N_TEST:], len(TABLES))
    rows = dict(zip(TABLES, parts, strict=True))
    labels = {table: genres.iloc[at].reset_index(drop=True) for table, at in rows.items()}
    found = {}
    for method, others in (("with text", True), ("without text", False)):
        columns = {table: text * others + rest for table, (text, rest) in TABLES.items()}
        found[method] = _scores(titles, columns, rows, labels, test, seed)
    for method, others in (("TF-IDF", False), ("TF-IDF and other columns", True)):
        found[method] = {
            table: _logistic(titles, text, rest * others, rows[table], labels[table], test)
            for table, (text, rest) in TABLES.items()
        }
    truth = genres.iloc[test].to_numpy()
    common = truth.sum(axis=0) >= 5
    return {
        (table, method): 100 * _macro_auc(truth[:, common], scores[:, common])
        for method, of_table in found.items()
        for table, scores in of_table.items()
    }


def _macro_auc(truth, scores):
    from sklearn.metrics import roc_auc_score

    return roc_auc_score(truth, scores, average="macro")


def _scores(titles, columns, rows, labels, test, seed):
    """Scores of the test rows in every table, from one model."""
    from naim3l import NAIM3LCV

    X = {
        table: titles.iloc[at][columns[table]].reset_index(drop=True) for table, at in rows.items()
    }
    model = NAIM3LCV(random_state=seed).fit(X, labels)
    return model.decision_function({t: titles.iloc[test][of] for t, of in columns.items()})


def _logistic(titles, text, others, at, labels, test):
    """Log-odds of logistic regressions on TF-IDF of each column of text, with the C of most AUC."""
    from sklearn.compose import make_column_transformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import KFold
    from sklearn.preprocessing import OneHotEncoder

    encode = make_column_transformer(
        *((TfidfVectorizer(), column) for column in text),
        (OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist"), others),
    )
    filled, Y = titles.fillna("").astype({"release_year": str}), labels.to_numpy()
    X, X_test = encode.fit_transform(filled.iloc[at]).tocsr(), encode.transform(filled.iloc[test])
    folds = list(KFold(N_FOLDS, shuffle=True, random_state=0).split(Y))
    enough = [k for k, y in enumerate(Y.T) if all(y[held].sum() > 2 for _, held in folds)]
    found = {C: np.zeros(Y.shape) for C in CS}
    for C, (fitted, held) in itertools.product(CS, folds):
        found[C][held] = _genre_scores(C, X[fitted], Y[fitted], X[held])
    aucs = {
        C: np.mean([_macro_auc(Y[held][:, enough], of[held][:, enough]) for _, held in folds])
        for C, of in found.items()
    }
    return _genre_scores(max(aucs, key=aucs.get), X, Y, X_test)


def _genre_scores(C, X, Y, X_test):
    """Log-odds of each genre; 0 of one that no row has."""
    from sklearn.linear_model import LogisticRegression

    scores = np.zeros((X_test.shape[0], Y.shape[1]))
    for k, y in enumerate(Y.T):
        if y.any():
            model = LogisticRegression(C=C, solver="liblinear").fit(X, y)
            scores[:, k] = model.decision_function(X_test)
    return scores


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", required=True, help="folder with netflix_titles.csv.gz")
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    warnings.simplefilter("ignore")
    runs = [measure(arguments.data, seed) for seed in range(arguments.seeds)]
    print("| table | " + " | ".join(METHODS) + " |")
    print("| --- " * (1 + len(METHODS)) + "|")
    for table in TABLES:
        means = [np.mean([run[table, method] for run in runs]) for method in METHODS]
        print(f"| {table} | " + " | ".join(f"{mean:.1f}" for mean in means) + " |")


if __name__ == "__main__":
    main()
