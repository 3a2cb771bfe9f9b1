"""Excel workbooks, written part by part: nothing that reads them in the package writes them."""

import datetime
import io
import zipfile
from xml.sax.saxutils import escape, quoteattr

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
DAY_ZERO = datetime.datetime(1899, 12, 30)


def make_workbook(sheets, *, shared=True):
    """Bytes of an .xlsx file.

    Parameters
    ----------
    sheets : mapping of str to list of rows
        A cell is None, a number, a truth value, text, a date, or an error such as "#N/A".
    shared : bool
        Whether text is stored once for all cells, as Excel does, or in each cell.
    """
    words = []
    parts = {
        f"xl/worksheets/sheet{k}.xml": _sheet(rows, words if shared else None)
        for k, rows in enumerate(sheets.values(), start=1)
    }
    entries = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{k}" r:id="rId{k}"/>'
        for k, name in enumerate(sheets, start=1)
    )
    links = "".join(
        f'<Relationship Id="rId{k}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{k}.xml"/>'
        for k in range(1, len(sheets) + 1)
    )
    links += f'<Relationship Id="s" Type="{OFFICE}/styles" Target="styles.xml"/>'
    if shared:
        links += f'<Relationship Id="t" Type="{OFFICE}/sharedStrings" Target="sharedStrings.xml"/>'
        texts = "".join(f"<si><t>{escape(word)}</t></si>" for word in words)
        parts["xl/sharedStrings.xml"] = f'<sst xmlns="{MAIN}">{texts}</sst>'
    parts |= {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"/>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r" '
        f'Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{entries}'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{links}'
        "</Relationships>",
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"><cellXfs><xf numFmtId="0"/>'
        '<xf numFmtId="14"/></cellXfs></styleSheet>',
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), f'<?xml version="1.0"?>{content}')
    return stream.getvalue()


def _sheet(rows, words):
    lines = []
    for i, row in enumerate(rows, start=1):
        cells = [_cell(f"{_letters(j)}{i}", cell, words) for j, cell in enumerate(row)]
        lines.append(f'<row r="{i}">{"".join(cells)}</row>')
    return f'<worksheet xmlns="{MAIN}"><sheetData>{"".join(lines)}</sheetData></worksheet>'


def _letters(j):
    return chr(ord("A") + j) if j < 26 else _letters(j // 26 - 1) + _letters(j % 26)


def _cell(place, cell, words):
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return f'<c r="{place}" t="b"><v>{int(cell)}</v></c>'
    if isinstance(cell, int | float):
        return f'<c r="{place}"><v>{cell}</v></c>'
    if isinstance(cell, datetime.datetime):
        return f'<c r="{place}" s="1"><v>{(cell - DAY_ZERO).total_seconds() / 86400}</v></c>'
    if cell.startswith("#"):
        return f'<c r="{place}" t="e"><v>{cell}</v></c>'
    if words is None:
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(cell)}</t></is></c>'
    if cell not in words:
        words.append(cell)
    return f'<c r="{place}" t="s"><v>{words.index(cell)}</v></c>'
