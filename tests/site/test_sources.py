"""What is written for Sphinx: text, messages from rules, notebooks made fit, and refusals."""

from __future__ import annotations

import base64
import re
import struct
from pathlib import Path

import nbformat
import pytest

from course.checking import Exercise
from course.curriculum import Lesson
from course.doctor.explain import explain
from course.faults import FAULTS
from course.publishing import PublishingError, UsageError, site, site_messages, site_text
from course.publishing.checkout import Checkout
from course.publishing.outputs import CLAIM, VERDICT
from course.publishing.site_claims import claim_rows
from course.publishing.site_faults import fault_pages
from course.publishing.site_lessons import PITFALL, LessonPage, lesson_page
from course.publishing.site_sources import write_sources

LESSON = Lesson("01", "tensors_and_strides", "Tensors and strides", 5, "tensors")
SECTION = FAULTS["view-of-noncontiguous"].section
PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 200, 50) + b"rest"
BOX = (
    '<div class="course-pitfall" style="x">\n<p><strong>Pitfall</strong></p>\n<pre>----&gt; x.view(6)\n'
    "RuntimeError: view size is not compatible (at least one). Use .reshape(...)</pre>\n"
    '<dl style="x">\n<dt style="x">why</dt><dd style="x">the reason</dd>\n<dt>fix</dt><dd>the remedy</dd>\n'
    "</dl>\n</div>"
)


def _shown(data: dict, **metadata: object) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", data, metadata=metadata)


@pytest.fixture
def page() -> LessonPage:
    """The page of a lesson with one of everything."""
    text, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    seen = "RuntimeError: view size is not compatible (at least one). Use .reshape(...)"
    claim = {"name": "a < b", "kind": "measured", "stated": "2 x", "value": 2.5, "unit": "x", "verdict": "holds"}
    box = '<div class="course-claim">x</div>'
    cells = [
        text("# 01 Tensors and strides"),
        text(f"## {SECTION}\n\nWords.\n\n```python\n## no heading\n```"),
        code(
            "broken()", outputs=[_shown({PITFALL: {"fault": "view-of-noncontiguous", "seen": seen}, "text/html": BOX})]
        ),
        code("claim()", outputs=[_shown({CLAIM: claim, "text/html": box})]),
        code(
            "draw()",
            outputs=[
                _shown(
                    {"image/png": base64.b64encode(PNG).decode(), "text/plain": "[picture] one\n<two>"},
                    **{"image/png": {"alt": 'one "two"', "width": 100}},
                ),
                _shown({"text/html": '<details class="course-alt">x</details>', "text/plain": "x"}),
            ],
        ),
        text("### Exercise: Flatten\n\nTask.", metadata={"course": {"exercise": "tensors.flatten", "role": "task"}}),
        code(
            "check()",
            outputs=[_shown({VERDICT: {}, "text/html": "x"})],
            metadata={"course": {"exercise": "tensors.flatten", "role": "check"}},
        ),
        text("## Your progress"),
        code("course.progress()", metadata={"course": {"role": "progress"}}),
    ]
    return lesson_page(LESSON, nbformat.v4.new_notebook(cells=cells, metadata={"course": {"torch": "2.99"}}))


def _output(page: LessonPage, source: str) -> str:
    cell = next(cell for cell in page.notebook.cells if cell.source == source)
    assert len(cell.outputs) == 1
    assert set(cell.outputs[0].data) <= {"text/html", "text/plain"}
    return cell.outputs[0].data["text/html"]


def test_headings_and_exercises_get_labels(page: LessonPage) -> None:
    assert page.sections == {SECTION: "lesson-01-view-reshape-and-contiguous"}
    assert page.exercises == {"tensors.flatten": "exercise-tensors-flatten"}
    assert page.titles == {"tensors.flatten": "Flatten"}
    assert page.notebook.cells[1].source.startswith(f"(lesson-01-view-reshape-and-contiguous)=\n\n## {SECTION}\n")
    assert "```python\n## no heading\n```" in page.notebook.cells[1].source


def test_pitfalls_are_kept_and_linked(page: LessonPage) -> None:
    (shown,) = page.pitfalls
    assert (shown.fault, shown.section, shown.code) == ("view-of-noncontiguous", SECTION, "broken()")
    assert shown.message == "RuntimeError: view size is not compatible (at least one). Use .reshape(...)"
    assert "x.view(6)" in shown.look
    assert not any(word in shown.look for word in ("the reason", "the remedy", "<dl"))
    box = _output(page, "broken()")
    assert box.startswith('<div id="pitfall-view-of-noncontiguous-1" class="course-pitfall"')
    assert "the reason" in box
    assert '<a href="../faults/view-of-noncontiguous.html">' in box


def test_pictures_become_files_with_words(page: LessonPage) -> None:
    assert page.pictures == {"01-01.png": PNG}
    made = _output(page, "draw()")
    assert 'src="../pictures/01-01.png" alt="one &quot;two&quot;" width="100" height="25"' in made
    assert "<p>one<br>\n&lt;two&gt;</p>" in made


def test_what_belongs_to_a_learner_is_left_out(page: LessonPage) -> None:
    assert [cell.source for cell in page.notebook.cells][-1] == "check()"
    assert page.notebook.cells[-1].outputs == []


def test_claims_stand_beside_the_recorded_run(page: LessonPage) -> None:
    run = {
        "value": 3.0,
        "unit": "x",
        "verdict": "does not hold here",
        "machine": "M",
        "torch": "2.98",
        "date": "2026-01-02",
    }
    (row,) = claim_rows(page, {"01": {"a < b": run}})
    assert row.link == "lessons/01_tensors_and_strides.html#claim-1"
    assert (row.stated, row.stored, row.verdict) == ("2 x", "2.5 x", "✓ holds")
    assert (row.recorded, row.recorded_verdict) == ("3 x", "✗ does not hold here")
    assert (row.machine, row.date) == ("M, torch 2.98", "2026-01-02")
    (row,) = claim_rows(page, {})
    assert (row.recorded, row.machine, row.date) == ("", "", "")


def _exercise(identifier: str) -> Exercise:
    exercise = Exercise(identifier, title="t", task="t", hints=("a", "b"))
    exercise.wrong("w", fault="view-of-noncontiguous")(len)
    return exercise


def test_a_fault_page_gathers_everything(page: LessonPage) -> None:
    page.sections.update({fault.section: "label" for fault in FAULTS.values() if fault.lesson == "01"})
    more = ["VIEW SIZE is not compatible", "input is not contiguous"]
    pages = {made.fault.id: made for made in fault_pages([page], {"view-of-noncontiguous": more}, _exercise)}
    assert list(pages) == list(FAULTS)
    made = pages["view-of-noncontiguous"]
    assert made.title == "RuntimeError: view size is not compatible (view-of-noncontiguous)"
    assert made.description.startswith("RuntimeError: view size is not compatible. ")
    assert made.more == ("input is not contiguous",)
    assert [place.label for place in made.exercises] == ["exercise-tensors-flatten"]
    assert made.taught.label == "label"
    assert ". input is not contiguous. view() on a tensor" in made.description
    (quiet,) = (each for each in fault_pages([page], {"uint8-overflow": ["out of bounds"]}, _exercise) if each.more)
    assert quiet.title == "uint8 arithmetic wraps modulo 256: out of bounds (uint8-overflow)"
    silent = pages["missing-zero-grad"]
    assert silent.title == "Gradients of earlier steps are never cleared (missing-zero-grad)"
    assert (silent.messages, silent.shown, silent.exercises, silent.taught.label) == ((), (), (), None)


def test_a_section_that_is_gone_is_named(page: LessonPage) -> None:
    with pytest.raises(PublishingError, match=r"taught in the section '.*' of lesson 01, which has no such section"):
        fault_pages([page], {}, _exercise)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"plain words\.", ["plain words."]),
        (r"(?:this|one) value is", ["this value is", "one value is"]),
        (r"axis (\d+) of \w{1,20}", ["axis … of …"]),
        (r"got .{1,40} and .{0,9}end", ["got … and …end"]),
        (r"dtypes? (?:really )?differ", ["dtype really differ"]),
        (r"^['\"]key['\"]$", ["'key'"]),
        (r"one(?! two)[^.]{1,5}", ["one…"]),
    ],
)
def test_rules_are_written_out(pattern: str, expected: list[str]) -> None:
    made = site_messages.forms(pattern)
    assert [readable for readable, _ in made] == expected
    assert all(re.search(pattern, sample) for _, sample in made)


def test_messages_stand_with_the_fault_that_the_explainer_names() -> None:
    found = site_messages.messages()
    assert set(found) <= set(FAULTS)
    assert len(found) > 60
    assert "Expected all tensors to be on the same device" in found["device-mismatch"]
    owners: dict[str, str] = {}
    for fault_id, texts in found.items():
        for text in texts:
            assert owners.setdefault(text.lower(), fault_id) == fault_id
    for fault_id in ("device-mismatch", "view-of-noncontiguous", "backward-twice"):
        whole = next(text for text in found[fault_id] if site_messages.GAP not in text)
        assert explain(f"RuntimeError: {whole}").findings[0].fault == fault_id


def test_text_is_not_taken_for_markup() -> None:
    assert site_text.escaped("[layer] * n, _orig_mod. <b>") == r"\[layer\] \* n, \_orig\_mod. \<b\>"
    assert site_text.prose("a `b_c * d` e_f\n`g`") == r"a `b_c * d` e\_f `g`"
    assert site_text.code("a `b`") == "`` a `b` ``"
    assert site_text.fenced("a\n```\nb", "text") == "````text\na\n```\nb\n````"
    assert site_text.quoted('a "b": c') == '"a \\"b\\": c"'
    assert site_text.shortened("one two three", 9) == "one two…"


def test_a_folder_that_is_no_site_is_left_alone(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="is no built site, so it is not replaced"):
        site.build_site(checkout, tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_without_sphinx_the_extra_is_named(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(site, "NEEDED", ("no_such_package",))
    with pytest.raises(PublishingError, match="needs no_such_package: install the package with its `site` extra"):
        site.build_site(checkout, tmp_path / "site")
    assert site.main([str(tmp_path / "site")]) == 1
    assert "no_such_package" in capsys.readouterr().err


def test_a_notebook_that_is_out_of_date_is_refused(checkout: Checkout, tmp_path: Path) -> None:
    lesson = checkout.lessons[0]
    for path in (checkout.source(lesson), checkout.notebook(lesson)):
        (tmp_path / path.parent.name).mkdir()
        (tmp_path / path.parent.name / path.name).write_bytes(path.read_bytes())
    (tmp_path / "course").symlink_to(checkout.root / "course")
    with (tmp_path / "lessons" / f"{lesson.name}.py").open("a", encoding="utf-8") as source:
        source.write("\n# %%\n1\n")
    changed = Checkout(tmp_path, (lesson,))
    with pytest.raises(PublishingError, match=r"Lesson 00 .* has changed since .*: course build 00"):
        write_sources(changed, tmp_path / "source")
    assert not (tmp_path / "source").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("sphinx_is_there")
def test_a_site_with_faults_does_not_replace_a_good_one(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(text: str) -> site.Site:
        def write(_: Checkout, folder: Path) -> None:
            (folder / "extra").mkdir(parents=True)
            (folder / "index.md").write_text(f"# Title\n\n{text}\n", encoding="utf-8")

        monkeypatch.setattr(site, "write_sources", write)
        return site.build_site(checkout, tmp_path / "site")

    index = tmp_path / "site" / "index.html"
    made = build("First.")
    assert (made.links.pages, made.links.faults) == (2, ())  # with the search
    assert f"{made.folder}: 2 pages, 0 pictures" in str(made)
    build("Second.")
    good = index.read_text(encoding="utf-8")
    assert "Second." in good
    with pytest.raises(PublishingError, match=r"1 faults of its pages.\n    index.html: gone.html leads nowhere"):
        build(site_text.fenced('<a href="gone.html">x</a>', "{raw} html"))
    with pytest.raises(PublishingError, match=r"Sphinx could not build the site:\n(?s:.*)index.md.*no-such-label"):
        build("[x](#no-such-label)")
    assert index.read_text(encoding="utf-8") == good
