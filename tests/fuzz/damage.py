"""Ways to damage bytes and text, driven by a source of random numbers.

The source is a `random.Random` in the long fuzz, and hypothesis' imitation of one in the short
tests, which shrinks what it finds; so no function here may draw from anything else.
"""

import bz2
import gzip
import io
import lzma
import re
import struct
import zipfile

EDGES = (
    0,
    1,
    -1,
    2,
    7,
    8,
    127,
    128,
    255,
    256,
    32767,
    65535,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
)
STARTS = (b"", b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff", b"PK\x03\x04", b"\x93NUMPY\x01\0",
          b"FEA1", b"MATLAB 5.0 MAT-file", b"\xef\xbb\xbf", b"\xff\xfe", b"a,b\n",
          b"\x89HDF\r\n\x1a\n", b"SQLite format 3\0", b"\x80\x04", b"\x1f\x8b\x08")  # fmt: skip
MARKS = (*'ab1.,;\t|"\n\r -é', "\0", "\ufeff", "\u2028", "\x85", "\x1c", "\x1a", "#", "@", "'", "[",
         "]", "{", "}", "=", "\\", '""', '"""', "nan", "inf", "-1", "0", "yes", "no", "?", "1e999",
         "1,5", "9" * 400, "x" * 300, "2020-01-01", "TRUE", "\U0001f600", "\r\n", "id",
         "١٢")  # fmt: skip
PACKINGS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def from_nothing(random):
    """Arbitrary bytes, and such as begin well or consist of the marks of text tables."""
    start = random.choice(STARTS)
    if random.randrange(2):
        return start + random.randbytes(random.randrange(200))
    return start + "".join(random.choice(MARKS) for _ in range(random.randrange(40))).encode()


def change_bytes(content, random, *, first=0):
    """One to three bytes changed, none before position ``first``."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 3)):
        changed[random.randrange(first, len(changed))] ^= random.randint(1, 255)
    return bytes(changed)


def damage_bytes(content, random):
    """Bytes with one to four kinds of damage."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if not content:
            return from_nothing(random)
        content = random.choice(_EDITS)(content, random)
    return content


def damage_text(content, random):
    """Bytes of a text in which marks are put in, taken out and exchanged."""
    # Decoded so that every byte is kept, and marks stay whole where the text is in UTF-8.
    text = content.decode("utf-8", "surrogateescape")
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        text = random.choice(_TEXT_EDITS)(text, random)
    return text.encode("utf-8", "surrogateescape")


def damage_archive(content, random, damage):
    """A zip archive with one member damaged by ``damage(name, bytes, random)``, and packed anew."""
    members = unzip(content)
    name = random.choice(sorted(members))
    members[name] = damage(name, members[name], random)
    return zipped(members, random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))


def damage_array(name, content, random):
    """An .npy array: its bytes, or what its header says."""
    if random.randrange(3) == 0 or len(content) < 12:
        return damage_bytes(content, random)
    end = 10 + int.from_bytes(content[8:10], "little")
    header = content[10:end].decode("latin-1")
    header = random.choice((_other_number, _other_type, _cut_text))(header, random)
    header = header.encode("latin-1", "replace")
    return content[:8] + struct.pack("<H", len(header) & 0xFFFF) + header + content[end:]


def damage_part(name, content, random):
    """A part of a workbook: its text, places of cells and other numbers, or its bytes."""
    if random.randrange(4) == 0:
        return damage_bytes(content, random)
    if random.randrange(3):
        return damage_text(content, random)
    place = f'r="{random.choice(("A", "C", "ZZ", "XFD", "ZZZZ", ""))}{random.choice(EDGES)}"'
    return re.sub(rb'r="[A-Z]*\d+"', place.encode(), content, count=random.choice((1, 2, 0)))


def pack(content, ending, random):
    """Bytes packed as an ending such as ".gz" says; as they are for ""."""
    if ending == ".zip":
        names = random.choice((["a.csv"], ["a.csv"], ["a.csv", "b.csv"], [], ["folder/"]))
        return zipped(dict.fromkeys(names, content))
    return PACKINGS[ending](content) if ending else content


def unzip(content):
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(members, kind=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", kind) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content, kind)  # dated 1980: the same every time
    return stream.getvalue()


def _span(content, random, longest=64):
    start = random.randrange(len(content) + 1)
    return start, min(len(content), start + random.choice((1, 2, 4, 8, random.randint(1, longest))))


def _flip_bit(content, random):
    changed = bytearray(content)
    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _set_bytes(content, random):
    return change_bytes(content, random)


def _set_number(content, random):
    """A whole number of 1 to 8 bytes that is at the edge of something."""
    size = random.choice((1, 2, 4, 8))
    value = (random.choice(EDGES) + random.choice((0, 0, 1, -1))) % 2 ** (8 * size)
    at = random.randrange(len(content))
    at -= at % random.choice((1, 4, 8))
    put = value.to_bytes(size, random.choice(("little", "little", "big")))
    return content[:at] + put + content[at + size :]


def _cut_end(content, random):
    return content[: random.randrange(len(content))]


def _take_out(content, random):
    start, end = _span(content, random)
    return content[:start] + content[end:]


def _put_in(content, random):
    at = random.randrange(len(content) + 1)
    return content[:at] + random.randbytes(random.randint(1, 16)) + content[at:]


def _repeat(content, random):
    start, end = _span(content, random)
    return content[:end] + content[start:end] * random.choice((1, 2, 100)) + content[end:]


def _copy_over(content, random):
    start, end = _span(content, random)
    at = random.randrange(len(content))
    return content[:at] + content[start:end] + content[at + end - start :]


def _blank(content, random):
    start, end = _span(content, random)
    return content[:start] + bytes([random.choice((0, 255))]) * (end - start) + content[end:]


_EDITS = (_flip_bit, _flip_bit, _set_bytes, _set_bytes, _set_number, _set_number, _cut_end,
          _take_out, _put_in, _repeat, _copy_over, _blank)  # fmt: skip


def _add_mark(text, random):
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(MARKS) + text[at:]


def _exchange_mark(text, random):
    old = random.choice(MARKS)
    return text.replace(old, random.choice(MARKS), random.choice((1, -1)))


def _cut_text(text, random):
    start, end = _span(text, random, 20)
    return text[:start] + text[end:]


def _move_text(text, random):
    start, end = _span(text, random, 40)
    at = random.randrange(len(text) + 1)
    return text[:at] + text[start:end] + text[at:]


def _other_number(text, random):
    found = list(re.finditer(r"\d+", text))
    if not found:
        return _add_mark(text, random)
    match = random.choice(found)
    return text[: match.start()] + str(random.choice(EDGES)) + text[match.end() :]


def _other_type(text, random):
    """Another type in the header of an array, Python objects among them."""
    types = ("<f8", ">f8", "|O", "<U9", "|S3", "<c16", "|b1", "<M8[D]", "<i0", "|V8", "<f2", "x")
    return re.sub(r"'[<>|][^']*'", f"'{random.choice(types)}'", text, count=1)


def _byte_of_another_encoding(text, random):
    at = random.randrange(len(text) + 1)
    return text[:at] + random.randbytes(1).decode("utf-8", "surrogateescape") + text[at:]


_TEXT_EDITS = (_add_mark, _add_mark, _exchange_mark, _cut_text, _move_text, _other_number,
               _byte_of_another_encoding)  # fmt: skip
