"""Tables as they are: odd cells in new rows, ids, text of many values, too few rows."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from naim3l import NAIM3L, DataWarning
from naim3l.cli.settings import Config, ViewConfig
from naim3l.cli.work import (
    ViewData,
    evaluate_views,
    fit_model,
    make_model,
    read_known,
    read_new,
    read_training,
)
from naim3l.files.readers import ReadError
from study import run

LABELS = ["flu", "gout"]
QUICK = {"lam": 0.4, "ridge": 1.0}


def draw(n_rows, seed=0):
    """Rows of three numbers, of which the first two tell the labels; no id."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, 3)).round(3)
    table = pd.DataFrame(values, columns=["hb", "crp", "alt"])
    seen = values[:, :2] + 0.2 * rng.normal(size=(n_rows, 2)) > 0
    return table.assign(**dict(zip(LABELS, np.where(seen, "yes", "no").T, strict=True)))


@pytest.fixture
def fit(tmp_path):
    """Function that writes a table, and fits a model to it."""

    def fit_table(table, **changes):
        table.to_csv(tmp_path / "train.csv", index_label="id")
        view = ViewConfig(str(tmp_path / "train.csv"), id="id", labels=LABELS, **changes)
        data = read_training(Config({"lab": view}))
        return fit_model(make_model(QUICK, data), data)

    return fit_table


@pytest.fixture
def write(tmp_path):
    """Function that writes new rows, a gap above the second, and gives them as a source."""

    def write_rows(*rows, header="id,hb,crp,alt"):
        lines = [header, rows[0], "", *rows[1:]]
        (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
        return {"lab": str(tmp_path / "new.csv")}

    return write_rows


BAD = ["a,1,2,3", "b,1,2,3", "c,4,old,3", "d,1,2,3"]
AT_OLD = r"new\.csv, row 2 \(line 5\), column 'crp': 'old' is not a number"


def auc(model, path):
    view = ViewConfig(str(path), id="id", labels=LABELS)
    measured = evaluate_views(model, read_known(model, Config({"lab": view})))
    return measured["blocks"][0]["metrics"]["AUC"]["value"]


def test_one_odd_cell_costs_no_accuracy(fit, tmp_path):
    draw(200, seed=1).to_csv(tmp_path / "test.csv", index_label="id")
    clean = auc(fit(draw(200)), tmp_path / "test.csv")
    odd = draw(200).astype({"hb": object, "crp": object})
    odd.iloc[7, 0], odd.iloc[9, 1] = "<0.5", "n.d."
    with pytest.warns(DataWarning, match="is not a number"):
        model = fit(odd)
    assert auc(model, tmp_path / "test.csv") == pytest.approx(clean, abs=0.01)


def test_odd_cells_of_new_rows_are_missing_where_the_model_fills_in(fit, write):
    holes = draw(60)
    holes.loc[3, "alt"] = np.nan
    model = fit(holes)
    with pytest.warns(DataWarning, match=f"{AT_OLD}.*taken as missing"):
        new = read_new(model, write(*BAD))["lab"]
    assert new["crp"].isna().tolist() == [False, False, True, False]
    # Of one row, too; but not where more than one of ten are.
    with pytest.warns(DataWarning, match=r"row 0 \(line 2\), .*'low' is not a number"):
        read_new(model, write("a,low,1,2"))
    with pytest.raises(ReadError, match=f"{AT_OLD} .2 of 4 cells.*In training .* had numbers"):
        read_new(model, write(*BAD[:3], "d,1,new,3"))
    with pytest.raises(ReadError, match=r"row 0 \(line 2\), column 'hb': '1,234.5' seems to have"):
        read_new(model, write('a,"1,234.5",1,2', "b,1,2,3"))


def test_the_bad_cell_itself_is_named_where_the_model_does_not_fill_in(fit, write, tmp_path):
    table = draw(60)
    X, Y = {"lab": table[["hb", "crp", "alt"]]}, {"lab": (table[LABELS] == "yes").astype(int)}
    model = NAIM3L(transformer="scale", ridge=1.0).fit(X, Y)
    model.save(tmp_path / "model.skops")
    cases = {
        BAD[2]: f"{AT_OLD}. In training",
        "c,4,inf,3": r"new\.csv, row 2 \(line 5\), column 'crp': inf is infinite",
        "c,4,,3": r"new\.csv, row 2 \(line 5\), column 'crp': the cell is missing",
        "c,4,NA,3": r"new\.csv, row 2 \(line 5\), column 'crp': the cell is missing",
    }
    for row, message in cases.items():
        source = write(*BAD[:2], row, BAD[3])
        with pytest.raises(ReadError, match=message):
            read_new(model, source)
    done = run("predict", tmp_path / "model.skops", f"lab={source['lab']}", "-o",
               tmp_path / "out.csv")  # fmt: skip
    assert done.exit_code == 1 and "row 2 (line 5), column 'crp'" in done.stderr


def test_words_of_the_fit_are_words_in_new_rows_as_they_are_written(fit, write):
    """Even where all new ones look like numbers: 250.10 is not 250.1, nor 007 7."""
    words = ["250.10", "007", "V45", "E11", "W3"]
    with pytest.warns(DataWarning, match="codes"):
        model = fit(draw(60).assign(code=words[:2] * 27 + words[2:] * 2))
    header = "id,hb,crp,alt,code"
    new = read_new(model, write("a,1,2,3,250.10", "b,1,2,3,007", header=header))["lab"]
    assert new["code"].tolist() == ["250.10", "007"]
    columns = model.transformers_["lab"][0].get_feature_names_out()
    assert {"code_250.10", "code_007"} <= set(columns)


def test_settings_say_what_is_text(fit, write):
    ward = draw(60).assign(ward=["07", "8", "8", "north"] * 15)
    with pytest.raises(ReadError, match=r"row 3 \(line 5\), column 'ward': 'north' is not"):
        fit(ward)
    model = fit(ward, text=["w*"])
    new = read_new(model, write("a,1,2,3,07", header="id,hb,crp,alt,ward"))["lab"]
    assert new["ward"].tolist() == ["07"]
    with pytest.raises(ReadError, match="no column 'wrad'; did you mean 'ward'"):
        fit(ward, text=["wrad"])


# Ids


def test_results_carry_ids_that_look_like_numbers(fit, write, tmp_path):
    fit(draw(60)).save(tmp_path / "model.skops")
    source = write("01,1,2,3", "1e2,1,2,3", "1.10,4,1,3", "1.1,1,2,3")
    out = tmp_path / "out.csv"
    done = run("predict", tmp_path / "model.skops", f"lab={source['lab']}", "-o", out)
    assert done.exit_code == 0, done.output
    ids = [line.partition(",")[0] for line in out.read_text().splitlines()]
    assert ids == ["id", "01", "1e2", "1.10", "1.1"]


def test_results_without_ids_are_told_of(fit, write):
    model = fit(draw(60))
    with pytest.warns(DataWarning, match=r"new\.csv: column 'id' should have the ids, but some"):
        assert read_new(model, write("a,1,2,3", "a,1,2,3"))["lab"].index.name is None
    assert read_new(model, write("1,2,3", "1,2,3", header="hb,crp,alt"))["lab"].index.name is None


# Text of many values


def test_text_of_many_values_makes_a_bounded_number_of_columns(fit):
    n_codes, n_rows = 700, 2000
    codes = np.array([f"C{i:04d}" for i in range(n_codes)])[np.arange(n_rows) % n_codes]
    table = draw(n_rows).assign(code=codes)
    tracemalloc.start()
    try:
        with pytest.warns(DataWarning, match=r"'code': 700 different values .* 2000 rows\. The 30"):
            model = fit(table)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(model.transformers_["lab"][0].get_feature_names_out()) == 3 + 31
    assert peak < n_rows * n_codes * 8  # the size of one column for each code


@pytest.mark.parametrize("n_rows", [30, 90])
def test_text_that_names_the_rows_is_left_out(fit, n_rows):
    table = draw(n_rows).assign(note=[f"note {i // 2 if i < 20 else i}" for i in range(n_rows)])
    match = rf"train\.csv, column 'note': {n_rows - 10} different values of text in {n_rows} rows"
    with pytest.warns(DataWarning, match=match):
        model = fit(table)
    assert list(model.feature_names_in_["lab"]) == ["hb", "crp", "alt"]
    with pytest.warns(DataWarning), pytest.raises(ReadError, match="no column is left"):
        fit(table, features=["note"])


# Few rows


@pytest.mark.parametrize("options", [{}, QUICK, {"metric": "log-loss"}])
def test_too_few_labels_are_told_of_before_the_fit(options):
    features = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [2.0, 1.0, 5.0]})
    labels = pd.DataFrame({"flu": [1.0, 0.0, 1.0], "gout": [np.nan, 1.0, 1.0]})
    data = {"lab": ViewData(features, [], labels)}
    with pytest.raises(
        ReadError, match=r"3 rows with yes and 3 with no.*'flu', has 2 .* 1 with no"
    ):
        fit_model(make_model(options, data), data)


def test_six_rows_are_enough():
    table = draw(40)
    labels = table[LABELS].eq("yes").astype(float)
    chosen = [*np.flatnonzero(labels["flu"] == 1)[:3], *np.flatnonzero(labels["flu"] == 0)[:3]]
    features = table.drop(columns=LABELS).iloc[chosen]
    data = {"lab": ViewData(features, [], labels.iloc[chosen])}
    model = fit_model(make_model(QUICK, data), data)
    assert model.predict_proba({"lab": features})["lab"].notna().to_numpy().all()
