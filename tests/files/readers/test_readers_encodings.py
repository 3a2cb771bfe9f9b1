"""Text in other encodings than UTF-8, without a byte order mark."""

import gzip

import pytest

from naim3l import DataWarning
from naim3l.files.readers import ReadError, read_table
from naim3l.files.readers.opening import guess_encoding

WESTERN = {
    "German": "Müller Köln Größe Straße München grün süß Übung Äpfel Bäcker Schröder weiß",
    "French": "René Orléans Françoise Besançon prénom température été où hôpital forêt Noël naïve",
    "Spanish": "año niño señal España corazón María José teléfono árbol número población acción",
    "Swedish": "färg blå små grön Göteborg Malmö Växjö älg öga år månad höjd längd bröd Östersund",
    "Portuguese": "situação região não São Brasília coração João informação março três você água",
    "units": "°C m² µg/l ±5 ½ 10µm km² °F cm³ §",
}
CYRILLIC = "номер имя город Иван Москва Пётр красный синий возраст улица мужчина женщина группа"
OTHERS = {
    "cp1251": CYRILLIC,
    "koi8-r": CYRILLIC,
    "cp1253": "αριθμός όνομα Γιώργος Μαρία Αθήνα πόλη χρώμα κόκκινο βάρος ηλικία άνδρας γυναίκα",
    "shift_jis": "番号 名前 都市 田中さくら 東京 鈴木たろう 大阪 京都 赤い 青い 年齢 はい いいえ",
    "big5": "編號 姓名 城市 王小明 臺北 李華 高雄 顏色 紅色 藍色 年齡 體重",
    "utf-16-le": CYRILLIC,
    "utf-16-be": WESTERN["German"],
}


@pytest.fixture
def write(tmp_path):
    def to_file(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return to_file


def to_csv(words):
    return f"x,{words[0]}\n" + "".join(f"{i},{word}\n" for i, word in enumerate(words[1:]))


def assert_read(path, words, encoding):
    with pytest.warns(DataWarning, match=f"table.csv.*: .*read as {encoding};"):
        table = read_table(path)
    assert list(table.columns) == ["x", words[0]]
    assert table[words[0]].tolist() == words[1:]
    assert table["x"].tolist() == list(range(len(words) - 1))


@pytest.mark.parametrize("language", WESTERN)
@pytest.mark.parametrize("n_words", [2, 4, 8, None])
def test_western_text_however_short(write, language, n_words):
    words = WESTERN[language].split()
    for shift in range(len(words)):
        turned = (words[shift:] + words[:shift])[:n_words]
        assert_read(write(to_csv(turned).encode("cp1252")), turned, "cp1252")


@pytest.mark.parametrize("encoding", OTHERS)
def test_other_text(write, encoding):
    words = OTHERS[encoding].split()
    shown = {"shift_jis": "cp932"}.get(encoding, encoding)  # Windows' name, with a few more signs
    assert_read(write(to_csv(words).encode(encoding)), words, shown)


def test_numbers_around_do_not_matter(write):
    words = CYRILLIC.split() * 3
    rows = "".join(f"{word},{i / 7:.4f},{i * i}\n" for i, word in enumerate(words * 30))
    with pytest.warns(DataWarning, match="read as cp1251"):
        table = read_table(write(f"слово,a,b\n{rows}".encode("cp1251")))
    assert table["слово"].tolist() == words * 30


def test_compressed_text(write):
    words = CYRILLIC.split()
    packed = gzip.compress(to_csv(words).encode("cp1251"))
    assert_read(write(packed, "table.csv.gz"), words, "cp1251")


def test_the_first_foreign_byte_may_come_late(write):
    rows = "".join(f"{i},word\n" for i in range(20_000))
    content = f"x,name\n{rows}20000,für\n".encode("cp1252")
    with pytest.warns(DataWarning, match=r"line 20002 has byte 0xfc\), read as cp1252"):
        table = read_table(write(content))
    assert table["name"].iloc[-1] == "für"


def test_all_of_the_file_is_in_the_encoding(write):
    # It begins in Shift-JIS, but 0xff is no character there, nor 0x81 in cp1252.
    start = to_csv(OTHERS["shift_jis"].split()).encode("shift_jis")
    late = b"1,a\n" * 500_000 + b"2,\xff\x81\n"
    assert guess_encoding(write(start))[2] == "cp932"
    assert guess_encoding(write(start + late))[2] == "latin-1"


def test_a_head_is_read_in_the_encoding_of_the_whole(write):
    words = CYRILLIC.split()
    path = write(to_csv(words).encode("cp1251"))
    with pytest.warns(DataWarning, match="read as cp1251"):
        assert read_table(path, n_rows=1)[words[0]].tolist() == words[1:2]


def test_utf_16_that_is_cut_short_is_refused(write):
    content = to_csv(WESTERN["French"].split()).encode("utf-16-le")[:-1]
    with (
        pytest.warns(DataWarning, match="no byte order mark"),
        pytest.raises(ReadError, match="begins like a file in utf-16-le, but is damaged"),
    ):
        read_table(write(content))
