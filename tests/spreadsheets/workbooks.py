"""XLSX files: as programs write them, and as attackers do."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from zipfile import ZIP_DEFLATED, ZipFile

from openpyxl import Workbook
from openpyxl.worksheet.worksheet import Worksheet

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE_LINKS = "http://schemas.openxmlformats.org/package/2006/relationships"


def workbook(rows: Sequence[Sequence[object]], change: Callable[[Workbook, Worksheet], object] | None = None) -> bytes:
    """A workbook with one sheet."""
    book = Workbook()
    sheet = book.active
    assert isinstance(sheet, Worksheet)
    for row in rows:
        sheet.append(list(row))
    if change:
        change(book, sheet)
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()


def raw_workbook(
    sheet: bytes,
    shared: bytes = b"",
    repeat: int = 1,
    declared_bytes: int = 0,
    styles: str = "",
    compression: int = ZIP_DEFLATED,
) -> bytes:
    """A workbook whose sheet has exactly this XML inside `sheetData`, repeated; `shared` is that of the texts.

    `declared_bytes` is a size that the file claims for its sheet, `compression` the method of `zipfile`.
    """
    written = io.BytesIO()
    with ZipFile(written, "w", compression) as parts:
        parts.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_LINKS}"><sheets><sheet name="A" r:id="r1"/></sheets></workbook>',
        )
        parts.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{_PACKAGE_LINKS}"><Relationship Id="r1" Target="worksheets/a.xml"/>'
            "</Relationships>",
        )
        if shared:
            parts.writestr("xl/sharedStrings.xml", shared)
        if styles:
            parts.writestr("xl/styles.xml", styles)
        with parts.open("xl/worksheets/a.xml", "w", force_zip64=True) as part:
            part.write(f'<worksheet xmlns="{_MAIN}"><sheetData>'.encode())
            for _ in range(repeat):
                part.write(sheet)
            part.write(b"</sheetData></worksheet>")
        if declared_bytes:
            parts.getinfo("xl/worksheets/a.xml").file_size = declared_bytes
    return written.getvalue()
