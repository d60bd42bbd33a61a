"""Tables: the same cells as text and as HTML."""

from __future__ import annotations

from course.training.table import html_table, text_table

ROWS = [["name", "count"], ["a <b>", "7"], ["longer", "1,000"]]


def test_text_is_aligned():
    assert text_table(ROWS).splitlines() == ["name    count", "a <b>   7", "longer  1,000"]
    assert text_table(ROWS, numbers=True).splitlines() == ["  name  count", " a <b>      7", "longer  1,000"]


def test_html_escapes_and_marks_headings():
    page = html_table(ROWS)
    assert page.count('<th scope="col"') == 2
    assert page.count('<th scope="row"') == 2
    assert "a &lt;b&gt;" in page
    assert "text-align: left" in page


def test_numbers_have_no_row_headings():
    page = html_table(ROWS, numbers=True)
    assert 'scope="row"' not in page
    assert page.count("<td") == 4
    assert "text-align: right" in page


def test_heading_alone():
    assert text_table([["epoch"]]) == "epoch"
    assert html_table([["epoch"]]).count("<tr>") == 1
