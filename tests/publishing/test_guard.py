from __future__ import annotations

import importlib
import io
import os
import re
import subprocess
import sys
import warnings

import pytest
import torch
from nbclient import NotebookClient
from nbformat.v4 import new_notebook

from course.publishing import guard
from course.publishing.kernels import Session


def python(code: str, env: dict[str, str], *options: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *options, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=False
    )


def guarded(code: str, **variables: str) -> subprocess.CompletedProcess:
    return python(code, guard.environment({**os.environ, **variables}))


@pytest.mark.parametrize(
    "code",
    [
        "import urllib.request as u; u.urlopen('http://example.org/')",
        "import socket; socket.create_connection(('192.0.2.1', 80), 1)",
        "import socket; socket.socket().connect_ex(('192.0.2.1', 80))",
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', 0, ('192.0.2.1', 53))",
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('192.0.2.1', 53))",
        "import socket; socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))",
        "import socket; socket.getaddrinfo('example.org', 80)",
        "import socket; socket.getaddrinfo(host='example.org', port=80)",
        "import socket; socket.gethostbyname('example.org')",
        "import socket; socket.gethostbyname_ex('example.org')",
        "import asyncio; asyncio.run(asyncio.open_connection('192.0.2.1', 80))",
        "import subprocess, sys; subprocess.run([sys.executable, '-c', "
        "'import socket; socket.getaddrinfo(\"example.org\", 80)'], check=True)",
    ],
)
def test_other_machines_are_out_of_reach(code):
    result = guarded(code)
    assert result.returncode != 0
    assert re.search(r"Blocked: this code tried to reach (example\.org|192\.0\.2\.1|2001:db8::1)", result.stderr)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_is_within_reach(host):
    family = "AF_INET6" if ":" in host else "AF_INET"
    if family == "AF_INET6" and not os.path.exists("/proc/net/if_inet6"):
        host, family = "127.0.0.1", "AF_INET"
    code = (
        "import socket\n"
        f"with socket.socket(socket.{family}) as server:\n"
        f"    server.bind(({host!r}, 0)); server.listen()\n"
        f"    with socket.create_connection(({host!r}, server.getsockname()[1])) as client: client.sendall(b'x')\n"
        "a, b = socket.socketpair(); a.sendall(b'x'); b.recv(1)\n"
        "a.close(); b.close()\n"
    )
    result = guarded(code)
    assert (result.returncode, result.stderr) == (0, "")


def test_unix_sockets_are_allowed(tmp_path):
    code = (
        "import socket\n"
        "with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:\n"
        "    server.bind('s'); server.listen(); client.connect('s')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=guard.environment(), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_the_error_is_an_oserror():
    assert issubclass(guard.NetworkBlocked, OSError)


@pytest.mark.parametrize("category", guard.DEPRECATIONS)
def test_deprecations_are_errors_wherever_they_come_from(category):
    code = f"import warnings; warnings.warn_explicit('old', {category.__name__}, 'x.py', 1, module='some_library')"
    assert f"{category.__name__}: old" in guarded(code).stderr
    assert guarded(code).returncode == 1


@pytest.mark.parametrize("module", ["torch", "torch.nn.functional", "torchvision.io", "course.data", "__main__"])
def test_any_warning_of_lessons_torch_and_course_is_an_error(module):
    code = f"import warnings; warnings.warn_explicit('hm', UserWarning, 'x.py', 1, module={module!r})"
    assert guarded(code).returncode == 1


def test_other_warnings_of_other_modules_are_left_alone():
    code = "import warnings; warnings.warn_explicit('hm', UserWarning, 'x.py', 1, module='torchlike')"
    assert guarded(code).returncode == 0


def fork_with_a_thread() -> None:
    import threading

    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    stop.set()
    thread.join()


def leave_a_file_open() -> None:
    open(os.devnull, encoding="utf-8")  # noqa: SIM115


def decompose_an_exported_model() -> None:
    if not torch.__version__.startswith("2.11."):
        pytest.skip("torch 2.11 gives it")
    torch.export.export(torch.nn.Linear(1, 1), (torch.ones(1, 1),)).run_decompositions()


def import_the_compiler() -> None:
    if not torch.__version__.startswith("2.11."):
        pytest.skip("torch 2.11 gives it")
    importlib.reload(importlib.import_module("torch.utils.mkldnn"))


def load_an_exported_model() -> None:
    if not torch.__version__.startswith("2.11."):
        pytest.skip("torch 2.11 gives it")
    file = io.BytesIO()
    torch.export.save(torch.export.export(torch.nn.Linear(1, 1), (torch.ones(1, 1),)), file)
    file.seek(0)
    torch.export.load(file)


# What the allowed message is about, and what still makes somebody give it.
TRIGGERS = {
    "use of fork": fork_with_a_thread,
    "treespec": decompose_an_exported_model,
    "script_method": import_the_compiler,
    "not writable": load_an_exported_model,
    "": leave_a_file_open,
}
OF_IPYKERNEL = "do_shutdown"


@pytest.mark.parametrize(
    "entry",
    [entry for entry in guard.ALLOWED if OF_IPYKERNEL not in entry.message],
    ids=lambda entry: entry.message or entry.category.__name__,
)
def test_an_allowed_warning_is_still_given(entry):
    if sys.version_info < entry.since:
        pytest.skip(f"Python {entry.since} and later give it")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        next(trigger for about, trigger in TRIGGERS.items() if about in entry.message)()
    found = [warning for warning in caught if issubclass(warning.category, entry.category)]
    assert any(re.match(entry.message, str(warning.message)) for warning in found)


@pytest.mark.slow
def test_ipykernels_own_warning_is_still_given():
    (entry,) = [entry for entry in guard.ALLOWED if OF_IPYKERNEL in entry.message]
    with Session(seconds=60) as session:
        session.env.update(PYTHONPATH="", PYTHONWARNINGS=f"error::{entry.category.__name__}")
        with NotebookClient(new_notebook(), kernel_manager_class=session.manager_class).setup_kernel():
            pass
        assert re.search(entry.message, session.log.read_text(encoding="utf-8"))


def test_every_allowed_warning_has_a_reason_and_only_that_passes():
    for entry in guard.ALLOWED:
        assert len(entry.reason) > 40
    code = "import warnings; warnings.warn('For consistency across implementations', PendingDeprecationWarning)"
    assert guarded(code).returncode == 1


def test_another_sitecustomize_is_still_run(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['WAS_HERE'] = 'yes'\n", encoding="utf-8")
    code = "import os, sys; print(os.environ['WAS_HERE'], sys.modules['sitecustomize'].__file__)"
    result = guarded(code, PYTHONPATH=str(tmp_path))
    assert result.stdout.split() == ["yes", str(tmp_path / "sitecustomize.py")]


def test_the_environment_is_guarded_once():
    once = guard.environment({"PYTHONPATH": "/a"})
    assert guard.environment(once) == once
    assert once["PYTHONPATH"].split(os.pathsep) == [str(guard.PATH), "/a"]
    assert guard.environment({})["PYTHONPATH"] == str(guard.PATH)
