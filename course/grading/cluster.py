"""Grading on the workers of a dask.distributed cluster; each has as many grading processes as it has threads.

A submission travels as bytes, so that workers need no common file system. Results are taken from the cluster as they
come and few submissions are on their way at a time: a worker that dies takes little with it, and dask gives what it
was working on to another one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from course.grading.local import Result, grade_with, not_graded
from course.grading.row import Row
from course.grading.serving import GradingError, Remote, Spec
from course.grading.submission import Submission

AHEAD = 2  # submissions on their way for each thread of the cluster
CONNECT_SECONDS = 20.0
IDLE_SECONDS = 300.0
SLIM_BYTES = 4 * 2**20
EXTRA = "pip install 'pytorch-course[grade]'"


def grade_on_cluster(
    submissions: Sequence[Submission],
    spec: Spec,
    *,
    scheduler: str,
    limit: float,
    keep: Callable[[Submission, Result], None],
    say: Callable[[str], None],
) -> Iterator[tuple[Submission, Result]]:
    """Grade on the cluster of a scheduler; results come as they are ready. Raises GradingError when it cannot.

    keep: called with each result, also with those that are ready when the iterator is closed.
    """
    try:
        import distributed
    except ModuleNotFoundError:
        raise GradingError(f"--scheduler needs dask.distributed: {EXTRA}. Workers need it too.") from None
    from course.grading.engine import edition

    run = uuid.uuid4().hex
    with _quiet(), _connected(distributed, scheduler) as client:
        done: queue.SimpleQueue = queue.SimpleQueue()
        waiting: dict[Any, Submission] = {}
        left = iter(submissions)
        common = {"spec": spec, "edition": edition(), "limit": limit, "run": run}

        def send_more() -> None:
            threads = sum(client.nthreads().values())
            while len(waiting) < max(1, AHEAD * threads) and (submission := next(left, None)) is not None:
                job = {"name": submission.path.name, "id": submission.id, "data": portable(submission.path)}
                future = client.submit(
                    grade_there, common, job, key=f"grade-{run}-{len(sent)}", pure=False, priority=-len(sent)
                )
                sent.append(future.key)
                waiting[future] = submission
                future.add_done_callback(done.put)

        sent: list[str] = []
        try:
            send_more()
            while waiting:
                future = _next(done, client, scheduler, say)
                submission = waiting.pop(future)
                result = _result(future, distributed, spec, submission, scheduler)
                keep(submission, result)
                future.release()
                # Before the result is handed on, so that no worker waits for what is done with it.
                send_more()
                yield submission, result
        finally:
            for future, submission in list(waiting.items()):
                with contextlib.suppress(Exception):
                    if future.status == "finished":
                        keep(submission, _result(future, distributed, spec, submission, scheduler))
            with contextlib.suppress(Exception):
                client.cancel(list(waiting), force=True)
                client.run(release, run)


def grade_there(common: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """On a worker: grade one submission."""
    from course.grading.engine import edition

    if common["edition"] != edition():
        return {"refused": "it has another edition of the course, of Python or of torch"}
    remote = _take(common["run"], common["spec"], common["limit"])
    try:
        with tempfile.TemporaryDirectory(prefix="course-grade-") as folder:
            path = Path(folder) / job["name"]
            path.write_bytes(job["data"])
            result = grade_with(remote, common["spec"], path, job["id"])
    except GradingError as error:
        return {"refused": str(error)}
    finally:
        _give_back(common["run"], remote)
    rows = [row.to_dict() for row in result.rows]
    return {"rows": rows, "protection": result.protection, "complete": result.complete}


def portable(path: Path) -> bytes:
    """The bytes of a submission; of a large notebook without what its cells have printed."""
    try:
        data = path.read_bytes()
    except OSError:
        return b""
    if len(data) <= SLIM_BYTES or path.suffix != ".ipynb":
        return data
    try:
        notebook = json.loads(data)
        for cell in notebook["cells"]:
            if "outputs" in cell:
                cell["outputs"] = []
        return json.dumps(notebook).encode()
    except (ValueError, LookupError, TypeError, RecursionError):
        return data


# Grading processes of this worker, by run; those in use are not in the lists.

_idle: dict[str, list[Remote]] = {}
_used: dict[str, float] = {}
_guard = threading.Lock()


def _take(run: str, spec: Spec, limit: float) -> Remote:
    with _guard:
        now = time.monotonic()
        # Left behind by runs that were killed.
        old = [each for each, last in _used.items() if each != run and now - last > IDLE_SECONDS]
        left = [remote for each in old for remote in _idle.pop(each, [])]
        for each in old:
            del _used[each]
        _used[run] = now
        idle = _idle.setdefault(run, [])
        remote = idle.pop() if idle else Remote(spec, limit=limit)
    for each in left:
        each.close()
    return remote


def _give_back(run: str, remote: Remote) -> None:
    with _guard:
        if run in _used:
            _used[run] = time.monotonic()
            _idle[run].append(remote)
            return
    remote.close()


def release(run: str) -> None:
    """On a worker: end the grading processes of a run."""
    with _guard:
        _used.pop(run, None)
        remotes = _idle.pop(run, [])
    for remote in remotes:
        remote.close()


# On this side.


@contextlib.contextmanager
def _connected(distributed: Any, scheduler: str) -> Iterator[Any]:
    try:
        client = distributed.Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error) or type(error).__name__
        raise GradingError(
            f"No scheduler answers at {scheduler} ({reason}). Start one with `dask scheduler`, workers with "
            "`dask worker ADDRESS`, and give its address, such as tcp://10.0.0.5:8786."
        ) from None
    with client:
        yield client


def _next(done: queue.SimpleQueue, client: Any, scheduler: str, say: Callable[[str], None]) -> Any:
    """The next future that is done."""
    told = False
    while True:
        try:
            return done.get(timeout=2)
        except queue.Empty:
            pass
        if client.status != "running":
            raise _gone(scheduler)
        if not told and not client.nthreads():
            say(f"The scheduler at {scheduler} has no worker; waiting for one. Ctrl-C stops; --resume goes on.")
            told = True


def _gone(scheduler: str) -> GradingError:
    return GradingError(f"The scheduler at {scheduler} is gone. What was graded is kept: go on with --resume.")


def _result(future: Any, distributed: Any, spec: Spec, submission: Submission, scheduler: str) -> Result:
    from concurrent.futures import CancelledError

    try:
        answer = future.result()
    except distributed.KilledWorker:
        return not_graded(spec, submission.id, "the workers that were given it died one after the other")
    except CancelledError:
        raise _gone(scheduler) from None
    except Exception as error:
        answer = {"refused": f"it failed with {type(error).__name__}: {error}"}
    if "refused" in answer:
        raise GradingError(
            f"A worker of {scheduler} cannot grade: {answer['refused']}. All workers need what this machine has: "
            "the same versions of the course, Python and torch, and a protection."
        )
    rows = tuple(Row.from_dict(row) for row in answer["rows"])
    return Result(rows, answer["protection"], answer["complete"])


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What dask logs and warns about while workers come and go is nothing that a person could act on."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            yield
    finally:
        logger.setLevel(level)
