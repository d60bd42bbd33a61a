"""The checker of links finds what is wrong in a made-up site, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from course.publishing.site_links import Links, examine


def _examined(folder: Path, body: str, **more: str) -> Links:
    (folder / "index.html").write_text(f"<html><head></head><body>{body}</body></html>", encoding="utf-8")
    (folder / "deep").mkdir(exist_ok=True)
    (folder / "deep" / "other.html").write_text('<p id="here">x</p><a name="old">y</a>', encoding="utf-8")
    (folder / "a.png").write_bytes(b"")
    for name, text in more.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return examine(folder)


@pytest.mark.parametrize(
    "body",
    [
        '<a href="deep/other.html">x</a>',
        '<a href="deep/other.html#here">x</a>',
        '<a href="deep/other.html#old">x</a>',
        '<a href="deep/../index.html?v=1#top">x</a><p id="top">x</p>',
        '<a href="#">x</a>',
        '<a href="./">x</a>',
        '<img src="a.png" alt="a letter">',
        '<img src="a.png" role="presentation">',
        '<a href="mailto:someone@example.org">x</a>',
        '<a href="https://example.org/">x</a>',
        '<link rel="canonical" href="https://example.org/">',
        '<svg xmlns="http://www.w3.org/2000/svg"><use href="#icon"/><g id="icon"/></svg>',
        "<p>an address in words, https://example.org, is fetched by nobody</p>",
    ],
)
def test_nothing_is_wrong(tmp_path: Path, body: str) -> None:
    assert _examined(tmp_path, body).faults == ()


@pytest.mark.parametrize(
    ("body", "address"),
    [
        ('<a href="gone.html">x</a>', "gone.html"),
        ('<a href="deep/other.html#gone">x</a>', "deep/other.html#gone"),
        ('<a href="#gone">x</a>', "#gone"),
        ('<a href="deep/">x</a>', "deep/"),
        ('<a href="/index.html">x</a>', "/index.html"),
        ('<a href="../outside.html">x</a>', "../outside.html"),
        ('<img src="gone.png" alt="x">', "gone.png"),
        ('<img srcset="a.png 1x, gone.png 2x" alt="x">', "gone.png"),
        ('<link rel="stylesheet" href="gone.css">', "gone.css"),
        ('<script src="gone.js"></script>', "gone.js"),
    ],
)
def test_what_leads_nowhere(tmp_path: Path, body: str, address: str) -> None:
    links = _examined(tmp_path, body)
    assert links.broken == (f"index.html: {address}",)
    assert links.faults == (f"index.html: {address} leads nowhere",)


@pytest.mark.parametrize(
    "body",
    [
        '<script src="https://cdn.example.org/a.js"></script>',
        '<script src="//cdn.example.org/a.js"></script>',
        '<link rel="stylesheet" href="https://cdn.example.org/a.css">',
        '<link rel="preconnect" href="https://cdn.example.org">',
        '<link rel="shortcut icon" href="https://cdn.example.org/a.ico">',
        '<img src="https://cdn.example.org/a.png" alt="x">',
        '<iframe src="https://cdn.example.org"></iframe>',
        '<div style="background: url(https://cdn.example.org/a.png)"></div>',
        "<style>@import 'https://cdn.example.org/a.css';</style>",
    ],
)
def test_what_would_be_fetched_from_elsewhere(tmp_path: Path, body: str) -> None:
    assert len(_examined(tmp_path, body).foreign) == 1


def test_style_sheets_are_read(tmp_path: Path) -> None:
    styles = "/* url(no.png) */ a { background: url('https://cdn.example.org/a.png') } b { background: url(gone.png) }"
    links = _examined(tmp_path, "", look_css=styles)
    assert links.foreign == ("look.css: https://cdn.example.org/a.png",)
    assert links.broken == ("look.css: gone.png",)


def test_pictures_without_words_and_names_of_several_places(tmp_path: Path) -> None:
    links = _examined(tmp_path, '<img src="a.png" alt=" "><p id="twin"></p><p id="twin"></p>')
    assert links.nameless == ("index.html: a.png",)
    assert links.twice == ("index.html: twin",)
    assert len(links.faults) == 2
