"""Free text as sparse columns: hashed words and parts of words, weighted by how rare they are.

Terms are words, and character n-grams within words, which also find names, inflections and short
codes. They are hashed to columns, so that a model stores neither words nor names. In how many rows
each is adds up over batches, and decides which are kept.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize

N_HASHES = 2**14  # of words, and as many of n-grams
N_TERMS = 2 * N_HASHES  # words come first
# Terms that are kept of all columns of a view together: those in most rows, because frequencies
# are sums, and frequent terms explain most of the variance. PCA of chunks needs the products of
# all pairs, which take 128 MiB of this many.
MOST_TERMS = 4096
_BLOCK = 10_000  # texts whose terms are all in memory at a time
RARE_TERM = 3  # rows of a term below which it is not kept

# Counts that are not normalised, without random signs, so that the number of rows with a term is
# known. Words begin with a letter: numbers within text mostly count or name rows.
_PLAIN: dict[str, Any] = {"n_features": N_HASHES, "alternate_sign": False, "norm": None}
_ANALYSERS = (
    HashingVectorizer(token_pattern=r"(?u)\b[^\W\d_]\w+", **_PLAIN),
    HashingVectorizer(analyzer="char_wb", ngram_range=(4, 4), **_PLAIN),
)
_LETTER = re.compile(r"[^\W\d_]")
_SEPARATORS = str.maketrans(",;|", "   ")  # of words in a cell, besides blanks


def count_terms(texts: Sequence[str]) -> sparse.csr_array:
    """How often each hashed term is in texts, (n_texts, N_TERMS); numbers have none."""
    words = [text if _LETTER.search(text) else "" for text in texts]
    counts = [analyser.transform(words) for analyser in _ANALYSERS]
    return sparse.csr_array(sparse.hstack(counts, format="csr"))


@dataclass(frozen=True, eq=False)
class TermCounts:
    """In how many rows hashed terms are, and the number of words of all rows."""

    n_rows: NDArray[np.int64]  # (N_TERMS,)
    n_words: int

    @classmethod
    def of(cls, texts: Mapping[str, int]) -> "TermCounts":
        """Counts of distinct texts, each of which is in some rows."""
        listed, repeats = [*texts], np.fromiter(texts.values(), np.int64, len(texts))
        n_rows = np.zeros(N_TERMS, dtype=np.int64)
        for i in range(0, len(texts), _BLOCK):
            terms = count_terms(listed[i : i + _BLOCK])
            weights = np.repeat(repeats[i : i + _BLOCK], np.diff(terms.indptr))
            n_rows += np.bincount(terms.indices, weights, N_TERMS).astype(np.int64)
        n_words = sum(n * len(text.translate(_SEPARATORS).split()) for text, n in texts.items())
        return cls(n_rows, n_words)

    def combine(self, other: "TermCounts") -> "TermCounts":
        """Counts of the rows of both."""
        return TermCounts(self.n_rows + other.n_rows, self.n_words + other.n_words)

    def tell_rows_apart(self, n_known: int) -> bool:
        """Whether a known cell has on average half a word that repeats, but not in most rows.

        The words of boilerplate are in most rows, and those of ids, if they have any, in one each.
        If all words of a long table differ, so many share a hash that numbers of rows are Poisson.
        """
        words = self.n_rows[:N_HASHES]
        by_accident = words.mean() + 4 * np.sqrt(words.mean())
        repeats = words >= max(RARE_TERM, by_accident)
        telling = words[repeats & (2 * words <= n_known)].sum()
        return bool(2 * telling >= n_known)

    def most_frequent(self, most: int) -> list[int]:
        """The terms in most rows, in ascending order; of equally frequent ones, the first."""
        order = np.argsort(-self.n_rows, kind="stable")[:most]
        return sorted(order[self.n_rows[order] >= RARE_TERM].tolist())

    def idf(self, terms: Sequence[int], n_rows: int) -> list[float]:
        """``1 + log((1 + n_rows) / (1 + n_with))`` of terms, as in `TfidfTransformer`."""
        return (1 + np.log((1 + n_rows) / (1 + self.n_rows[list(terms)]))).tolist()


def tf_idf(texts: Sequence[str], terms: Sequence[int], idf: Sequence[float]) -> sparse.csr_array:
    """Weighted counts of terms in texts, at least one, of unit length, (n_texts, n_terms)."""
    chosen = list(terms)
    counts = [count_terms(texts[i : i + _BLOCK])[:, chosen] for i in range(0, len(texts), _BLOCK)]
    weighted = sparse.vstack(counts, format="csr").multiply(np.array(idf)[None])
    return sparse.csr_array(normalize(weighted.tocsr()))
