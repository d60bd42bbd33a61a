"""Rows of text as a table: aligned plain text, and HTML with the same cells."""

from __future__ import annotations

import html
from collections.abc import Sequence

Rows = Sequence[Sequence[str]]


def text_table(rows: Rows, *, numbers: bool = False) -> str:
    """Rows, of which the first is the heading, in columns; `numbers` aligns them to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    align = str.rjust if numbers else str.ljust
    return "\n".join("  ".join(map(align, row, widths)).rstrip() for row in rows)


def html_table(rows: Rows, *, numbers: bool = False) -> str:
    """The same as HTML; unless `numbers`, the first cell of each row is its heading."""
    head, *body = rows
    align, gap = ("right", "1em") if numbers else ("left", "1.2em")
    style = f'style="text-align: {align}; padding: 0.1em {gap} 0.1em 0"'
    heading = "".join(f'<th scope="col" {style}>{html.escape(cell)}</th>' for cell in head)
    lines = "".join(f"<tr>{_first(row, style, numbers)}{_cells(row[1:], style)}</tr>\n" for row in body)
    return f"<table><thead><tr>{heading}</tr></thead>\n<tbody>\n{lines}</tbody></table>"


def _first(row: Sequence[str], style: str, numbers: bool) -> str:
    return _cells(row[:1], style) if numbers else f'<th scope="row" {style}>{html.escape(row[0])}</th>'


def _cells(row: Sequence[str], style: str) -> str:
    return "".join(f"<td {style}>{html.escape(cell)}</td>" for cell in row)
