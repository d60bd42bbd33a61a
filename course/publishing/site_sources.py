"""The pages that Sphinx reads: notebooks made fit, and what the templates in `site/pages/` make of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jinja2
import nbformat

from course.curriculum import Lesson
from course.publishing import PublishingError, files, outputs
from course.publishing.checkout import Checkout
from course.publishing.site_claims import claim_rows, read_recorded
from course.publishing.site_faults import FaultPage, fault_pages
from course.publishing.site_lessons import LessonPage, lesson_page, slug
from course.publishing.site_messages import messages
from course.publishing.site_text import code, escaped, fenced, prose, quoted


def write_sources(checkout: Checkout, folder: Path) -> None:
    """Write the source of the site into `folder`. Raises PublishingError when a notebook is missing or out of date."""
    pages = [lesson_page(lesson, _notebook(checkout, lesson)) for lesson in checkout.lessons]
    faults = fault_pages(pages, messages(), checkout.load_exercise)
    templates = _templates(checkout.root / "site" / "pages")

    def write(name: str, template: str, **given: object) -> None:
        files.write_text(folder / name, templates.get_template(template).render(given))

    for page in pages:
        _write_lesson(folder, page, faults, templates)
    for page in faults:
        write(f"faults/{page.fault.id}.md", "fault.md.jinja", page=page)
    topics: dict[str, list[FaultPage]] = {}
    for page in faults:
        topics.setdefault(page.fault.topic, []).append(page)
    write("faults/index.md", "faults.md.jinja", faults=faults, topics=topics)
    recorded = read_recorded(checkout.root / "lessons" / "recorded.json")
    lessons = [(page, claim_rows(page, recorded)) for page in pages if page.claims]
    rows = [row for _, found in lessons for row in found]
    write(
        "claims.md",
        "claims.md.jinja",
        lessons=lessons,
        count=len(rows),
        exact=sum(row.kind == "exact" for row in rows),
        recorded=sum(bool(row.recorded) for row in rows),
    )
    versions = dict.fromkeys(page.torch for page in pages if page.torch)
    write("index.md", "index.md.jinja", pages=pages, faults=faults, claims=len(rows), torch=" and ".join(versions))


def _notebook(checkout: Checkout, lesson: Lesson) -> nbformat.NotebookNode:
    notebook = files.read_notebook(checkout.notebook(lesson))
    digest = checkout.digest(lesson, outputs.exercise_ids(notebook))
    if notebook.metadata.get("course", {}).get("digest") != digest:
        raise PublishingError(
            f"Lesson {lesson.number} or an exercise of it has changed since its notebook was built. "
            f"Build it first: course build {lesson.number}"
        )
    return notebook


def _write_lesson(folder: Path, page: LessonPage, faults: Sequence[FaultPage], templates: jinja2.Environment) -> None:
    shown = {event.fault for event in page.pitfalls}
    of_lesson = [fault for fault in faults if fault.fault.lesson == page.lesson.number or fault.fault.id in shown]
    if of_lesson:
        text = templates.get_template("lesson_faults.md.jinja").render(faults=of_lesson)
        page.notebook.cells.append(nbformat.v4.new_markdown_cell(text, id=f"{page.lesson.number}-faults"))
    files.write_notebook(page.notebook, folder / "lessons" / f"{page.lesson.name}.ipynb")
    pictures = folder / "extra" / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    for name, picture in page.pictures.items():
        (pictures / name).write_bytes(picture)


def _templates(folder: Path) -> jinja2.Environment:
    # Pages are Markdown: the filters below escape what they are given.
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(code=code, escaped=escaped, fenced=fenced, prose=prose, quoted=quoted, slug=slug)
    return environment
