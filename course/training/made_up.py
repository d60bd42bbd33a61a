"""An accelerator to think with: it computes nothing, and has a clock of its own."""

from __future__ import annotations


class MadeUpDevice:
    """Plays an accelerator: ``launch`` queues work and returns; the device works through its queue meanwhile.

    Times are in microseconds. A launch costs Python 10, the first one 5010: a real device loads its programs then.
    """

    def __init__(self) -> None:
        self.now = 0  # the clock
        self.done_at = 0  # when the queue will be empty
        self.busy = 0  # time at work
        self.warm = False

    def launch(self, work: int) -> None:
        self.python(10 if self.warm else 5010)
        self.warm = True
        self.done_at = max(self.now, self.done_at) + work
        self.busy += work

    def python(self, time: int) -> None:
        """Something happens on the host: loading, preparing, printing."""
        self.now += time

    def synchronise(self) -> None:
        """Wait until the queue is empty; what needs a number, such as ``loss.item()``, does the same."""
        self.now = max(self.now, self.done_at)


def made_up_steps(
    count: int, *, python: int = 0, launches: int = 1, work: int, waits: bool = False
) -> tuple[int, float]:
    """Time of some steps on a warm device, and the share of it in which the device was busy.

    Each step: Python does something for a time, then launches operations of some work each, then waits for the device
    if it `waits`. In the end everybody waits.
    """
    device = MadeUpDevice()
    device.launch(0)
    start = device.now
    for _ in range(count):
        device.python(python)
        for _ in range(launches):
            device.launch(work)
        if waits:
            device.synchronise()
    device.synchronise()
    return device.now - start, device.busy / (device.now - start)
