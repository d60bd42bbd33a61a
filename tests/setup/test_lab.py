"""`make lab` serves the learner's copies, with the kernel of its own environment and without asking or fetching."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from course import curriculum

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recipe(root: Path) -> str:
    """The command with which `make lab` opens JupyterLab, without a browser and on a free port."""
    options = "--no-browser --port=0 --ServerApp.allow_root=True"
    done = subprocess.run(
        ["make", "--dry-run", "lab", f"VENV={sys.prefix}", f"LAB_ARGS={options}"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


def wait_until_it_answers(address: str, seconds: float = 60) -> None:
    """JupyterLab prints its address a moment before it listens there."""
    host, port = address.removeprefix("http://").split(":")
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@dataclass
class Running:
    """A server: its process, address, token, the lines of its log up to the address, and what was changed for it."""

    process: subprocess.Popen
    address: str
    page: str
    token: str
    log: list[str]
    workspace: Path
    environment: dict[str, str]


@pytest.fixture(scope="module")
def server(root: Path, recipe: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A running server.

    Another environment's kernel, also called python3, lies on JUPYTER_PATH. The user has settings: a dark theme as a
    default of their own, and notifications silenced.
    """
    place = tmp_path_factory.mktemp("lab")
    spec = place / "decoy/kernels/python3/kernel.json"
    theme = place / "config/labconfig/default_setting_overrides.json"
    silence = place / "config/lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    for path, content in (
        (spec, {"argv": ["false"], "display_name": "decoy", "language": "python"}),
        (theme, {"@jupyterlab/apputils-extension:themes": {"theme": "JupyterLab Dark"}}),
        (silence, {"doNotDisturbMode": True}),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    environment = {
        **os.environ,
        "COURSE_HOME": str(place / "Zoë's course"),
        "JUPYTER_PATH": str(place / "decoy"),
        "JUPYTER_CONFIG_DIR": str(place / "config"),
        "JUPYTER_DATA_DIR": str(place / "data"),
        "JUPYTER_RUNTIME_DIR": str(place / "runtime"),
    }
    process = subprocess.Popen(
        shlex.split(recipe),
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    log = []
    try:
        for line in process.stderr:
            log.append(line)
            if found := re.search(r"(http://127\.0\.0\.1:\d+)/(lab\S*)\?token=(\w+)", line):
                break
        else:
            pytest.fail("JupyterLab did not start:\n" + "".join(log))
        wait_until_it_answers(found[1])
        yield Running(process, found[1], found[2], found[3], log, place / "Zoë's course/notebooks", environment)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def get(server: Running, path: str) -> dict:
    """What the server's REST interface answers."""
    request = urllib.request.Request(f"{server.address}/{path}", headers={"Authorization": f"token {server.token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_it_serves_copies_and_opens_the_first_lesson(server: Running):
    first, second = curriculum.LESSONS[:2]
    assert server.page == f"lab/tree/{first.name}.ipynb"
    notebook = get(server, f"api/contents/{second.name}.ipynb")
    assert notebook["type"] == "notebook"
    assert notebook["content"]["cells"]
    assert {item["name"] for item in get(server, "api/contents")["content"]} == {
        f"{lesson.name}.ipynb" for lesson in curriculum.LESSONS
    }
    assert (server.workspace / f"{first.name}.ipynb").read_bytes() == curriculum.notebook_path(first).read_bytes()


def test_the_copies_are_trusted(server: Running):
    cells = get(server, f"api/contents/{curriculum.LESSONS[1].name}.ipynb")["content"]["cells"]
    assert {cell["metadata"]["trusted"] for cell in cells if cell["cell_type"] == "code"} == {True}


def test_its_kernel_is_not_one_of_another_environment(server: Running):
    specs = get(server, "api/kernelspecs")
    assert specs["default"] == "python3"
    assert specs["kernelspecs"]["python3"]["spec"]["display_name"] != "decoy"


def test_jupytext_does_not_open_the_notebooks(server: Running):
    assert [line for line in server.log if "jupytext" in line] == []


def test_no_news_is_fetched_or_asked_about_and_the_users_settings_stay(server: Running):
    def defaults(plugin: str) -> dict:
        answer = get(server, f"lab/api/settings/@jupyterlab/{plugin}")
        properties = answer["schema"]["properties"]
        return {name: about.get("default") for name, about in properties.items()} | answer["settings"]

    notification = defaults("apputils-extension:notification")
    assert notification == {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
    assert defaults("extensionmanager-extension:plugin")["enabled"] is False
    assert defaults("apputils-extension:themes")["theme"] == "JupyterLab Dark"


def test_a_second_call_names_the_running_one(server: Running):
    command = [sys.executable, "-m", "course", "lab", "02", "--no-browser"]
    done = subprocess.run(command, env=server.environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    port = server.address.rsplit(":", 1)[1]
    expected = rf"JupyterLab is running in .* already \(process {server.process.pid}\): "
    assert re.search(
        rf"{expected}http://localhost:{port}/lab/tree/02_autograd.ipynb\?token={server.token}\n", done.stdout
    )


def test_an_interrupt_ends_it_cleanly(server: Running):
    # The last test: the others need the server.
    server.process.send_signal(signal.SIGINT)
    _, rest = server.process.communicate(timeout=60)
    assert server.process.returncode == 0, rest
    assert "Traceback" not in rest
    assert list(Path(server.environment["JUPYTER_RUNTIME_DIR"]).glob("jpserver-*.json")) == []
