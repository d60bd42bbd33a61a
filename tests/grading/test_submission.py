"""Reading submissions: whatever a file holds, no exception, nothing executed, and the answer is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from course.grading import statements
from course.grading.program import NoProgram, definition_text, program_for
from course.grading.submission import MAX_CELL, find_submissions, read_answers, without_outputs

STUB = 'def flatten_elements(x):\n    """Flatten."""\n    raise NotImplementedError\n'
RIGHT = "def flatten_elements(x):\n    return x.reshape(-1)\n"
WRONG = "def flatten_elements(x):\n    return x.view(-1)\n"


def is_stub(text):
    return "NotImplementedError" in text


def program(path, exercise="tensors.flatten", name="flatten_elements", lesson="01"):
    return program_for(read_answers(path), exercise, name, lesson=lesson, is_stub=is_stub)


def written(tmp_path, text, name="answers.py"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# Finding files.


def test_files_are_found_in_folders_and_named_by_their_path(tmp_path):
    for name in (
        "bob.py",
        "alice/01.ipynb",
        "alice/deep/02.ipynb",
        "alice/notes.txt",
        ".hidden/x.py",
        "b/__pycache__/c.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    assert [each.id for each in find_submissions(tmp_path)] == ["alice/01.ipynb", "alice/deep/02.ipynb", "bob.py"]


def test_a_folder_that_is_not_there_is_an_error_with_its_name(tmp_path):
    with pytest.raises(NotADirectoryError, match="nowhere is not a folder"):
        find_submissions(tmp_path / "nowhere")


def test_reading_needs_no_torch(tmp_path):
    code = "import sys; from course.grading import grade, program, sandbox; sandbox.protection(); "
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Finding the answer.


@pytest.mark.parametrize(
    "cells",
    [
        [RIGHT],
        [(STUB, "tensors.flatten"), RIGHT],  # in a new cell
        [RIGHT, (STUB, "tensors.flatten")],  # the stub once more
        [WRONG, RIGHT],
        ["%matplotlib inline\n!pip install x\n" + RIGHT],
        ["%%time\n" + RIGHT],
        ["flatten_elements?\n", RIGHT],
        [RIGHT + "\n(this is broken"],
        ["(this is broken\n" + RIGHT],
        [RIGHT, "def another(:\n    pass"],
        ["if True:\n    def flatten_elements(x):\n        return x.reshape(-1)\n"],
        ["x = 1; y = 2\n" + RIGHT],
        [(RIGHT, "tensors.accuracy")],  # moved into the cell of another exercise
    ],
)
def test_the_answer_is_found_wherever_it_stands(notebook, cells):
    found = program(notebook(*cells, lesson="01"))
    assert "x.reshape(-1)" in found.source
    assert "view" not in found.source


def test_the_last_definition_counts_and_that_is_said(notebook):
    found = program(notebook(RIGHT, WRONG))
    assert "view(-1)" in found.source
    assert found.notes == ("There are 2 definitions of flatten_elements; the last one counts.",)


def test_a_later_definition_that_is_broken_is_said_too(notebook):
    found = program(notebook(RIGHT, "def flatten_elements(x):\nreturn 3"))
    assert "reshape" in found.source
    assert "A later definition" in found.notes[0]
    assert "expected an indented block" in found.notes[0]


def test_only_what_the_answer_uses_comes_along(notebook):
    found = program(
        notebook(
            "import math\nimport torch\nfrom torch import Tensor",
            "print('a plot')\nfor i in range(3):\n    train(i)\nSIZE = 3\nUNUSED = torch.rand(3)",
            "def helper(x):\n    return math.sqrt(SIZE) + later(x)\n",
            "def flatten_elements(x: Tensor):\n    SIZE_2 = 1\n    return helper(x)\nflatten_elements.calls = 0\n",
            "def later(x):\n    return x\n",
        )
    )
    parts = [statement.text.splitlines()[0] for statement in found.statements]
    assert parts == [
        "import math",
        "from torch import Tensor",
        "SIZE = 3",
        "def helper(x):",
        "def flatten_elements(x: Tensor):",
        "flatten_elements.calls = 0",
        "def later(x):",
    ]


def test_statements_that_change_each_other_s_names_are_taken_once(notebook):
    found = program(notebook("import a, b\na.x = b.x = 1\nb.y = a\n" + RIGHT + "flatten_elements.a = a"))
    assert [statement.place[1] for statement in found.statements] == [0, 1, 2, 3, 4]


def test_names_mean_what_they_mean_when_the_cells_run_in_order(notebook):
    found = program(
        notebook("A = 1", "A = 2\nB = 1", "def flatten_elements(x, a=A):\n    return B\nB = 2", "A = 3\nB = 3")
    )
    assert [s.text.strip() for s in found.statements if s.kind == "Assign"] == ["A = 2", "B = 2"]


def test_an_answer_under_another_name_is_found_by_its_check(notebook):
    found = program(notebook("def mine(x):\n    return x.reshape(-1)", 'check("tensors.flatten", mine)'))
    assert found.name == "mine"
    assert "called mine" in found.notes[0]


def test_values_of_lessons_with_the_same_name_are_kept_apart(tmp_path, notebook):
    choose = {"exercise": "tensors.copy_or_view", "name": "choice"}
    assert program(notebook('choice = "d"', lesson="01"), **choose).source == 'choice = "d"\n'
    assert isinstance(program(notebook('choice = "d"', lesson="02"), **choose), NoProgram)
    several = 'choice = "a"\ncheck("start.hidden_state", choice)\nchoice = "d"\ncheck("tensors.copy_or_view", choice)\n'
    assert program(written(tmp_path, several), **choose).source == 'choice = "d"\n'
    several = several.replace("tensors.copy_or_view", "training.where_to_step")
    assert isinstance(program(written(tmp_path, several), **choose), NoProgram)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ([STUB], "as it was handed out"),
        (["x = 1"], "No definition of flatten_elements"),
        (["flatten_elements = ..."], "as it was handed out"),
        (["%%bash\nrm -rf /"], "No definition"),
    ],
)
def test_no_attempt_is_told_from_an_error(notebook, cells, reason):
    found = program(notebook(*cells))
    assert found.outcome == "NOT_ATTEMPTED"
    assert reason in found.reason


def test_a_definition_that_does_not_parse_is_an_error_with_its_line(notebook):
    found = program(notebook("import torch", "def flatten_elements(x):\n    return x.reshape((-1)\n"))
    assert found.outcome == "ERROR"
    assert "Part 2" in found.reason
    assert "'(' was never closed" in found.reason


def test_parts_of_a_python_file_are_cells(tmp_path):
    text = "# %% [markdown]\n# it's prose\n# %%\ndef broken(:\n# %%\n" + RIGHT + "# In[3]:\nprint(1)\n"
    assert "reshape" in program(written(tmp_path, text)).source


def test_what_is_found_names_exercises_and_definitions(notebook):
    answers = read_answers(notebook(("y = 2", "tensors.x"), "import torch\nCLASSES = 3", 'check("tensors.z", y)'))
    assert answers.found == {"y", "CLASSES", "tensors.x", "tensors.z"}


def test_texts_for_rules_are_all_that_runs_the_answer_first_with_its_decorators(notebook):
    found = program(
        notebook(
            "import torch",
            "SIZE = 3\nOTHER = 4\nclass Helper:\n    size = SIZE",
            "@torch.no_grad()\ndef flatten_elements(x):\n    return helper(x)",
            "helper = lambda x: Helper()\ndef unused(x):\n    return x",
        )
    )
    assert found.own_texts() == [
        "@torch.no_grad()\ndef flatten_elements(x):\n    return helper(x)\n",
        "import torch\n",
        "SIZE = 3\n",
        "class Helper:\n    size = SIZE\n",
        "helper = lambda x: Helper()\n",
    ]


@pytest.mark.parametrize("odd", ["\x0c", "\x0b", "\x1c", "\x85", "\u2028", "\u2029"], ids=ascii)
def test_only_newlines_end_a_line(odd, notebook, tmp_path):
    before = f"SEPARATOR = 'a{odd}b'  # and {odd} here\n"
    answer = f"def flatten_elements(x):\n    s = 'a{odd}', SEPARATOR  # {odd}\n    return x.reshape(-1)\n"
    for path in (notebook(before + answer), written(tmp_path, before + answer)):
        found = program(path)
        assert [each.text for each in found.statements] == [before, answer]
        assert definition_text(found.definition) == answer
    assert program(notebook(f"x = 1\n\x0c{RIGHT}")).source == RIGHT


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=ascii)
def test_lines_of_other_systems_are_lines(end, notebook, tmp_path):
    cell = f"import math\n@wrapped\n{RIGHT}".replace("\n", end)
    for path in (notebook(cell), written(tmp_path, cell)):
        found = program(path)
        assert found.source == f"@wrapped\n{RIGHT}"
        assert definition_text(found.definition) == RIGHT


def test_several_statements_on_a_line_are_cut_by_columns(notebook):
    found = program(notebook("é = 'é'; b = (é,\n 'ü'); c = b  # all\ndef flatten_elements(x): return c"))
    assert [each.text for each in found.statements[:3]] == ["é = 'é'\n", "b = (é,\n 'ü')\n", "c = b\n"]


def test_a_cell_may_be_indented_as_a_whole(notebook):
    found = program(
        notebook("\n    import math\n    %time x = 1\n\n    def flatten_elements(x):\n        return math.e\n")
    )
    assert found.source == "import math\ndef flatten_elements(x):\n    return math.e\n"


def test_a_list_is_as_the_statements_left_it(notebook):
    found = program(
        notebook(
            "import torch, numpy as np\nsizes = []\nothers = []\ntorch.nn.init.zeros_(0)\nif sizes:\n    np.x = 3",
            "for i in range(3):\n    if i:\n        sizes.append(i)\nothers.append(3)\nsizes.append(-1)",
            "def flatten_elements(x):\n    return torch.reshape(x, np.array(sizes[-1]))",
            "print(sizes)\nsizes[0].cpu()\nsizes.index(3)",
            "sizes = []\nsizes.append(4)",
        )
    )
    parts = [statement.text.split("\n")[0] for statement in found.statements]
    assert parts == [
        "import torch, numpy as np",
        "sizes = []",
        "for i in range(3):",
        "sizes.append(-1)",
        "def flatten_elements(x):",
    ]


# Files that are not what they should be.

UNREADABLE = {
    "empty": (b"", "empty"),
    "spaces": (b"  \n ", "empty"),
    "no JSON": (b"{'cells': []}", "not valid JSON"),
    "half a notebook": (json.dumps({"cells": [{"cell_type": "code"}]}).encode()[:-4], "not valid JSON"),
    "a list": (b"[1, 2]", "no cells"),
    "no cells": (b'{"metadata": {}}', "no cells"),
    "cells that are none": (b'{"cells": {"a": 1}}', "no cells"),
    "odd cells": (b'{"cells": [1, null, {"cell_type": "code", "source": [1, {}]}, {"cell_type": 3}]}', "no code"),
    "deep JSON": (b"[" * 1_000_000, "cannot be parsed"),
    "deep cells": (b'{"cells": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "cannot be parsed"),
    "a long number": (b'{"cells": [], "a": ' + b"9" * 100_000 + b"}", "cannot be parsed"),
    "bytes": (bytes(range(256)) * 40, "not valid JSON"),
}


@pytest.mark.parametrize("data", UNREADABLE, ids=str)
def test_a_file_that_is_no_notebook_has_a_problem(tmp_path, data):
    content, reason = UNREADABLE[data]
    answers = read_answers(written(tmp_path, content, "answers.ipynb"))
    assert reason in answers.problem
    assert answers.statements == ()


HARMLESS = {
    "no encoding": b"\xff\xfe\x00" * 100,
    "null bytes": b"x = 1\x00\ny = 2",
    "a deep expression": b"x = " + b"-" * 50_000 + b"1",
    "brackets": b"x = " + b"(" * 50_000,
    "a long sum": b"x = " + b"1+" * 40_000 + b"1",
    "a long number": b"x = " + b"9" * 50_000,
    "many definitions": b"def f(): pass\n" * 6_000,
    "a long cell": b"x = 1\n" * MAX_CELL,
    "deep blocks": b"".join(b" " * i + b"if x:\n" for i in range(150)),
    "an open string": b"'''" + b"a" * 50_000,
}


@pytest.mark.parametrize("data", HARMLESS, ids=str)
def test_odd_python_next_to_an_answer_does_no_harm(tmp_path, data):
    answers = read_answers(written(tmp_path, HARMLESS[data] + b"\n# %%\n" + RIGHT.encode()))
    found = program_for(answers, "tensors.flatten", "flatten_elements", lesson="01", is_stub=is_stub)
    assert "reshape" in found.source


def test_an_answer_that_needs_more_than_anyone_writes_is_an_error_that_says_so(notebook):
    table = "TABLE = [" + "1," * 30_000 + "]\n"
    cells = [table.replace("TABLE", f"TABLE_{i}") for i in range(4)]
    found = program(
        notebook(*cells, f"def flatten_elements(x):\n    return {', '.join(f'TABLE_{i}' for i in range(4))}")
    )
    assert (found.outcome, found.reason) == ("ERROR", "What flatten_elements needs has more than 200000 characters.")
    chain = ["N0 = 0", *(f"N{i} = N{i - 1}" for i in range(1, 500))]
    found = program(notebook("\n".join(chain), "def flatten_elements(x):\n    return N499"))
    assert (found.outcome, found.reason) == ("ERROR", "What flatten_elements needs has more than 400 statements.")


def test_of_much_code_only_the_first_is_read(notebook, tmp_path):
    for cells in (["x = 1 + 1\n" * 9_000] * 15, ["x = 1\n"] * 3_000, ["x = 1\n" * 1_500] * 10):
        answers = read_answers(notebook(RIGHT, *cells))
        assert "more code than is read of one submission" in answers.notes[0]
        assert len(answers.statements) < 20_000
        found = program_for(answers, "tensors.flatten", "flatten_elements", lesson="01", is_stub=is_stub)
        assert found.source == RIGHT
    assert "more than 2 MB of text" in read_answers(written(tmp_path, b"\n" * 2**21 + b"y")).problem


def seconds(work):
    """Of this process, the least of three, with nothing remembered."""
    spent = []
    for _ in range(3):
        statements._remembered.cache_clear()
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


# What once took time with the square of its length: makers of cells, and how many lines are many.
LONG = {
    "blank lines in what does not parse": (lambda n: ["def f(:" + "\n" * n], 4_000),
    "annotations in what does not parse": (lambda n: ["def f(:\n" + "a:\n" * n], 3_000),
    "statements and lines": (lambda n: ["x = 1\n" * n + "#\n" * 8 * n] * 5, 500),
    "statements on a line": (lambda n: [f"x{i}=1;" + "x=1;" * n for i in range(5)], 500),
    "definitions and checks": (lambda n: ["f = 1\n" * n] * 5 + ["check('tensors.ravel', f)\n" * n] * 5, 400),
}


@pytest.mark.parametrize("kind", LONG)
def test_long_cells_take_time_with_their_length_not_with_its_square(kind, notebook):
    make, size = LONG[kind]

    def read(path):
        return lambda: program(path, exercise="tensors.flatten", name="f")

    short, long = (seconds(read(notebook(*make(n), name=f"{n}.ipynb"))) for n in (size, size * 4))
    assert long < 8 * short + 0.2  # with the square it would be 16


def test_special_files_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.ipynb")
    assert "not an ordinary file" in read_answers(tmp_path / "pipe.ipynb").problem
    assert "cannot be read" in read_answers(tmp_path).problem
    assert "cannot be read" in read_answers(tmp_path / "missing.py").problem
    (tmp_path / "link.py").symlink_to(__file__)
    assert "cannot be read" in read_answers(tmp_path / "link.py").problem


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    assert "more than 0.5 MB" in read_answers(written(tmp_path, b"#" * 2**20), max_bytes=2**19).problem


def test_outputs_of_any_size_are_passed_over(tmp_path):
    text = 'say \\"outputs\\": [ \n' * 10
    output = {"output_type": "stream", "text": [text * 4_000] * 32, "more": {"outputs": [[1, "]"], {"a": "}\\"}]}}
    cell = {"cell_type": "code", "outputs": [output], "source": RIGHT + '# "outputs": [1]', "metadata": {}}
    whole = {"cells": [cell, {**cell, "source": "x = 1"}], "metadata": {"course": {"lesson": "01"}}}
    path = written(tmp_path, json.dumps(whole), "answers.ipynb")
    assert path.stat().st_size > 50 * 2**20
    answers = read_answers(path)
    assert answers.lesson == "01"
    assert "outputs were not looked at" in answers.notes[0]
    assert [each.text for each in answers.statements] == [RIGHT, "x = 1\n"]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_notebook_without_outputs_is_the_same_but_for_them(indent):
    cells = [{"source": 'a "outputs": [', "outputs": [{"t": '"]', "d": [[], {}]}]}, {"outputs": [], "x": "\\"}]
    found = json.loads(without_outputs(json.dumps({"cells": cells, "outputs": 3}, indent=indent)))
    assert found == {"cells": [{**cell, "outputs": []} for cell in cells], "outputs": 3}
