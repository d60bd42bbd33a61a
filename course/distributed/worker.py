"""What a script that torchrun starts may use: where its result goes, and lines that name their rank."""

from __future__ import annotations

import json
import os
from typing import Any

from course.distributed import job


def report(value: Any) -> None:
    """Hand a JSON value to whoever started the job: rank 0's becomes `Result.value`, other ranks' calls do nothing.

    Started by hand, rank 0 prints it instead. Raises TypeError for what JSON cannot hold, such as a tensor.
    """
    if int(os.environ.get("RANK", "0")) != 0:
        return
    folder = job.folder()
    if folder is None:
        print(json.dumps(value, indent=2), flush=True)
    else:
        job.write(folder / "result.json", value)


def say(*words: object) -> None:
    """Print a line at once, as `rank 1: ...`."""
    print(f"rank {os.environ.get('RANK', '0')}:", *words, flush=True)
