"""How a ``.csv`` file is written: its encoding, what stands between cells, and whether decimals have a comma.

All three are read off the first 64 KB.
"""

from __future__ import annotations

import codecs
import csv
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

_HEAD = 2**16
_LINES = 200
_SEPARATORS = ",;\t|"
_MARKS = (  # the longest first: the mark of UTF-16 is the beginning of that of UTF-32
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OTHER_FILES = (
    (b"\x1f\x8b", "compressed by gzip; unpack it first (gunzip)"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it first (unzstd)"),
    (b"PK\x03\x04", "a zip archive or a workbook of a spreadsheet; unpack it, or save the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "a workbook of a spreadsheet; save the sheet as CSV"),
    (b"PAR1", "a Parquet file; say format='parquet'"),
)
_COMMA = re.compile(r"\s*[+-]?\d*,\d+(?:[eE][+-]?\d+)?\s*")
_POINT = re.compile(r"\s*[+-]?\d*\.\d+(?:[eE][+-]?\d+)?\s*")

LATIN = "cp1252"
"""What a file is read as that is not UTF-8: Latin-1 as Windows has it."""


@dataclass(frozen=True)
class CsvLayout:
    """`encoding` by Python's name for it ("utf-8" with a mark or without), `separator`, and `decimal_comma`."""

    encoding: str
    separator: str
    decimal_comma: bool


def layout_of(file: BinaryIO, source: str, separator: str | None = None) -> CsvLayout:
    """The layout of an open file; `separator`, if given, is taken as it is.

    Examples:
        >>> import io
        >>> layout_of(io.BytesIO("größe;art\\n1,5;a\\n".encode("latin-1")), "a.csv")
        CsvLayout(encoding='cp1252', separator=';', decimal_comma=True)
    """
    file.seek(0)
    head = file.read(_HEAD)
    for mark, what in _OTHER_FILES:
        if head.startswith(mark):
            raise ValueError(f"{source} is no readable .csv file but {what}")
    encoding = encoding_of(head)
    text = head.decode(encoding, errors="replace").removeprefix("\ufeff")
    lines = text.splitlines()[:_LINES]
    if len(head) == _HEAD and len(lines) > 1 and len(lines) < _LINES:
        lines.pop()  # it may be cut off
    lines = [line for line in lines if line.strip()]
    chosen = separator if separator is not None else _separator(lines)
    if len(chosen.encode()) != 1:
        raise ValueError(f"separator must be one mark, such as ';'; got {chosen!r}")
    rows = _rows(lines, chosen)
    if rows:
        _check_header(rows[0], source)
    cells = [cell for row in rows[1:] for cell in row]
    comma = chosen != "," and any(map(_COMMA.fullmatch, cells)) and not any(map(_POINT.fullmatch, cells))
    return CsvLayout(encoding, chosen, comma)


def decoded(content: bytes, encoding: str, source: str) -> bytes:
    """The content of a file in UTF-8."""
    try:
        return content.decode(encoding).removeprefix("\ufeff").encode()
    except UnicodeError as error:
        if encoding == LATIN:  # which has five holes; Latin-1 proper has none
            return content.decode("latin-1").encode()
        raise ValueError(
            f"{source} looks like text in {encoding.upper()}, but is none ({error}); save it as UTF-8"
        ) from error


def encoding_of(head: bytes) -> str:
    """The encoding of a file, by Python's name for it, told by its first bytes."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if max(even, odd) > len(head) // 8:  # letters of most languages in UTF-16 have a byte 0
        return "utf-16-be" if even > odd else "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last letter may be cut off
    except UnicodeDecodeError:
        return LATIN
    return "utf-8"


def _rows(lines: list[str], separator: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=separator))
    except (csv.Error, TypeError, ValueError):
        return []


def _separator(lines: list[str]) -> str:
    """The mark that gives the most columns, if nine rows of ten have as many as the header; a comma if none does."""
    best, most = ",", 1
    for mark in _SEPARATORS:
        widths = [len(row) for row in _rows(lines, mark)]
        if widths and widths[0] > most and sum(width == widths[0] for width in widths) >= 0.9 * len(widths):
            best, most = mark, widths[0]
    return best


def _check_header(header: list[str], source: str) -> None:
    """Raises ValueError for a first line of values: of a file without a header, whose first series would be lost.

    Names that are numbers, such as 0, 1, 2 or times 0.0, 0.5, 1.0, grow.
    """
    numbers = [float(name.replace(",", ".")) for name in header if _POINT.fullmatch(name) or _COMMA.fullmatch(name)]
    if len(numbers) > 1 and any(after <= before for before, after in pairwise(numbers)):
        shown = next(name for name in header if _POINT.fullmatch(name) or _COMMA.fullmatch(name))
        raise ValueError(
            f"{source}: the first line has values such as {shown.strip()!r} where the names of columns belong; put a "
            "line of names before it"
        )
