"""Lesson 10: what a training loop waits for, read from a trace."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from course.checking import Exercise

exercise = Exercise(
    "throughput.find_bottleneck",
    title="The bottleneck in a trace",
    task="""
        `find_bottleneck(events, thread)` returns which part of a training loop takes the most time, and its share:
        `(part, share)`.

        `events` is a trace as the profiler writes it, cut down: a list of tuples
        `(name, part, thread, start, duration)`, **in no particular order**. The part is one of `"loader"`,
        `"transfer"`, `"compute"` and `"optimizer"`; start and duration are in microseconds.

        - Only events of `thread` count. It runs the loop. What other threads do meanwhile, such as loading the next
          batch, keeps nobody waiting.
        - On one thread, an event that lies within another was called from it. An instant belongs to the **innermost**
          event that is open, and to no other. So each event counts its **own** time, what the profiler's tables call
          "self". Where one event ends, the next may start at once.
        - The share is that part's time over the time from the first start to the last end on this thread, a number from
          0 to 1. Time in which no event is open belongs to no part, but the loop takes it all the same.
        - There is at least one event on `thread`, and one part with more time than each other. Leave the list as it is.
        """,
    hints=(
        "Sum up the durations per part first, and look where that goes wrong: an instant within two events is counted "
        "twice. Which of the two should lose it?",
        "Go through the events sorted by start, the longer one first where two start together, with a stack of the "
        "open ones. Take off the stack what has ended. What is then on top called the new event: add the duration to "
        "the part of the new one, and subtract it from the part of the one on top.",
    ),
)


@exercise.stub
def find_bottleneck(events: Sequence[tuple[str, str, int, float, float]], thread: int) -> tuple[str, float]:
    """Return (part with the most time of its own on this thread, its share of the thread's time from 0 to 1)."""
    raise NotImplementedError


@exercise.reference
def with_a_stack(events, thread):
    mine = [event for event in events if event[2] == thread]
    own, stack = {}, []
    for _, part, _, start, duration in sorted(mine, key=lambda event: (event[3], -event[4])):
        while stack and stack[-1][1] <= start:
            stack.pop()
        if stack:
            own[stack[-1][0]] -= duration
        own[part] = own.get(part, 0) + duration
        stack.append((part, start + duration))
    begin = min(start for *_, start, _ in mine)
    end = max(start + duration for *_, start, duration in mine)
    part = max(own, key=own.get)
    return part, own[part] / (end - begin)


@exercise.alternative
def between_boundaries(events, thread):
    mine = [(start, start + duration, part) for _, part, tid, start, duration in events if tid == thread]
    times = sorted({time for start, end, _ in mine for time in (start, end)})
    own = dict.fromkeys(("loader", "transfer", "compute", "optimizer"), 0.0)
    for low, high in itertools.pairwise(times):
        covering = [(end - start, part) for start, end, part in mine if start <= low and high <= end]
        if covering:
            own[min(covering)[1]] += high - low
    seconds, part = max((seconds, part) for part, seconds in own.items())
    return part, seconds / (times[-1] - times[0])


@exercise.alternative
def less_what_it_called(events, thread):
    mine = [(e[1], e[3], e[3] + e[4]) for e in events if e[2] == thread]

    def within(inner, outer):
        return inner is not outer and outer[1] <= inner[1] and inner[2] <= outer[2]

    own = {}
    for event in mine:
        inside = [e for e in mine if within(e, event)]
        called = [e for e in inside if not any(within(e, other) for other in inside)]
        own[event[0]] = own.get(event[0], 0.0) + event[2] - event[1] - sum(e[2] - e[1] for e in called)
    part = sorted(own, key=own.get)[-1]
    return part, own[part] / (max(e[2] for e in mine) - min(e[1] for e in mine))


# What the wrong answers have in common.


class Event(NamedTuple):
    name: str
    part: str
    thread: int
    start: float
    duration: float

    @property
    def end(self):
        return self.start + self.duration


def on(events, thread):
    return [event for event in map(Event._make, events) if event.thread == thread]


def by_start(event):
    return event.start, -event.duration


def window(events):
    """Microseconds from the first start to the last end."""
    return max(e.end for e in events) - min(e.start for e in events)


def own_times(events, has_ended=lambda end, start: end <= start, order=by_start):
    """[event, microseconds of its own] for all events of one thread."""
    rows, stack = [], []
    for event in sorted(events, key=order):
        while stack and has_ended(stack[-1][0].end, event.start):
            stack.pop()
        if stack:
            stack[-1][1] -= event.duration
        stack.append([event, event.duration])
        rows.append(stack[-1])
    return rows


def sums(rows, key="part"):
    """The sum of the values of each part (or name)."""
    table = {}
    for event, value in rows:
        table[getattr(event, key)] = table.get(getattr(event, key), 0) + value
    return table


def largest(table, whole):
    part = max(table, key=table.get)
    return part, table[part] / whole


@exercise.wrong(
    "Durations are summed up as they stand. An event holds the time of those that it called, which then counts twice: "
    "this is the profiler's column of totals, whose shares add up to more than one."
)
def total_times(events, thread):
    mine = on(events, thread)
    return largest(sums((e, e.duration) for e in mine), window(mine))


@exercise.wrong(
    "All threads are summed up. Workers load while the loop computes; what they do at the same time is not time that "
    "the loop waits."
)
def all_threads(events, thread):
    rows = [row for other in sorted({e[2] for e in events}) for row in own_times(on(events, other))]
    return largest(sums(rows), window(on(events, thread)))


@exercise.wrong(
    "The window reaches from the first to the last event of any thread. Workers may start earlier and end later than "
    "the loop; the share is one of the loop's time."
)
def window_of_all_threads(events, thread):
    return largest(sums(own_times(on(events, thread))), window([Event(*e) for e in events]))


@exercise.wrong(
    "The part of the longest single event wins. Many short ones can take more, and a long one may only wait for what "
    "it has called."
)
def longest_event(events, thread):
    mine = on(events, thread)
    longest = max(mine, key=lambda e: e.duration)
    return longest.part, longest.duration / window(mine)


@exercise.wrong("Events are counted, not their time. A part with many short events need not be slow.")
def most_events(events, thread):
    mine = on(events, thread)
    return largest(sums((e, 1) for e in mine), len(mine))


@exercise.wrong("The mean event of each part is compared. What the loop takes is the sum.")
def mean_event(events, thread):
    mine = on(events, thread)
    times, numbers = sums(own_times(mine)), sums((e, 1) for e in mine)
    return largest({part: times[part] / numbers[part] for part in times}, window(mine))


@exercise.wrong(
    "The share is one of the time within events. What passes between them, in Python, belongs to the loop as well: "
    "divide by the time from the first start to the last end."
)
def share_of_the_events(events, thread):
    times = sums(own_times(on(events, thread)))
    return largest(times, sum(times.values()))


@exercise.wrong("These are per cent. The task asks for a number from 0 to 1.")
def per_cent(events, thread):
    mine = on(events, thread)
    part, share = largest(sums(own_times(mine)), window(mine))
    return part, 100 * share


@exercise.wrong("These are microseconds. The task asks for the share of the loop's time.")
def microseconds(events, thread):
    return largest(sums(own_times(on(events, thread))), 1)


@exercise.wrong(
    "An event loses the time of everything within it, also of what its calls have called. That time is taken away more "
    "than once. Take away what it has called itself."
)
def less_everything_within(events, thread):
    mine = on(events, thread)
    within = {e: [i.duration for i in mine if e.start <= i.start and i.end <= e.end and i is not e] for e in mine}
    return largest(sums((e, e.duration - sum(within[e])) for e in mine), window(mine))


@exercise.wrong(
    "The last event is closed, and the one around it, which has ended as well, stays open: what comes next is taken "
    "for its call. Take off the stack all that have ended."
)
def closes_one_only(events, thread):
    mine, own, stack = on(events, thread), {}, []
    for event in sorted(mine, key=by_start):
        if stack and stack[-1].end <= event.start:
            stack.pop()
        if stack:
            own[stack[-1].part] -= event.duration
        own[event.part] = own.get(event.part, 0) + event.duration
        stack.append(event)
    return largest(own, window(mine))


@exercise.wrong(
    "Only the outermost events are looked at. A wait for a transfer inside of the computation then counts as "
    "computation, and stays hidden."
)
def outermost_only(events, thread):
    mine, outer = on(events, thread), []
    for event in sorted(mine, key=by_start):
        if not outer or event.start >= outer[-1].end:
            outer.append(event)
    return largest(sums((e, e.duration) for e in outer), window(mine))


@exercise.wrong(
    "Only events that call no other are counted. What an event does between its calls is its own time, and is lost "
    "here."
)
def innermost_only(events, thread):
    mine = on(events, thread)
    return largest(sums((e, own) for e, own in own_times(mine) if own == e.duration), window(mine))


@exercise.wrong(
    "For each part its events are merged, so that nothing counts twice within a part. Between parts it still does: a "
    "transfer inside of the computation is in both."
)
def merged_within_a_part(events, thread):
    mine, merged, ends = on(events, thread), {}, {}
    for event in sorted(mine, key=by_start):
        seen = max(event.start, ends.get(event.part, event.start))
        merged[event.part] = merged.get(event.part, 0) + max(0, event.end - seen)
        ends[event.part] = max(seen, event.end)
    return largest(merged, window(mine))


@exercise.wrong(
    "The events are taken in the order of the list. A trace is not sorted; a caller may be written after what it "
    "called, as its end is later."
)
def in_the_order_of_the_list(events, thread):
    mine = on(events, thread)
    return largest(sums(own_times(mine, order=lambda event: 0)), window(mine))


@exercise.wrong(
    "An event that starts where another one ends is taken for a call of it, and its time is taken away from it. It "
    "comes after it: what has ended at that instant is no longer open."
)
def neighbours_nest(events, thread):
    mine = on(events, thread)
    return largest(sums(own_times(mine, lambda end, start: end < start)), window(mine))


@exercise.wrong(
    "The open event that started last is taken for the innermost. Where an event starts together with its caller, that "
    "does not say which of the two it is: the shorter one lies within the other."
)
def the_latest_start(events, thread):
    mine, own = on(events, thread), {}
    times = sorted({time for event in mine for time in (event.start, event.end)})
    for low, high in itertools.pairwise(times):
        around = [event for event in mine if event.start <= low and high <= event.end]
        if around:
            part = max(around, key=lambda event: event.start).part
            own[part] = own.get(part, 0) + high - low
    return largest(own, window(mine))


@exercise.wrong("It returns the name of an event. The task asks for the part, which holds events of several names.")
def name_of_the_event(events, thread):
    mine = on(events, thread)
    return largest(sums(own_times(mine), "name"), window(mine))


@exercise.wrong("`events.sort` sorts the caller's list in place. Sort a copy.")
def sorts_in_place(events, thread):
    events.sort(key=lambda e: (e[3], -e[4]))
    mine = on(events, thread)
    return largest(sums(own_times(mine)), window(mine))


def trace(*rows):
    """Events from rows (name, part, start, duration), on thread 1, or (..., thread)."""
    return [(name, part, *(other or [1]), start, duration) for name, part, start, duration, *other in rows]


@exercise.probe
def one_event():
    return trace(("next", "loader", 5.0, 10.0)), 1


@exercise.probe
def one_after_the_other():
    return trace(
        ("next", "loader", 0.0, 30.0),
        ("to", "transfer", 30.0, 10.0),
        ("forward", "compute", 40.0, 50.0),
        ("step", "optimizer", 90.0, 10.0),
    ), 1


@exercise.probe
def with_gaps():
    return trace(
        ("next", "loader", 100.0, 40.0), ("forward", "compute", 150.0, 30.0), ("step", "optimizer", 190.0, 10.0)
    ), 1


@exercise.probe
def calls_of_the_same_part():
    return trace(
        ("next", "loader", 0.0, 40.0),
        ("forward", "compute", 41.0, 30.0),
        ("aten::conv2d", "compute", 42.0, 12.0),
        ("aten::linear", "compute", 55.0, 15.0),
    ), 1


@exercise.probe
def a_wait_inside_of_the_computation():
    return trace(
        ("next", "loader", 0.0, 20.0),
        ("forward", "compute", 20.0, 70.0),
        ("aten::relu", "compute", 22.0, 8.0),
        ("aten::item", "transfer", 35.0, 45.0),
        ("step", "optimizer", 90.0, 10.0),
    ), 1


@exercise.probe
def much_between_the_calls():
    return trace(
        ("next", "loader", 0.0, 60.0),
        ("collate", "loader", 10.0, 5.0),
        ("forward", "compute", 62.0, 20.0),
        ("aten::conv2d", "compute", 62.0, 19.0),
    ), 1


@exercise.probe
def many_short_events():
    steps = [("aten::add_", "optimizer", 40.0 + 4.0 * i, 3.0) for i in range(15)]
    return trace(("next", "loader", 0.0, 38.0), *steps, ("forward", "compute", 101.0, 12.0)), 1


@exercise.probe
def many_events_of_little_time():
    steps = [("aten::add_", "optimizer", 90.0 + i, 0.5) for i in range(8)]
    return trace(("forward", "compute", 0.0, 30.0), ("backward", "compute", 30.0, 55.0), *steps), 1


@exercise.probe
def workers_at_the_same_time():
    return trace(
        ("getitem", "loader", -50.0, 90.0, 2),
        ("getitem", "loader", 45.0, 80.0, 2),
        ("getitem", "loader", -30.0, 150.0, 3),
        ("next", "loader", 0.0, 4.0),
        ("forward", "compute", 5.0, 55.0),
        ("step", "optimizer", 60.0, 12.0),
    ), 1


@exercise.probe
def another_thread_runs_the_loop():
    return trace(
        ("forward", "compute", 0.0, 90.0, 1),
        ("next", "loader", 10.0, 30.0, 7),
        ("to", "transfer", 45.0, 50.0, 7),
    ), 7


@exercise.probe
def calls_written_before_their_caller():
    return trace(
        ("aten::item", "transfer", 60.0, 9.0),
        ("aten::copy_", "transfer", 32.0, 8.0),
        ("aten::conv2d", "compute", 32.0, 10.0),
        ("forward", "compute", 30.0, 40.0),
        ("step", "optimizer", 75.0, 18.0),
        ("next", "loader", 0.0, 19.0),
    ), 1


@exercise.probe
def a_call_at_the_start_of_its_caller():
    return trace(("next", "loader", 0.0, 10.0), ("to", "transfer", 0.0, 6.0)), 1


@exercise.probe
def deep_calls():
    return trace(
        ("step 1", "compute", 0.0, 100.0),
        ("forward", "compute", 0.0, 95.0),
        ("to", "transfer", 25.0, 65.0),
        ("collate", "loader", 66.0, 20.0),
        ("copy", "transfer", 68.0, 6.0),
        ("copy", "transfer", 74.0, 4.0),
        ("step 2", "transfer", 100.0, 40.0),
    ), 1


@exercise.probe
def the_list_stays_as_it_is(answer):
    events, thread = calls_written_before_their_caller()
    found = answer(events, thread)
    return found, "as it was" if events == calls_written_before_their_caller()[0] else "changed"
