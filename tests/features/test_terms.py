"""Free text: terms by their definitions, sums over batches, and which columns have words."""

import json
import warnings
from collections import Counter
from functools import reduce

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

import naim3l.features.survey as survey_module
from naim3l import NAIM3L, DataWarning, Recipe, load
from naim3l.features.encoding import FeatureSpec
from naim3l.features.plan import ColumnPlan, ViewPlan
from naim3l.features.recipes import MAX_COMPONENTS, TEXT_COMPONENTS, Moments
from naim3l.features.survey import TableSurvey, ValueCounts
from naim3l.features.terms import (
    MOST_TERMS,
    N_HASHES,
    N_TERMS,
    RARE_TERM,
    TermCounts,
    count_terms,
    tf_idf,
)
from naim3l.files.archive import Refusal
from naim3l.files.stored import Nested, Reader, Scope, dump
from naim3l.input.batches import Batch

WORDS = ["fever", "cough", "swollen", "knee", "sunday", "travel", "beer", "cold", "left", "toe"]


def stories(rng, n_rows, n_words=5):
    return [" ".join(rng.choice(WORDS, n_words)) for _ in range(n_rows)]


def survey_of(cells, name="y", text=()):
    return TableSurvey.of(Batch(pd.DataFrame({name: pd.Series(cells, dtype=object)}), "a"), text)


def plan_of(cells, name="y", **options):
    return ViewPlan.of(survey_of(cells, name, options.get("text", ())), **options)[0]


def read_or_dropped(cells, name="y", **options):
    """Whether the words of a column are read, whether whole values are, or why it is dropped."""
    table = pd.DataFrame({"x": np.arange(len(cells)) + 0.5, name: pd.Series(cells, dtype=object)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        survey = TableSurvey.of(Batch(table, "a"), options.get("text", ()))
        plan, used = ViewPlan.of(survey, **options)
    if used == [0]:
        return plan.dropped[0].dropped
    return "words" if plan.columns[1].is_free_text else "values"


class TestTerms:
    def test_a_text_has_the_terms_of_scikit_learn(self):
        texts = ["The knee, the knee!", "Left knee", "", "42 1990", "Zoë's x-ray"]
        counts = count_terms(texts).toarray()
        assert counts.shape == (5, N_TERMS)
        assert counts[0, :N_HASHES].sum() == 4 and counts[0, :N_HASHES].max() == 2
        assert not counts[2:4].any()  # numbers have none
        grams = [" the", "the ", " kne", "knee", "nee ", " lef", "left", "eft "]
        of_each = [set(np.flatnonzero(row[N_HASHES:])) for row in count_terms(grams).toarray()]
        assert all(of_each)
        assert set(np.flatnonzero(counts[1, N_HASHES:])) == set(
            np.flatnonzero(count_terms(["knee left"]).toarray()[0, N_HASHES:])
        )

    def test_hashes_do_not_depend_on_the_process(self):
        """Of a published hash: MurmurHash3 of the word with the seed 0, without its sign."""
        from sklearn.utils import murmurhash3_32

        (column,) = np.flatnonzero(count_terms(["knee"]).toarray()[0, :N_HASHES])
        assert column == abs(murmurhash3_32("knee")) % N_HASHES

    def test_idf_is_that_of_its_formula(self):
        texts = ["red fish", "blue fish", "red red bird", "red", None]
        counts = TermCounts.of(Counter(text for text in texts if text))
        red, fish = (
            int(np.flatnonzero(count_terms([word]).toarray()[0])[0]) for word in ("red", "fish")
        )
        assert counts.n_rows[red] == 3 and counts.n_rows[fish] == 2
        assert counts.idf([red, fish], 5) == pytest.approx([1 + np.log(6 / 4), 1 + np.log(6 / 3)])

    def test_weights_are_those_of_tf_idf(self, rng):
        """In the order of columns, of which only the words are compared."""
        texts = stories(rng, 40)
        counts = TermCounts.of(Counter(texts))
        terms = [t for t in counts.most_frequent(N_TERMS) if t < N_HASHES]
        found = tf_idf(texts, terms, counts.idf(terms, len(texts))).toarray()
        reference = TfidfVectorizer()
        expected = reference.fit_transform(texts).toarray()
        order = [
            terms.index(int(np.flatnonzero(count_terms([word]).toarray()[0, :N_HASHES])[0]))
            for word in reference.get_feature_names_out()
        ]
        assert_allclose(found[:, order], expected, rtol=1e-12)

    def test_rows_add_up_over_any_parts(self, rng, monkeypatch):
        monkeypatch.setattr(survey_module, "MOST_VALUES", 30)  # so that texts are not kept
        texts = [*stories(rng, 90, 2), "a b; c|d"]
        whole = TermCounts.of(Counter(texts))
        assert_array_equal(whole.n_rows, (count_terms(texts) > 0).sum(axis=0))
        assert whole.n_words == 2 * 90 + 4
        for cuts in ([20], [45], [10, 30, 60]):
            parts = np.split(np.array(texts, dtype=object), cuts)
            found = reduce(ValueCounts.combine, (ValueCounts.of(Counter(p)) for p in parts)).terms
            assert_array_equal(found.n_rows, whole.n_rows)
            assert found.n_words == whole.n_words

    def test_the_most_frequent_terms_are_kept(self, rng):
        counts = TermCounts.of(Counter(stories(rng, 50)))
        kept = counts.most_frequent(8)
        others = np.delete(counts.n_rows, kept)
        assert len(kept) == 8 and counts.n_rows[kept].min() >= others.max()
        assert counts.n_rows[counts.most_frequent(N_TERMS)].min() >= RARE_TERM


class TestWhichColumnsAreRead:
    def test_stories_and_names_that_repeat(self, rng):
        assert read_or_dropped(stories(rng, 60)) == "words"
        names = [f"{a} {b}" for a in WORDS for b in WORDS if a != b]
        assert read_or_dropped([f"{n}, {m}" for n, m in zip(names, names[7:], strict=False)]) == (
            "words"
        )
        assert read_or_dropped([";".join(rng.choice(WORDS, 4)) for _ in range(80)]) == "words"

    def test_few_values_remain_values(self, rng):
        assert read_or_dropped([*stories(rng, 10)] * 9) == "values"

    @pytest.mark.parametrize(
        ("name", "make"),
        [
            ("y", lambda i: f"P{i:04}"),
            ("y", lambda i: f"2019/{i:04}"),
            ("y", lambda i: f"sample {i} taken by {i * 7919 % 1000}"),
            ("y", lambda i: f"{WORDS[i % 10]}.{WORDS[i // 10 % 10]}{i}@mail.org"),
            ("y", lambda i: f"{i * 7919:064x}"),
            ("y", lambda i: f"{chr(97 + i % 26)}{i:x}zq {chr(97 + i % 25)}{i:x}qz"),
            ("y", lambda i: f"+49 170 {i * 7919}"),
            ("patient_name", lambda i: f"{WORDS[i % 10]} {WORDS[i // 10 % 10]} {i // 100}"),
            ("MRN", lambda i: f"{WORDS[i % 10]} {WORDS[i // 10 % 10]} {i}"),
        ],
    )
    def test_ids_and_boilerplate_are_never_read(self, name, make):
        reason = read_or_dropped([make(i) for i in range(300)], name)
        assert reason not in ("words", "values")

    def test_words_of_a_long_table_that_all_differ_share_hashes(self):
        n = 20_000
        texts = {f"a{i} b{i} c{i}": 1 for i in range(n)}
        counts = TermCounts.of(texts)
        assert np.median(counts.n_rows[:N_HASHES]) >= RARE_TERM  # by accident
        assert not counts.tell_rows_apart(n)
        assert TermCounts.of(dict.fromkeys([*texts][:500], n // 500)).tell_rows_apart(n)

    def test_a_column_can_be_stated_to_be_text(self):
        cells = [f"sample {i} taken by {i * 7919 % 1000}" for i in range(300)]
        assert read_or_dropped(cells, text=["y"]) == "words"
        codes = [f"P{i:04}" for i in range(300)]
        assert read_or_dropped(codes, text=["y"]).startswith("an id: ")
        assert read_or_dropped(codes, text=["y"], keep=["y"]) == "words"
        assert read_or_dropped([f"{i}" for i in range(300)], text=["y"]).startswith("300 different")
        assert read_or_dropped(["10115", "20095"] * 20, text=["y"]) == "values"  # postal codes
        assert read_or_dropped([f"town {i % 40}" for i in range(200)], text=["y"]) == "values"

    def test_columns_of_text_share_the_terms(self, rng, monkeypatch):
        import naim3l.features.plan as module

        monkeypatch.setattr(module, "MOST_TERMS", 23)
        table = pd.DataFrame({name: stories(rng, 60) for name in "xyz"})
        plan, _ = ViewPlan.of(TableSurvey.of(Batch(table, "a")))
        assert [len(column.terms) for column in plan.columns] == [6, 6, 6]
        assert MOST_TERMS < 5000  # what moments take


class TestBlocks:
    @pytest.fixture
    def table(self, rng):
        cells = pd.Series(stories(rng, 300), dtype=object)
        cells[[3, 8]] = None, "n/a"
        return pd.DataFrame({"y": cells, "year": 1e6 + rng.normal(size=300),
                             "w": rng.choice(["a", "b"], 300)})  # fmt: skip

    def encoded(self, table, new=None):
        plan, _ = ViewPlan.of(TableSurvey.of(Batch(table, "a")))
        return plan, plan.encode(Batch(table if new is None else new, "a"))[0]

    def test_columns_come_last_and_missing_text_is_empty(self, table):
        plan, rows = self.encoded(table)
        assert sparse.issparse(rows) and rows.shape == (300, plan.n_encoded)
        texts = plan.free_text_of_encoded()
        assert texts.tolist() == [-1] * 3 + [0] * len(plan.columns[0].terms)
        lengths = np.linalg.norm(rows.toarray()[:, texts == 0], axis=1)
        assert_allclose(lengths, np.where(np.isin(np.arange(300), [3, 8]), 0, 1))
        assert plan.encoded_names()[3] == f"y_term {plan.columns[0].terms[0]}"

    def test_unseen_words_are_left_out(self, table):
        new = table.iloc[:2].assign(y=["zzzz qqqq", "knee qqqq"])
        rows = self.encoded(table, new)[1].toarray()[:, 3:]
        assert not rows[0].any()
        assert_array_equal(rows[1], self.encoded(table, new.assign(y="knee"))[1].toarray()[1, 3:])

    def test_rows_and_moments_give_the_same_features(self, table):
        plan, rows = self.encoded(table)
        texts = plan.free_text_of_encoded()
        fitted, features = Recipe().fit(rows, texts)
        parts = [Moments.of(rows[:120]), Moments.of(rows[120:])]
        other = Recipe()._fit_moments(reduce(Moments.combine, parts), texts)
        assert_allclose(fitted.apply(rows), features, atol=1e-8)
        # Signs of axes of equal entries are those of rounding.
        products = [of.apply(rows) @ of.apply(rows).T for of in (fitted, other)]
        assert_allclose(*products, atol=1e-7)
        assert_allclose(fitted.scale, other.scale, rtol=1e-7)

    def test_a_text_varies_as_much_as_the_columns_beside_it(self, table):
        plan, rows = self.encoded(table)
        texts = plan.free_text_of_encoded()
        fitted, _ = Recipe().fit(rows, texts)
        scaled = fitted.before_axes(rows).toarray().var(axis=0)
        assert_allclose(scaled[: (texts < 0).sum()], 1, rtol=1e-6)
        assert scaled[texts[fitted.kept] == 0].sum() == pytest.approx(3)
        assert len(set(fitted.scale[texts[fitted.kept] == 0])) == 1

    def test_text_has_more_components(self, rng):
        words = [f"{a}{b}{c}" for a in WORDS for b in WORDS for c in WORDS[:3]]
        table = pd.DataFrame({"y": [" ".join(rng.choice(words, 8)) for _ in range(400)]})
        model = NAIM3L(ridge=1.0).fit({"a": table}, {"a": rng.integers(0, 2, (400, 2))})
        found = model.features_["a"]
        assert found.recipe.n_features == MAX_COMPONENTS + TEXT_COMPONENTS
        spec = FeatureSpec.of("auto", "a")  # by which memory is estimated, before and after a plan
        assert spec.most_features(9) == MAX_COMPONENTS
        assert spec.most_features(9, found.plan) == MAX_COMPONENTS + TEXT_COMPONENTS


class TestModels:
    @pytest.fixture
    def fitted(self, rng):
        y = rng.integers(0, 2, (120, 2))
        words = [[f"{w} {WORDS[of[0]]}" for w in rng.choice(WORDS, 3)] for of in y]
        X = {"a": pd.DataFrame({"note": [", ".join(of) for of in words]})}
        return NAIM3L(ridge=1.0).fit(X, {"a": pd.DataFrame(y, columns=["flu", "gout"])}), X, y

    def test_words_are_learned(self, fitted):
        model, X, y = fitted
        scores = model.decision_function(X)["a"][:, 0]
        assert scores[y[:, 0] == 1].mean() > scores[y[:, 0] == 0].mean() + 0.5

    def test_stored_and_loaded_bit_for_bit(self, fitted, tmp_path):
        model, X, _ = fitted
        model.save(tmp_path / "m.naim3l")
        again = load(tmp_path / "m.naim3l")
        assert again.columns_ == model.columns_
        assert_array_equal(again.decision_function(X)["a"], model.decision_function(X)["a"])
        content = (tmp_path / "m.naim3l").read_bytes()
        assert not any(word.encode() in content for word in WORDS)  # hashes only

    @pytest.mark.parametrize(
        ("changes", "refusal"),
        [
            ({"terms": [N_TERMS]}, "terms .* a whole number at least 0 and at most"),
            ({"terms": [-1]}, "terms .* a whole number at least 0"),
            ({"terms": ["knee"]}, "terms .* a whole number"),
            ({"terms": [1, 2]}, "idf .* length terms=2"),
            ({"idf": [0.0]}, "idf .* above 0"),
            ({"idf": ["NaN"]}, "idf .* a number above 0"),
            ({"kind": "number"}, "only free text has terms"),
            ({"categories": ["a"]}, "only free text has terms"),
        ],
    )
    def test_forged_plans_are_refused(self, changes, refusal):
        stored = dump(ColumnPlan("y", "text", 0.0, terms=[7], idf=[1.5]), ColumnPlan)
        document = json.loads(json.dumps(stored.document)) | changes
        with pytest.raises(Refusal, match=refusal):
            Nested(ColumnPlan).read(document, Reader(stored), Scope())

    def test_hashed_words_are_no_top_features(self, fitted):
        from naim3l.explain import top_features
        from naim3l.explain.column_weights import column_weights

        model, *_ = fitted
        assert column_weights(model, "a").columns[0].startswith("note_term ")
        assert top_features(model, "flu") == {"for": [], "against": []}
