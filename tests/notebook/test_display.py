from __future__ import annotations

import re

import pytest

from course.notebook import display


def test_plain_python_prints_the_text(capsys):
    display.show(display.Shown("the text", "<p>html</p>"))
    assert capsys.readouterr().out == "the text\n"


def test_text_is_escaped_and_code_marked():
    page = display.prose("a < b & `x<y>`\nnext")
    assert "a &lt; b &amp; <code" in page
    assert ">x&lt;y&gt;</code><br>" in page
    assert "`" not in page


def test_preformatted_is_escaped():
    assert "<b>" not in display.preformatted("<b>")


def test_box_takes_colours_from_the_theme_and_says_all_in_words():
    page = display.box("✓ PASSED", display.paragraph("well"), tone="good", kind="verdict", role="status")
    assert 'role="status"' in page
    colours = re.findall(r"(?:color|border[\w-]*|background): ?([^;\"]*)", page)
    assert any("var(--jp-success-color1, #2e7d32)" in colour for colour in colours)
    # No fixed colour of text or background, which one of the two themes would make unreadable.
    assert not re.search(r"(?<![-\w])(?:color|background(?:-color)?):\s*#", page)
    assert re.sub(r"<[^>]+>", "", page).split() == ["✓", "PASSED", "well"]


def test_labelled_is_a_description_list():
    page = display.labelled([("seen", "1"), ("wanted", "2")])
    assert re.findall(r"<(dt|dd)", page) == ["dt", "dd", "dt", "dd"]
    assert display.labelled([]) == ""


def test_own_errors_are_one_line():
    assert display.NotebookError("a sentence")._render_traceback_() == ["NotebookError: a sentence"]


def test_foreign_errors_can_be_made_one_line():
    with pytest.raises(LookupError) as caught, display.without_traceback(LookupError):
        raise LookupError("which one")
    assert caught.value._render_traceback_() == ["LookupError: which one"]


def test_other_errors_keep_their_traceback():
    with pytest.raises(ValueError, match="other") as caught, display.without_traceback(LookupError):
        raise ValueError("other")
    assert not hasattr(caught.value, "_render_traceback_")
