"""Faults of measuring and of speed: programs that are right, or nearly, and slow; and clocks that lie."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "clock-without-synchronise",
        "the clock is read while the device still works",
        "speed",
        "10",
        section="An honest clock",
        why=(
            "An accelerator works asynchronously: a call puts work into a queue and returns. A clock that is read "
            "right after it measures how long queueing takes, and the next call that needs a value seems to take all "
            "the time."
        ),
        fix=(
            "Wait before each reading of the clock: `torch.accelerator.synchronize()`, or "
            "`torch.cuda.synchronize()`. `torch.utils.benchmark.Timer` does it. Synchronise around what is measured, "
            "never inside it."
        ),
    ),
    Fault(
        "warm-up-timed",
        "the first call is part of the measurement",
        "speed",
        "10",
        section="An honest clock",
        why=(
            "A first call does things that no later call does: it starts threads and workers, asks for memory, chooses "
            "kernels, fills caches, imports modules. One such call among a few moves their mean far from what a long "
            "run will see."
        ),
        fix=(
            "Make some calls that are not timed, of the same shapes; then report the median of many and how far they "
            "spread. If the first call matters to somebody, report it apart."
        ),
    ),
    Fault(
        "one-draw-for-the-batch",
        "one random decision for all images of a batch",
        "speed",
        "10",
        section="The whole batch at once",
        why=(
            "A transform of torchvision draws once a call. Called with a batch, it crops and mirrors all of its images "
            "alike. Each image still changes from epoch to epoch, so nothing looks wrong; but the gradients within a "
            "batch have the same shift in common, and augmentation loses a part of its effect."
        ),
        fix=(
            "Draw one number an image: `torch.rand(len(batch)) < 0.5`, and offsets of shape `(len(batch), 2)`, then "
            "choose with `torch.where` and `gather`. Test it: a batch of equal images has to come out different."
        ),
    ),
    Fault(
        "python-loop-over-images",
        "a Python loop where one tensor operation does the work",
        "speed",
        "10",
        section="The whole batch at once",
        why=(
            "Each tensor operation costs a few microseconds before it does any work: Python, checks of the arguments, "
            "dispatch, memory for the result. On small tensors that is most of the time, and a loop over images pays "
            "it for every image."
        ),
        fix=(
            "Add an axis and let one operation work on all of it: broadcasting, `gather`, `torch.where`, "
            "`torch.vmap`. Count operations, with a profiler or a `TorchDispatchMode`: their number should not grow "
            "with the batch."
        ),
    ),
    Fault(
        "item-in-the-loop",
        "each step waits for a number",
        "speed",
        "10",
        section="A loop that does not wait",
        why=(
            "`.item()`, `float(loss)`, `print(loss)`, `if loss > x`, `.cpu()` and `.tolist()` need a value in Python. "
            "On an accelerator they wait until all queued work is done. Then its queue is empty, and it idles while "
            "Python prepares the next step."
        ),
        fix=(
            "Add up on the device, `total += loss.detach() * len(labels)`, and ask for the number once an epoch or "
            "every hundred steps. `torch.cuda.set_sync_debug_mode` names the lines that wait."
        ),
    ),
    Fault(
        "checkpointed-dropout-redrawn",
        "recomputation draws other random numbers than the forward pass",
        "speed",
        "10",
        section="Compute it twice, keep it once",
        why=(
            "Activation checkpointing runs a block again during backward. Dropout then draws again. Unless the state "
            "of the random generator is put back, the gradients belong to another mask than the loss, and no error "
            "comes."
        ),
        fix=(
            "Leave `preserve_rng_state=True`, the default of `torch.utils.checkpoint.checkpoint`. Code of your own "
            "keeps `torch.get_rng_state()` and that of the device before the block, and sets them back for the second "
            "run. Compare gradients with the plain block, from the same seed."
        ),
    ),
    Fault(
        "learning-rate-not-scaled",
        "batch size changed, learning rate and schedule not",
        "speed",
        "10",
        section="Larger batches",
        why=(
            "Four times the batch makes a quarter of the steps in an epoch. With the old rate the network goes about a "
            "quarter of the way, and a schedule counted in steps ends elsewhere. The loop is faster and gets less "
            "far."
        ),
        fix=(
            "For SGD multiply the rate by the factor of the batch, for Adam by about its root, warm up, and count the "
            "schedule in images or from the new number of steps. Then compare accuracy after the same number of "
            "images. Above some size no rate makes up for the lost steps."
        ),
    ),
)
