"""binder/ renders to a Dockerfile (repo2docker without Docker)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from repo2docker.app import Repo2Docker
from repo2docker.buildpacks import BuildPack


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


def test_post_build_installs_the_checkout_at_verified_versions(root: Path):
    script = root / "binder/postBuild"
    assert script.stat().st_mode & 0o100
    assert "pip install --no-cache-dir -c constraints.txt -e ." in script.read_text(encoding="utf-8")
    assert (root / "binder/requirements.txt").read_text(encoding="utf-8").count("/whl/cpu") == 1
