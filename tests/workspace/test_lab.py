"""`course lab` up to the start of the server; a real one is started in tests/setup/test_lab.py."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from course import curriculum
from course.workspace import copies, folder, lab, manifest, progress, servers
from course.workspace.files import RequestError, WorkspaceError


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, without copies; short notebooks, no COURSE_HOME, and nothing is signed or served."""
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    for lesson in curriculum.LESSONS:
        content = {"cells": [{"cell_type": "markdown", "source": f"# {lesson.title}"}], "metadata": {}}
        (shipped / f"{lesson.name}.ipynb").write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setenv(curriculum.NOTEBOOKS_VARIABLE, str(shipped))
    monkeypatch.delenv("COURSE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home of Zoë"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home of Zoë"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setattr(copies.update, "__kwdefaults__", {**copies.update.__kwdefaults__, "sign": lambda _: None})
    place = tmp_path / "elsewhere"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


class Served:
    """What `start` did: what it said, and the arguments and environment with which JupyterLab was started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[str] = []
        self.line: list[str] | None = None
        self.opened: list[str] = []
        monkeypatch.setattr(lab.webbrowser, "open", self.opened.append)
        self._monkeypatch = monkeypatch

    def start(self, *arguments, **options) -> int:
        def serve(line: list[str]) -> int:
            self.line = line
            self.environment = dict(os.environ)
            return 0

        with self._monkeypatch.context() as patch:
            # What `start` sets for its own process must not stay in this one.
            patch.setattr(os, "environ", dict(os.environ))
            return lab.start(*arguments, serve=serve, tell=self.told.append, **options)


@pytest.fixture
def served(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    return Served(monkeypatch)


@pytest.fixture
def server(tmp_path: Path, elsewhere: Path):
    """A function that lets Jupyter's runtime folder tell of a server in a folder: this process, listening."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def tell(root: Path, **changed) -> None:
            port = listening.getsockname()[1]
            info = {
                "pid": os.getpid(),
                "url": f"http://127.0.0.1:{port}/",
                "token": "t",
                "root_dir": str(root),
                **changed,
            }
            (tmp_path / "runtime").mkdir(exist_ok=True)
            (tmp_path / "runtime" / f"jpserver-{port}.json").write_text(json.dumps(info), encoding="utf-8")

        yield tell


def test_it_copies_and_opens_the_lesson_asked_for(served: Served, tmp_path: Path):
    place = tmp_path / "mine ü"
    assert served.start(curriculum.lesson("03"), workspace=str(place), browser=False, arguments=["--port=1"]) == 0
    assert (place / "03_modules.ipynb").read_bytes() == curriculum.notebook_path(curriculum.lesson("03")).read_bytes()
    assert served.line == [
        f"--ServerApp.root_dir={place}",
        "--LabApp.default_url=/lab/tree/03_modules.ipynb",
        "--ServerApp.jpserver_extensions=jupyterlab_jupytext=False",
        "--no-browser",
        "--port=1",
    ]
    assert served.told == [
        f"{len(curriculum.LESSONS)} notebooks were copied to {place}.",
        f"Your notebooks are in {place}. Ctrl-C, then y, ends JupyterLab.",
    ]


def test_without_a_lesson_it_opens_the_next_unfinished_one(served: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "next_lesson", lambda _: curriculum.lesson("02"))
    served.start()
    assert "--LabApp.default_url=/lab/tree/02_autograd.ipynb" in served.line
    assert "Next: 02 Autograd pitfalls." in served.told
    monkeypatch.setattr(progress, "next_lesson", lambda _: None)
    served.start()
    assert "--LabApp.default_url=/lab" in served.line
    assert "Every lesson is finished." in served.told


def test_what_is_given_for_jupyterlab_goes_before_ours():
    line = lab.command_line(Path("/w"), "a.ipynb", arguments=["--ServerApp.root_dir=/x", "--LabApp.default_url=/tree"])
    assert line == [
        "--ServerApp.jpserver_extensions=jupyterlab_jupytext=False",
        "--ServerApp.root_dir=/x",
        "--LabApp.default_url=/tree",
    ]


def test_the_servers_environment(elsewhere: Path, monkeypatch: pytest.MonkeyPatch):
    ours = str(lab.CONFIG_FOLDER)
    assert lab.environment({}) == {
        "JUPYTER_CONFIG_PATH": ours,
        "JUPYTER_PATH": str(Path(sys.prefix, "share/jupyter")),
    }
    monkeypatch.setenv("COURSE_HOME", "a relative one")
    variables = lab.environment({**os.environ, "JUPYTER_CONFIG_PATH": "/theirs", "JUPYTER_PATH": "/decoy"})
    assert variables["JUPYTER_CONFIG_PATH"] == os.pathsep.join(["/theirs", ours])
    assert "/decoy" not in variables["JUPYTER_PATH"]
    assert variables["COURSE_HOME"] == str(elsewhere / "a relative one")
    assert set(variables) == {"JUPYTER_CONFIG_PATH", "JUPYTER_PATH", "COURSE_HOME"}


def test_a_second_one_opens_the_page_of_the_first(served: Served, server, tmp_path: Path):
    place = tmp_path / "mine"
    server(place)
    assert served.start(curriculum.lesson("01"), workspace=str(place)) == 0
    assert served.line is None
    (address,) = served.opened
    assert address.endswith("/lab/tree/01_tensors_and_strides.ipynb?token=t")
    assert served.told[-1] == f"JupyterLab is running in {place} already (process {os.getpid()}): {address}"
    served.start(workspace=str(place), browser=False)
    assert len(served.opened) == 1


def test_with_arguments_of_its_own_a_second_one_is_started_and_said(served: Served, server, tmp_path: Path):
    server(tmp_path / "mine")
    served.start(workspace=str(tmp_path / "mine"), arguments=["--port=8899"])
    assert served.line[-1] == "--port=8899"
    assert any("keep a notebook open in one of the two only" in line for line in served.told)


@pytest.mark.parametrize(
    "changed", [{"pid": 2**22 + 1}, {"url": "http://127.0.0.1:9/"}, {"pid": "x"}, {"root_dir": None}]
)
def test_a_server_that_has_ended_is_in_nobodys_way(served: Served, server, tmp_path: Path, changed: dict):
    server(tmp_path / "mine", **changed)
    served.start(workspace=str(tmp_path / "mine"))
    assert served.line is not None


def test_a_server_of_which_nothing_certain_is_known_counts_as_running(served: Served, server, tmp_path: Path):
    place = tmp_path / "mine"
    server(place, url="http://[::/")
    assert len(servers.serving(place)) == 1
    served.start(workspace=str(place))
    assert served.line is not None


def test_a_server_above_the_folder_counts_as_serving_it(server, tmp_path: Path):
    server(tmp_path)
    assert len(servers.serving(tmp_path / "mine")) == 1
    assert servers.serving(tmp_path) != []
    server(tmp_path / "mine")
    assert servers.serving(tmp_path) == []


def test_an_update_under_a_server_replaces_nothing(served: Served, server, tmp_path: Path, monkeypatch):
    place = tmp_path / "mine"
    served.start(workspace=str(place))
    first = next(iter(curriculum.LESSONS))
    path = copies.copy_path(place, first)
    old = path.read_bytes().replace(b"# ", b"# old ", 1)
    path.write_bytes(old)
    notebook = copies.Notebook.parse(old)
    entry = manifest.Manifest.read(place)
    entry.of(first.name).text, entry.of(first.name).data = notebook.text_digest, notebook.bytes_digest
    entry.write()
    server(tmp_path)
    served.start(workspace=str(place))
    assert path.read_bytes() == old
    assert any("JupyterLab is running here" in line for line in served.told)
    server(tmp_path / "other")
    served.start(workspace=str(place))
    assert path.read_bytes() == curriculum.notebook_path(first).read_bytes()


def test_without_jupyterlab_nothing_is_copied(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "jupyterlab", None)
    with pytest.raises(WorkspaceError, match=r"JupyterLab is not installed for .*pip install jupyterlab"):
        served.start(workspace=str(tmp_path / "mine"))
    assert not (tmp_path / "mine").exists()


def test_a_folder_that_cannot_be_written_starts_nothing(served: Served, tmp_path: Path):
    (tmp_path / "mine").touch()
    with pytest.raises(WorkspaceError, match="cannot be written"):
        served.start(workspace=str(tmp_path / "mine"))
    assert served.line is None


def test_which_folder(elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert folder.choose() == tmp_path / "home of Zoë" / "pytorch-course"
    assert folder.choose("here") == elsewhere / "here"
    assert folder.choose("~/there") == tmp_path / "home of Zoë" / "there"
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "moved"))
    assert folder.choose() == tmp_path / "moved" / "notebooks"
    manifest.Manifest(manifest.path_in(elsewhere), {"x": manifest.Copy()}).write()
    assert folder.choose() == elsewhere
    for nothing in ("", "  ", "a\0b"):
        with pytest.raises(RequestError, match="needs the name of a folder"):
            folder.choose(nothing)


def test_a_current_folder_that_was_removed(elsewhere: Path):
    elsewhere.rmdir()
    with pytest.raises(RequestError, match=r"Name one with --workspace DIR"):
        folder.choose()


@pytest.mark.parametrize("part", [".", "notebooks", "notebooks/mine", "lessons", "course/workspace", "tests"])
def test_the_clone_cannot_be_the_workspace(
    elsewhere: Path, tmp_path: Path, root: Path, part: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv(curriculum.NOTEBOOKS_VARIABLE)
    clone = tmp_path / "clone"
    for name in ("lessons", "course", "notebooks"):
        (clone / name).mkdir(parents=True)
    for name in ("pyproject.toml", "course/curriculum.py"):
        (clone / name).touch()
    for place in (root, clone):
        with pytest.raises(RequestError, match=r"Choose another folder.* --workspace ~"):
            folder.choose(str(place / part))
    (tmp_path / "link").symlink_to(clone)
    with pytest.raises(RequestError, match="belongs to the clone"):
        folder.choose(str(tmp_path / "link" / part))
    assert folder.choose(str(clone / "my notebooks")) == clone / "my notebooks"


def test_neither_can_the_installed_package(elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(curriculum.NOTEBOOKS_VARIABLE, str(tmp_path / "site/course/_notebooks"))
    with pytest.raises(RequestError, match="holds the notebooks that the course brings"):
        folder.choose(str(tmp_path / "site/course/_notebooks"))
