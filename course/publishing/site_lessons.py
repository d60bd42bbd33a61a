"""A notebook made fit for the site: sections and exercises get names, pitfalls and claims links, pictures files."""

from __future__ import annotations

import base64
import html
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from nbformat import NotebookNode

from course.curriculum import Lesson
from course.publishing.outputs import CLAIM, VERDICT

PITFALL = "application/vnd.course.pitfall+json"

_HEADING = re.compile(r"(#{2,3})\s+(.*?)\s*#*")
_FENCE = re.compile(r"\s*(```+|~~~+)")
_WHY_AND_FIX = re.compile(r"<dt[^>]*>(?:why|fix)</dt><dd[^>]*>.*?</dd>\n?", re.DOTALL)
_EMPTY_LIST = re.compile(r"<dl[^>]*>\s*</dl>\n?")


@dataclass(frozen=True)
class Shown:
    """A pitfall that a lesson shows.

    fault: its id. lesson, section: where; `section` is a heading. anchor: its name on the lesson's page. code: the
    source of the cell. look: what the cell showed, as HTML, without why and fix. message: the text of the exception or
    warning; None for a wrong result without one.
    """

    fault: str
    lesson: Lesson
    section: str
    anchor: str
    code: str
    look: str
    message: str | None


@dataclass(frozen=True)
class Claimed:
    """A claim of a lesson: what its output holds, and its name on the lesson's page."""

    lesson: Lesson
    anchor: str
    data: dict


@dataclass
class LessonPage:
    """A lesson's notebook for the site, and what other pages link to.

    sections, exercises: heading or exercise id -> label. titles: exercise id -> title. pictures: file name -> PNG.
    """

    lesson: Lesson
    notebook: NotebookNode
    sections: dict[str, str] = field(default_factory=dict)
    exercises: dict[str, str] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    pitfalls: list[Shown] = field(default_factory=list)
    claims: list[Claimed] = field(default_factory=list)
    pictures: dict[str, bytes] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The page's path from the top of the site."""
        return f"lessons/{self.lesson.name}.html"

    @property
    def torch(self) -> str:
        """The version of torch that made the stored outputs."""
        return self.notebook.metadata["course"].get("torch", "")


def slug(text: str) -> str:
    """Text as lower-case words joined by hyphens."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))


def lesson_page(lesson: Lesson, notebook: NotebookNode) -> LessonPage:
    """Return the page of a lesson; `notebook` becomes a part of it and is changed.

    What only makes sense in a learner's own copy is left out: verdicts on stubs, and the progress at the end.
    """
    page = LessonPage(lesson, notebook)
    notebook.cells = [cell for cell in notebook.cells if cell.metadata.get("course", {}).get("role") != "progress"]
    if notebook.cells[-1].source == "## Your progress":
        notebook.cells.pop()
    section = lesson.title
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            section = _name_headings(page, cell, section)
        else:
            cell.outputs = [output for given in _kept(cell) for output in _made_fit(page, cell, section, given)]
    return page


def _name_headings(page: LessonPage, cell: NotebookNode, section: str) -> str:
    """Put a label before each heading of the second and third level; return the section that goes on after the cell."""
    exercise = cell.metadata.get("course", {}).get("exercise")
    lines, fence = [], None
    for line in cell.source.splitlines():
        mark = _FENCE.match(line)
        if mark and fence is None:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and line.strip() == mark[1]:
            fence = None
        heading = _HEADING.fullmatch(line) if fence is None and not mark else None
        if heading and exercise and exercise not in page.exercises:
            label = page.exercises[exercise] = f"exercise-{slug(exercise)}"
            page.titles[exercise] = heading[2].removeprefix("Exercise: ")
            lines += [f"({label})=", ""]
        elif heading and len(heading[1]) == 2:
            section = heading[2]
            label = page.sections[section] = f"lesson-{page.lesson.number}-{slug(section)}"
            lines += [f"({label})=", ""]
        lines.append(line)
    cell.source = "\n".join(lines)
    return section


def _kept(cell: NotebookNode) -> Iterator[NotebookNode]:
    """The outputs that say something on a page: no verdicts, and no second text alternative of a picture."""
    for output in cell.outputs:
        data = output.get("data", {})
        if VERDICT not in data and 'class="course-alt"' not in data.get("text/html", ""):
            yield output


def _made_fit(page: LessonPage, cell: NotebookNode, section: str, output: NotebookNode) -> Iterator[NotebookNode]:
    data = output.get("data", {})
    if PITFALL in data:
        shown = _pitfall(page, cell, section, data)
        page.pitfalls.append(shown)
        link = f'<p><a href="../faults/{shown.fault}.html">More about the fault {shown.fault}</a></p>'
        data["text/html"] = _opened(data["text/html"], shown.anchor).removesuffix("</div>") + f"{link}\n</div>"
    elif CLAIM in data:
        claimed = Claimed(page.lesson, f"claim-{len(page.claims) + 1}", dict(data[CLAIM]))
        page.claims.append(claimed)
        data["text/html"] = _opened(data["text/html"], claimed.anchor)
    elif "image/png" in data:
        output["data"] = {"text/html": _picture(page, output)}
    for mime in (PITFALL, CLAIM):
        data.pop(mime, None)
    yield output


def _pitfall(page: LessonPage, cell: NotebookNode, section: str, data: NotebookNode) -> Shown:
    fault = data[PITFALL]["fault"]
    number = 1 + sum(shown.fault == fault for shown in page.pitfalls)
    box = data["text/html"]
    # What was raised stands before the list of what was seen and wanted.
    loud = "<pre" in box.partition("<dl")[0]
    return Shown(
        fault=fault,
        lesson=page.lesson,
        section=section,
        anchor=f"pitfall-{fault}-{number}",
        code=cell.source,
        look=_EMPTY_LIST.sub("", _WHY_AND_FIX.sub("", box)),
        message=data[PITFALL]["seen"] if loud else None,
    )


def _opened(box: str, anchor: str) -> str:
    """The box with a name, so that other pages can link to it."""
    return box.replace("<div ", f'<div id="{anchor}" ', 1)


def _picture(page: LessonPage, output: NotebookNode) -> str:
    """Keep a picture as a file; return the HTML that shows it, with its text alternative also to unfold."""
    picture = base64.b64decode(output["data"]["image/png"])
    name = f"{page.lesson.number}-{len(page.pictures) + 1:02d}.png"
    page.pictures[name] = picture
    words = output["data"].get("text/plain", "").removeprefix("[picture] ").strip()
    described = output.get("metadata", {}).get("image/png", {})
    alt = described.get("alt") or " ".join(words.split())
    width, height = struct.unpack(">II", picture[16:24])
    shown = described.get("width", width)
    size = f'width="{shown}" height="{round(height * shown / width)}"'
    lines = html.escape(words, quote=False).replace("\n", "<br>\n")
    return (
        '<figure class="picture">\n'
        f'<img src="../pictures/{name}" alt="{html.escape(alt)}" {size} loading="lazy">\n'
        f"<figcaption><details><summary>The picture in words</summary>\n<p>{lines}</p></details></figcaption>\n"
        "</figure>"
    )
