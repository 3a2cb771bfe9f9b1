"""Queries give the answers of the model, in databases that run them, whatever the names."""

import sqlite3
from contextlib import closing
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest

from naim3l import NAIM3L, NAIM3LCV, Kernel, PerViewLogistic, Recipe
from naim3l.estimators import PerViewBoosting, PerViewRidge
from naim3l.export import to_sql

WARD, LABEL = "w\"; DROP TABLE t; --\n'x'", 'gout\'s "x" %(a)s :b ?'
WARDS = ["a'b", "B", "c\\d", "e--", "{0}", "7", "", " NA ", "?", None]


def in_sqlite(tables, query):
    with closing(sqlite3.connect(":memory:")) as database:
        for name, table in tables.items():
            table.to_sql(name, database, index=False)
        return pd.read_sql(query, database)


def in_duckdb(tables, query):
    import duckdb

    with closing(duckdb.connect()) as database:
        for name, table in tables.items():
            database.register("given", table)
            database.execute(f'create table "{name}" as select * from given')
        return database.execute(query).df()


@pytest.fixture(scope="module")
def server():
    # Not in a folder of pytest, which no other user may read, as whom the server runs.
    with TemporaryDirectory(prefix="naim3l-") as folder:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_RUNTIME_DIR", folder)
            import pgserver
        with pgserver.get_server(f"{folder}/data") as found:
            yield found.get_uri()


@pytest.fixture(
    params=[
        "sqlite",
        *(pytest.param(d, marks=pytest.mark.places) for d in ("duckdb", "postgresql")),
    ]
)
def run(request):
    """Function of a model, view, tables and options that gives the result of its query."""
    if request.param == "postgresql":
        from sqlalchemy import NullPool, create_engine

        uri = request.getfixturevalue("server")
        engine = create_engine(
            uri.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool
        )

        def run(tables, query):
            with engine.begin() as connection:
                for name, table in tables.items():
                    table.to_sql(name, connection, index=False, if_exists="replace")
                result = connection.exec_driver_sql(
                    query, execution_options={"no_parameters": True}
                )
                return pd.DataFrame(result.fetchall(), columns=[*result.keys()])
    else:
        run = {"sqlite": in_sqlite, "duckdb": in_duckdb}[request.param]

    def ask(model, tables, **options):
        return run(tables, to_sql(model, dialect=request.param, **options))

    return ask


def make_table(rng, n, *, strange=False):
    """Columns of all kinds that SQL knows, with gaps; and labels."""
    z = rng.normal(size=n)
    X = pd.DataFrame(
        {
            "number": (z + rng.normal(size=n)).round(3),
            "amount": np.exp(rng.normal(0, 3, n)),
            WARD: rng.choice([*WARDS, "new" if strange else "e--"], n),
            "when": pd.Timestamp("1969-06-01") + pd.to_timedelta(rng.integers(0, 10**8, n), "s"),
            "truth": pd.array(rng.random(n) < 0.3, dtype="boolean"),
            "sex": rng.choice(["f", "m"], n),
            "one": 1.5,
        }
    )
    for column in ("number", "when", "truth", "amount"):
        X.loc[rng.random(n) < 0.15, column] = None
    if strange:
        X.loc[0, ["number", "amount"]] = 90.0, -3.0
        X.iloc[1] = [None, np.nan, " - ", pd.NaT, pd.NA, None, np.nan]
    y = pd.DataFrame({"flu": z > 0, LABEL: rng.random(n) < 0.3, "rare": z > 1}).astype(float)
    y.loc[rng.random(n) < 0.2, "flu"] = np.nan
    return X, y


@pytest.fixture(scope="module")
def separate():
    """A model of two tables that share columns, one of which never records a label."""
    rng = np.random.default_rng(0)
    (lab, labels), (clinic, other) = make_table(rng, 300), make_table(rng, 250)
    other["rare"] = np.nan
    X = {"lab": lab, "clinic": clinic[["sex", "number", "when"]]}
    model = NAIM3L(decide="guarded", random_state=0).fit(X, {"lab": labels, "clinic": other})
    assert model.shared_ is not None and "clinic" in model.decisions_.borrowing
    return model, make_table(rng, 60, strange=True)[0]


def check(found, model, X, view, kind="probabilities"):
    """The result of a query has the model's answers, in the order of the rows."""
    found = found.sort_values("id")
    given = X if view is None else {view: X}
    method = model.predict_proba if kind == "probabilities" else model.decision_function
    expected, decisions = (
        f(given) if view is None else f(given)[view] for f in (method, model.predict)
    )
    n = expected.shape[1]
    assert [*found.columns] == [
        "id",
        *model.label_names_,
        *(f"{k}_decision" for k in model.label_names_),
    ]
    values = found.iloc[:, 1:].to_numpy(float)
    np.testing.assert_allclose(values[:, :n], expected, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(values[:, n:], decisions)


@pytest.mark.filterwarnings("ignore::naim3l.DataWarning")
@pytest.mark.parametrize("view", ["lab", "clinic"])
def test_query_gives_the_answers_of_the_model(separate, run, view):
    model, new = separate
    X = new[model.names_.column_names(view)]
    for kind in ("probabilities", "scores"):
        found = run(
            model,
            {"t t": X.assign(id=range(len(X)))},
            view=view,
            table="t t",
            keep=["id"],
            kind=kind,
        )
        check(found, model, X, view, kind)


@pytest.mark.filterwarnings("ignore::naim3l.DataWarning")
@pytest.mark.parametrize("fusion", ["evidence", "mean"])
def test_query_fuses_the_views_of_a_wide_table(run, rng, fusion):
    from naim3l import Decisions

    X, y = make_table(rng, 200)
    views = {"one": ["number", "amount", WARD], "two": ["when", "truth", "sex"]}
    model = NAIM3L(views=views, decide=Decisions("f1", fusion=fusion), random_state=0).fit(X, y)
    new, _ = make_table(rng, 50, strange=True)
    new.loc[2:5, views["one"]] = None
    check(run(model, {"X": new.assign(id=range(50))}, keep=["id"]), model, new, None)


@pytest.mark.parametrize("method", [PerViewRidge, PerViewLogistic, NAIM3LCV])
def test_every_linear_method_can_be_written(run, rng, method):
    X, y = make_table(rng, 120)
    recipe = Recipe("paper") if method is PerViewRidge else Recipe(None)
    model = method(features=recipe).fit({"v": X[["number", "sex"]]}, {"v": y[["flu", "rare"]]})
    new = make_table(rng, 30)[0][["number", "sex"]]
    found = run(model, {"v": new.assign(id=range(30))}, keep=["id"], kind="scores")
    check(found, model, new, "v", "scores")


@pytest.mark.filterwarnings("ignore::naim3l.DataWarning")
def test_decimal_commas_and_codes_that_are_text(run, rng):
    n = 100
    X = pd.DataFrame({"hb": [f"{x:.1f}".replace(".", ",") for x in rng.normal(10, 2, n)]})
    X["code"] = rng.integers(1, 4, n)
    y = pd.DataFrame({"a": rng.random(n) < 0.5, "b": rng.random(n) < 0.5}).astype(float)
    model = NAIM3L(features=Recipe(text=["code"])).fit({"v": X}, {"v": y})
    found = run(model, {"v": X.assign(id=range(n), code=X["code"].astype(float))}, keep=["id"])
    check(found, model, X, "v", "scores")


def wide_model(rng, **columns):
    X = pd.DataFrame({"number": rng.normal(size=60), **columns})
    y = pd.DataFrame({"a": rng.random(60) < 0.5, "b": rng.random(60) < 0.5}).astype(float)
    return {"lab": X}, {"lab": y}


WORDS = ["red fox", "brown dog", "lazy cat", "quick fox", "slow dog"]


@pytest.mark.filterwarnings("ignore::naim3l.DataWarning")
def test_what_sql_lacks_is_refused_by_name(rng):
    from sklearn.preprocessing import StandardScaler

    free = [f"{w} and {v} {i % 7}" for i in range(5) for w in WORDS for v in WORDS[:2]]
    columns = {
        "notes": [*free, *free][:60],
        "length": [f"{i + 1} min" for i in range(60)],
        "day": [f"{i % 28 + 1}/3/2024" for i in range(60)],
    }
    for name, reason in zip(
        columns, ("is free text", "numbers with units", "year last"), strict=True
    ):
        features = Recipe(text=["notes"] if name == "notes" else [])
        model = NAIM3L(features=features).fit(*wide_model(rng, **{name: columns[name]}))
        with pytest.raises(ValueError, match=f"view 'lab' .*column '{name}' .*{reason}"):
            to_sql(model)
    for features, reason in (
        (Kernel("rbf", n_landmarks=5), "kernel 'rbf'"),
        (StandardScaler(), "StandardScaler"),
        ("scale", "no plan"),
    ):
        with pytest.raises(ValueError, match=f"view 'lab' .*{reason}"):
            to_sql(NAIM3L(features=features).fit(*wide_model(rng)))
    with pytest.raises(ValueError, match="PerViewBoosting cannot be written as SQL"):
        to_sql(PerViewBoosting().fit(*wide_model(rng)))
    model = NAIM3L().fit(*wide_model(rng))
    with pytest.raises(ValueError, match="view must be one of"):
        to_sql(model, "clinic")
    with pytest.raises(ValueError, match="dialect must be one of"):
        to_sql(model, dialect="oracle")
    with pytest.raises(ValueError, match="kind must be one of"):
        to_sql(model, kind="probabilities")
    with pytest.raises(ValueError, match="characters that databases do not have"):
        to_sql(model, table="a\0b")


def test_sqlite_refuses_text_among_numbers_by_column(rng):
    X, y = wide_model(rng)
    query = to_sql(NAIM3L().fit(X, y), dialect="sqlite")
    for column, fault in (("number", "number.*: not a number: high"), ("n", "no such column")):
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute(f"create table lab ({column} real)")  # an unknown name is no text
            database.executemany("insert into lab values (?)", [(1.5,), (None,), ("high",)])
            with pytest.raises(sqlite3.OperationalError, match=fault):
                database.execute(query).fetchall()


def test_sums_of_many_columns_are_flat_enough(run, rng):
    X = pd.DataFrame(rng.normal(size=(90, 700)), columns=[f"c{j}" for j in range(700)])
    y = pd.DataFrame({"a": X["c0"] > 0, "b": X["c1"] > 0}).astype(float)
    model = NAIM3L(features=Recipe(n_components=3)).fit({"v": X}, {"v": y})
    found = run(model, {"v": X[:20].assign(id=range(20))}, keep=["id"])
    check(found, model, X[:20], "v", "scores")
