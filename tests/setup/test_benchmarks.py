from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: object, home: Path) -> subprocess.CompletedProcess:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "COURSE_HOME": str(home)}
    env.pop("COURSE_DATA", None)
    return subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.mark.slow
def test_cifar_measures_each_change_and_judges_by_its_bars(tmp_path):
    report = tmp_path / "cifar.json"
    command = ["benchmarks/cifar.py", "--seconds", 1, "--threads", 1, "--workers", 1, "--json", report]
    done = run(*command, home=tmp_path)
    assert report.is_file(), done.stderr
    found = json.loads(report.read_text())
    loops = found["speed"]["loops"]
    assert list(loops)[:2] == ["reference", "+ whole-batch augmentation"]
    assert loops["reference"]["ratio"] == 1
    assert all(loop["images_per_cpu_second"] > 0 for loop in loops.values())
    figures = found["figures"]
    shared = loops["+ fused Adam"]["ratio"]
    assert figures["ours / reference, images per second"] == shared
    assert figures["whole-batch augmentation / PIL"] > 1
    missed = done.stdout.count("MISSED")
    assert done.returncode == (1 if missed else 0), done.stderr
    for name in figures:
        assert name in done.stdout
    assert found["threads"] == 1
    assert "stand-in" in found["images"]
