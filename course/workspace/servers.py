"""Jupyter servers of this user that run now, as they describe themselves in Jupyter's runtime folder."""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit


@dataclass(frozen=True)
class Server:
    """One server: its process, the address of its pages, its token and the folder that it serves."""

    pid: int
    url: str
    token: str
    folder: Path

    def address(self, page: str = "") -> str:
        """Return what to open in a browser; `page` is a file below the server's folder."""
        token = f"?token={self.token}" if self.token else ""
        return f"{self.url}lab{'/tree/' + quote(page) if page else ''}{token}"

    def answers(self) -> bool:
        """Return whether something listens where the server says it does."""
        return self._knock() is None

    def has_ended(self) -> bool:
        """Return whether its process is gone, or is another one by now: nothing listens at its address."""
        import psutil

        return not psutil.pid_exists(self.pid) or isinstance(self._knock(), ConnectionRefusedError)

    def _knock(self) -> Exception | None:
        try:
            parts = urlsplit(self.url)
            socket.create_connection((parts.hostname or "localhost", parts.port or 80), timeout=2).close()
        except (OSError, ValueError) as error:
            return error
        return None


def serving(workspace: Path) -> list[Server]:
    """Return the running servers in which a notebook of this folder may be open: they serve it or a folder above it.

    A server of another user, of another machine or of another program (an editor) is not seen.
    """
    resolved = workspace.resolve()
    return [server for server in _running() if resolved.is_relative_to(server.folder)]


def _running() -> list[Server]:
    from jupyter_core.paths import jupyter_runtime_dir

    found = []
    # jupyter_server's own list_running_servers removes files of processes that it does not see, as those of another
    # machine that shares the home directory; and its import takes a second.
    for file in sorted(Path(jupyter_runtime_dir()).glob("jpserver-*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            info = json.loads(file.read_text(encoding="utf-8"))
            server = Server(
                int(info["pid"]), str(info["url"]), str(info["token"] or ""), Path(info["root_dir"]).resolve()
            )
            if not server.has_ended():
                found.append(server)
    return found
