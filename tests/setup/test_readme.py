"""The README's picture, badges and links within documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


@pytest.fixture(scope="module")
def text(root: Path) -> str:
    return (root / "README.md").read_text(encoding="utf-8")


def anchors(document: str) -> set[str]:
    """The anchors of a page's headings, made as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", document, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_anchors_are_made_as_on_github():
    assert anchors("# A, b: c\n```\n# no heading\n```\n## Binder, Colab, VS Code\n") == {
        "a-b-c",
        "binder-colab-vs-code",
    }


def test_links_lead_to_headings(root: Path, text: str):
    found = re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", text)
    assert found
    for name, anchor in found:
        page = (root / name).read_text(encoding="utf-8") if name else text
        assert anchor in anchors(page), f"{name}#{anchor}"


def test_the_picture_is_small_and_has_words(root: Path, text: str):
    pictures = [(words, target) for words, target in IMAGE.findall(text) if "://" not in target]
    assert len(pictures) == 1
    words, target = pictures[0]
    assert len(words.split()) > 10
    assert (root / target).stat().st_size < 300_000
    with Image.open(root / target) as picture:
        assert picture.format == "PNG"
        assert 900 <= picture.width <= 1600


def test_badges_say_what_the_project_says(root: Path, text: str):
    """A badge with a link to a service would need the repository's address, which a copy cannot know."""
    badges = dict(re.findall(r"^\[!\[([^\]]+)\]\([^)]+\)\]\(([^)]+)\)$", text, re.MULTILINE))
    assert set(badges) == {"Licence: MIT", "Python 3.10 or newer", "Open on Binder", "Open in Colab"}
    assert [target for target in badges.values() if "://" in target] == []
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert 'license = "MIT"' in project
    assert 'requires-python = ">=3.10"' in project


def test_the_two_commands_come_before_the_lessons(text: str):
    assert text.index("make lab ") < text.index("make test ") < text.index("| lesson |")
