"""What a built site refers to: links that lead nowhere, and anything that a browser would fetch from elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

# What a browser fetches without being asked: of a <link>, these relations only.
_FETCHED_LINKS = {
    "stylesheet",
    "icon",
    "shortcut",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "modulepreload",
}
_FETCHED = {
    ("script", "src"), ("img", "src"), ("img", "srcset"), ("source", "src"), ("source", "srcset"), ("iframe", "src"),
    ("video", "src"), ("video", "poster"), ("audio", "src"), ("track", "src"), ("embed", "src"), ("object", "data"),
    ("input", "src"), ("image", "href"), ("use", "href"), ("use", "xlink:href"),
}  # fmt: skip
_FOLLOWED = {("a", "href"), ("area", "href"), ("link", "href"), ("form", "action")}
_STYLE_URL = re.compile(r"""url\(\s*['"]?([^'")]*)|@import\s+['"]([^'"]*)""")


@dataclass
class _Page:
    """ids: names in the page. links: what a reader may follow. fetched: what a browser loads. nameless: pictures
    without a text alternative."""

    ids: set[str] = field(default_factory=set)
    twice: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    nameless: list[str] = field(default_factory=list)
    pictures: int = 0


@dataclass(frozen=True)
class Links:
    """What was found in a site.

    pages, links, pictures: how many there are; links to places within the site only. outside: addresses on other hosts
    that a reader may follow. broken, foreign, nameless, twice: "page: what", see the module; `foreign` is what would be
    fetched from another host, `twice` are names that stand in a page more than once.
    """

    pages: int
    links: int
    pictures: int
    outside: frozenset[str]
    broken: tuple[str, ...]
    foreign: tuple[str, ...]
    nameless: tuple[str, ...]
    twice: tuple[str, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """Everything that is wrong, one sentence each."""
        return (
            *(f"{text} leads nowhere" for text in self.broken),
            *(f"{text} would be fetched from elsewhere" for text in self.foreign),
            *(f"{text} has no text alternative" for text in self.nameless),
            *(f"{text} is the name of several places" for text in self.twice),
        )


def examine(root: Path) -> Links:
    """Look at every page and style sheet below `root`."""
    pages = {path: _read(path) for path in sorted(root.rglob("*.html"))}
    broken: list[str] = []
    foreign: list[str] = []
    outside: set[str] = set()
    count = 0
    for path, page in pages.items():
        name = path.relative_to(root).as_posix()
        foreign += [f"{name}: {address}" for address in page.fetched if _is_foreign(address)]
        for address in (*page.links, *page.fetched):
            if _is_foreign(address):
                outside.add(address)
                continue
            if urlsplit(address).scheme:  # data:, mailto:
                continue
            count += 1
            if not _leads_somewhere(root, path, address, pages):
                broken.append(f"{name}: {address}")
    for path in sorted(root.rglob("*.css")):
        for address in _in_styles(path.read_text(encoding="utf-8")):
            name = path.relative_to(root).as_posix()
            if _is_foreign(address):
                foreign.append(f"{name}: {address}")
            elif not address.startswith(("data:", "#")) and not _leads_somewhere(root, path, address, pages):
                broken.append(f"{name}: {address}")
    return Links(
        pages=len(pages),
        links=count,
        pictures=sum(page.pictures for page in pages.values()),
        outside=frozenset(outside),
        broken=tuple(broken),
        foreign=tuple(foreign),
        nameless=tuple(_named(root, pages, "nameless")),
        twice=tuple(_named(root, pages, "twice")),
    )


def _named(root: Path, pages: dict[Path, _Page], what: str) -> list[str]:
    return [
        f"{path.relative_to(root).as_posix()}: {text}" for path, page in pages.items() for text in getattr(page, what)
    ]


def _leads_somewhere(root: Path, page: Path, address: str, pages: dict[Path, _Page]) -> bool:
    plain, anchor = urldefrag(address)
    plain = unquote(urlsplit(plain).path)
    # From the top of the host: wrong as soon as the site lies in a folder of it.
    if plain.startswith("/"):
        return False
    target = (page.parent / plain).resolve() if plain else page
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file() or not target.is_relative_to(root.resolve()):
        return False
    return not anchor or target not in pages or unquote(anchor) in pages[target].ids


def _is_foreign(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme in ("http", "https", "ws", "wss", "ftp")


def _in_styles(text: str) -> list[str]:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return [first or second for first, second in _STYLE_URL.findall(text) if first or second]


def _read(path: Path) -> _Page:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    return reader.page


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = _Page()
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._in_style = tag == "style"
        for name in {given.get("id"), given.get("name") if tag == "a" else None} - {None, ""}:
            if name in self.page.ids:
                self.page.twice.append(name)
            self.page.ids.add(name)
        if tag == "img":
            self.page.pictures += 1
            if not given.get("alt", "").strip() and given.get("role") != "presentation":
                self.page.nameless.append(given.get("src", "")[:80])
        for attribute, value in given.items():
            if attribute == "style":
                self.page.fetched += _in_styles(value)
            elif (tag, attribute) in _FETCHED or (tag == "link" and self._is_fetched(given) and attribute == "href"):
                self.page.fetched += self._addresses(attribute, value)
            elif (tag, attribute) in _FOLLOWED:
                self.page.links.append(value.strip())

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.page.fetched += _in_styles(data)

    @staticmethod
    def _is_fetched(given: dict[str, str]) -> bool:
        return bool(_FETCHED_LINKS & set(given.get("rel", "").lower().split()))

    @staticmethod
    def _addresses(attribute: str, value: str) -> list[str]:
        if attribute != "srcset":
            return [value.strip()]
        return [candidate.split()[0] for candidate in value.split(",") if candidate.strip()]
