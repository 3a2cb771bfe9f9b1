"""Tables joined by rows and by ids."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from containers import CONTAINERS, SPARSE, dense
from naim3l import NAIM3L, DataWarning
from naim3l.input.batches import Batch
from naim3l.input.joining import join_views
from naim3l.input.views import resolve_columns

nan = np.nan
BUILDERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
ONE = {"id": ["p", "q", "r"], "x": [1, 2, 3], "t": ["u", None, "v"]}
TWO = {"id": ["s", "q", "p"], "x": [4.0, 5.0, 6.0]}


class TestSameRows:
    @pytest.mark.parametrize("kind", CONTAINERS)
    def test_round_trip(self, kind, rng):
        parts = {"one": rng.normal(size=(4, 2)), "two": rng.normal(size=(4, 3))}
        parts["two"][1] = nan
        wide, views = join_views({view: CONTAINERS[kind](part) for view, part in parts.items()})
        batch = Batch(wide, "X")
        for view, columns in resolve_columns(views, batch).items():
            assert_array_equal(dense(batch.select_columns(columns).numbers()), parts[view])
        assert sparse.issparse(wide) == (kind in SPARSE)

    @pytest.mark.parametrize("build", [pd.DataFrame, pl.DataFrame, pa.table])
    def test_frames_keep_library_and_name_columns_by_view(self, build):
        frames = {"one": build({"x": [1, 2], "t": ["u", "v"]}), "two": build({"x": [3, 4]})}
        wide, views = join_views(frames)
        assert type(wide) is type(frames["one"])
        assert views == {"one": ["one__x", "one__t"], "two": ["two__x"]}
        assert Batch(wide, "X").columns == ["one__x", "one__t", "two__x"]

    def test_pandas_rows_keep_their_index(self):
        one = pd.DataFrame({"x": [1.0, 2.0]}, index=["p", "q"])
        two = pd.DataFrame({"x": [3.0, 4.0]}, index=["p", "q"])
        wide, _ = join_views({"one": one, "two": two})
        assert wide.index.tolist() == ["p", "q"]
        assert wide.to_numpy().tolist() == [[1, 3], [2, 4]]

    @pytest.mark.parametrize(
        ("second", "error"),
        [
            (np.eye(3), r"same rows can be joined, got rows {'one': 2, 'two': 3}"),
            (
                pd.DataFrame({"x": [1, 2]}),
                "view 'two' and view 'one' have different indexes, and one only counts rows",
            ),
            ([["text", 1], ["x", 2]], "view 'two', row 0, column 0: 'text' is not a number"),
        ],
        ids=["rows", "index", "text"],
    )
    def test_refused(self, second, error):
        one = pd.DataFrame({"x": [1.0, 2.0]}, index=["p", "q"])
        with pytest.raises(ValueError, match=error):
            join_views({"one": one, "two": second})

    @pytest.mark.parametrize(
        "second",
        [pl.DataFrame({"x": [3.0, 4.0]}), sparse.csr_array([[3.0], [4.0]]), [[3], [4]]],
        ids=["polars", "sparse", "list"],
    )
    def test_a_mixture_becomes_an_array(self, second):
        wide, views = join_views({"one": pd.DataFrame({"x": [1.0, 2.0]}), "two": second})
        assert_array_equal(wide, [[1, 3], [2, 4]])
        assert views == {"one": [0], "two": [1]}


class TestIds:
    """Expected: for each id in turn, the cells that a look-up in the columns of a table finds."""

    @pytest.mark.parametrize("library", BUILDERS)
    def test_a_row_for_each_id_of_any_table(self, library):
        tables = {"one": BUILDERS[library](ONE), "two": BUILDERS[library](TWO)}
        wide, views = join_views(tables, on="id")
        assert type(wide) is type(tables["one"])
        assert views == {"one": ["one__x", "one__t"], "two": ["two__x"]}
        if library == "pandas":
            assert wide.index.name == "id" and list(wide.columns) == ["one__x", "one__t", "two__x"]
            wide = wide.reset_index()
        found = Batch(wide, "X")
        assert found.columns == ["id", "one__x", "one__t", "two__x"]
        ids = found.frame["id"].to_list()
        assert ids == ["p", "q", "r", "s"]  # of the first table, then of the next
        missing = found.missing
        for j, (view, column) in enumerate([(ONE, "x"), (ONE, "t"), (TWO, "x")], start=1):
            cells = found.frame[:, j].to_list()
            for i, entry in enumerate(ids):
                there = view[column][view["id"].index(entry)] if entry in view["id"] else None
                assert missing[i, j] if there is None else cells[i] == there

    @pytest.mark.parametrize("name", [None, "id", "who"])
    def test_index_of_pandas(self, name):
        one, two = (pd.DataFrame(table).set_index("id").rename_axis(name) for table in (ONE, TWO))
        expected, views = join_views({"one": pd.DataFrame(ONE), "two": pd.DataFrame(TWO)}, on="id")
        for on in {None, name}:
            wide, found = join_views({"one": one, "two": two}, on=on)
            pd.testing.assert_frame_equal(wide, expected.rename_axis(name))
            assert found == views

    def test_the_index_of_one_and_a_column_of_another(self):
        one = pd.DataFrame(ONE).set_index("id")
        wide, _ = join_views({"one": one, "two": pd.DataFrame(TWO)}, on="id")
        assert wide.index.tolist() == ["p", "q", "r", "s"]

    def test_equal_ids_in_another_order(self):
        one = pd.DataFrame({"x": [1, 2]}, index=["p", "q"])
        wide, _ = join_views({"one": one, "two": one[::-1]})
        assert wide.to_numpy().tolist() == [[1, 1], [2, 2]] and wide.index.tolist() == ["p", "q"]

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_a_model_of_the_joined_rows(self, library, rng):
        """It is that of the views with the rows that they lack left out."""
        build = BUILDERS[library]
        rows = {"one": np.arange(25), "two": np.arange(29, 9, -1)}
        X = {view: rng.normal(size=(30, 3)) for view in rows}
        tables = {
            view: build({"id": kept} | {f"c{j}": X[view][kept, j] for j in range(3)})
            for view, kept in rows.items()
        }
        wide, views = join_views(tables, on="id")
        ids = [*rows["one"], *rows["two"][rows["two"] > 24]]
        Y = (X["one"][:, :2] > 0).astype(int)[ids]
        there = {view: np.isin(ids, kept) for view, kept in rows.items()}
        block = np.hstack([np.where(there[view][:, None], X[view][ids], nan) for view in rows])
        few = {"max_iter": 5, "tol": 0}
        expected = NAIM3L(views={"one": [0, 1, 2], "two": [3, 4, 5]}, **few).fit(block, Y)
        model = NAIM3L(views=views, **few).fit(wide, Y)
        assert_allclose(model.decision_function(wide), expected.decision_function(block))

    @pytest.mark.parametrize("library", BUILDERS)
    @pytest.mark.parametrize(
        ("changes", "error"),
        [
            ({"id": ["s", "q", "q"]}, "view 'two': 2 rows have the id 'q'; ids must differ"),
            ({"id": ["s", None, "q"]}, "view 'two', row 1: the id is missing"),
            ({"id": [1, 2, 3]}, "views 'one' and 'two' have different types, .* 'p' and 1;"),
        ],
        ids=["equal", "missing", "types"],
    )
    def test_refused_ids(self, library, changes, error):
        build = BUILDERS[library]
        with pytest.raises(ValueError, match=error):
            join_views({"one": build(ONE), "two": build({**TWO, **changes})}, on="id")

    @pytest.mark.parametrize("library", BUILDERS)
    def test_refused_columns(self, library):
        build = BUILDERS[library]
        with pytest.raises(ValueError, match=r"view 'one': no column 'pid'; it has \['id', 'x', "):
            join_views({"one": build(ONE), "two": build(TWO)}, on="pid")
        with pytest.raises(ValueError, match="view 'two': no column besides the ids in 'id'"):
            join_views({"one": build(ONE), "two": build({"id": TWO["id"]})}, on="id")

    @pytest.mark.parametrize("second", [np.eye(3), pl.DataFrame(TWO)], ids=["array", "polars"])
    def test_ids_need_frames_of_one_library(self, second):
        with pytest.raises(ValueError, match="all tables are data frames of one library"):
            join_views({"one": pd.DataFrame(ONE), "two": second}, on="id")

    def test_ids_of_which_none_is_shared(self):
        two = pd.DataFrame(TWO | {"id": ["P", "Q", "S"]})
        with pytest.warns(DataWarning, match="no id is in two of the views.* 'p' .* 'P' in view"):
            wide, _ = join_views({"one": pd.DataFrame(ONE), "two": two}, on="id")
        assert len(wide) == 6
