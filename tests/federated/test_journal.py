"""The journal of a site: turns that were answered are answered again with the same bits."""

from threading import Thread

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from naim3l.federated.journal import Journal
from naim3l.federated.rounds import THE_END, Ask


def ask_all(journal, questions):
    """Answers to the questions, of a coordinator that returns twice what is said."""
    given = []

    def listen():
        for turn in range(journal.answered, len(questions)):
            ask, arrays = journal.question(turn, 5)
            assert ask == questions[turn][0]
            journal.keep_answer(turn, {name: 2 * array for name, array in arrays.items()})

    thread = Thread(target=listen)
    thread.start()
    for ask, arrays in questions:
        given.append(journal.exchange(ask, arrays))
    thread.join()
    return given


@pytest.fixture
def questions(rng):
    return [(Ask("sum", k / 7), {"x": rng.normal(size=3), "n": np.array(k)}) for k in range(4)]


def test_a_second_fit_is_told_the_same(tmp_path, questions):
    first = ask_all(Journal(tmp_path), questions[:3])
    journal = Journal(tmp_path)
    assert journal.answered == 3
    again = ask_all(journal, questions)
    for one, other in zip(first, again, strict=False):
        assert one.keys() == other.keys()
        for name in one:
            assert_array_equal(one[name], other[name], strict=True)
    assert_array_equal(again[3]["x"], 2 * questions[3][1]["x"])


def test_what_was_said_is_said_again_in_the_same_bits(tmp_path, questions):
    """Also if the fit would say something else now, in the last bits; and until it is answered."""
    (ask, arrays), journal = questions[0], Journal(tmp_path)
    Thread(target=lambda: journal.exchange(ask, arrays), daemon=True).start()
    said = journal.question(0, 5)[1]["x"]
    journal = Journal(tmp_path)
    other = {"x": np.nextafter(arrays["x"], 9), "n": arrays["n"]}
    fit = Thread(target=lambda: journal.exchange(ask, other), daemon=True)
    fit.start()
    assert_array_equal(journal.question(0, 5)[1]["x"], said)
    journal.keep_answer(0, {"x": said})
    fit.join(5)
    assert_array_equal(journal.question(0, 5)[1]["x"], said)  # the coordinator may begin again
    journal.keep_answer(0, {"x": said + 1})  # not heard twice
    assert_array_equal(Journal(tmp_path).exchange(ask, other)["x"], said)


def test_other_tables_are_refused(tmp_path, questions):
    ask_all(Journal(tmp_path), questions[:2])
    (ask, arrays), journal = questions[0], Journal(tmp_path)
    with pytest.raises(ValueError, match="tables or settings are not those with which the fit"):
        journal.exchange(ask, arrays | {"n": arrays["n"] + 1})
    with pytest.raises(ValueError, match="remove the folder, at all sites"):
        Journal(tmp_path).exchange(Ask("gram"), arrays)


def test_a_damaged_file_is_named(tmp_path, questions):
    ask_all(Journal(tmp_path), questions[:2])
    path = tmp_path / "answer-000001.npz"
    path.write_bytes(path.read_bytes()[:-30])
    journal = Journal(tmp_path)
    journal.exchange(*questions[0])
    with pytest.raises(ValueError, match=r"answer-000001.npz is damaged"):
        journal.exchange(*questions[1])


def test_the_end_waits_until_it_is_heard(tmp_path):
    journal, ended = Journal(tmp_path), []
    fit = Thread(
        target=lambda: ended.append(journal.exchange(Ask(THE_END), {"x": np.ones(1)})), daemon=True
    )
    fit.start()
    assert journal.question(0, 5)[0].what == THE_END
    assert not ended and not journal.over
    journal.end()
    fit.join(5)
    assert ended and Journal(tmp_path).over
    assert Journal(tmp_path).exchange(Ask(THE_END), {"x": np.ones(1)}) == {"x": np.ones(1)}


def test_an_error_of_the_connection_ends_the_fit(tmp_path, questions):
    journal = Journal(tmp_path)
    Thread(target=lambda: journal.fail(PermissionError("the coordinator refuses"))).start()
    with pytest.raises(PermissionError, match="refuses"):
        journal.exchange(*questions[0])


def test_nothing_is_said_before_it_is_known(tmp_path):
    assert Journal(tmp_path).question(0, 0.01) is None


def test_numbers_are_hidden_before_they_are_written(tmp_path, questions):
    journal = Journal(tmp_path, hide=lambda arrays, turn: {"x": arrays["x"] + 100 + turn})
    ask_all(journal, questions[:2])
    for turn, (_, arrays) in enumerate(questions[:2]):
        assert_array_equal(
            Journal(tmp_path)._read("answer", turn)["x"], 2 * (arrays["x"] + 100 + turn)
        )


def test_a_random_number_for_each_fit(tmp_path):
    one = Journal(tmp_path / "one")
    assert len(one.secret()) == 32 and one.secret() == Journal(tmp_path / "one").secret()
    assert one.secret() != Journal(tmp_path / "two").secret()
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o700
