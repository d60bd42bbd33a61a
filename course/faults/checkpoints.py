"""Faults of saving, loading and reproducing."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault("cuda-checkpoint-on-cpu", "map_location missing", "checkpoints", "07"),
    Fault(
        "wrapper-prefix",
        "module. or _orig_mod. prefix in state_dict keys",
        "checkpoints",
        "07",
        why=(
            "A wrapper holds the model as a submodule, and a submodule's name goes in front of every key: "
            "`module.` for DataParallel, DDP and AveragedModel, `_orig_mod.` for `torch.compile(model)`; both"
            " can be nested. The bare model knows no such names."
        ),
        fix=(
            "Save the model inside: `wrapper.module.state_dict()`; `model.compile()` compiles in place and "
            "leaves the names. For a file that has the prefix: "
            "`torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, 'module.')`."
        ),
    ),
    Fault("nothing-loaded", "strict=False matched no key", "checkpoints", "07"),
    Fault("weights-only-refused", "file holds more than tensors and plain containers", "checkpoints", "07"),
    Fault("state-dict-aliased", "a kept state_dict follows the live weights", "checkpoints", "07"),
    Fault("optimizer-not-restored", "resume without optimizer state", "checkpoints", "07"),
    Fault(
        "scheduler-not-restored",
        "resume without scheduler state, or in the wrong order",
        "checkpoints",
        "07",
    ),
    Fault("optimizer-groups-mismatch", "optimizer state for other parameters", "checkpoints", "07"),
    Fault("shape-mismatch-on-load", "same name, other shape", "checkpoints", "07"),
    Fault("seed-incomplete", "a source of randomness that was not seeded", "checkpoints", "07"),
    Fault("nondeterministic-kernel", "an operation whose result varies from run to run", "checkpoints", "07"),
)
