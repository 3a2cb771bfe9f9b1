"""Free text in tables of different titles, beside the same tables without it, and TF-IDF.

Genres of titles from three tables with different rows: what they are about, who made them, and
other details. Macro-AUC on titles that were set aside, per table, of NAIM3LCV with all columns, of
NAIM3LCV without those that are free text, and of a logistic regression for each genre on TF-IDF of
the free text alone, and beside the other columns.

    python benchmarks/text_columns.py --data DATA
"""

import argparse
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
    """Log-odds of a logistic regression for each genre, on TF-IDF of each column of text."""
    from sklearn.compose import make_column_transformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    encode = make_column_transformer(
        *((TfidfVectorizer(), column) for column in text),
        (OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist"), others),
    )
    filled = titles.fillna("").astype({"release_year": str})
    X, X_test = encode.fit_transform(filled.iloc[at]), encode.transform(filled.iloc[test])
    scores = np.zeros((len(test), labels.shape[1]))
    for k, y in enumerate(labels.to_numpy().T):
        if y.any():
            scores[:, k] = LogisticRegression(max_iter=1000).fit(X, y).decision_function(X_test)
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
