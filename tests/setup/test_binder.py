"""binder/ renders to a Dockerfile (repo2docker without Docker), and its scripts do what they say."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from repo2docker.app import Repo2Docker
from repo2docker.buildpacks import BuildPack

from course.curriculum import LESSONS
from course.workspace.lab import CONFIG_FOLDER


@pytest.fixture(scope="module")
def pack(root: Path) -> Iterator[BuildPack]:
    """The way of building that repo2docker chooses for this repository."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        app = Repo2Docker()
        packs = [kind(app.base_image) for kind in app.buildpacks]
        pack = next(pack for pack in packs if pack.detect())
        pack.platform = "linux/amd64"
        yield pack


@pytest.fixture(scope="module")
def dockerfile(pack: BuildPack) -> str:
    """The text that repo2docker would hand to Docker."""
    return pack.render({})


def test_python_is_the_verified_one(pack: BuildPack):
    assert pack.python_version == "3.11"


def test_the_torch_of_requirements_is_installed(dockerfile: str):
    assert '/bin/pip install --no-cache-dir -r "binder/requirements.txt"' in dockerfile


def test_the_course_is_installed_after_it(dockerfile: str):
    assert dockerfile.index("RUN ./binder/postBuild") > dockerfile.index("binder/requirements.txt")


def test_a_compiler_for_torch_compile_is_installed(dockerfile: str):
    """The headers of Python come with the interpreter of the image, which conda brings."""
    apt = dockerfile.index("g++")
    assert apt < dockerfile.index("RUN ./binder/postBuild")


def test_the_start_script_is_the_way_in(dockerfile: str):
    assert re.search(r"R2D_ENTRYPOINT.*binder/start", dockerfile)


def test_the_cpu_build_of_torch_is_asked_for(root: Path):
    lines = (root / "binder/requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("-")] == [
        "--extra-index-url https://download.pytorch.org/whl/cpu"
    ]


@pytest.fixture
def recorder(tmp_path: Path) -> Path:
    """A folder for the PATH with a `python` that only writes its arguments down, a line a call, in `calls`."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> "{tmp_path}/calls"\n', encoding="utf-8")
    script.chmod(0o755)
    return tmp_path


def test_post_build_installs_at_verified_versions_and_prepares_what_a_visitor_would_wait_for(
    root: Path, recorder: Path
):
    path = f"{recorder}:{os.environ['PATH']}"
    subprocess.run([root / "binder/postBuild"], cwd=root, env={**os.environ, "PATH": path}, check=True)
    install, trust, draw = (recorder / "calls").read_text(encoding="utf-8").splitlines()
    assert install == "-m pip install --no-cache-dir -c constraints.txt -e .[deploy]"
    assert trust.startswith("-m jupyter trust notebooks/")
    assert len(re.findall(r"notebooks/\S+\.ipynb", trust)) == len(LESSONS)
    assert "cifar10" in draw


def start(root: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command through binder/start."""
    unset = ("JUPYTER_CONFIG_PATH", "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.run(
        [root / "binder/start", *command],
        cwd=root,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_jupyterlab_is_as_course_lab_opens_it(root: Path):
    config = start(root, "printenv", "JUPYTER_CONFIG_PATH", JUPYTER_CONFIG_PATH="/etc/other").stdout.strip()
    ours, other = config.split(":")
    assert Path(ours) == CONFIG_FOLDER
    assert (CONFIG_FOLDER / "labconfig/default_setting_overrides.json").is_file()
    assert other == "/etc/other"


def test_threads_are_few_and_can_be_set(root: Path):
    assert start(root, "printenv", "OMP_NUM_THREADS").stdout == "2\n"
    assert start(root, "printenv", "OMP_NUM_THREADS", OMP_NUM_THREADS="1").stdout == "1\n"


def test_the_start_script_becomes_the_command(root: Path):
    assert start(root, "sh", "-c", "exit 7").returncode == 7
    assert start(root, "printf", "%s|", "a b", "c").stdout == "a b|c|"
