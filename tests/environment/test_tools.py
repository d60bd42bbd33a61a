from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

from course.environment import tools
from course.environment.tools import judge_compiler, judge_front_end


@pytest.mark.parametrize(
    ("works", "headers", "state", "words"),
    [
        (True, True, "ok", "torch.compile works"),
        (False, True, "note", "g++ not found"),
        (True, False, "note", "Python.h, the headers of Python not found"),
        (False, False, "note", "g++ and Python.h"),
    ],
)
def test_compiler_and_headers(works, headers, state, words):
    finding = judge_compiler("g++", works=works, headers=headers, system="linux")
    assert (finding.state, bool(finding.remedy)) == (state, state != "ok")
    assert words in finding.value


@pytest.mark.parametrize(
    ("system", "words"),
    [("linux", "python3-dev"), ("darwin", "xcode-select"), ("win32", "Visual Studio"), ("freebsd14", "g++")],
)
def test_each_system_has_its_way_to_a_compiler(system, words):
    assert words in judge_compiler("c++", works=False, headers=True, system=system).remedy


def test_the_compiler_is_the_one_that_torch_would_run(monkeypatch):
    from torch._inductor import config

    monkeypatch.delenv("CXX", raising=False)
    assert tools.COMPILERS.get(sys.platform, "g++") == config.cpp.cxx[-1]


def test_the_compiler_can_be_missing(monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tools.compiler().state == "note"


def test_cxx_names_another_compiler(monkeypatch):
    monkeypatch.setenv("CXX", sys.executable)
    assert Path(sys.executable).name in tools.compiler().value


def test_the_headers_can_be_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", sys.executable)
    monkeypatch.setattr(tools.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert "Python.h" in tools.compiler().value


@pytest.fixture
def kernelspec(monkeypatch):
    """A function that plants what Jupyter's kernel python3 starts; None for no such kernel."""

    def plant(command: str | None) -> None:
        def get(self, name):
            if command is None:
                raise NoSuchKernel(name)
            return SimpleNamespace(argv=[command, "-m", "ipykernel_launcher"])

        monkeypatch.setattr(KernelSpecManager, "get_kernel_spec", get)

    return plant


@pytest.mark.parametrize(
    "command", ["python", "python3", sys.executable, str(Path(sys.executable).with_name("python"))]
)
def test_a_kernel_of_this_python(kernelspec, command):
    kernelspec(command)
    assert tools.kernel().state == "ok"


def test_no_kernel(kernelspec):
    kernelspec(None)
    finding = tools.kernel()
    assert finding.state == "problem"
    assert "pip install ipykernel" in finding.remedy


@pytest.mark.parametrize(("code", "state"), [(0, "note"), (1, "problem")])
def test_a_kernel_of_another_python(kernelspec, tmp_path, code, state):
    other = tmp_path / "python"
    other.write_text(f"#!/bin/sh\nexit {code}\n", encoding="utf-8")
    other.chmod(0o755)
    kernelspec(str(other))
    finding = tools.kernel()
    assert finding.state == state
    assert str(other) in finding.value
    assert "ipykernel install --sys-prefix" in finding.remedy


def test_a_kernel_of_a_python_that_is_gone(kernelspec, tmp_path):
    kernelspec(str(tmp_path / "gone" / "python"))
    assert tools.kernel().state == "problem"


def test_links_of_environments_are_not_followed(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "python").symlink_to(sys.executable)
    (tmp_path / "three").symlink_to(tmp_path / "one")
    assert not tools._same_place(str(tmp_path / "one" / "python"), str(tmp_path / "two" / "python"))
    assert tools._same_place(str(tmp_path / "one" / "python"), str(tmp_path / "three" / "python3"))


def test_this_interpreter_has_what_a_kernel_needs():
    assert tools._starts([sys.executable, "-c", tools.HAS_COURSE])


def test_the_home_folder_is_not_spelt_out(monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    assert tools._short("/home/me/env/bin/python") == "~/env/bin/python"
    assert tools._short("/usr/bin/python3") == "/usr/bin/python3"


@pytest.mark.parametrize(
    ("versions", "state", "words"),
    [
        ({"jupyterlab": "4.6.6", "jupyterlab-widgets": "3.0"}, "ok", "jupyterlab 4.6.6"),
        ({"jupyterlab": "4.6.6", "notebook": "7.4", "jupyterlab-widgets": "3.0"}, "ok", "notebook 7.4"),
        ({"jupyterlab": "4.6.6"}, "note", "ipywidgets"),
        ({}, "note", "no Jupyter front end"),
    ],
)
def test_front_ends(versions, state, words):
    finding = judge_front_end("this is no notebook", versions)
    assert finding.state == state
    assert words in finding.value + finding.remedy


@pytest.mark.parametrize(
    ("variables", "modules", "place"),
    [
        ({}, {}, "this is no notebook"),
        ({"JPY_PARENT_PID": "1"}, {}, "this is no notebook"),
        ({"JPY_PARENT_PID": "1"}, {"ipykernel": 1}, "this is a Jupyter notebook"),
        ({"JPY_PARENT_PID": "1", "VSCODE_PID": "2"}, {"ipykernel": 1}, "this is a notebook in Visual Studio Code"),
        ({"COLAB_RELEASE_TAG": "release"}, {}, "this is Google Colab"),
        ({"BINDER_SERVICE_HOST": "10.0.0.1"}, {}, "this is Binder"),
    ],
)
def test_places(variables, modules, place):
    assert tools._place(variables, modules) == place


def test_this_front_end():
    assert "jupyterlab" in tools.front_end().value
