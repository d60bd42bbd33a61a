"""The pieces around the worker: what it is shown, what it may say, what protects, and what happens when it is lost."""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch

from course.checking.observation import Encoder, ErrorSeen, ModuleSeen, ObjectSeen, Observation, TensorSeen
from course.exercises import exercise_ids, exercise_path
from course.grading import intact, sandbox, sweeping, warm
from course.grading.grade import Grader, GraderBroken
from course.grading.limits import Limits
from course.grading.observing import MAX_FRAME, MAX_INT_BYTES, Malformed, decode, encode, frame
from course.grading.sandbox import ENVIRONMENT, Protection, Refused, inside, required
from course.grading.stage import NotStrippable, fallback_names, stripped, write_stage

# What is said.

TENSOR = TensorSeen((2, 3), "float32", bytes(24), (3, 1), (0,), requires_grad=True)
PLAIN = [
    None,
    True,
    ...,
    0,
    -1,
    2**100,
    -(2**63),
    1.5,
    float("inf"),
    1 + 2j,
    "text \ud800 é",
    b"\x00\xff",
    (),
    [1, [2, (3,)]],
    {"a": 1, 2: [None], None: True, (1.5): ...},
    TENSOR,
    TensorSeen((), "bool", None, device="meta"),
    TensorSeen((0, 4), "int64", b"", (4, 1), array=True),
    ModuleSeen("Linear", True, {"weight": TENSOR}),
    ObjectSeen("dtype", "torch.float32"),
    ErrorSeen("ValueError", ("ValueError", "Exception"), "no", "x = 1"),
    Observation((TENSOR, 3), (TENSOR,), ((0, TENSOR),), (None, TENSOR), "note"),
]


# What leads to this Python, where it lies below /tmp itself: a checkout there has its environment in it.
PYTHON_IN_TMP = {path.parts[2] for path in map(Path, (sys.prefix, sys.base_prefix)) if path.parts[:2] == ("/", "tmp")}


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_observations_come_back_as_they_were(value):
    found = decode(encode(value))
    assert found == value
    assert repr(found) == repr(value)


def test_a_number_of_a_million_digits_is_only_described():
    assert decode(encode(1 << 8 * MAX_INT_BYTES)) == ObjectSeen("an int of 8193 bits")


def test_what_an_answer_returns_is_taken_up_to_a_size():
    """Whatever it returns is an observation, which can be read again and needs no more memory than the limits say."""
    for value in (
        ["x" * 600_000, "x" * 600_000],
        ["x" * 2**18 + "\U0001f600"] * 50,
        {"x" * 2**21: 1, b"x": 2},
        {2**70: 1, -(2**61): 2, 1 << 100_000: 3, 1j: 4, 2**60: 5},
        [torch.zeros(2**19)] * 3,
        [torch.zeros(2**19).numpy()] * 3,
        {str(i) for i in range(3000)},
        [[[[0] * 40] * 40] * 40] * 40,
    ):
        seen = Encoder()(value)
        data = encode(Observation(seen))
        assert len(data) <= MAX_FRAME
        assert decode(data).value == seen
    assert Encoder()(["x" * 600_000] * 2)[1] == ObjectSeen("a str of 600000 characters")
    assert [each.data is None for each in Encoder()([torch.zeros(2**19)] * 3)] == [False, False, True]
    assert Encoder()({2**70: 1, 2**60: 2}) == {f"the int {2**70:#x}": 1, 2**60: 2}


def test_a_report_of_very_many_parts_is_not_read_to_the_end(monkeypatch):
    monkeypatch.setattr(warm, "REPORT_PARTS", 1_000)
    reader, writer = os.pipe()
    taken = []
    frames = warm._Frames(bytes(16), taken.append)
    os.write(writer, frame(bytes(16), [None] * 800) * 2)
    assert frames.read(reader) == "report: it has too many parts"
    assert len(taken) == 1
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("value", [object(), {1, 2}, range(3), type, len], ids=lambda value: type(value).__name__)
def test_nothing_else_can_be_said(value):
    with pytest.raises(TypeError, match="no part of an observation"):
        encode(value)


FORGED = {
    "nothing": b"",
    "an unknown tag": b"x",
    "a list without end": b"l\xff\xff\xff\xff" + b"N" * 100,
    "a text without end": b"s\xff\xff\xff\xffabc",
    "deep lists": b"l\x00\x00\x00\x01" * 1000 + b"N",
    "many parts": b"l\x00\x10\x00\x00" + b"N" * 2**20,
    "a long int": b"i\x00\x00\x10\x00" + bytes(2**12),
    "bytes after the end": b"NN",
    "a list as a key": b"d\x00\x00\x00\x01l\x00\x00\x00\x00N",
    "keys with the same hash": encode({(2**61 - 1) * k: None for k in range(1, 100)}),
    "complex keys": encode({1j: None}),
    "a mapping that is too large": encode(dict.fromkeys(range(2001))),
    "too much text": encode(["x" * 2**20] * 9),
    "an unknown class": b"o\x00\x00\x00\x05Popen",
    "a shape of texts": encode(TensorSeen(("a",), "float32", None)),
    "a shape that is no tuple": encode(TensorSeen([2], "float32", None)),
    "a dtype that is a function": encode(TensorSeen((1,), "load", bytes(4))),
    "data of another size": encode(TensorSeen((2**40,), "float32", bytes(4))),
    "negative sizes": encode(TensorSeen((-1, -4), "float32", bytes(16))),
    "too many axes": encode(TensorSeen((1,) * 65, "uint8", bytes(1))),
    "a module whose state is a list": encode(ModuleSeen("Linear", True, [1])),
    "an exception of numbers": encode(ErrorSeen(1, (), "")),
    "changes that are no pairs": encode(Observation(None, (), (1, 2))),
}


@pytest.mark.parametrize("data", FORGED.values(), ids=FORGED)
def test_what_no_encoder_writes_is_refused(data):
    with pytest.raises(Malformed):
        decode(data)


def test_damaged_bytes_are_refused_or_are_other_observations():
    source, whole = random.Random(0), encode(PLAIN[15:])
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(source.randrange(1, 6)):
            data[source.randrange(len(data))] = source.randrange(256)
        try:
            decode(bytes(data[: source.randrange(len(data))] if source.random() < 0.3 else data))
        except Malformed:
            continue


# What is shown.


@pytest.fixture(scope="module")
def everything_stripped():
    return {name: stripped(exercise_path(name).read_text(encoding="utf-8"), name) for name in exercise_ids()}


def roles(tree):
    for node in tree.body:
        for decorator in getattr(node, "decorator_list", ()):
            yield ast.unparse(decorator).removeprefix("exercise.").split("(")[0], node.name


def test_no_exercise_shows_answers(everything_stripped):
    for name, text in everything_stripped.items():
        whole, shown = ast.parse(exercise_path(name).read_text(encoding="utf-8")), ast.parse(text)
        answers = {found for role, found in roles(whole) if role in ("stub", "reference", "alternative", "wrong")}
        defined = {getattr(node, "name", None) for node in ast.walk(shown)}
        assert not [found for found in answers & defined if found in {getattr(n, "name", None) for n in shown.body}], (
            name
        )
        probes = [found for role, found in roles(whole) if role == "probe"]
        assert [found for role, found in roles(shown) if role == "probe"] == probes
        words = {
            keyword.arg: ast.unparse(keyword.value)
            for node in ast.walk(shown)
            for keyword in getattr(node, "keywords", ())
        }
        assert not {"right", "wrong", "choices"} & words.keys(), name
        assert words["hints"] == "()"
        assert words["task"] == words["title"] == "''"


def test_an_exercise_whose_probes_use_an_answer_is_refused():
    text = """
exercise = Exercise("a.b", title="", task="", hints=())
@exercise.reference
def right(x):
    return x
@exercise.probe
def one(answer):
    return answer(1) == right(1)
"""
    with pytest.raises(NotStrippable, match="its probes use right"):
        stripped(text, "a.b")
    with pytest.raises(NotStrippable, match="made by Special"):
        stripped(text.replace("Exercise(", "Special("), "a.b")


def test_what_only_answers_use_is_not_shown():
    text = """
import torch
from course.checking import Exercise
exercise = Exercise("a.b", title="How", task="Do", hints=("so",), compare=("value",))
TABLE = {}
TABLE["key"] = 1
def trick(x): return x + 1
def input_of(n): return torch.zeros(n) + len(TABLE)
@exercise.stub
def answer(x): ...
@exercise.reference
def right(x): return trick(x)
@exercise.probe
def one(): return input_of(3)
"""
    found = stripped(text, "a.b")
    assert "trick" not in found
    assert "TABLE['key'] = 1" in found
    assert "compare=('value',)" in found
    assert fallback_names(text) == ["torch"]


def test_the_stage_holds_the_graded_exercises_only(tmp_path):
    write_stage(tmp_path, ["tensors.flatten"])
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path for path in files if path.startswith("course/exercises/")} == {
        "course/exercises/__init__.py",
        "course/exercises/tensors/__init__.py",
        "course/exercises/tensors/flatten.py",
    }
    assert not [
        path for path in files if (path.startswith("course/grading/") and "judge" in path) or "publishing" in path
    ]
    assert not [path for path in files if "by_reshape" in (tmp_path / path).read_bytes().decode(errors="replace")]
    code = "from course.exercises import load_exercise; print(len(load_exercise('tensors.flatten').probes))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 10


# What has to stay as it is.


def test_what_is_put_back_was_changed_all_the_same():
    before = intact.baseline()
    assert intact.replaced(before) == intact.changed_for_a_while(before) == []
    torch.Tensor.equal = torch.Tensor.__eq__
    try:
        assert intact.replaced(before) == ["torch.Tensor.equal"]
    finally:
        del torch.Tensor.equal
    assert intact.replaced(before) == []
    if sys.version_info < (3, 14):  # where the changes of a dictionary have numbers
        assert intact.changed_for_a_while(before) == ["torch.Tensor for a while"]
    assert intact.changed_for_a_while(before) == []


def test_what_the_compiler_puts_around_an_inherited_method_is_no_change(monkeypatch):
    adam, adamw, wrap = torch.optim.Adam, torch.optim.AdamW, torch._compile._disable_dynamo
    if "_init_group" in vars(adamw):  # another test of this process has compiled something
        monkeypatch.delattr(adamw, "_init_group")
    before = intact.baseline()
    original = adam._init_group
    monkeypatch.setattr(adam, "_init_group", wrap(original))
    monkeypatch.setattr(adamw, "_init_group", wrap(original), raising=False)
    assert intact.replaced(before) == []
    monkeypatch.setattr(adamw, "_init_group", lambda *a: None)
    assert intact.replaced(before) == ["torch.optim.adamw.AdamW._init_group"]


# What protects.


@pytest.fixture(params=["bubblewrap", "namespaces"])
def kind(request, contained):
    found = next((each for each in sandbox._candidates() if each.name == request.param and sandbox._works(each)), None)
    if found is None:
        pytest.skip(f"{request.param} does not work here")
    return found


def seen_inside(kind, code, shown=None):
    user = sandbox.user_inside(kind)
    become = "" if user is None else f"os.setgroups([]); os.setresgid({user}, {user}, {user}); os.setuid({user})"
    lines = ["import os, socket", become, f"print({code})"]
    command = inside(kind, [sys.executable, "-I", "-S", "-c", "\n".join(lines)], shown=shown)
    environment = {**ENVIRONMENT, "SECRET": "1"} if kind.name == "bubblewrap" else {**os.environ, "SECRET": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout.strip())


def test_inside_there_is_nothing_but_the_system_and_this_python(kind, tmp_path):
    (tmp_path / "file").write_text("shown")
    tmp_path.chmod(0o755)
    home = str(Path.home())
    # One start for all questions.
    questions = {
        "pid": "os.getpid()",
        "processes": "[name for name in os.listdir('/proc') if name.isdigit()]",
        "environment": "sorted(os.environ)",
        "interfaces": "[name for _, name in socket.if_nameindex()]",
        "tmp": "os.listdir('/tmp')",
        "shown": "os.listdir('/shown')",
        "course": f"os.path.exists({str(exercise_path('tensors.flatten'))!r})",
        "home": f"os.path.isdir({home!r}) and [name for name in os.listdir({home!r}) if not name.startswith('.')]",
        "writable": "[p for p in ('/', '/usr', '/etc', '/dev', '/shown', '/proc/sys/kernel') if os.access(p, 2)]",
        "here": f"os.path.exists({__file__!r})",
        "space": "os.statvfs('/tmp').f_frsize * os.statvfs('/tmp').f_blocks",
        "zero": "os.system('head -c 1 /dev/zero > /dev/null 2>&1')",
    }
    code = ", ".join(f"{name!r}: {question}" for name, question in questions.items())
    seen = seen_inside(kind, "{" + code + "}", shown=tmp_path)
    assert seen["pid"] == 1
    assert seen["processes"] == ["1"]
    assert set(seen["environment"]) <= {*ENVIRONMENT, "PWD", "LC_CTYPE"}
    assert seen["interfaces"] == ["lo"]
    assert set(seen["tmp"]) <= PYTHON_IN_TMP
    assert seen["shown"] == ["file"]
    assert not seen["course"]
    assert not seen["home"]
    assert seen["writable"] == []
    assert not seen["here"]
    assert seen["space"] == sandbox.FOLDER_BYTES
    assert seen["zero"] != 0


REACHES_OUT = """
import contextlib, mmap, os, resource, socket
def tried():
    for name, call in (
        ("limits", lambda: resource.prlimit(1, resource.RLIMIT_FSIZE, (10, 10))),
        ("priority", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19)),
        ("processors", lambda: os.sched_setaffinity(1, {min(os.sched_getaffinity(0))})),
        ("scheduler", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))),
        ("memory file", lambda: os.memfd_create("here")),
        ("shared memory", lambda: mmap.mmap(-1, 4096)),
        ("zeros", lambda: open("/dev/zero", "r+b", 0)),
        ("machine", lambda: socket.socket(40, socket.SOCK_STREAM)),
    ):
        with contextlib.suppress(OSError):
            call()
            yield name
def flatten_elements(x):
    raise LookupError(f"reached: {sorted(tried())}")
"""
MAKES_FILES = """
import os
def flatten_elements(x):
    for i in range(10**9):
        os.mknod(f"{i}")
"""


def test_neither_the_worker_nor_uncounted_memory_can_be_reached(kind, monkeypatch, tmp_path):
    monkeypatch.setattr("course.grading.grade.required", lambda unprotected: kind)
    with Grader(["tensors.flatten"]) as grader:
        for source, outcome, told in (
            (REACHES_OUT, "ERROR", "reached: []"),
            (MAKES_FILES, "CONTAINED", "more files"),
            ("def flatten_elements(x):\n    return x.reshape(-1)\n", "PASSED", ""),
        ):
            (tmp_path / "a.py").write_text(source)
            (row,) = grader.grade(tmp_path / "a.py")
            assert row.outcome == outcome, row
            assert told in f"{row.seen} {row.note}"
        assert grader.starts == 1


def refuse_rollups(path):
    if path.endswith("smaps_rollup"):
        raise PermissionError(path)
    return open(path)


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="memory is counted where there is /proc")
@pytest.mark.parametrize("hidden", [False, True])
def test_memory_that_processes_share_is_counted_once(monkeypatch, hidden):
    """Two processes, one memory of 64 MB; all of it for each where they do not let anybody look."""
    code = """
import mmap, os
m = mmap.mmap(-1, 2**26)
m.write(bytes(2**26))
pid = os.fork()
m[:]
print(pid or os.getpid(), flush=True)
input() if pid else os.read(0, 1)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        pids = {child.pid, *(int(child.stdout.readline()) for _ in range(2))}
        assert len(pids) == 2
        monkeypatch.setattr(sweeping, "processes", lambda: sorted(pids))
        # This process may be larger than the two together, which a worker is not.
        monkeypatch.setattr(
            sweeping, "_resident", lambda pid, real=sweeping._resident: real(pid) * (pid != os.getpid())
        )
        if hidden:
            monkeypatch.setattr(sweeping, "open", refuse_rollups, raising=False)
        seen = {}
        for megabytes in (32, 120, 250):
            limits = {"processes": 64, "all_files": 10**12, "all_memory_bytes": megabytes * 2**20}
            seen[megabytes] = sweeping.excess({"folder": "/nowhere", "files": 0, "limits": limits})
        child.communicate(b"\n\n")
    assert seen == {32: "memory", 120: "memory" if hidden else None, 250: None}


def test_a_worker_whose_limits_or_priority_were_changed_is_dirty():
    code = """
import os, resource
from course.grading.sweeping import dirt, standing
before, setup = standing(), {"folder": "/nowhere", "keep": []}
assert dirt(setup, False, before) is None
os.nice(1)
print(dirt(setup, False, before))
high = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (2**30 + 1, high))
print(dirt(setup, False, before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "another priority of the worker",
        "another RLIMIT_FSIZE, priority of the worker",
    ]


def test_without_protection_nothing_is_run_unless_told(monkeypatch):
    nothing = Protection("none", sandbox.NONE)
    monkeypatch.setattr(sandbox, "protection", lambda: nothing)
    with pytest.raises(Refused, match=r"apt-get install bubblewrap.*--unprotected"):
        required()
    assert required(unprotected=True) is nothing
    assert "No protection was active" in str(nothing)
    assert nothing.to_dict()["name"] == "none"


def test_a_protection_that_leaves_doors_open_is_noticed():
    from course.grading.warm import _open_doors

    sound = {"pid": 1, "processes": 0, "user": 65534, "capabilities": 0, "no_new_privileges": True, "filtered": True}
    sound |= {"interfaces": ["lo"], "writable": [], "environment": ["HOME"]}
    assert _open_doors(sound) is None
    changes = [{"pid": 7}, {"processes": 3}, {"user": 0}, {"capabilities": 1}]
    changes += [{"no_new_privileges": False}, {"filtered": False}]
    changes += [{"interfaces": ["lo", "eth0"]}, {"writable": ["/usr"]}, {"environment": ["AWS_SECRET"]}]
    for change in changes:
        assert _open_doors({**sound, **change}), change
        assert _open_doors({name: value for name, value in sound.items() if name not in change}), change


# What happens when it is lost.


def kill_worker(grader):
    """The process behind the protection; what set it up then ends by itself."""
    for child in psutil.Process(grader._warm._process.pid).children(recursive=True):
        child.kill()


def test_a_worker_that_was_killed_is_replaced(grader, tmp_path):
    path = tmp_path / "answer.py"
    path.write_text("strides = (2, 5)\n")
    kill_worker(grader)
    before = grader.starts
    rows = {row.exercise: row for row in grader.grade(path)}
    assert rows["tensors.read_strides"].outcome == "PASSED"
    assert grader.starts == before + 1


def test_a_worker_that_can_run_nothing_is_replaced_and_nobody_is_blamed(grader, tmp_path, monkeypatch):
    path = tmp_path / "answer.py"
    path.write_text("strides = (2, 5)\n")
    sound, given = grader.limits.of_a_process(), []

    def of_a_process(limits):
        """The first child cannot be confined."""
        given.append({} if not given else sound)
        return given[-1]

    monkeypatch.setattr(Limits, "of_a_process", of_a_process)
    before = grader.starts
    rows = {row.exercise: row for row in grader.grade(path)}
    assert rows["tensors.read_strides"].outcome == "PASSED", rows
    assert given == [{}, sound]
    assert grader.starts == before + 1


@pytest.mark.parametrize("why", [None, "time"])
def test_where_no_worker_runs_anything_the_grader_is_broken_not_the_answer(grader, tmp_path, monkeypatch, why):
    path = tmp_path / "answer.py"
    path.write_text("strides = (2, 5)\n")
    monkeypatch.setattr(grader._warm, "run", lambda job, limit, take: warm.Ending("exit code 70", why))
    with pytest.raises(GraderBroken, match="ran no answer"):
        grader.grade(path)
    monkeypatch.undo()
    assert {row.outcome for row in grader.grade(path) if row.exercise == "tensors.read_strides"} == {"PASSED"}


def test_a_worker_that_is_killed_in_the_middle_has_a_row_for_everything(grader, tmp_path, monkeypatch):
    path = tmp_path / "answer.py"
    # So slow that it is never over before the kill, also where this process gets no turn for a while.
    slow = "def flatten_elements(x):\n    import time\n    time.sleep(0.05)\n    return x.reshape(-1)\n"
    path.write_text(f"strides = (2, 5)\n{slow}")
    kills = []

    from course.grading.reading import Report

    take = Report.take

    def take_and_kill(report, message):
        take(report, message)
        if message[0] == "start" and len(kills) < 2:
            kills.append(message)
            kill_worker(grader)

    monkeypatch.setattr(Report, "take", take_and_kill)
    rows = {row.exercise: row for row in grader.grade(path)}
    monkeypatch.undo()
    assert rows["tensors.read_strides"].outcome == "PASSED"
    assert rows["tensors.flatten"].outcome == "CONTAINED"
    assert "worker was lost" in rows["tensors.flatten"].note
    assert {row.outcome for row in grader.grade(path) if row.exercise.startswith("tensors.f")} == {"PASSED"}
