"""Errors name the file and the row in it, or the partition."""

import pickle

import pytest

from naim3l.input.places import Place, naming

FILES = Place("view 'lab'", (("a.parquet", 600, 400), ("b.parquet", 0, 100)))
PARTITION = Place("X", (("partition 3", 0, -1),))


@pytest.mark.parametrize(
    ("place", "row", "expected"),
    [
        (FILES, 0, "view 'lab', a.parquet, row 600"),
        (FILES, 399, "view 'lab', a.parquet, row 999"),
        (FILES, 400, "view 'lab', b.parquet, row 0"),
        (PARTITION, 12, "X, partition 3, row 12"),
    ],
)
def test_row_of_a_part_is_named_by_its_origin(place, row, expected):
    assert place.of_row(row) == expected
    message = f"{place.where}, row {row}, column 'age': not a number"
    assert place.locate(message) == f"{expected}, column 'age': not a number"


def test_name_of_a_whole_part():
    assert str(FILES) == "view 'lab', a.parquet, rows 600 to b.parquet, row 99"
    assert str(Place("X", (("a.parquet", 5, 10),))) == "X, a.parquet, rows 5 to 14"
    assert str(PARTITION) == "X, partition 3"


def test_errors_keep_their_type_and_say_where():
    with (
        pytest.raises(TypeError, match=r"^X, partition 3, row 2, column 1: text$"),
        naming([PARTITION]),
    ):
        raise TypeError("X, row 2, column 1: text")
    # An error that does not name the table gets the first place in front of it.
    with pytest.raises(ValueError, match=r"^X, partition 3: singular$"), naming([PARTITION, FILES]):
        raise ValueError("singular")
    with (
        pytest.raises(ValueError, match=r"^view 'lab', a.parquet, rows"),
        naming([PARTITION, FILES]),
    ):
        raise ValueError("view 'lab': too many columns")
    with pytest.raises(OSError, match="disk") as caught, naming([PARTITION]):
        raise OSError(5, "disk")
    assert caught.value.errno == 5


def test_errors_that_name_the_part_are_left_alone():
    message = "X, partition 3: 5 rows of features but 6 rows of labels"
    assert PARTITION.locate(message) == message


def test_a_view_whose_name_starts_like_another_is_not_confused():
    assert Place("view 'lab'", (("p", 0, -1),)).locate("view 'lab2', row 1: bad") is None
    assert Place("X", (("p", 0, -1),)).locate("Xy: bad") is None


def test_places_travel_to_other_processes():
    assert pickle.loads(pickle.dumps(FILES)) == FILES
