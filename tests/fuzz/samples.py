"""Sound files of every format, small so that damage meets what matters; each is made once."""

import io
import sqlite3
import tempfile
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.random_projection import SparseRandomProjection

from model_files import saved
from naim3l import NAIM3L, NAIM3LCV, Decisions, LabelSubspaceRidge, join_views
from naim3l.datasets import make_unpaired
from naim3l.estimators import (
    BlendNAIM3L,
    FusedRidge,
    PerViewBoosting,
    PerViewLogistic,
    PerViewRidge,
)
from naim3l.files.checkpoint import Checkpoint
from workbooks import make_workbook

POINTS = np.arange(12.0).reshape(6, 2)
LABELS = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [0, 1], [1, 1]])
FIT = ([POINTS], {"lam": 1.0})  # data and settings of the checkpoint
STATE = {"folds": {"scores": POINTS}, "solver": {"W": POINTS, "mu": np.asarray(0.5)}}
TOML = b"""output = "out/model.naim3l"
views.lab = {source = "a.db#select 1", id = "id", labels = ["flu", "@names.txt"], ignore = ["x"]}
labels = {yes = ["affected"]}
model = {lam = 1}
"""


@cache
def texts():
    plain = "id,x,flu,word\n007,1.5,yes,red\n008,2,no,blue\n009,,?,red\n"
    rows = "".join(f"P{i},{i / 7},{i % 2},2020-01-{i:02d}\n" for i in range(1, 30))
    quoted = '"a;b","c"\n"1,2","say ""hi""\nthere"\n"3;4",x\n'
    other = (quoted, plain.replace(",", ";").replace(".", ","), plain.replace(",", "\t"))
    found = [text.encode() for text in (plain, *other, ",x,\na,1,\nb,2,\n", f"id,v,dx,day\n{rows}")]
    encodings = ("utf-8-sig", "latin-1", "utf-16", "utf-16-le", "utf-32")
    found += [plain.replace("red", "grün").encode(encoding) for encoding in encodings]
    return [*found, plain.replace("red", "красный").replace(",", "|").encode("cp1251")]


@cache
def arrow_table():
    """A column of nearly every type that Arrow has; those up to "parts" can be in Parquet files."""
    numbers = (pa.int16(), pa.decimal128(5, 2), pa.date32(), pa.timestamp("us", "UTC"))
    words = (pa.string(), pa.large_string(), pa.large_binary())
    inner = pa.list_(pa.int32()), pa.list_view(pa.int8()), pa.large_list(pa.int8())
    columns = {"id": [*"pqrs"], "x": [1.5, None, -2.0, np.nan], "flu": ["yes", "no", None, "?"]}
    columns |= {str(kind): pa.array([1, 2, None, 4], kind) for kind in numbers}
    columns |= {str(kind): pa.array(["a", "", None, "d" * 20], kind) for kind in words}
    columns |= {"true": [True, None, False, True], "none": pa.nulls(4)}
    columns["word"] = pa.array(["u", "v", "u", None]).dictionary_encode()
    columns["parts"] = [{"a": 1, "b": "x"}, None, {"a": 2, "b": None}, {"a": None, "b": "y"}]
    columns |= {str(kind): pa.array([[1, 2], None, [], [3]], kind) for kind in inner}
    columns["texts"] = pa.array([["a", None], [], None, ["b" * 20]], pa.list_(pa.string_view()))
    columns["pairs"] = pa.array([[("a", 1)], None, [], []], pa.map_(pa.string(), pa.int8()))
    columns["span"] = pa.array([1, None, 3, 4], pa.duration("ms"))
    columns["runs"] = pa.RunEndEncodedArray.from_arrays([2, 4], pa.array([1.0, 2.0]))
    union = pa.array([0, 1, 0, 0], pa.int8()), [pa.array([1, 2, 3, 4]), pa.array([*"abcd"])]
    return pa.table(columns | {"either": pa.UnionArray.from_sparse(*union)})


@cache
def parquets():
    table = arrow_table()
    table = table.select(table.column_names[: table.column_names.index("parts") + 1])
    small, files = table.select(["id", "x", "flu"]), []
    for content, options in (
        (small, {"compression": "none", "use_dictionary": False}),
        (small, {"compression": "snappy"}),
        (table, {"compression": "none"}),
        (table, {"compression": "gzip", "data_page_version": "2.0", "row_group_size": 2}),
        (table, {"compression": "zstd", "write_page_index": True, "store_schema": False}),
    ):
        parquet.write_table(content, stream := io.BytesIO(), **options)
        files.append(stream.getvalue())
    return files


@cache
def arrows():
    table, files = arrow_table(), []
    for names in (["id", "x", "flu"], table.column_names[3:15], table.column_names[15:]):
        for form, packing in ((pa.ipc.new_file, None), (pa.ipc.new_stream, "lz4")):
            content, options = table.select(names), pa.ipc.IpcWriteOptions(compression=packing)
            with form(stream := io.BytesIO(), content.schema, options=options) as writer:
                writer.write_table(content)
            files.append(stream.getvalue())
    return files


@cache
def npzs():
    files = []
    for arrays in (
        {"points": POINTS},
        {"points": POINTS.T, "note": np.array("text"), "more": np.arange(3)},
        {"words": np.array([["1", "a"], ["2", "b"]])},
        {"view_a": POINTS, "b": POINTS, "labels": LABELS, "label_names": ["cat", "dog"]},
    ):
        np.savez(stream := io.BytesIO(), **arrays)
        files.append(stream.getvalue())
    return files


@cache
def databases():
    connection = sqlite3.connect(":memory:")
    connection.executescript(
        "pragma page_size = 512; create table lab (id integer primary key, hb real, flu text);"
        "create index i on lab (hb); create view seen as select * from lab where hb > 1"
    )
    rows = [(100 + i, i / 3 if i % 5 else None, ("yes", "no", None)[i % 3]) for i in range(30)]
    connection.executemany("insert into lab values (?, ?, ?)", rows)
    connection.commit()
    return [bytes(connection.serialize())]


@cache
def workbooks():
    small = [["id", "x", "flu"], ["p", 1.5, "yes"], ["q", None, "no"], [], ["r", 2, "?"]]
    rows = [[i, datetime(2020, 1, 2, 12), i % 2 == 0, "a<b", "#N/A"] for i in range(20)]
    large = [["id", "when", "true", "word", ""], *rows]
    books = ({"s": small}, {"s": small, "two": large}, {"one": [], "s": large})
    return [make_workbook({"s": small}, shared=False), *map(make_workbook, books)]


@cache
def models():
    """Files of fitted models of every class, with everything that they can contain."""
    few = {"max_iter": 5, "tol": 0, "random_state": 0}
    shape = {"n_features": (5, 4), "n_labels": 3, "n_latent": 3}
    data = make_unpaired((30, 25), missing_labels=0.2, random_state=0, **shape)
    X, y = data.views, data.labels
    paired = make_unpaired(30, aligned=True, random_state=1, **shape)
    wide, columns = join_views(paired.views)
    wide_y = paired.complete_labels["view0"]
    days = pd.date_range("2020-01-01", periods=30)
    table = {"c0": X["view0"][:, 0], "c1": days, "c2": ["red", "blue", "red"] * 10}
    table = pd.DataFrame(table | {"c3": [True, False, None] * 10})
    words = {"v": np.array([["a"], ["b"], ["b"], ["c"], ["a"], ["d"]])}
    guest = make_pipeline(StandardScaler(), SparseRandomProjection(3, random_state=0))
    one_hot = OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist")
    guarded = Decisions("guarded", fusion="evidence")
    fitted = [
        NAIM3L(**few).fit(X, y),
        NAIM3L(decide="f1", **few).fit(X | {"view0": table}, y),
        NAIM3LCV((0.1, 1.0), (1.0,), cv=2, n_jobs=1, **few).fit(X, y),
        NAIM3L(features="rbf", views=columns, decide=guarded, **few).fit(wide, wide_y),
        PerViewRidge(2.0, features=None).fit(X, y),
        PerViewRidge(features={"view0": guest, "view1": "auto"}).fit(X, y),
        PerViewRidge(features=one_hot).fit(words, {"v": LABELS}),
        PerViewLogistic().fit(X, y),
        PerViewBoosting(3, random_state=0).fit(X, y),
        LabelSubspaceRidge(random_state=0).fit(X, y),
        FusedRidge(views=columns).fit(wide, wide_y),
        BlendNAIM3L([("a", NAIM3L(**few)), ("b", PerViewRidge())], random_state=0).fit(X, y),
    ]
    if find_spec("torch"):
        from naim3l.deep import DeepNAIM3L, Network, Training

        parts = {"network": Network(hidden=(6,)), "training": Training(max_epochs=2)}
        fitted.append(DeepNAIM3L(**parts, device="cpu", random_state=0).fit(X, y))
    return [saved(model) for model in fitted]


@cache
def checkpoints():
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Checkpoint(Path(folder) / "fit.checkpoint", *FIT)
        for section, arrays in STATE.items():
            checkpoint.put(section, arrays)
        return [checkpoint.path.read_bytes()]


ALL = (texts, parquets, arrows, npzs, databases, workbooks, models, checkpoints)
