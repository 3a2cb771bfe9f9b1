"""Titles of labels and columns."""

from html_pages import Reader
from naim3l import load
from naim3l.decisions.borrowing import AbsentLabel
from naim3l.report import summarise
from naim3l.report.titles import choose_titles, title_of, titles_of_model, with_code, with_titles
from report_models import fit_separate, page_of

TITLES = {"flu": "Ever had the flu", "clinic.0": "Pulse at rest"}


def test_titles_are_those_of_known_names_and_unique():
    titles = {"a": " Weight\n(kg)", "b": "Weight (kg)", "c": "d", "e": "", "f": "f", "g": "Gout"}
    found = choose_titles(titles, ["a", "b", "c", "d", "e", "f", "a"])
    assert found == {"a": "Weight (kg) (a)", "b": "Weight (kg) (b)", "c": "d (c)"}


def test_encoded_columns_have_the_title_of_their_column():
    titles = {"ward": "Ward of the stay", "ward_x": "Another ward"}
    assert title_of(titles, "ward_A") == "Ward of the stay: A"
    assert title_of(titles, "ward_x_B_C") == "Another ward: B_C"
    assert title_of(titles, "ward") == "Ward of the stay"
    assert title_of(titles, "wards") == "wards" and title_of({}, "ward_A") == "ward_A"


def test_the_code_stands_beside_a_title_once():
    assert with_code({"MCQ160F": "Ever had a stroke"}, "MCQ160F") == "Ever had a stroke (MCQ160F)"
    assert with_code({"a": "Weight (a)"}, "a") == "Weight (a)" and with_code({}, "a") == "a"
    assert with_code({"flu": "Ever had the flu"}, "flu") == "Ever had the flu (flu)"


def test_labels_that_tables_never_record_are_under_their_titles():
    absent = AbsentLabel("lab", "flu", ["clinic"], ["gout", "cold"], "")
    (shown,) = with_titles([absent], {"flu": "Influenza", "gout": "Gout of a joint"})
    assert (shown.label, shown.through) == ("Influenza", ["Gout of a joint", "cold"])


def test_titles_survive_saving_and_loading(tmp_path):
    model, X, Y = fit_separate()
    assert summarise(model, X, Y)["titles"] == {}
    model.titles_ = titles_of_model(model, TITLES | {"no such": "name"})
    model.save(tmp_path / "model.naim3l")
    loaded = load(tmp_path / "model.naim3l")
    assert loaded.titles_ == TITLES and loaded.made_ == model.made_
    assert summarise(loaded, X, Y)["titles"] == TITLES


def test_titles_are_on_the_page_with_their_codes():
    model, X, Y = fit_separate()
    plain = summarise(model, X, Y)
    titled = summarise(model, X, Y, titles=TITLES | {"measles": "Rare\nmeasles"})
    assert {**titled, "titles": {}, "cautions": 0} == {**plain, "cautions": 0}
    assert any("Rare measles" in caution["sentence"] for caution in titled["cautions"])
    before, after = Reader(page_of(plain)), Reader(page_of(titled))
    assert "of Ever had the flu, asthma, gout" in after.text(of="h1")[0]
    assert "flu" in after.text(of="span") and "Ever had the flu" in after.text(of="span")
    assert any("Pulse at rest" in text for text in after.text(of="li"))
    assert any("flu Ever had the flu" in found for found in after.attributes("data-search"))
    # Of the table of labels of each block, and nowhere else.
    n_codes = after.text(of="span").count("flu")
    assert n_codes == len(titled["quality"]["blocks"])
    assert "Ever had the flu" not in before.text() and "Pulse at rest" not in before.text()
