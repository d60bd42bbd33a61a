"""Lesson 14: answer requests in batches, and lose none to the error of another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from course.checking import Exercise

exercise = Exercise(
    "inference.micro_batches",
    title="Micro-batches",
    task="""
        `answer_all(requests, run, most)` answers a list of requests in batches. `run(batch)` takes a list of requests
        and returns a list with one answer for each, or raises.

        - Batches follow the order of the requests. Each has `most` of them (1 or more); the last one what is left.
        - The result is a list with one entry for each request, in the order of the requests.
        - If `run` raises an `Exception` for a batch, each request of it is run once more, alone: `run([request])`.
          If it raises again, the exception (the object) is the entry. A batch of one request is not run again: its
          first exception is the entry.
        - What is not an `Exception`, such as `KeyboardInterrupt`, passes through. No requests, no call of `run`.
        """,
    hints=(
        "Write it without errors first: where does the batch at `start` end? Then ask which calls may raise, and how "
        "many entries the result has afterwards.",
        "`for start in range(0, len(requests), most)`: try `run` of the slice and extend the result; on an Exception "
        "run each request of the slice in a try of its own, unless there is only one, and append answer or error.",
    ),
)


@exercise.stub
def answer_all(requests: Sequence[Any], run: Callable[[list[Any]], list[Any]], most: int) -> list[Any]:
    """Return the answer, or the exception, of each request, in order; run takes at most `most` of them."""
    raise NotImplementedError


@exercise.reference
def slices_and_singles(requests, run, most):
    results = []
    for start in range(0, len(requests), most):
        batch = list(requests[start : start + most])
        try:
            results.extend(run(batch))
        except Exception as error:
            if len(batch) == 1:
                results.append(error)
                continue
            for request in batch:
                try:
                    results.extend(run([request]))
                except Exception as alone:
                    results.append(alone)
    return results


@exercise.alternative
def by_a_queue(requests, run, most):
    waiting, entries = list(requests), []
    while waiting:
        head, waiting = waiting[:most], waiting[most:]
        try:
            entries += run(head)
            continue
        except Exception as error:
            failure = error
        if len(head) == 1:
            entries.append(failure)
        else:
            for request in head:
                try:
                    entries.append(run([request])[0])
                except Exception as error:
                    entries.append(error)
    return entries


@exercise.wrong("The error of one request ends everything: the requests before and after it get no answer.")
def no_try(requests, run, most):
    results = []
    for start in range(0, len(requests), most):
        results.extend(run(list(requests[start : start + most])))
    return results


@exercise.wrong("The whole batch gets the error of one request. The others in it were fine; run each of them alone.")
def error_for_the_whole_batch(requests, run, most):
    results = []
    for start in range(0, len(requests), most):
        batch = list(requests[start : start + most])
        try:
            results.extend(run(batch))
        except Exception as error:
            results.extend([error] * len(batch))
    return results


@exercise.wrong(
    "Requests that fail have no entry. From there on answers stand at the place of other requests: somebody gets the "
    "answer to somebody else's image."
)
def failures_left_out(requests, run, most):
    results = []
    for start in range(0, len(requests), most):
        batch = list(requests[start : start + most])
        try:
            results.extend(run(batch))
        except Exception:
            if len(batch) == 1:
                continue
            for request in batch:
                try:
                    results.extend(run([request]))
                except Exception:
                    pass
    return results


@exercise.wrong("The last, shorter batch is left out: those requests never get an answer.")
def last_one_lost(requests, run, most):
    results = []
    for start in range(0, len(requests) - most + 1, most):
        batch = list(requests[start : start + most])
        try:
            results.extend(run(batch))
        except Exception as error:
            if len(batch) == 1:
                results.append(error)
                continue
            for request in batch:
                try:
                    results.extend(run([request]))
                except Exception as alone:
                    results.append(alone)
    return results


@exercise.wrong(
    "Every request runs alone. The answers are right, and the throughput is that of batch 1: nothing is batched."
)
def one_at_a_time(requests, run, most):
    results = []
    for request in requests:
        try:
            results.extend(run([request]))
        except Exception as error:
            results.append(error)
    return results


@exercise.wrong(
    "The requests are shared out evenly. The task fills each batch up to `most`; only the last one is shorter."
)
def shared_out_evenly(requests, run, most):
    results = []
    count = -(-len(requests) // most)
    size = -(-len(requests) // count) if count else most
    for start in range(0, len(requests), size):
        batch = list(requests[start : start + size])
        try:
            results.extend(run(batch))
        except Exception as error:
            if len(batch) == 1:
                results.append(error)
                continue
            for request in batch:
                try:
                    results.extend(run([request]))
                except Exception as single:
                    results.append(single)
    return results


@exercise.wrong("All requests go into one batch. `most` is what fits into memory, and into the promised latency.")
def one_large_batch(requests, run, most):
    results = []
    if requests:
        batch = list(requests)
        try:
            results.extend(run(batch))
        except Exception as error:
            if len(batch) == 1:
                return [error]
            for request in batch:
                try:
                    results.extend(run([request]))
                except Exception as alone:
                    results.append(alone)
    return results


@exercise.wrong(
    "After an error everything that follows runs alone: one bad request takes batching away from all later ones."
)
def alone_from_then_on(requests, run, most):
    results, start = [], 0
    while start < len(requests):
        batch = list(requests[start : start + most])
        try:
            results.extend(run(batch))
        except Exception as error:
            if len(batch) == 1:
                results.append(error)
            else:
                most = 1
                continue
        start += len(batch)
    return results


@exercise.wrong(
    "Answers are gathered first and errors put at the end. The list has the right length, but an entry no longer "
    "stands at the place of its request."
)
def errors_at_the_end(requests, run, most):
    results, errors = [], []
    for start in range(0, len(requests), most):
        batch = list(requests[start : start + most])
        try:
            results.extend(run(batch))
        except Exception as error:
            if len(batch) == 1:
                errors.append(error)
                continue
            for request in batch:
                try:
                    results.extend(run([request]))
                except Exception as alone:
                    errors.append(alone)
    return results + errors


@exercise.wrong(
    "`except BaseException` also catches Ctrl-C and the end of the program, which are meant for the process."
)
def catches_everything(requests, run, most):
    results = []
    for start in range(0, len(requests), most):
        batch = list(requests[start : start + most])
        try:
            results.extend(run(batch))
        except BaseException as error:
            if len(batch) == 1:
                results.append(error)
                continue
            for request in batch:
                try:
                    results.extend(run([request]))
                except BaseException as alone:
                    results.append(alone)
    return results


@exercise.wrong("A batch of one request is run a second time after its error. It is the same call: it costs time only.")
def single_runs_twice(requests, run, most):
    results = []
    for start in range(0, len(requests), most):
        batch = list(requests[start : start + most])
        try:
            results.extend(run(batch))
        except Exception:
            for request in batch:
                try:
                    results.extend(run([request]))
                except Exception as alone:
                    results.append(alone)
    return results


@exercise.wrong("None stands where a request failed. The caller has to know why: the task asks for the exception.")
def none_for_an_error(requests, run, most):
    results = []
    for start in range(0, len(requests), most):
        batch = list(requests[start : start + most])
        try:
            results.extend(run(batch))
        except Exception:
            if len(batch) == 1:
                results.append(None)
                continue
            for request in batch:
                try:
                    results.extend(run([request]))
                except Exception:
                    results.append(None)
    return results


@exercise.wrong(
    "The text of the exception is the entry, and reads like an answer. The task asks for the exception itself."
)
def text_of_the_error(requests, run, most):
    results = []
    for start in range(0, len(requests), most):
        batch = list(requests[start : start + most])
        try:
            results.extend(run(batch))
        except Exception as error:
            if len(batch) == 1:
                results.append(str(error))
                continue
            for request in batch:
                try:
                    results.extend(run([request]))
                except Exception as alone:
                    results.append(str(alone))
    return results


@exercise.wrong("An error inside a single request ends everything: the second `run` needs a try of its own.")
def second_run_unprotected(requests, run, most):
    results = []
    for start in range(0, len(requests), most):
        batch = list(requests[start : start + most])
        try:
            results.extend(run(batch))
        except Exception as error:
            if len(batch) == 1:
                results.append(error)
                continue
            for request in batch:
                results.extend(run([request]))
    return results


@exercise.wrong(
    "Only ValueError is caught. A network raises RuntimeError, Pillow OSError, and your code anything else."
)
def only_value_errors(requests, run, most):
    results = []
    for start in range(0, len(requests), most):
        batch = list(requests[start : start + most])
        try:
            results.extend(run(batch))
        except ValueError as error:
            if len(batch) == 1:
                results.append(error)
                continue
            for request in batch:
                try:
                    results.extend(run([request]))
                except ValueError as alone:
                    results.append(alone)
    return results


def served(answer, requests, most, kind=ValueError):
    """The result, and the batches that were run. Negative requests raise; errors in words, because they are objects."""
    batches = []

    def run(batch):
        if not isinstance(batch, list):
            raise TypeError(f"run takes a list, not {type(batch).__name__}")
        batches.append(list(batch))
        for request in batch:
            if request < 0:
                raise kind(f"request {request} in a batch of {len(batch)}")
        return [10 * request for request in batch]

    results = answer(requests, run, most)
    words = [f"{type(r).__name__} object: {r}" if isinstance(r, BaseException) else r for r in results]
    return words, batches


@exercise.probe
def no_requests(answer):
    return served(answer, [], 4)


@exercise.probe
def last_batch_is_shorter(answer):
    return served(answer, [1, 2, 3, 4, 5], 2)


@exercise.probe
def batches_are_full(answer):
    return served(answer, [1, 2, 3, 4], 2)


@exercise.probe
def full_batches_before_a_short_one(answer):
    return served(answer, [1, 2, 3, 4, 5], 4), served(answer, [1, 2, -3, 4, 5, 6, 7, 8, 9], 4)


@exercise.probe
def equal_requests(answer):
    """Images of equal content, say; and requests that cannot be keys of a dict. Answers tell the calls apart."""
    numbers = iter(range(100))
    return answer([[7], [7], [8], [7]], lambda batch: [next(numbers) for _ in batch], 2)


@exercise.probe
def fewer_than_a_batch(answer):
    return served(answer, [5, 3, 4], 8)


@exercise.probe
def one_bad_request(answer):
    return served(answer, [1, 2, -3, 4, 5, 6, 7], 3)


@exercise.probe
def two_bad_requests_in_a_batch(answer):
    return served(answer, [-1, 2, -3, 4], 4)


@exercise.probe
def a_bad_request_alone(answer):
    return served(answer, [1, 2, -3], 2)


@exercise.probe
def batches_of_one(answer):
    return served(answer, [1, -2, 3], 1)


@exercise.probe
def other_errors(answer):
    return [served(answer, [1, -2, 3, 4], 2, kind=kind) for kind in (RuntimeError, KeyError)]


@exercise.probe
def ctrl_c(answer):
    seen = []
    for requests, most in (([1, -2, 3], 2), ([-1], 2)):
        try:
            seen.append(served(answer, requests, most, kind=KeyboardInterrupt)[0])
        except KeyboardInterrupt:
            seen.append("KeyboardInterrupt passed through")
    return seen


@exercise.probe
def requests_stay_as_they_are(answer):
    requests = [1, -2, 3]
    served(answer, requests, 2)
    return requests
