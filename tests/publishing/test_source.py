from __future__ import annotations

import re

import nbformat
import pytest

from course.publishing.source import MAX_LINES, SourceError, assigned_literals, generate


def test_the_notebook_is_valid_and_unexecuted(tiny):
    notebook = generate(tiny.lesson, tiny.checkout)
    nbformat.validate(notebook)
    assert all(cell.execution_count is None and not cell.outputs for cell in notebook.cells if cell.cell_type == "code")


def test_ids_tell_lesson_position_and_role(tiny):
    ids = [cell.id for cell in generate(tiny.lesson, tiny.checkout).cells]
    assert ids == [
        "01-001-text",
        "01-002-code",
        "01-003-code",
        "01-004-task",
        "01-005-stub",
        "01-006-check",
        "01-007-code",
        "01-008-code",
        "01-009-text",
        "01-010-progress",
    ]


def test_an_exercise_becomes_task_stub_and_check(tiny):
    task, stub, check = generate(tiny.lesson, tiny.checkout).cells[3:6]
    assert task.source.startswith("### Exercise: Double\n\nReturn twice `x`.")
    assert stub.source == "def double(x):\n    raise NotImplementedError"
    assert check.source == 'check("tiny.double", double)'
    assert [cell.metadata["course"]["role"] for cell in (task, stub, check)] == ["task", "stub", "check"]
    assert all(cell.metadata["course"]["exercise"] == "tiny.double" for cell in (task, stub, check))


def test_the_last_cell_shows_progress(tiny):
    heading, cell = generate(tiny.lesson, tiny.checkout).cells[-2:]
    assert heading.source == "## Your progress"
    assert cell.source == "import course\n\ncourse.progress()"
    assert cell.metadata["course"] == {"role": "progress"}


def test_begin_is_given_the_digest(tiny):
    notebook = generate(tiny.lesson, tiny.checkout)
    digest = notebook.metadata["course"]["digest"]
    assert re.fullmatch("[0-9a-f]{16}", digest)
    assert f'begin("01", digest="{digest}")' in notebook.cells[2].source


def test_measured_cells_are_not_compared_by_nbval(tiny):
    tags = [cell.metadata.get("tags") for cell in generate(tiny.lesson, tiny.checkout).cells]
    assert [tag for tag in tags if tag] == [
        ["parameters"],
        ["measured", "nbval-ignore-output"],
        ["nbval-ignore-output"],
    ]


def test_metadata_are_trimmed(tiny):
    tiny.replace('# %% tags=["parameters"]', '# %% a title tags=["parameters"] slideshow={"slide_type": "slide"}')
    notebook = generate(tiny.lesson, tiny.checkout)
    assert notebook.cells[1].metadata == {"tags": ["parameters"]}
    assert set(notebook.metadata) == {"kernelspec", "language_info", "course"}
    assert notebook.metadata["kernelspec"]["name"] == "python3"


def test_digest_follows_source_and_exercise(tiny):
    def digest():
        return generate(tiny.lesson, tiny.checkout).metadata["course"]["digest"]

    first = digest()
    assert digest() == first
    tiny.checkout.exercise_file("tiny.double").write_text("# another wrong answer\n", encoding="utf-8")
    second = digest()
    tiny.replace("# # Tiny", "# # Tinier")
    assert len({first, second, digest()}) == 3


def test_the_same_source_makes_the_same_bytes(tiny):
    first, second = (nbformat.writes(generate(tiny.lesson, tiny.checkout)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("# exercise: tiny.double", "# exercise: tiny.triple", 37, "There is no exercise 'tiny.triple'"),
        ("# exercise: tiny.double", "# exercise: other.double", 37, "does not belong to this lesson"),
        ("# exercise: tiny.double", "# exercise: tiny.double\nx = 1", 37, "one line and no more"),
        ("# exercise: tiny.double", "# exercise:", 37, "one line and no more"),
        (
            "# exercise: tiny.double",
            "# exercise: tiny.double\n\n# %%\n# exercise: tiny.double",
            40,
            "used again; its first cell is at line 37",
        ),
        (' tags=["parameters"]', "", 1, "0 cells are tagged `parameters`"),
        (' tags=["measured"]', ' tags=["parameters"]', 40, "2 cells are tagged `parameters`"),
        ('profile = "quick"', 'profile = "full"', 9, "the manifest"),
        ('profile = "quick"', "profile = 1 + x", 9, "may only assign literals"),
        ('profile = "quick"', 'profile = "quick"\nextra = 1', 9, "the manifest"),
        ('begin("01")', 'begin("02")', 13, 'should be `begin("01")`'),
        ('begin("01")', 'print("01")', 1, "0 calls of `begin`"),
        (' tags=["measured"]', ' tags=["raises-exception"]', 40, "`pitfall`"),
        (' tags=["measured"]', ' tags=["nbval-ignore-output"]', 40, "`measured`"),
        ('print("the end, profile", profile)', "", 45, "the cell is empty"),
        ("# %% [markdown]\n", "", 1, "text stands outside of the cells"),
        ("# # Tiny", "# # Tiny" + "\n#" * MAX_LINES, MAX_LINES + 1, f"at most {MAX_LINES}"),
        ("# %% [markdown]", "# %% [raw]", 6, "type 'raw'"),
    ],
)
def test_a_broken_rule_is_named_with_file_and_line(tiny, old, new, line, words):
    tiny.replace(old, new)
    with pytest.raises(SourceError) as caught:
        generate(tiny.lesson, tiny.checkout)
    assert str(caught.value).startswith(f"lessons/01_tiny.py:{line}: ")
    assert words in str(caught.value)


def test_a_missing_source_is_named(tiny):
    tiny.source.unlink()
    with pytest.raises(SourceError, match=r"lessons/01_tiny\.py is missing"):
        generate(tiny.lesson, tiny.checkout)


@pytest.mark.parametrize("code", ["x = y", "x: int = 1", "x = y = 1", "x.a = 1", "f()", "x = ("])
def test_only_literals_are_parameters(code):
    assert assigned_literals(code) is None


def test_literals_keep_order_and_type():
    assert list(assigned_literals("b = 1.0  # half\na = [1, 'x']").items()) == [("b", 1.0), ("a", [1, "x"])]
