from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbformat
import psutil
import pytest

from course.curriculum import Lesson
from course.publishing import UsageError, build, execute
from course.publishing.checkout import Checkout
from course.publishing.files import write_notebook
from course.publishing.run import Options, Run
from course.publishing.source import generate

pytestmark = pytest.mark.slow

LESSON_KEYS = {
    "lesson",
    "status",
    "reason",
    "seconds",
    "device",
    "exercises",
    "claims",
    "error",
    "cpu_seconds",
    "budget",
}
CLAIM_KEYS = {"name", "kind", "stated", "low", "high", "value", "unit", "verdict"}


def run(tiny, output: Path, lessons=None, **options) -> tuple[int, dict]:
    """Run the tiny lesson (built without executing it); return exit code and report."""
    if lessons is None:
        write_notebook(generate(tiny.lesson, tiny.checkout), tiny.notebook)
    chosen = Options(output=output, device=options.pop("device", "cpu"), **options)
    code = Run(
        lessons or [tiny.lesson],
        chosen,
        notebook_path=tiny.checkout.notebook,
        recorded=tiny.checkout.root / "recorded.json",
        load=tiny.checkout.load_exercise,
        say=tiny.lines.append,
    ).run()
    assert (output / "index.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    ElementTree.parse(output / "junit.xml")
    return code, json.loads((output / "report.json").read_text(encoding="utf-8"))


def test_as_shipped_every_exercise_is_not_attempted(tiny, tmp_path):
    code, report = run(tiny, tmp_path / "out {braces}")
    assert code == 0
    assert set(report) == {"torch", "python", "machine", "date", "lessons"}
    (lesson,) = report["lessons"]
    assert set(lesson) == LESSON_KEYS
    assert (lesson["status"], lesson["reason"], lesson["error"]) == ("passed", None, None)
    assert lesson["exercises"] == {"tiny.double": "NOT_ATTEMPTED"}
    assert [set(claim) for claim in lesson["claims"]] == [CLAIM_KEYS]
    assert 0.1 < lesson["cpu_seconds"] < lesson["budget"] == 40
    assert lesson["device"] == "cpu"
    executed = nbformat.read(tmp_path / "out {braces}" / "01_tiny.ipynb", as_version=4)
    assert executed.cells[-3].outputs[0].text == "the end, profile quick\n"
    assert tiny.lines[0] == "[1/1] 01_tiny: started"
    assert "01_tiny: passed" in tiny.lines[1]
    assert "of 40 CPU-seconds" in tiny.lines[1]


def test_solved_every_exercise_passes_with_the_smoke_profile(tiny, tmp_path):
    code, report = run(tiny, tmp_path / "out", solved=True)
    assert code == 0
    assert report["lessons"][0]["exercises"] == {"tiny.double": "PASSED"}
    executed = nbformat.read(tmp_path / "out" / "01_tiny.ipynb", as_version=4)
    assert executed.cells[-3].outputs[0].text == "the end, profile smoke\n"


def test_another_verdict_than_expected_fails(tiny, tmp_path):
    tiny.replace("NOT_ATTEMPTED", "PASSED")
    code, report = run(tiny, tmp_path / "out")
    (lesson,) = report["lessons"]
    assert code == 1
    assert lesson["status"] == "failed"
    assert lesson["reason"] == "Every exercise should be NOT_ATTEMPTED, but tiny.double is PASSED."
    cases = {case.get("name"): case for case in ElementTree.parse(tmp_path / "out" / "junit.xml").iter("testcase")}
    assert cases["tiny.double"].find("failure").get("message") == "PASSED instead of NOT_ATTEMPTED"


def test_an_exercise_without_a_verdict_fails(tiny, tmp_path):
    tiny.replace('display({"text/plain": verdict, "application/vnd.course', 'print({"application/vnd.course')
    tiny.replace("payload}, raw=True)", "payload})")
    code, report = run(tiny, tmp_path / "out")
    assert (code, report["lessons"][0]["reason"]) == (1, "No verdict was shown for tiny.double.")


def test_a_failing_cell_is_reported_and_what_came_before_kept(tiny, tmp_path):
    tiny.append("raise ValueError('not \\x1b[31m42')")
    code, report = run(tiny, tmp_path / "out")
    (lesson,) = report["lessons"]
    assert (code, lesson["status"]) == (1, "failed")
    assert lesson["error"] == {"cell": "01-009-code", "type": "ValueError", "message": "not \x1b[31m42"}
    assert lesson["exercises"] == {"tiny.double": "NOT_ATTEMPTED"}
    assert "01-009-code" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_a_system_exit_is_a_failure(tiny, tmp_path):
    tiny.append("import sys\nsys.exit(0)")
    code, report = run(tiny, tmp_path / "out")
    assert (code, report["lessons"][0]["error"]["type"]) == (1, "SystemExit")


def test_a_dead_kernel_is_a_failure(tiny, tmp_path):
    tiny.append("import os\nos._exit(0)")
    code, report = run(tiny, tmp_path / "out")
    (lesson,) = report["lessons"]
    assert (code, lesson["status"], lesson["reason"]) == (1, "failed", "The kernel ended by itself.")
    assert lesson["error"]["cell"] == "01-009-code"


def test_a_lesson_that_hangs_times_out_and_the_next_one_runs(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(execute, "START_SECONDS", -395)
    second = Lesson("02", "tiny", "Tiny again", 5, "tiny", cpu_seconds=60)
    checkout = Checkout(tiny.checkout.root, (tiny.lesson, second), tiny.checkout.load_exercise)
    source = checkout.source(second)
    source.write_text(tiny.source.read_text(encoding="utf-8").replace('"01"', '"02"'), encoding="utf-8")
    tiny.append("while True:\n    pass")
    for lesson in checkout.lessons:
        write_notebook(generate(lesson, checkout), checkout.notebook(lesson))
    code, report = run(tiny, tmp_path / "out", lessons=checkout.lessons, jobs=1)
    assert code == 1
    assert [lesson["status"] for lesson in report["lessons"]] == ["timeout", "passed"]
    assert report["lessons"][0]["error"]["cell"] == "01-009-code"
    assert report["lessons"][0]["reason"] == "It was stopped after 5 s."


def test_lessons_run_at_the_same_time(tiny, tmp_path):
    """Each lesson waits until the other one has come to its last cell, too."""
    numbers = ("01", "02")
    lessons = tuple(Lesson(number, "tiny", "Tiny", 5, "tiny") for number in numbers)
    checkout = Checkout(tiny.checkout.root, lessons, tiny.checkout.load_exercise)
    text = tiny.source.read_text(encoding="utf-8")
    for number, lesson in zip(numbers, lessons, strict=True):
        meet = (
            "import pathlib, time\n"
            f"folder = pathlib.Path({str(tmp_path)!r})\n"
            f"(folder / 'here-{number}').touch()\n"
            "while len(list(folder.glob('here-*'))) < 2:\n"
            "    time.sleep(0.05)\n"
        )
        numbered = text.replace('"01"', f'"{number}"')
        checkout.source(lesson).write_text(f"{numbered}\n# %%\n{meet}", encoding="utf-8")
        write_notebook(generate(lesson, checkout), checkout.notebook(lesson))
    code, report = run(tiny, tmp_path / "out", lessons=lessons, jobs=2)
    assert (code, [lesson["status"] for lesson in report["lessons"]]) == (0, ["passed", "passed"])


def test_a_missing_notebook_is_a_failure(tiny, tmp_path):
    code, report = run(tiny, tmp_path / "out", lessons=[tiny.lesson])
    assert code == 1
    assert "is missing" in report["lessons"][0]["reason"]


def test_an_absent_device_is_said_and_not_well(tiny, tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has the device whose absence is tested")
    code, report = run(tiny, tmp_path / "out", device="cuda")
    (lesson,) = report["lessons"]
    assert (code, lesson["status"]) == (1, "not_run")
    assert "cuda" in lesson["reason"]


def test_parameters_reach_the_lesson(tiny, tmp_path):
    code, _ = run(tiny, tmp_path / "out", params={"profile": "smoke"})
    executed = nbformat.read(tmp_path / "out" / "01_tiny.ipynb", as_version=4)
    assert (code, executed.cells[-3].outputs[0].text) == (0, "the end, profile smoke\n")


def test_a_full_run_records_its_measured_claims(tiny, tmp_path):
    path = tiny.checkout.root / "recorded.json"
    path.write_text('{"lessons": {"00": {"old": {"value": 1}}, "01": {"gone": {"value": 1}}}}', encoding="utf-8")
    code, report = run(tiny, tmp_path / "out", full=True, record=True)
    recorded = json.loads(path.read_text(encoding="utf-8"))["lessons"]
    assert code == 0
    assert recorded["00"] == {"old": {"value": 1}}
    assert list(recorded["01"]) == ["clock"]
    entry = recorded["01"]["clock"]
    assert entry["value"] == report["lessons"][0]["claims"][0]["value"]
    assert (entry["machine"], entry["torch"], entry["date"]) == (
        report["machine"],
        report["torch"],
        report["date"][:10],
    )


@pytest.mark.parametrize(("full", "marked"), [(False, True), (True, False)])
def test_a_quick_run_over_its_budget_is_marked(tiny, tmp_path, full, marked):
    tiny.append("import time\nwhile time.process_time() < 3: pass")
    tiny.lesson = Lesson("01", "tiny", "Tiny", 5, "tiny", cpu_seconds=2)
    tiny.checkout = Checkout(tiny.checkout.root, (tiny.lesson,), tiny.checkout.load_exercise)
    assert run(tiny, tmp_path / "out", full=full)[0] == 0
    assert ("of 2 CPU-seconds (over budget)" in tiny.lines[1]) == marked


def test_a_lesson_that_failed_records_nothing(tiny, tmp_path):
    tiny.append("1 / 0")
    run(tiny, tmp_path / "out", full=True, record=True)
    assert json.loads((tiny.checkout.root / "recorded.json").read_text(encoding="utf-8")) == {"lessons": {}}


def test_only_full_runs_are_recorded(tiny, tmp_path):
    with pytest.raises(UsageError, match="add --full"):
        run(tiny, tmp_path / "out", record=True)


def test_a_decoy_kernelspec_does_not_matter(tiny, tmp_path, monkeypatch):
    folder = tmp_path / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = {"argv": ["/nonexistent/python", "{connection_file}"], "display_name": "decoy", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    assert run(tiny, tmp_path / "out")[0] == 0
    assert build.build([tiny.lesson], tiny.checkout, say=tiny.lines.append) == 0


SCRIPT = """
import sys
from pathlib import Path
from course.curriculum import Lesson
from course.publishing.run import Options, Run

folder = Path(sys.argv[1])
lessons = [Lesson(number, "tiny", "Tiny", 5, "tiny") for number in ("01", "02")]
options = Options(output=folder / "out", device="cpu", jobs=1)
raise SystemExit(Run(lessons, options, notebook_path=lambda lesson: folder / "lesson.ipynb").run())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_a_report_and_no_process(tiny, tmp_path, number):
    marker = tmp_path / "pids"
    tiny.append(
        "import os, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        f"open({str(marker) + '.new'!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        f"os.rename({str(marker) + '.new'!r}, {str(marker)!r})\n"
        "time.sleep(1)\n"
        "time.sleep(300)"
    )
    write_notebook(generate(tiny.lesson, tiny.checkout), tmp_path / "lesson.ipynb")
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not marker.exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(0.5)
    os.kill(process.pid, number)
    printed, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Interrupted. The report is in" in printed
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    first, second = report["lessons"]
    assert (first["status"], first["reason"]) == ("not_run", "Interrupted while it was running.")
    assert (second["status"], second["reason"]) == ("not_run", "The run was interrupted before this lesson.")
    assert first["exercises"] == {"tiny.double": "NOT_ATTEMPTED"}
    assert (tmp_path / "out" / "index.html").exists()
    ElementTree.parse(tmp_path / "out" / "junit.xml")
    for pid in map(int, marker.read_text(encoding="utf-8").split()):
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
