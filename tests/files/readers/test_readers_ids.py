"""Ids are kept digit for digit, and found where they are not named."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from naim3l.files.readers import guess_roles, parse_features, read_table
from naim3l.files.readers.ids import guess_id, set_ids

IDS = ["01", "1e2", "1.10", "1.1", "12345678901234567890"]


@pytest.mark.parametrize("name", ["id", "patient_id", "caseNr", ""])
@pytest.mark.parametrize("separator", [",", ";"])
def test_ids_that_look_like_numbers_are_found_and_kept(tmp_path, name, separator):
    rows = [f"{cell}{separator}{i}" for i, cell in enumerate(IDS)]
    (tmp_path / "a.csv").write_text("\n".join([f"{name}{separator}x", *rows]))
    table = read_table(tmp_path / "a.csv")
    found, _ = guess_id(table)
    assert found == (name or "unnamed_1") == guess_roles(table).id
    assert list(set_ids(table, found).index) == IDS


def test_numbers_that_are_named_like_an_id_are_still_features(tmp_path):
    (tmp_path / "a.csv").write_text("key_rate,x\n1.50,1\n,2\n")
    features, text = parse_features(read_table(tmp_path / "a.csv"))
    assert text == [] and features["key_rate"].tolist()[0] == 1.5


def test_a_column_that_is_known_for_something_else_is_no_id():
    table = pd.DataFrame({"id": ["a", "b"], "case_id": ["7", "8"], "x": [1, 2]})
    assert guess_id(table)[0] == "id"
    assert guess_id(table, other_than={"id"})[0] == "case_id"
    assert guess_id(table, other_than=set(table.columns)) == (None, "")
    assert guess_id(table.iloc[:1])[0] == "id"  # one row is enough where the name tells
    codes = pd.DataFrame({"patient": ["P1", "P2"], "x": [1, 2]})
    assert guess_id(codes)[0] == "patient"
    assert guess_id(codes, other_than={"patient"})[0] is None


def test_the_only_column_of_codes_is_the_id_wherever_it_is():
    codes = [f"W-{i:04}" for i in range(42, 72)]
    table = pd.DataFrame({"x": np.arange(30) % 7, "ward": ["A", "B", "C"] * 10, "worker": codes})
    assert guess_id(table) == (
        "worker", "its values are codes that all differ, as in no other column",
    )  # fmt: skip
    assert guess_roles(table).id == "worker" and not guess_roles(table).ignored
    assert guess_id(table, other_than={"worker"}) == guess_id(table.iloc[:5]) == (None, "")
    assert guess_id(table.assign(bed=codes)) == (None, "")
    assert guess_id(table.assign(bed=codes), other_than={"bed"})[0] == "worker"


def test_exact_numbers_of_databases_keep_their_digits(tmp_path, monkeypatch):
    """As PostgreSQL gives them: the two ids are one and the same float."""
    ids = [Decimal("12345678901234567890"), Decimal("12345678901234567891"), Decimal("1E+3")]
    rows = [(ids[0], Decimal("1.50")), (ids[1], None), (ids[2], Decimal(2))]
    monkeypatch.setattr("naim3l.files.readers.sql._fetch", lambda *_: (["case_id", "hb"], rows))
    (tmp_path / "lab.db").touch()
    source = f"sqlite:///{tmp_path / 'lab.db'}#select * from lab"
    table = read_table(source)
    assert guess_id(table)[0] == "case_id"
    named = read_table(source, id_column="case_id")
    assert list(named.index) == ["12345678901234567890", "12345678901234567891", "1000"]
    features, text = parse_features(named)
    assert text == [] and features["hb"].dropna().tolist() == [1.5, 2.0]
    assert guess_id(table[["hb"]].rename(columns={"hb": "id"}))[0] is None  # 1.50 names no row
