"""Faults of training in several processes."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault("ddp-unused-parameters", "parameters without gradient in DDP", "distributed", "11"),
    Fault("sampler-set-epoch", "set_epoch never called", "distributed", "11"),
    Fault("sampler-and-shuffle", "sampler and shuffle together", "distributed", "11"),
    Fault("sampler-duplicates-in-metric", "padded duplicates counted", "distributed", "11"),
    Fault("not-launched-with-torchrun", "rendezvous variables missing", "distributed", "11"),
    Fault("ddp-forward-bypassed", "ddp.module(x) skips gradient sync", "distributed", "11"),
    Fault("same-seed-on-all-ranks", "ranks draw the same noise", "distributed", "11"),
    Fault("metric-not-reduced", "metric of one rank reported", "distributed", "11"),
)
