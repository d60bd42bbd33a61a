"""CI and pre-commit configurations are valid and can fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml


@pytest.fixture(scope="module")
def workflows(root: Path) -> list[Path]:
    return sorted((root / ".github/workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def jobs(root: Path) -> dict[str, dict]:
    """The jobs of ci.yml."""
    return yaml.safe_load((root / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]


def validate(*files: Path) -> subprocess.CompletedProcess[str]:
    """Check workflow files against the published schema, which check-jsonschema carries along."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    return subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)


def test_workflows_follow_the_published_schema(workflows: list[Path]):
    assert workflows
    done = validate(*workflows)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_broken_workflow_is_noticed(root: Path, tmp_path: Path):
    broken = tmp_path / "ci.yml"
    text = (root / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    broken.write_text(text.replace("runs-on:", "run-on:"), encoding="utf-8")
    assert validate(broken).returncode != 0


def test_no_step_may_fail_unnoticed(workflows: list[Path]):
    for file in workflows:
        text = file.read_text(encoding="utf-8")
        assert "continue-on-error" not in text
        assert "|| true" not in text


def test_every_job_keeps_its_reports_also_on_failure(jobs: dict[str, dict]):
    for name, job in jobs.items():
        uploads = [step for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
        assert [step["if"] for step in uploads] == ["always()"], name
        assert uploads[0]["with"]["path"] == "reports/", name


def test_jobs_that_run_all_tests_insist_on_a_browser(jobs: dict[str, dict]):
    """reports/screenshots, which tests/browser writes, goes with the other reports."""
    for name in ("cpu", "newest"):
        steps = [step.get("run", "") for step in jobs[name]["steps"]]
        verify = next(number for number, run in enumerate(steps) if "make test" in run)
        assert "google-chrome --version" in steps[:verify], name


def test_newest_and_oldest_torch_are_run(root: Path, jobs: dict[str, dict]):
    entries = {entry["name"]: entry for entry in jobs["cpu"]["strategy"]["matrix"]["include"]}
    assert set(entries) == {"verified", "oldest"}
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    for name in ("torch", "torchvision"):
        oldest = project.split(f'"{name}>=')[1].split('"')[0]
        assert f"{name}=={oldest}.*" in entries["oldest"]["make"]
    assert f'requires-python = ">={entries["oldest"]["python"]}"' in project


def test_the_gpu_job_is_never_a_forks_and_insists_on_cuda(jobs: dict[str, dict]):
    gpu = jobs["gpu"]
    assert gpu["runs-on"] == ["self-hosted", "linux", "x64", "gpu"]
    assert "github.event.pull_request.head.repo.full_name == github.repository" in gpu["if"]
    steps = [step.get("run", "") for step in gpu["steps"]]
    cuda = next(number for number, run in enumerate(steps) if "torch.cuda.is_available()" in run)
    lessons = [number for number, run in enumerate(steps) if "course run" in run]
    assert lessons
    assert all(cuda < number and "--device cuda" in steps[number] for number in lessons)


def test_the_cuda_step_fails_without_cuda(jobs: dict[str, dict]):
    (script,) = (step["run"] for step in jobs["gpu"]["steps"] if "torch.cuda" in step.get("run", ""))
    code = script.split("-c ", 1)[1].strip("'")
    hidden = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''; "
    done = subprocess.run([sys.executable, "-c", hidden + code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip() == "torch sees no CUDA device"


def test_pre_commit_configuration_is_valid(root: Path):
    command = [sys.executable, "-m", "pre_commit", "validate-config", str(root / ".pre-commit-config.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
