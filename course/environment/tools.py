"""What lies around torch: the C++ compiler, the Jupyter kernel and the front end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

from course.environment.installation import installed_versions
from course.environment.report import Finding

COMPILERS = {"darwin": "clang++", "win32": "cl"}
INSTALL_COMPILER = {
    "darwin": "`xcode-select --install`",
    "win32": "install the C++ Build Tools of Visual Studio and start from their command prompt",
    "linux": "install g++ and the headers, on Debian and Ubuntu `sudo apt install g++ python3-dev`",
}
KERNEL = "python3"
HAS_COURSE = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('course', 'torch', 'ipykernel'))))"


def judge_compiler(compiler: str, *, works: bool, headers: bool, system: str = sys.platform) -> Finding:
    """compiler: the command that torch.compile would run; headers: whether Python.h is there."""
    if works and headers:
        return Finding("C++ compiler", f"{compiler} and the headers of Python: torch.compile works on the CPU")
    lacking = " and ".join(
        what for what, there in ((compiler, works), ("Python.h, the headers of Python", headers)) if not there
    )
    how = INSTALL_COMPILER.get(system, INSTALL_COMPILER["linux"])
    remedy = f'Only torch.compile needs it: {how}. Without it, `torch.compile(..., backend="aot_eager")` runs.'
    return Finding("C++ compiler", f"{lacking} not found", "note", remedy)


def judge_kernel(interpreter: str | None, *, own: bool, equipped: bool) -> Finding:
    """interpreter: what the kernelspec python3 starts, None for no such kernel; own: it is the one that runs this;
    equipped: it can import the course and torch."""
    add = f"`python -m ipykernel install --sys-prefix --name {KERNEL}`"
    if interpreter is None:
        remedy = f"`python -m pip install ipykernel`, then {add}."
        return Finding("kernel", f"Jupyter finds no kernel called {KERNEL}", "problem", remedy)
    if own:
        return Finding("kernel", f"notebooks ({KERNEL}) start this same Python")
    value = f"notebooks ({KERNEL}) start another Python, {interpreter}"
    if equipped:
        remedy = f"It has the course too, perhaps with other versions. To use this Python instead: {add}."
        return Finding("kernel", value, "note", remedy)
    remedy = f"The course or torch is missing there: `import course` fails in notebooks. Run {add}."
    return Finding("kernel", value, "problem", remedy)


def judge_front_end(place: str, versions: Mapping[str, str | None]) -> Finding:
    """place: where this runs, in words; versions: of jupyterlab, notebook and jupyterlab-widgets, None if absent."""
    apps = [f"{name} {versions[name]}" for name in ("jupyterlab", "notebook") if versions.get(name)]
    value = f"{place}; installed: {', '.join(apps) or 'no Jupyter front end'}"
    if not apps:
        remedy = "`python -m pip install jupyterlab`, or open the notebooks in an editor that shows notebooks."
        return Finding("notebooks", value, "note", remedy)
    if not versions.get("jupyterlab-widgets"):
        remedy = "`python -m pip install ipywidgets` and reload: until then sliders and buttons do not show."
        return Finding("notebooks", value, "note", remedy)
    return Finding("notebooks", value)


def compiler() -> Finding:
    command = os.environ.get("CXX") or COMPILERS.get(sys.platform, "g++")
    headers = (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file()
    return judge_compiler(Path(command).name, works=_starts([command, "--version"]), headers=headers)


def kernel() -> Finding:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        command = KernelSpecManager().get_kernel_spec(KERNEL).argv[0]
    except NoSuchKernel:
        return judge_kernel(None, own=False, equipped=False)
    # Jupyter takes the bare names for the Python that it runs in itself.
    bare = {"python", f"python{sys.version_info[0]}", "python{}.{}".format(*sys.version_info)}
    path = sys.executable if command in bare else shutil.which(command) or command
    own = _same_place(path, sys.executable)
    return judge_kernel(_short(path), own=own, equipped=own or _starts([path, "-c", HAS_COURSE]))


def front_end() -> Finding:
    names = ("jupyterlab", "notebook", "jupyterlab-widgets")
    return judge_front_end(_place(os.environ, sys.modules), installed_versions(names))


def _place(variables: Mapping[str, str], modules: Mapping[str, object]) -> str:
    """Where this code runs, told by what the hosts set."""
    if "COLAB_RELEASE_TAG" in variables:
        return "this is Google Colab"
    if "BINDER_SERVICE_HOST" in variables:
        return "this is Binder"
    if "ipykernel" not in modules or "JPY_PARENT_PID" not in variables:
        return "this is no notebook"
    return "this is a notebook in Visual Studio Code" if "VSCODE_PID" in variables else "this is a Jupyter notebook"


def _starts(command: Sequence[str]) -> bool:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _same_place(one: str, other: str) -> bool:
    """Whether two interpreters lie in one folder. Their links must not be followed: those of all environments lead
    to one and the same base Python."""
    first, second = (Path(path).absolute().parent.resolve() for path in (one, other))
    return first == second


def _short(path: str) -> str:
    home = f"{Path.home()}{os.sep}"
    return f"~{os.sep}{path.removeprefix(home)}" if path.startswith(home) else path
