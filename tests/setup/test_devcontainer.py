"""The development container: valid, the verified Python, the CPU build of torch, the course installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

# The part of the published schema (containers.dev) that the file uses; a property that is not here is a misspelt one.
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "image", "postCreateCommand", "forwardPorts"],
    "properties": {
        "name": {"type": "string"},
        "image": {"type": "string", "pattern": r"^[\w./-]+:[\w.-]+$"},
        "containerEnv": {"type": "object", "additionalProperties": {"type": "string"}},
        "postCreateCommand": {"type": "string"},
        "forwardPorts": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 65535}},
        "portsAttributes": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "label": {"type": "string"},
                    "onAutoForward": {"enum": ["notify", "openBrowser", "openPreview", "silent", "ignore"]},
                },
            },
        },
        "customizations": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "vscode": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "extensions": {"type": "array", "items": {"type": "string", "pattern": r"^[\w-]+\.[\w-]+$"}},
                        "settings": {"type": "object"},
                    },
                }
            },
        },
    },
}


@pytest.fixture
def container(root: Path) -> dict[str, Any]:
    return json.loads((root / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))


def test_it_follows_the_schema(container: dict[str, Any]):
    jsonschema.validate(container, SCHEMA)


@pytest.mark.parametrize("change", [{"forwardPort": [8888]}, {"forwardPorts": ["8888x"]}, {"image": "no tag"}])
def test_a_mistake_is_noticed(container: dict[str, Any], change: dict[str, Any]):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**container, **change}, SCHEMA)


def test_python_is_the_verified_one(root: Path, container: dict[str, Any]):
    verified = (root / "binder/runtime.txt").read_text(encoding="utf-8").strip().removeprefix("python-")
    assert f"-{verified}-" in container["image"]


def test_it_installs_the_cpu_build_as_make_does(root: Path, container: dict[str, Any]):
    index = container["containerEnv"]["PIP_EXTRA_INDEX_URL"]
    assert index in (root / "binder/requirements.txt").read_text(encoding="utf-8")
    program, target = container["postCreateCommand"].split()
    assert program == "make"
    assert f"\n{target}: " in (root / "Makefile").read_text(encoding="utf-8")


def test_jupyterlab_and_vs_code_find_their_ways(container: dict[str, Any]):
    """8888 is the port on which `make lab` listens; VS Code takes the environment that `make` installs into."""
    assert container["forwardPorts"] == [8888]
    code = container["customizations"]["vscode"]
    assert "ms-toolsai.jupyter" in code["extensions"]
    assert code["settings"]["python.defaultInterpreterPath"].endswith("/.venv/bin/python")
