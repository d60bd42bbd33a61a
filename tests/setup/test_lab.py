"""`make lab` serves the lessons, with the kernel of its own environment."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def server(root: Path, recipe: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, list[str]]]:
    """A running server: its address, its token and the lines of its log up to the address.

    Another environment's kernel, also called python3, lies on JUPYTER_PATH.
    """
    decoy = tmp_path_factory.mktemp("decoy")
    spec = decoy / "kernels/python3/kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": ["false"], "display_name": "decoy", "language": "python"}), encoding="utf-8")
    environment = {**os.environ, "JUPYTER_PATH": str(decoy)}
    process = subprocess.Popen(
        recipe,
        shell=True,
        cwd=root,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    log = []
    try:
        for line in process.stderr:
            log.append(line)
            if found := re.search(r"(http://127\.0\.0\.1:\d+)/lab\S*\?token=(\w+)", line):
                break
        else:
            pytest.fail("JupyterLab did not start:\n" + "".join(log))
        wait_until_it_answers(found[1])
        yield found[1], found[2], log
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def get(server: tuple[str, str, list[str]], path: str) -> dict:
    """What the server's REST interface answers."""
    address, token, _ = server
    request = urllib.request.Request(f"{address}/api/{path}", headers={"Authorization": f"token {token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_it_serves_the_lessons(server: tuple[str, str, list[str]]):
    notebook = get(server, "contents/01_tensors_and_strides.ipynb")
    assert notebook["type"] == "notebook"
    assert notebook["content"]["cells"]


def test_its_kernel_is_not_one_of_another_environment(server: tuple[str, str, list[str]]):
    specs = get(server, "kernelspecs")
    assert specs["default"] == "python3"
    assert specs["kernelspecs"]["python3"]["spec"]["display_name"] != "decoy"


def test_jupytext_does_not_open_the_notebooks(server: tuple[str, str, list[str]]):
    assert [line for line in server[2] if "jupytext" in line] == []
