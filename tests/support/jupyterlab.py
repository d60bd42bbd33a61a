"""JupyterLab as `make lab` starts it, on a free port, with a home of its own, and what a person does in it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

TOKEN = "browser-tests"
STARTS_WITHIN = 90.0


@dataclass
class Server:
    """A running JupyterLab.

    `address` has no path and no token; `workspace` is the folder that it shows; `environment` holds the variables that
    it was started with; `log` grows while it runs.
    """

    address: str
    workspace: Path
    environment: dict[str, str]
    log: list[str] = field(default_factory=list)

    def url(self, notebook: str) -> str:
        """The address of a notebook of the workspace, with the token."""
        return f"{self.address}/lab/tree/{notebook}?token={TOKEN}"


@contextmanager
def lab(arguments: Sequence[str], folder: Path, workspace: Path) -> Iterator[Server]:
    """Run `course lab` with these arguments until the block ends; everything that it writes lies in `folder`.

    Raises RuntimeError with the server's log if it does not answer in time.
    """
    home = folder / "home"
    config = folder / "jupyter_config"
    for place in (home, config):
        place.mkdir(parents=True)
    settings = {
        "ServerApp": {"allow_root": True, "port": free_port(), "port_retries": 0},
        "IdentityProvider": {"token": TOKEN},
        "LabApp": {"expose_app_in_browser": True},
    }
    (config / "jupyter_lab_config.json").write_text(json.dumps(settings), encoding="utf-8")
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("COURSE_PROGRESS", "BROWSER")},
        "HOME": str(home),
        "COURSE_HOME": str(folder / "course"),
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_CONFIG_DIR": str(config),
        "JUPYTER_DATA_DIR": str(folder / "jupyter_data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "jupyter_runtime"),
    }
    command = [sys.executable, "-m", "course", "lab", "--no-browser", "--workspace", str(workspace), *arguments]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )
    server = Server(f"http://127.0.0.1:{settings['ServerApp']['port']}", workspace, environment)
    reader = threading.Thread(target=lambda: server.log.extend(process.stdout), daemon=True)
    reader.start()
    try:
        _wait_until_it_listens(process, server)
        yield server
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        reader.join(timeout=5)


def free_port() -> int:
    """A port on which nothing listens at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_it_listens(process: subprocess.Popen[str], server: Server) -> None:
    host, port = re.fullmatch(r"http://(.*):(\d+)", server.address).groups()
    deadline = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("JupyterLab did not start:\n" + "".join(server.log)) from None
            time.sleep(0.1)
