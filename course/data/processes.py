"""What a new Python process makes of a pickle or a script: what happens to workers that are spawned, without torch."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SECONDS = 60.0


def unpickled_elsewhere(value: Any) -> str:
    """Send a value to a new Python process as a pickle. Returns its type's name, or the error that loading it gave."""
    code = "import pickle, sys; print(type(pickle.load(sys.stdin.buffer)).__name__)"
    ended = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(value), capture_output=True, timeout=SECONDS, check=False
    )
    return (ended.stdout + ended.stderr).decode().strip().splitlines()[-1]


def printed_by_script(source: str) -> str:
    """Run a script in a new Python process. Returns what it printed, or how its RuntimeError begins."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(source, encoding="utf-8")
        ended = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    error = " ".join(ended.stderr.partition("RuntimeError:")[2].split())
    return f"RuntimeError: {error.partition('.')[0]}." if error else ended.stdout.strip()
