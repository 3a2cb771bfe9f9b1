"""Why a row has its probabilities, on the command line."""

import json

import pandas as pd
import pytest
from scipy.special import expit

from naim3l.cli.predictions import round_probabilities
from study import QUICK, ROLES, VIEWS, run


@pytest.fixture
def probabilities(folder):
    result = run("predict", "model.naim3l", *VIEWS, "--what", "probabilities", "-o", "p.csv")
    assert result.exit_code == 0, result.output
    return pd.read_csv("p.csv", dtype={"patient_id": str}).set_index(["view", "patient_id"])


def test_parts_sum_to_the_probability_of_predict(probabilities):
    view, row = probabilities.index[3]
    result = run("explain", "model.naim3l", VIEWS[0], "--id", row, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["labels"]
    assert {each["label"] for each in found} == {*probabilities.columns}
    for each in found:
        log_odds = each["base_log_odds"] + sum(part["log_odds"] for part in each["parts"])
        expected = probabilities.loc[(view, row), each["label"]]
        assert each["probability"] == pytest.approx(expit(log_odds), abs=1e-9)
        assert round_probabilities(each["probability"]) == expected  # files have four decimals


def test_rows_with_one_id_are_averaged_or_named_by_their_number(folder):
    table = pd.read_csv("clinic.csv", dtype=str)
    one, other = table["patient_id"].drop_duplicates().iloc[[3, 9]]
    table["patient_id"] = table["patient_id"].replace(other, one)
    table.to_csv("visits.csv", index=False)
    n_rows = (table["patient_id"] == one).sum()
    asked = ("explain", "model.naim3l", "clinic=visits.csv")
    shown = run(*asked, "--id", one).stdout
    assert "Scores are means over the rows of clinic with this id: 3, 9" in " ".join(shown.split())
    assert "--row, in place of --id, explains one of the rows of a single table." in shown
    both = json.loads(run(*asked, "--id", one, "--json").stdout)["labels"]
    alone = [json.loads(run(*asked, "--row", i, "--json").stdout)["labels"] for i in (3, 9)]
    fused = run(
        "predict", "model.naim3l", asked[2], "--fused", "--what", "probabilities", "-o", "f.csv"
    )
    assert fused.exit_code == 0, fused.output
    expected = pd.read_csv("f.csv", dtype={"patient_id": str}).set_index("patient_id").loc[one]
    for each in both:
        assert round_probabilities(each["probability"]) == pytest.approx(expected[each["label"]])
        assert each["averaged"] == {"clinic": [3, 9]} and n_rows == 2
        ends = [of["log_odds"] for found in alone for of in found if of["label"] == each["label"]]
        assert min(ends) <= each["log_odds"] <= max(ends)
    assert [{*found[0]["averaged"]} for found in alone] == [set(), set()]


def test_one_label_has_a_table_and_a_figure(probabilities):
    row = probabilities.index[0][1]
    for name, begins in (("gout.svg", b"<?xml"), ("gout.png", b"\x89PNG")):
        asked = ("--id", row, "--label", "gout", "--figure", name)
        result = run("explain", "model.naim3l", VIEWS[0], *asked)
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith(f"{row}, gout: 0.")
        assert "percentage points" in result.stdout and "in all" in result.stdout
        with open(name, "rb") as file:
            assert file.read(5).startswith(begins[:5])


def test_the_first_labels_or_all(folder):
    shown = run("explain", "model.naim3l", VIEWS[0], "--row", 0)
    assert shown.exit_code == 0, shown.output
    assert "further labels" not in shown.stdout  # there are three
    assert shown.stdout.count("(of all: ") == 3


def test_known_labels_are_parts(folder):
    pd.read_csv("clinic.csv")[["patient_id"]].assign(flu="yes").to_csv("known.csv", index=False)
    asked = ("--row", "0", "--known", "known.csv", "--json")
    result = run("explain", "model.naim3l", VIEWS[0], *asked)
    assert result.exit_code == 0, result.output
    for each in json.loads(result.stdout)["labels"]:
        assert each["label"] != "flu"
        (part,) = [part for part in each["parts"] if part["kind"] == "known"]
        assert part["name"] == "flu" and part["value"] is True


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([], "name a row, with --id or with --row."),
        (["--id", "1", "--row", "1"], "name a row, with --id or with --row."),
        (["--id", "nobody"], "no row 'nobody'; "),
        (["--row", "100000"], "no row 100000; it has "),
        (["--row", "0", "--label", "gouts"], "no label 'gouts'; did you mean 'gout'?"),
        (["--row", "0", "--figure", "x.gif"], "must end in .svg, .png, .pdf."),
        (["--row", "0", "--figure", "clinic.csv"], "must end in .svg, .png, .pdf."),
    ],
)
def test_what_cannot_be_explained(folder, asked, message):
    result = run("explain", "model.naim3l", VIEWS[0], *asked)
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_bare_path_is_of_the_view_of_its_stem_or_the_only_one(folder, tmp_path):
    row = tmp_path / "row.csv"
    row.write_text(pd.read_csv("clinic.csv").head(1).to_csv(index=False))
    expected = run("explain", "model.naim3l", f"clinic={row}", "--row", 0)
    refused = run("explain", "model.naim3l", row, "--row", 0)
    assert refused.exit_code == 1
    assert "row.csv: give it as name=path; views are clinic, lab, survey." in refused.stderr
    row.rename(tmp_path / "clinic.csv")
    found = run("explain", "model.naim3l", tmp_path / "clinic.csv", "--row", 0)
    assert found.exit_code == 0 and found.stdout == expected.stdout
    # The same where models predict.
    for path, given in (
        ("bare", tmp_path / "clinic.csv"),
        ("named", f"clinic={tmp_path}/clinic.csv"),
    ):
        done = run("predict", "model.naim3l", given, "lab=lab.txt", "-o", f"{path}.csv")
        assert done.exit_code == 0, done.output
    pd.testing.assert_frame_equal(pd.read_csv("bare.csv"), pd.read_csv("named.csv"))
    fitted = run("fit", "lab=lab.txt", *ROLES, *QUICK, "-o", "lab.naim3l")
    assert fitted.exit_code == 0, fitted.output
    row.write_text(pd.read_csv("lab.txt", sep=";", dtype=str).head(2).to_csv(index=False, sep=";"))
    assert run("explain", "lab.naim3l", row, "--row", 1).exit_code == 0


def test_rows_without_ids_have_numbers(folder):
    result = run("explain", "model.naim3l", *VIEWS[:2], "--row", 0)
    assert "--row is for a single table" in result.stderr
    pd.read_csv("clinic.csv").drop(columns="patient_id").to_csv("bare.csv", index=False)
    result = run("explain", "model.naim3l", "clinic=bare.csv", "--id", "P0001")
    assert "view 'clinic': its rows have no ids; name the column with --id-column" in result.stderr
    numbered = run("explain", "model.naim3l", "clinic=bare.csv", "--row", 7).stdout
    named = run("explain", "model.naim3l", VIEWS[0], "--row", 7).stdout
    assert numbered.startswith("7, ")
    assert named.partition(", ")[2].split("\n")[0] == numbered.partition(", ")[2].split("\n")[0]
