"""`course lab`: JupyterLab on the learner's own copies."""

from __future__ import annotations

import os
import signal
import sys
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from course.curriculum import Lesson
from course.workspace import copies, folder, home, progress, servers
from course.workspace.files import WorkspaceError

CONFIG_FOLDER = Path(__file__).with_name("jupyter")
"""Our defaults for JupyterLab: no question about news, nothing fetched. A learner's own settings go before them."""


def start(
    lesson: Lesson | None = None,
    *,
    workspace: str | None = None,
    browser: bool = True,
    arguments: Sequence[str] = (),
    serve: Callable[[list[str]], int] | None = None,
    tell: Callable[[str], object] = print,
) -> int:
    """Bring the copies up to date and run JupyterLab on them until it is ended; return its exit code.

    It opens at `lesson`, else at the next unfinished one. `arguments` are passed on to JupyterLab; they go before
    ours. Where a server runs in this folder already and no arguments are given, its page is opened instead of a second
    server: two of them would save over each other.

    Raises WorkspaceError (RequestError for a folder that cannot be the learner's) before anything is started.
    """
    place = folder.choose(workspace)
    _require_jupyterlab()
    running = servers.serving(place)
    copies.update(place, served=bool(running), tell=tell)
    page = _page(place, lesson, tell)
    here = [server for server in running if server.folder == place.resolve() and server.answers()]
    if here and not arguments:
        address = here[0].address(page)
        tell(f"JupyterLab is running in {place} already (process {here[0].pid}): {address}")
        if browser:
            webbrowser.open(address)
        return 0
    if here:
        tell(
            f"JupyterLab is running in {place} already, at {here[0].url}: keep a notebook open in one of the two only."
        )
    tell(f"Your notebooks are in {place}. Ctrl-C, then y, ends JupyterLab.")
    sys.stdout.flush()
    os.environ.update(environment(os.environ))
    return (serve or _serve)(command_line(place, page, browser=browser, arguments=arguments))


def command_line(place: Path, page: str, *, browser: bool = True, arguments: Sequence[str] = ()) -> list[str]:
    """Return the arguments of JupyterLab: ours, where `arguments` do not give the same option, then `arguments`."""
    ours = {
        "--ServerApp.root_dir": str(place),
        "--LabApp.default_url": f"/lab/tree/{quote(page)}" if page else "/lab",
        # jupytext, where it is installed, would replace JupyterLab's own way of opening and saving notebooks.
        "--ServerApp.jpserver_extensions": "jupyterlab_jupytext=False",
    }
    given = {argument.split("=", 1)[0] for argument in arguments}
    line = [f"{name}={value}" for name, value in ours.items() if name not in given]
    return [*line, *([] if browser else ["--no-browser"]), *arguments]


def environment(base: os._Environ | dict[str, str]) -> dict[str, str]:
    """Return the variables that the server and its kernels get, beyond or instead of those in `base`."""
    configuration = [*filter(None, [base.get("JUPYTER_CONFIG_PATH")]), str(CONFIG_FOLDER)]
    changed = {
        "JUPYTER_CONFIG_PATH": os.pathsep.join(configuration),
        # An inherited JUPYTER_PATH may hold a kernel of another environment, in which the course is not installed.
        "JUPYTER_PATH": str(Path(sys.prefix, "share", "jupyter")),
    }
    if base.get(home.HOME_VARIABLE):
        # A relative one would mean another folder in each kernel.
        changed[home.HOME_VARIABLE] = str(home.home())
    return changed


def _page(place: Path, lesson: Lesson | None, tell: Callable[[str], object]) -> str:
    if lesson is None:
        lesson = progress.next_lesson(progress.read())
        if lesson is None:
            tell("Every lesson is finished.")
            return ""
        tell(f"Next: {lesson.number} {lesson.title}.")
    path = copies.copy_path(place, lesson)
    return path.name if path.exists() else ""


def _require_jupyterlab() -> None:
    from importlib.util import find_spec

    if find_spec("jupyterlab") is None:
        raise WorkspaceError(
            f"JupyterLab is not installed for {sys.executable}. Install it there: `python -m pip install jupyterlab`."
        )


def _serve(line: list[str]) -> int:
    # In this process, so that Ctrl-C and signals reach the server and nothing else has to pass them on.
    from jupyterlab.labapp import LabApp

    if os.name == "posix" and not (sys.stdin and sys.stdin.isatty()):
        # Jupyter asks on a terminal. Elsewhere only SIGTERM makes it end its kernels and clear up.
        signal.signal(signal.SIGINT, lambda *_: signal.raise_signal(signal.SIGTERM))
    LabApp.launch_instance(line)
    return 0
