"""`python -m course.distributed.agent ...`: torchrun that ends with its parent and writes down what failed."""

from __future__ import annotations

import logging
import os
import sys

from course.distributed import job
from course.distributed.tether import end_with_parent


def main(arguments: list[str]) -> int:
    """Run torchrun with these arguments; 0 if every rank ended with 0."""
    end_with_parent(int(os.environ[job.PARENT]))
    os.environ[job.PARENT] = str(os.getpid())
    folder = job.folder()
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    # What torchrun logs about a failure stands in the file, and there without process ids and times.
    logging.disable(logging.CRITICAL)
    try:
        run.main(arguments)
    except ChildFailedError as error:
        codes = {str(rank): failure.exitcode for rank, failure in error.failures.items()}
        job.write(folder / "failures.json", codes)
        return 1
    except Exception as error:
        job.write(folder / "agent.json", f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
