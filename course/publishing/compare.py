"""Whether a built notebook is what its source says, without executing anything."""

from __future__ import annotations

from nbformat import NotebookNode

from course.curriculum import Lesson
from course.publishing import PublishingError
from course.publishing.checkout import Checkout
from course.publishing.files import read_notebook
from course.publishing.outputs import code_cells
from course.publishing.source import SourceError, generate


def problems(lesson: Lesson, checkout: Checkout) -> list[str]:
    """Return sentences that say how a lesson's notebook differs from its source; none when it is up to date."""
    try:
        wanted = generate(lesson, checkout)
    except SourceError as error:
        return [str(error)]
    advice = f"Run `course build {lesson.number}`."
    try:
        found = read_notebook(checkout.notebook(lesson))
    except PublishingError as error:
        return [f"{lesson.name}: {error} {advice}"]
    differences = [*_digest(found, wanted), *_cells(found, wanted), *_metadata(found, wanted), *_executed(found)]
    return [f"{lesson.name}: {difference} {advice}" for difference in differences]


def stray_files(checkout: Checkout) -> list[str]:
    """Return a sentence for each source or notebook that belongs to no lesson of the manifest."""
    known = {path(lesson) for lesson in checkout.lessons for path in (checkout.source, checkout.notebook)}
    files = [*(checkout.root / "lessons").glob("*.py"), *(checkout.root / "notebooks").glob("*.ipynb")]
    return [
        f"{checkout.display(path)} belongs to no lesson of the manifest (course/curriculum.py). Add the lesson there "
        "or delete the file."
        for path in sorted(files)
        if path not in known
    ]


def _digest(found: NotebookNode, wanted: NotebookNode) -> list[str]:
    old, new = (notebook.metadata.get("course", {}).get("digest") for notebook in (found, wanted))
    if old == new:
        return []
    return [f"its source or an exercise changed since the notebook was built (digest {old}, now {new})."]


def _cells(found: NotebookNode, wanted: NotebookNode) -> list[str]:
    old_digest, new_digest = (nb.metadata.get("course", {}).get("digest", "-") for nb in (found, wanted))
    for have, want in zip(found.cells, wanted.cells, strict=False):
        # The digest that `begin` is given has been compared already.
        source = have.source.replace(f'digest="{old_digest}"', f'digest="{new_digest}"')
        pairs = (
            ("id", have.id, want.id),
            ("type", have.cell_type, want.cell_type),
            ("text", source, want.source),
            ("metadata", have.metadata, want.metadata),
        )
        for what, a, b in pairs:
            if a != b:
                return [f"cell {want.id} differs from its source in its {what}{_first_difference(what, a, b)}."]
    if len(found.cells) != len(wanted.cells):
        return [f"the notebook has {len(found.cells)} cells, its source makes {len(wanted.cells)}."]
    return []


def _first_difference(what: str, found: str, wanted: str) -> str:
    if what != "text":
        return f" ({found!r} instead of {wanted!r})"
    found_lines, wanted_lines = found.splitlines(), wanted.splitlines()
    for number, (a, b) in enumerate(zip(found_lines, wanted_lines, strict=False), 1):
        if a != b:
            return f", line {number} ({a[:60]!r} instead of {b[:60]!r})"
    return f" ({len(found_lines)} lines instead of {len(wanted_lines)})"


def _metadata(found: NotebookNode, wanted: NotebookNode) -> list[str]:
    have = {key: dict(value) if hasattr(value, "items") else value for key, value in found.metadata.items()}
    torch = have.get("course", {}).pop("torch", None)
    want = {key: dict(value) for key, value in wanted.metadata.items()}
    for metadata in (have, want):
        metadata.get("course", {}).pop("digest", None)
    if torch is None:
        return ["the notebook's metadata do not say with which torch it was built."]
    return [] if have == want else ["the notebook's metadata differ; it was saved by another program."]


def _executed(found: NotebookNode) -> list[str]:
    for count, cell in enumerate(code_cells(found), 1):
        if cell.execution_count is None:
            return [f"cell {cell.id} was not executed."]
        if cell.execution_count != count:
            return [f"cell {cell.id} was executed out of order (as {cell.execution_count}, not {count})."]
    return []
