"""Faults of the machine and its installation."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "cpu-build-installed",
        "a CPU build of torch where a GPU was expected, or a driver older than the runtime",
        "environment",
        "00",
        section="Is this machine ready",
        why=(
            "A torch wheel is built either for the CPU alone (`torch.version.cuda` is None) or against one "
            "CUDA runtime, which it brings along. The runtime needs a driver of at least its own version, "
            "or, with limits, of its own major version; the driver is installed with the system, not with "
            "pip. A build without CUDA, or a driver that is too old, makes `torch.cuda.is_available()` "
            "False, and everything quietly runs on the CPU."
        ),
        fix=(
            "`course env` compares the two. By hand: print `torch.__version__`, `torch.version.cuda` and "
            "`torch.cuda.is_available()`, and look at the CUDA version in the first lines of `nvidia-smi`: "
            "the driver's number must not be the smaller one. Install the build that the selector on "
            "pytorch.org names for this machine, or update the driver; then restart Python."
        ),
    ),
    Fault(
        "model-left-on-cpu",
        "a GPU is there and neither model nor data were moved",
        "environment",
        "00",
        section="One line picks the device",
        why=(
            "New tensors and modules live on the CPU unless a device is named. Model and data both on the "
            "CPU fit together, so nothing complains; the GPU only stays idle."
        ),
        fix=(
            "Choose the device once, `device = course.choose_device()`, move the model with "
            "`model.to(device)` before the optimizer is made, and each batch with `batch = "
            "batch.to(device)` inside the loop."
        ),
    ),
)
