"""Sound files of every format, small so that damage meets what matters; each is made once."""

import datetime
import io
import sqlite3
import tempfile
import warnings
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import feather, parquet
from sklearn.preprocessing import OneHotEncoder
from sklearn.random_projection import SparseRandomProjection

from naim3l import NAIM3L, NAIM3LCV, join_views
from naim3l.datasets import make_unpaired
from naim3l.estimators import PerViewRidge
from naim3l.files.checkpoint import Checkpoint
from workbooks import make_workbook

VIEWS = {"a": np.arange(12.0).reshape(6, 2), "b": np.ones((6, 1), dtype=np.float32)}
LABELS = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [0, 1], [1, 1]])
KEY = "of the fit"
TOML = """\
output = "out/model.skops"
[views.clinic]
source = "clinic.csv"
id = "patient"
labels = ["flu", "gout*", "@names.txt"]
ignore = ["note"]
[views."the lab"]
source = "sqlite:///lab.db#select * from lab"
id = "id"
features = ["hb"]
labels_file = "/abs/labels.parquet"
[labels]
yes = ["affected"]
no = []
[model]
lam = 1
ridge = 0.5
tune = false
max_iter = 50
threshold = "f1"
"""


@cache
def texts():
    plain = "id,x,flu,word\n007,1.5,yes,red\n008,2,no,blue\n009,,?,red\n"
    rows = "".join(f"P{i},{i / 7},{i % 2},2020-01-{i:02d}\n" for i in range(1, 30))
    return [
        text.encode(encoding)
        for text, encoding in (
            (plain, "utf-8"),
            (plain.replace(",", ";").replace(".", ","), "utf-8"),
            (plain.replace(",", "\t").replace("\n", "\r\n"), "utf-8"),
            (plain.replace(",", "|"), "utf-8-sig"),
            ('"a;b","c"\n"1,2","say ""hi""\nthere"\n"3;4",x\n', "utf-8"),
            (plain.replace("red", "grün"), "latin-1"),
            (plain.replace("red", "grün"), "utf-16"),
            (plain.replace("red", "grün"), "utf-16-le"),
            (plain.replace("red", "красный").replace("blue", "синий"), "cp1251"),
            (plain, "utf-32"),
            ("id,v,dx,day\n" + rows, "utf-8"),
            (",x,\na,1,\nb,2,\n", "utf-8"),
        )
    ]


@cache
def arrow_table():
    """A column of nearly every type that Arrow has."""
    n = 4
    day = datetime.datetime(2020, 1, 2, 3, 4, 5)
    columns = {
        "id": pa.array([f"r{i}" for i in range(n)]),
        "x": pa.array([1.5, None, -2.0, float("nan")]),
        "flu": pa.array(["yes", "no", None, "?"]),
        "whole": pa.array([1, 2, None, 4], pa.int16()),
        "true": pa.array([True, None, False, True]),
        "word": pa.array(["u", "v", "u", None]).dictionary_encode(),
        "many": pa.array([[1, 2], [], None, [3]], pa.list_(pa.int32())),
        "parts": pa.array([{"a": 1, "b": "x"}, None, {"a": 2, "b": None}, {"a": None, "b": "y"}]),
        "when": pa.array([day, None, day, day], pa.timestamp("us", tz="UTC")),
        "day": pa.array([day.date(), None, day.date(), day.date()]),
        "exact": pa.array([Decimal("1.50"), None, Decimal("2.25"), Decimal("0.10")]),
        "raw": pa.array([b"a", b"", None, b"\xff"], pa.large_binary()),
        "long": pa.array(["a", "bb", None, "d" * 20], pa.large_string()),
        "none": pa.nulls(n),
        "half": pa.array([np.float16(1), None, np.float16(2), np.float16(3)], pa.float16()),
        "span": pa.array([1, None, 3, 4], pa.duration("ms")),
        "fixed": pa.array([[1.0, 2.0], None, [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float64(), 2)),
    }
    return pa.table(columns)


@cache
def parquets():
    # Not every pyarrow writes these; the Arrow files have them.
    table = arrow_table().drop_columns(["span", "half", "fixed"])
    small = table.select(["id", "x", "flu"])
    files = []
    for content, options in (
        (small, {"compression": "none", "use_dictionary": False}),
        (small, {"compression": "snappy"}),
        (table, {"compression": "none"}),
        (table, {"compression": "gzip", "data_page_version": "2.0", "row_group_size": 2}),
        (table, {"compression": "zstd", "write_page_index": True, "store_schema": False}),
    ):
        stream = io.BytesIO()
        parquet.write_table(content, stream, **options)
        files.append(stream.getvalue())
    stream = io.BytesIO()
    small.to_pandas().set_index("id").to_parquet(stream)
    return [*files, stream.getvalue()]


@cache
def arrows():
    table = arrow_table()
    views = pa.table({
        "view": pa.array(["a", None, "c" * 20]).cast(pa.string_view()),
        "runs": pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([1.0, 2.0])),
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int8())),
        "lists": pa.array([[1, 2], None, []], pa.list_view(pa.int8())),
        "inner": pa.array([["a", None], None, []], pa.list_(pa.string_view())),
    })  # fmt: skip
    ends = pa.array([0, 1, 0], pa.int8())
    mixed = pa.table({
        "either": pa.UnionArray.from_sparse(ends, [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])]),
        "id": pa.array(["p", "q", "r"]),
    })  # fmt: skip
    small = table.select(["id", "x", "flu"])
    files = []
    for content, form, options in (
        (small, pa.ipc.new_file, {}),
        (small, pa.ipc.new_stream, {}),
        (table, pa.ipc.new_file, {}),
        (table, pa.ipc.new_stream, {"compression": "lz4"}),
        (views, pa.ipc.new_file, {}),
        (views, pa.ipc.new_stream, {}),
        (mixed, pa.ipc.new_file, {}),
    ):
        stream = io.BytesIO()
        with form(stream, content.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
            writer.write_table(content)
        files.append(stream.getvalue())
    for options in ({"version": 1}, {"version": 2, "compression": "uncompressed"}):
        stream = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of version 1, which still occurs
            feather.write_feather(small, stream, **options)
        files.append(stream.getvalue())
    return files


@cache
def npzs():
    def saved(**arrays):
        stream = io.BytesIO()
        np.savez(stream, **arrays)
        return stream.getvalue()

    about = {"labels": LABELS, "label_names": ["cat", "dog"], "observed": np.tri(6, 2, 1)}
    return [
        saved(points=VIEWS["a"]),
        saved(points=VIEWS["a"].T, note=np.array("text"), more=np.arange(3)),
        saved(words=np.array([["1", "a"], ["2", "b"]])),
        saved(**{f"view_{name}": X for name, X in VIEWS.items()}, **about),
    ]


@cache
def databases():
    files = []
    for statements in (
        ["create table lab (id text primary key, hb real, flu text)"],
        ["create table lab (id integer primary key, hb, flu)", "create index i on lab (hb)",
         "create view seen as select * from lab where hb > 1"],
    ):  # fmt: skip
        connection = sqlite3.connect(":memory:")
        connection.execute("pragma page_size = 512")
        for statement in statements:
            connection.execute(statement)
        rows = [(100 + i, None if i % 5 == 0 else i / 3, ("yes", "no", None)[i % 3])
                for i in range(30)]  # fmt: skip
        connection.executemany("insert into lab values (?, ?, ?)", rows)
        connection.commit()
        files.append(bytes(connection.serialize()))
        connection.close()
    return files


@cache
def workbooks():
    day = datetime.datetime(2020, 1, 2, 12)
    small = [["id", "x", "flu"], ["p", 1.5, "yes"], ["q", None, "no"], [], ["r", 2, "?"]]
    large = [["id", "when", "true", "word", ""], *(
        [100 + i, day if i % 3 else None, i % 2 == 0, "a<b" if i % 5 else "#N/A", None]
        for i in range(20)
    )]  # fmt: skip
    return [
        make_workbook({"s": small}),
        make_workbook({"s": small}, shared=False),
        make_workbook({"s": small, "two": large}),
        make_workbook({"one": [], "s": large}),
    ]


@cache
def models():
    """Fitted models by name, each with the bytes of its file."""
    data = make_unpaired((30, 25), n_features=(5, 4), n_labels=3, n_latent=3, missing_labels=0.2,
                         random_state=0)  # fmt: skip
    X = {v: pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])])
         for v, x in data.views.items()}  # fmt: skip
    few = {"max_iter": 5, "tol": 0, "random_state": 0}
    paired = make_unpaired(30, n_features=(4, 3), n_labels=3, n_latent=3, aligned=True,
                           random_state=1)  # fmt: skip
    wide, columns = join_views(paired.views)
    fitted = {
        "plain": NAIM3L(**few).fit(data.views, data.labels),
        "calibrated": NAIM3L(threshold="f1", calibrate=True, **few).fit(X, data.labels),
        "chosen": NAIM3LCV((0.1, 1.0), (1.0,), cv=2, **few).fit(data.views, data.labels),
        "ridge": PerViewRidge(2.0, transformer=None).fit(data.views, data.labels),
        "projected": PerViewRidge(transformer=SparseRandomProjection(3, random_state=0)).fit(
            data.views, data.labels
        ),
        "words": PerViewRidge(
            transformer=OneHotEncoder(
                min_frequency=2,
                drop="first",
                sparse_output=False,
                handle_unknown="infrequent_if_exist",
            )
        ).fit({"v": np.array([["a"], ["b"], ["b"], ["c"], ["a"], ["d"]])}, {"v": LABELS}),
        "kernel": NAIM3L(kernel="rbf", n_landmarks=5, **few).fit(data.views, data.labels),
        "wide": NAIM3L(views=columns, fusion="evidence", calibrate=True, **few).fit(
            wide, paired.complete_labels["view0"]
        ),
    }
    return {name: (model, _saved(model)) for name, model in fitted.items()}


@cache
def deep_models():
    """The same of networks, which torch is needed for."""
    from naim3l.deep import DeepNAIM3L

    data = make_unpaired((30, 25), n_features=(5, 4), n_labels=3, n_latent=3, random_state=0)
    model = DeepNAIM3L(hidden=(6,), max_epochs=2, device="cpu", random_state=0)
    model.fit(data.views, data.labels)
    return {"deep": (model, _saved(model))}


def _saved(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        return (Path(folder) / "model").read_bytes()


@cache
def checkpoints():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.checkpoint"
        checkpoint = Checkpoint(path, KEY)
        checkpoint.put("folds", {"scores": VIEWS["a"]})
        checkpoint.put("solver", {"W": VIEWS["a"], "mu": np.asarray(0.5)})
        return [path.read_bytes()]


def make_all(with_torch):
    """Make all samples now, those of networks only where torch is installed."""
    if with_torch:
        deep_models()
    for make in (texts, parquets, arrows, npzs, databases, workbooks, models,
                 checkpoints):  # fmt: skip
        make()
