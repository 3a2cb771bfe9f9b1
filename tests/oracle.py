"""Algorithm 1 of the paper written naively: the referee of every solver, never imported by src.

Rows are visited one by one, X is a dense block-diagonal matrix, and every equation is evaluated
as printed (with the errata), by singular value decompositions, anew in each iteration.
"""

import numpy as np


def block_rows(features, fit_intercept=True):
    """Dense block-diagonal X, row by row."""
    if fit_intercept:
        features = [np.array([[*row, 1.0] for row in X_v]) for X_v in features]
    widths = [X_v.shape[1] for X_v in features]
    rows = []
    for v, X_v in enumerate(features):
        for x in X_v:
            row = np.zeros(sum(widths))
            row[sum(widths[:v]) : sum(widths[: v + 1])] = x
            rows.append(row)
    return np.array(rows)


def penalised(features, labels, fit_intercept=True):
    """1 for weights that a ridge applies to, 0 for intercepts of labels known in the view."""
    columns = []
    for k in range(labels[0].shape[1]):
        column = []
        for X_v, Y_v in zip(features, labels, strict=True):
            column += [1.0] * X_v.shape[1] + [float((Y_v[:, k] == 0).all())] * fit_intercept
        columns.append(column)
    return np.array(columns).T


def shrink(A, threshold):
    """Eq. (15)."""
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    return U @ np.diag(np.maximum(s - threshold, 0)) @ Vt


def subgradient(A, cutoff=0.005):
    """UV' over the singular values whose squares reach the cut-off."""
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    kept = s**2 > cutoff
    return U[:, kept] @ Vt[kept]


def iterate(features, labels, W, *, lam, mu=5.0, ridge=0.0, low_rank=True, high_rank=True,
            fit_intercept=True):  # fmt: skip
    """Endless iterates (W, Z, Lambda) of Algorithm 1 from stacked start weights ``W``."""
    X, Y = block_rows(features, fit_intercept), np.concatenate(labels).astype(float)
    P = (Y != 0).astype(float)
    n_labels = Y.shape[1]
    X_k = [np.array([X[i] for i in range(len(X)) if Y[i, k] == 1]).reshape(-1, X.shape[1])
           for k in range(n_labels)]  # fmt: skip
    penalty = penalised(features, labels, fit_intercept)
    Z = [np.zeros((len(A), n_labels)) for A in X_k]
    Lambda = [np.zeros((len(A), n_labels)) for A in X_k]
    while True:
        right = lam * X.T @ subgradient(X @ W) if high_rank else np.zeros_like(W)
        for x, p, y in zip(X, P, Y, strict=True):
            right = right - np.outer(x, p * (x @ W - y))
        left = np.zeros((X.shape[1], X.shape[1]))
        for k in range(n_labels):
            right = right + X_k[k].T @ (mu * Z[k] - Lambda[k])
            left = left + mu * X_k[k].T @ X_k[k]
        # Eq. (13); the pseudo-inverse where a view has too few positive rows
        W = np.empty_like(right)
        for k in range(n_labels):
            A = left + ridge * np.diag(penalty[:, k])
            inverse = np.linalg.pinv(A, rcond=len(A) * np.finfo(float).eps, hermitian=True)
            W[:, k] = inverse @ right[:, k]
        for k in range(n_labels):
            Z[k] = shrink(X_k[k] @ W + Lambda[k] / mu, lam / mu if low_rank else 0.0)
            Lambda[k] = Lambda[k] + mu * (X_k[k] @ W - Z[k])  # Eq. (16)
        yield W, [A.copy() for A in Z], [A.copy() for A in Lambda]


def objective(features, labels, W, *, lam, ridge=0.0, low_rank=True, high_rank=True,
              fit_intercept=True):  # fmt: skip
    """Eq. (5), and the ridge term."""
    X, Y = block_rows(features, fit_intercept), np.concatenate(labels).astype(float)
    value = 0.5 * np.sum(((Y != 0) * (X @ W - Y)) ** 2)
    for k in range(Y.shape[1]):
        value += low_rank * lam * np.linalg.norm(X[Y[:, k] == 1] @ W, "nuc")
    value -= high_rank * lam * np.linalg.norm(X @ W, "nuc")
    return value + 0.5 * ridge * np.sum(penalised(features, labels, fit_intercept) * W**2)


def gradient(features, labels, W, *, lam, ridge=0.0, low_rank=True, high_rank=True):
    """Gradient of the same, where it has one."""
    X, Y = block_rows(features), np.concatenate(labels).astype(float)
    G = X.T @ ((Y != 0) * (X @ W - Y)) + ridge * penalised(features, labels) * W
    for k in range(Y.shape[1]):
        X_k = X[Y[:, k] == 1]
        G += low_rank * lam * X_k.T @ subgradient(X_k @ W, 1e-14)
    return G - high_rank * lam * X.T @ subgradient(X @ W, 1e-14)
