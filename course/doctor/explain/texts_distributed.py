"""Texts that faults of the topic distributed leave."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen

_NAMED = re.compile(r"parameters which did not receive grad for rank (\d+): (?P<names>[\w., ]{1,300})", re.I)
_NUMBERED = re.compile(r"parameter indices which did not receive grad for rank (\d+): (?P<numbers>[\d ]{1,200})", re.I)
_VARIABLES = r"RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK"


def _unused(error: ParsedError, match: re.Match[str]) -> Seen:
    names, numbers = _NAMED.search(error.flat), _NUMBERED.search(error.flat)
    why = ""
    if names:
        found = re.findall(r"[A-Za-z_]\w*(?:\.\w+)*", names["names"].split(" Parameter ")[0])
        why = f"Without a gradient on rank {names[1]}: {', '.join(f'`{name}`' for name in found[:4])}."
    elif numbers:
        indices = numbers["numbers"].split()
        why = (
            f"Without a gradient on rank {numbers[1]}: the parameters number {', '.join(indices[:6])} "
            "in the order of `model.parameters()`."
        )
    fix = "" if names else "`TORCH_DISTRIBUTED_DEBUG=DETAIL` in the environment gives their names."
    if "static_graph" in error.flat:
        why = f"With `static_graph=True` each step must use the same parameters, and these differ. {why}"
        fix = "Leave `static_graph=True` out. " + fix
    return Seen(None, why.strip(), fix)


def _variable(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(None, f"`{match['name']}` is not in the environment of this process.")


def _no_group(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(
        None,
        "Something asked for the process group, and `init_process_group` was not called in this process (or the group "
        "was destroyed already).",
        "Call `init_process_group` first; where the program also runs alone, ask `dist.is_initialized()`.",
    )


def _waiting(error: ParsedError, match: re.Match[str]) -> Seen | None:
    world, there = int(match["world"]), int(match["there"])
    if there >= world:
        return None
    return Seen(
        None,
        f"{there} of {world} processes came to the meeting within the time: the others were not started, or stopped.",
        "Let torchrun start all of them; look for an earlier error in their logs.",
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "ddp-unused-parameters",
        r"expected to have finished reduction in the prior iteration before starting a new one",
        confidence=0.97,
        look=_unused,
    ),
    Rule(
        "ddp-unused-parameters",
        r"parameter(?:s| indices) which did not receive grad for rank \d+",
        confidence=0.95,
        look=_unused,
    ),
    Rule(
        "ddp-unused-parameters",
        r"has parameters that were not used in producing (?:the )?loss",
        confidence=0.95,
        look=_unused,
    ),
    Rule(
        "not-launched-with-torchrun",
        rf"environment variable (?P<name>{_VARIABLES}) expected, but not set",
        confidence=0.97,
        look=_variable,
    ),
    Rule(
        "not-launched-with-torchrun",
        rf"^['\"](?P<name>{_VARIABLES})['\"]$|^keyerror: ['\"](?P<name2>{_VARIABLES})['\"]$",
        ("KeyError",),
        0.92,
        lambda error, match: Seen(
            None, f"`{match['name'] or match['name2']}` is not in the environment of this process."
        ),
    ),
    Rule(
        "not-launched-with-torchrun",
        r"using (?:tcp|file|env):// rendezvous: (?P<what>rank parameter|world size parameter|port number) missing",
        ("ValueError",),
        0.85,
        lambda error, match: Seen(
            None, f"The {match['what'].replace(' parameter', '')} is neither in the address nor in the environment."
        ),
    ),
    Rule(
        "not-launched-with-torchrun",
        r"default process group has not been initialized",
        ("ValueError", "RuntimeError", "AssertionError"),
        0.75,
        _no_group,
    ),
    Rule(
        "not-launched-with-torchrun",
        r"store based barrier.{0,120}\(world_size=(?P<world>\d+), worker_count=(?P<there>\d+)"
        r"(?:, num_workers_left=\d+)?, timeout",
        ("RuntimeError", "DistStoreError", "TimeoutError", "DistBackendError"),
        0.6,
        _waiting,
    ),
    Rule(
        "not-launched-with-torchrun",
        r"waiting for clients\. (?P<there>\d+)/(?P<world>\d+) clients joined",
        ("RuntimeError", "DistStoreError", "TimeoutError", "DistBackendError"),
        0.7,
        _waiting,
    ),
    Rule(
        "not-launched-with-torchrun",
        r"error: unrecognized arguments: .{0,80}--local[-_]rank"
        r"|the following arguments are required: .{0,80}--local[-_]rank",
        confidence=0.7,
        look=lambda error, match: Seen(
            None,
            "The script and its launcher disagree about `--local-rank`: torchrun passes none, and the older "
            "`torch.distributed.launch` does.",
            "Read `int(os.environ['LOCAL_RANK'])` instead of an argument.",
        ),
    ),
    Rule(
        "sampler-and-shuffle",
        r"sampler option is mutually exclusive with shuffle",
        ("ValueError",),
        0.97,
    ),
    Rule(
        "sampler-and-shuffle",
        r"batch_sampler option is mutually exclusive with batch_size, shuffle, sampler",
        ("ValueError",),
        0.85,
        lambda error, match: Seen(
            None,
            "A `batch_sampler` decides about everything: order, batch size and the last batch.",
            "Pass `batch_sampler=...` alone.",
        ),
    ),
    Rule(
        "sampler-and-shuffle",
        r"sampler[^.]{0,60}(?:cannot|can't|must not) be (?:used|combined|specified)[^.]{0,40}shuffle"
        r"|cannot specify both (?:sampler and shuffle|shuffle and sampler)",
        ("ValueError", "TypeError", "RuntimeError", "MisconfigurationException"),
        0.8,
    ),
)
