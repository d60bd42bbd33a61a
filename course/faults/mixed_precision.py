"""Faults of half precision."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "half-overflow",
        "values beyond 65504 in float16",
        "mixed precision",
        "08",
        section="Overflow: the first infinity",
        why=(
            "The largest float16 is 65504. A square of 300, a sum of squares or a large logit is beyond it and becomes "
            "`inf`; two operations later `inf - inf` or `0 * inf` is nan, far from the cause. On the CPU, autocast "
            "leaves sums, squares and softmax in the dtype that comes in, so they can overflow under autocast too."
        ),
        fix=(
            "Use bfloat16, whose range is that of float32. With float16, compute squares, norms and exponentials in "
            "float32: `x.float().square().sum()`, inside of `torch.autocast(device_type, enabled=False)` where a "
            "matrix product takes part. The first module whose output is not finite is the cause."
        ),
    ),
    Fault(
        "clip-before-unscale",
        "clipping scaled gradients",
        "mixed precision",
        "08",
        section="One step with a scaler, in order",
        why=(
            "After `scaler.scale(loss).backward()` the gradients are larger by the scale, 65536 at the start. "
            "`clip_grad_norm_` measures those, so it clips at each step, and after unscaling the norm is `max_norm / "
            "scale`: the weights hardly move. How far they move then depends on the scale."
        ),
        fix=(
            "Call `scaler.unscale_(optimizer)` between `backward()` and the clip. `scaler.step(optimizer)` knows that "
            "the gradients are unscaled and does not divide again."
        ),
    ),
    Fault(
        "unscale-twice",
        "unscale_ called twice before update",
        "mixed precision",
        "08",
        section="One step with a scaler, in order",
        why=(
            "`unscale_` divides the gradients of an optimizer in place. Between two calls of `update()` it may do so "
            "once for each optimizer. Called for each micro-batch, it would divide the first one's gradients again and "
            "add scaled ones to unscaled ones, so it raises."
        ),
        fix=(
            "Accumulate scaled gradients, with the same scale for all micro-batches, and call "
            "`scaler.unscale_(optimizer)` once, just before the clip and `scaler.step(optimizer)`."
        ),
    ),
    Fault(
        "scaler-update-missing",
        "scaler.update() missing",
        "mixed precision",
        "08",
        section="One step with a scaler, in order",
        why=(
            "`scaler.step()` notes for each optimizer that it has stepped; `update()` adapts the scale and clears "
            "that. Without it the second `step()` raises, or the `unscale_` before it: `unscale_() is being called "
            "after step()`. After an overflow the scale could not fall either."
        ),
        fix=(
            "End each step with `scaler.step(optimizer)` and `scaler.update()`. With several optimizers: one `step` "
            "each, then one `update`."
        ),
    ),
    Fault(
        "pure-half-adam",
        "Adam on half weights: eps and moments underflow",
        "mixed precision",
        "08",
        section="Keep the weights in float32",
        why=(
            "`model.half()` makes weights, gradients and Adam's moments float16. There `eps=1e-8` is 0 and the square "
            "of a gradient below 1e-4 is 0 as well: 0 / 0 gives nan, a small gradient divided by 0 gives inf. In "
            "bfloat16 nothing is nan, but a step of 0.001 from a weight of 1 rounds back to 1. `GradScaler` refuses "
            "float16 gradients: `Attempting to unscale FP16 gradients`."
        ),
        fix=(
            "Leave the weights in float32 and let `torch.autocast` cast what it computes with. Gradients and optimizer "
            "state are then float32. `model.half()` and `model.bfloat16()` are for inference."
        ),
    ),
    Fault(
        "legacy-amp-api",
        "torch.cuda.amp names",
        "mixed precision",
        "08",
        section="Old names, and NumPy",
        why=(
            "`torch.cuda.amp.autocast()` and `torch.cuda.amp.GradScaler()` are the names from before 2.4: they mean "
            "CUDA, whatever the tensors lie on. Without a CUDA device both switch themselves off with a UserWarning, "
            "and training goes on in the wider dtype."
        ),
        fix=(
            "Name the device type: `torch.autocast(device.type, dtype=torch.bfloat16)` and "
            '`torch.amp.GradScaler(device.type)`. Without an argument, `torch.amp.GradScaler()` means "cuda" as well.'
        ),
    ),
    Fault(
        "bfloat16-to-numpy",
        "NumPy has no bfloat16",
        "mixed precision",
        "08",
        section="Old names, and NumPy",
        why=(
            "`numpy()` shares memory, so it needs a NumPy dtype with the same bits. NumPy has float16, but no "
            "bfloat16. The error often comes from a plot or a metric that gets the output of a model under autocast."
        ),
        fix=(
            "Cast first: `x.float().numpy()` (with `detach()` and `cpu()` where needed). Every bfloat16 number is a "
            "float32 number, so nothing is lost."
        ),
    ),
    Fault(
        "custom-function-autocast",
        "custom autograd.Function under autocast without custom_fwd/bwd",
        "mixed precision",
        "08",
        section="Operations of your own",
        why=(
            "In `forward` autocast is on, so `x @ w` of float32 tensors gives a half result, while `save_for_backward` "
            "keeps them in float32. `backward` runs after the block, with autocast off: the half gradient meets "
            "float32 tensors, and `@` refuses."
        ),
        fix=(
            "Decorate both: `@torch.amp.custom_fwd(device_type=...)` on `forward` and "
            "`@torch.amp.custom_bwd(device_type=...)` on `backward`, below `@staticmethod`. The second repeats the "
            "autocast state of the forward pass. With `cast_inputs=torch.float32` the first runs the operation in "
            "float32."
        ),
    ),
    Fault(
        "half-accumulator",
        "counters, EMA or running means kept in half precision",
        "mixed precision",
        "08",
        section="Gaps between numbers",
        why=(
            "A sum is rounded to the nearest number of the format. bfloat16 has 8 significant bits, so 256 + 1 is 256 "
            "again, and `0.999 * average + 0.001 * weight` rounds back to the average. Counters stop, averages stay "
            "where they began, and nothing is said."
        ),
        fix=(
            "Keep what adds up in float32: sums, counters, running means, averaged weights. Cast the terms before you "
            "multiply and add, and cast the result only where it is used. `x.sum(dtype=torch.float32)` does so for one "
            "sum."
        ),
    ),
    Fault(
        "gradient-underflow",
        "float16 gradients vanish without loss scaling",
        "mixed precision",
        "08",
        section="Why the loss is scaled",
        why=(
            "What is not above 2^-25, about 3e-8, becomes 0 in float16, and below 6.1e-5 bits are lost. Gradients of a "
            "mean over a large batch, or of a small loss, are often that small. Their weights then stand still, "
            "without an error."
        ),
        fix=(
            "With float16, use `torch.amp.GradScaler(device.type)`: it multiplies the loss, so that gradients are "
            "large while they are float16, and divides once they are float32. bfloat16 needs no scaler: its smallest "
            "numbers are those of float32."
        ),
    ),
)
