"""Faults of saving, loading and reproducing."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "cuda-checkpoint-on-cpu",
        "map_location missing",
        "checkpoints",
        "07",
        section="From another device",
        why=(
            "Each tensor in a file is tagged with the device that it was saved from, and `torch.load` puts it back "
            "there. A file from `cuda:0` does not load on a machine without a GPU, nor one from `cuda:3` on a machine "
            "with two."
        ),
        fix=(
            "Load with `torch.load(path, map_location='cpu')`, then move the model: `load_state_dict` copies the "
            "values to the device where the parameters are."
        ),
    ),
    Fault(
        "wrapper-prefix",
        "module. or _orig_mod. prefix in state_dict keys",
        "checkpoints",
        "07",
        section="Names that do not match",
        why=(
            "A wrapper holds the model as a submodule, and a submodule's name goes in front of every key: "
            "`module.` for DataParallel, DDP and AveragedModel, `_orig_mod.` for `torch.compile(model)`; both"
            " can be nested. The bare model knows no such names; the other way round, a wrapped model asks for"
            " the prefix that a bare file has not."
        ),
        fix=(
            "Save the model inside: `wrapper.module.state_dict()`; `model.compile()` compiles in place and "
            "leaves the names. For a file that has the prefix: "
            "`torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, 'module.')`. A bare file is loaded "
            "before wrapping."
        ),
    ),
    Fault(
        "nothing-loaded",
        "strict=False matched no key",
        "checkpoints",
        "07",
        section="Names that do not match",
        why=(
            "`strict=False` forgives every missing and every unexpected name, also all of them at once: a prefix or "
            "another architecture, or a whole checkpoint whose weights are one entry of it, and the model keeps its "
            "random weights without an error."
        ),
        fix=(
            "Read what `load_state_dict(state, strict=False)` returns: print `missing_keys` and `unexpected_keys`, and "
            "raise when nothing matched. Leave `strict=True` wherever all names should match."
        ),
    ),
    Fault(
        "weights-only-refused",
        "file holds more than tensors and plain containers",
        "checkpoints",
        "07",
        section="A file of names and tensors",
        why=(
            "`torch.load` reads with `weights_only=True`: tensors, numbers, strings and plain containers. A NumPy "
            "scalar (`np.float64`), a `Path`, a dataclass or a whole module would call code that the file names, and "
            "is refused."
        ),
        fix=(
            "Save plain values: `float(accuracy)`, `str(path)`, `vars(args)`, `model.state_dict()`. For a file that is "
            "there already and that you trust, allow the one class: `torch.serialization.safe_globals([...])`."
        ),
    ),
    Fault(
        "state-dict-aliased",
        "a kept state_dict follows the live weights",
        "checkpoints",
        "07",
        section="A file of names and tensors",
        why=(
            "`state_dict()` copies nothing: its tensors are the parameters' own memory, and `dict(...)` or `.copy()` "
            "copies the names alone. The next step changes what was kept. `optimizer.load_state_dict(state)` keeps the "
            "tensors of `state` as well, and later steps write into them."
        ),
        fix=(
            "Keep `copy.deepcopy(model.state_dict())`, or write a file. Give an optimizer a deep copy where the state "
            "is used again."
        ),
    ),
    Fault(
        "optimizer-not-restored",
        "resume without optimizer state",
        "checkpoints",
        "07",
        section="Go on as if nothing had happened",
        why=(
            "Momentum, Adam's moments and its count of steps live in the optimizer. A fresh one starts from zero: Adam "
            "then takes steps as large as its first ones, and SGD has lost its direction. Nothing is said."
        ),
        fix=(
            "Save `optimizer.state_dict()` beside the model and load it after the optimizer was built. Test it: k "
            "steps, save, load, m steps equal k + m steps."
        ),
    ),
    Fault(
        "scheduler-not-restored",
        "resume without scheduler state, or in the wrong order",
        "checkpoints",
        "07",
        section="Go on as if nothing had happened",
        why=(
            "A scheduler counts its own steps, and a fresh one counts from 0. **Building** one can also write a rate "
            "into the optimizer (`LambdaLR`, `LinearLR` and `OneCycleLR` do): built after the optimizer's state was "
            "loaded, it overwrites the rate that was restored."
        ),
        fix=(
            "Build model, optimizer and scheduler first, then load all three states. Compare "
            "`scheduler.get_last_lr()` before the stop and after the restart."
        ),
    ),
    Fault(
        "optimizer-groups-mismatch",
        "optimizer state for other parameters",
        "checkpoints",
        "07",
        section="Go on as if nothing had happened",
        why=(
            "An optimizer numbers its parameters and knows no names. With other groups or another count "
            "`load_state_dict` raises a ValueError. With the same count in another order it raises nothing, and each "
            "parameter gets the moments of another one. The state of another class, SGD's in Adam, is a KeyError at "
            "the next step."
        ),
        fix=(
            "Build the same groups in the same order as the run that saved. Where layers were added, load the weights "
            "alone and start a new optimizer."
        ),
    ),
    Fault(
        "shape-mismatch-on-load",
        "same name, other shape",
        "checkpoints",
        "07",
        section="Names that do not match",
        why=(
            "`strict=False` forgives names, never shapes. A head for ten classes and one for three have the same name, "
            "so loading raises, after other entries have been copied already."
        ),
        fix=(
            "Leave out what does not fit: `{k: v for k, v in state.items() if k in own and v.shape == own[k].shape}` "
            "with `own = model.state_dict()`, load it with `strict=False`, and print what was left out."
        ),
    ),
    Fault(
        "seed-incomplete",
        "a source of randomness that was not seeded",
        "checkpoints",
        "07",
        section="Randomness has many sources",
        why=(
            "Python's `random`, NumPy and torch each have a global generator, every GPU and every worker process one "
            "more, and `np.random.default_rng()` makes yet another. `torch.manual_seed` reaches torch's alone. And a "
            "seed says where a generator began, not where it is."
        ),
        fix=(
            "Seed all that the run uses, `random.seed`, `np.random.seed`, `torch.manual_seed`, and give loaders a "
            "generator. To resume, save states: `random.getstate()`, `torch.get_rng_state()`."
        ),
    ),
    Fault(
        "nondeterministic-kernel",
        "an operation whose result varies from run to run",
        "checkpoints",
        "07",
        section="The same program, other bits",
        why=(
            "A sum of floats depends on its order. Threads that add to one place at once do so in any order: "
            "`index_put_(accumulate=True)` on several threads, `index_add_` on a GPU. Even a plain `sum` has another "
            "order with another number of threads."
        ),
        fix=(
            "`torch.use_deterministic_algorithms(True)` takes slower kernels with a fixed order, and raises where "
            "there is none. Keep the number of threads, the machine and torch's version; compare with a tolerance "
            "across them."
        ),
    ),
)
