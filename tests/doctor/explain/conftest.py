from __future__ import annotations

import contextlib
import io
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Raised:
    """What a script raised (or warned of) and what Python printed of it."""

    error: BaseException
    text: str


@pytest.fixture
def run_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Raised]:
    """Run code as a user's script, in this process, in a folder of its own; return what it raised or warned of."""

    def run(code: str, warns: bool = False, **names: object) -> Raised:
        monkeypatch.chdir(tmp_path)
        script = tmp_path / "train.py"
        script.write_text(code + "\n", encoding="utf-8")
        seen: list[warnings.WarningMessage] = []
        try:
            with warnings.catch_warnings(record=True) as seen, contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("always")
                exec(compile(code, str(script), "exec"), {"__name__": "__main__", **names})
        except Exception as error:
            return Raised(error, "".join(traceback.format_exception(error)))
        finally:
            _leave_process_group()
        assert warns, f"nothing was raised by: {code}"
        assert seen, f"nothing was warned of by: {code}"
        last = seen[-1]
        return Raised(
            last.message, warnings.formatwarning(last.message, last.category, str(script), last.lineno, last.line)
        )

    return run


def _leave_process_group() -> None:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
