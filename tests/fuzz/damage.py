"""Ways to damage bytes and text, driven by a `random.Random`: a case is the same every time."""

import re
import struct
import zipfile

from model_files import unzip, zipped

EDGES = (0, 1, -1, 2, 7, 8, *(2**n + d for n in (7, 8, 15, 16, 31, 32, 63) for d in (-1, 0)))
STARTS = (b"", b"PAR1", b"ARROW1\0\0", b"\xff" * 4, b"PK\x03\x04", b"\x93NUMPY\x01\0", b"FEA1")
STARTS += (b"\xef\xbb\xbf", b"\xff\xfe", b"a,b\n", b"SQLite format 3\0", b"\x80\x04", b"\x1f\x8b")
MARKS = (*"ab1.,;\t|\"\n\r -é#@'[]{}=\\?0\0\ufeff\u2028\x85\x1c\x1a\U0001f600", '""', '"""', "\r\n")
MARKS += ("nan", "inf", "-1", "yes", "1e999", "1,5", "9" * 400, "x" * 300, "2020-01-01", "id", "١٢")
DTYPES = ("<f8", ">f8", "|O", "<U9", "|S3", "<c16", "|b1", "<M8[D]", "<i0", "|V8", "<f2", "x")


def from_nothing(random):
    """Arbitrary bytes, and such as begin well or consist of the marks of text tables."""
    start = random.choice(STARTS)
    if random.randrange(2):
        return start + random.randbytes(random.randrange(200))
    return start + "".join(random.choice(MARKS) for _ in range(random.randrange(40))).encode()


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


def damage_member(content, random, damage):
    """A zip archive with one member damaged, and packed anew with right checksums."""
    members = unzip(content)
    name = random.choice(sorted(members))
    members[name] = damage(members[name], random)
    return zipped(members, random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))


def damage_array(content, random):
    """An .npy array: its bytes, or what its header says."""
    if random.randrange(3) == 0 or len(content) < 12:
        return damage_bytes(content, random)
    end = 10 + int.from_bytes(content[8:10], "little")
    header = content[10:end].decode("latin-1")
    other_type = re.sub(r"'[<>|][^']*'", f"'{random.choice(DTYPES)}'", header, count=1)
    header = random.choice((other_type, *(of(header, random) for of in _TEXT_EDITS[4:])))
    header = header.encode("latin-1", "replace")
    return content[:8] + struct.pack("<H", len(header) & 0xFFFF) + header + content[end:]


def lie_about_sizes(content, random):
    """Other sizes and places in the directory of an archive: members may lie on one another."""
    changed, start = bytearray(content), content.index(b"PK\x01\x02")
    for found in re.finditer(b"PK\x01\x02", content[: len(content) - 46]):
        if random.randrange(2):
            first = found.start() + random.choice((20, 24, 42))  # packed, unpacked, offset
            value = random.choice((0, 1, 2**31 - 1, 2**32 - 2, start - 1))
            changed[first : first + 4] = value.to_bytes(4, "little")
    return bytes(changed)


def _span(content, random):
    start = random.randrange(len(content) + 1)
    return start, min(len(content), start + random.choice((1, 2, 4, 8, random.randint(1, 64))))


def _set_bytes(content, random):
    changed = bytearray(content)
    for _ in range(random.randint(1, 3)):
        change = random.choice((1 << random.randrange(8), random.randint(1, 255)))
        changed[random.randrange(len(changed))] ^= change
    return bytes(changed)


def _set_number(content, random):
    """A whole number of 1 to 8 bytes that is at the edge of something."""
    size, at = random.choice((1, 2, 4, 8)), random.randrange(len(content))
    value = (random.choice(EDGES) + random.choice((0, 0, 1, -1))) % 2 ** (8 * size)
    at -= at % random.choice((1, 4, 8))
    put = value.to_bytes(size, random.choice(("little", "little", "big")))
    return content[:at] + put + content[at + size :]


def _change_span(content, random):
    """A span taken out, repeated, blanked, or replaced by other bytes; or the end cut off."""
    (start, end), (other, last) = _span(content, random), _span(content, random)
    span = content[start:end]
    put = (b"", span * random.choice((2, 3, 100)), bytes([random.choice((0, 255))]) * len(span))
    put += (random.randbytes(random.randint(1, 16)), content[other:last])
    return content[:start] + random.choice(put) + content[end if random.randrange(6) else -1 :]


def _change_text(text, random):
    """Marks put in or exchanged, a byte of another encoding, or a span taken out or repeated."""
    (start, end), at = _span(text, random), random.randrange(len(text) + 1)
    odd = random.randbytes(1).decode("utf-8", "surrogateescape")
    put = random.choice((random.choice(MARKS), random.choice(MARKS), odd, text[start:end]))
    other = text.replace(random.choice(MARKS), put, random.choice((1, -1)))
    return random.choice((text[:at] + put + text[at:], text[:start] + text[end:], other))


def _other_number(text, random):
    match = random.choice([*re.finditer(r"\d+", text), re.match("", text)])
    return text[: match.start()] + str(random.choice(EDGES)) + text[match.end() :]


_EDITS = (*[_set_bytes] * 4, *[_set_number] * 2, *[_change_span] * 5)
_TEXT_EDITS = (*[_change_text] * 5, _other_number)
