"""A run that is killed at random moments ends as the run that was never interrupted, bit for bit."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from course.training.checkpoint import load
from course.training.history import History

SCRIPT = Path(__file__).with_name("killed_run.py")
STEPS = 120

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked"),
]


def run(folder: Path, kills: int, workers: int, seed: int = 0) -> dict[str, Any]:
    folder.mkdir()
    command = [sys.executable, str(SCRIPT), str(folder), str(kills), str(workers), str(seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def last_state(folder: Path) -> dict[str, Any]:
    (path,) = (folder / "checkpoints").glob(f"step={STEPS:08d},*.pt")
    return load(path)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    report = run(folder, kills=0, workers=0)
    assert report["last"]["finished"]
    return folder


def compare(folder: Path, uninterrupted: Path, differences: Any) -> None:
    ours, theirs = last_state(folder), last_state(uninterrupted)
    assert {"model", "optimizer", "scheduler", "scaler", "rng", "order", "history", "generators"} <= set(theirs)
    assert len(theirs["others"]["notes"]["trace"]) == STEPS
    assert differences(ours, theirs) == []
    assert (folder / "log.jsonl").read_bytes() == (uninterrupted / "log.jsonl").read_bytes()
    assert len(History.read(folder / "log.jsonl")) == 15
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {
        path.name for path in (uninterrupted / "checkpoints").iterdir()
    }, "the same files are kept, and none of those that the kills cut off"


def test_fifty_kills(tmp_path, uninterrupted, differences, record_property):
    report = run(tmp_path / "run", kills=50, workers=0)
    attempts = report["attempts"]
    in_write, in_resume = (sum(each[key] for each in attempts) for key in ("in_write", "in_resume"))
    for name, value in (("kills", len(attempts)), ("kills inside a write", in_write), ("in a resume", in_resume)):
        record_property(name, value)
        print(f"{name}: {value}")
    assert sum(each["killed"] and not each["finished"] for each in attempts) == 50
    assert attempts[0]["last"] == "logged", "one dies with an epoch in its log that no checkpoint holds"
    assert in_write >= 10
    assert sum(each["temporary"] for each in attempts) >= 5, "some kills leave half a file"
    thirds = [math.floor(3 * each["step"] / STEPS) for each in attempts if each["step"]]
    assert {0, 1, 2} <= set(thirds), "kills are spread over the run"
    assert report["last"]["finished"]
    compare(tmp_path / "run", uninterrupted, differences)


def test_five_kills_with_loader_workers(tmp_path, uninterrupted, differences, record_property):
    report = run(tmp_path / "run", kills=5, workers=2, seed=1)
    assert sum(each["killed"] and not each["finished"] for each in report["attempts"]) == 5
    record_property("workers of killed runs", report["workers"])
    print("workers of killed runs:", report["workers"])
    assert report["workers"] >= 4
    assert report["orphans"] == 0
    assert report["last"]["finished"]
    compare(tmp_path / "run", uninterrupted, differences)


def test_the_comparison_sees_one_bit(differences):
    weight = torch.ones(3)
    other = torch.tensor([1, 1, 1 + 2**-23])
    assert differences({"a": [weight, 1.0]}, {"a": [weight.clone(), 1.0]}) == []
    assert len(differences({"a": [weight, 1.0]}, {"a": [other, 1.0]})) == 1
    assert len(differences({"a": (1,)}, {"a": [1]})) == 1
