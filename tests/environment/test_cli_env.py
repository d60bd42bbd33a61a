from __future__ import annotations

import json
import subprocess
import sys

import pytest

from course import cli

WITHOUT = """
import sys
for name in {names!r}:
    sys.modules[name] = None
from course import cli
sys.exit(cli.main(["env", *{arguments!r}]))
"""


def env_without(*names: str, json_form: bool = False) -> subprocess.CompletedProcess:
    """`course env` in a process where these packages cannot be imported."""
    code = WITHOUT.format(names=names, arguments=["--json"] if json_form else [])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)


def test_this_machine_is_ready(capsys):
    assert cli.main(["env"]) == 0
    assert capsys.readouterr().out.startswith("This machine can run the course")


def test_json(capsys):
    assert cli.main(["env", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ready"] is True
    assert {tuple(entry) for entry in report["findings"]} == {("name", "value", "state", "remedy")}


def test_without_torch():
    done = env_without("torch")
    assert done.returncode == 1
    assert done.stderr == ""
    assert "The course cannot run here yet: 1 problem" in done.stdout
    assert "torch is not installed" in done.stdout
    assert "https://pytorch.org/get-started/locally/" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "finding"),
    [
        ("torchvision", "torchvision"),
        ("psutil", "memory"),
        ("jupyter_client", "kernel"),
        ("packaging", "packages"),
    ],
)
def test_without_another_package(name, finding):
    done = env_without(name, json_form=True)
    assert done.stderr == ""
    entries = {entry["name"]: entry for entry in json.loads(done.stdout)["findings"]}
    assert entries[finding]["state"] != "ok"
    assert entries[finding]["remedy"]


def test_a_problem_is_an_exit_code(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "missing"))
    assert cli.main(["env"]) == 1
    assert "The course cannot run here yet" in capsys.readouterr().out
