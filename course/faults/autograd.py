"""Faults of recording and differentiating the graph."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "inplace-on-saved",
        "an in-place operation changed a tensor that backward still needs",
        "autograd",
        "02",
        section="In place: version counters",
        why=(
            "Some operations keep a tensor for backward: `exp`, `sigmoid`, `tanh` and `relu` their result, a "
            "product its factors. Writing into such a tensor destroys what backward needs. Every tensor counts "
            "its writes, autograd notes the count when it saves, and backward refuses when the two differ."
        ),
        fix=(
            "Make that one operation out of place, `y = y + 1`, or write into a `clone()`. Writes into tensors "
            "that nothing has saved, such as the result of a sum or of a matrix product, may stay. The message "
            "names the operation that saved; `torch.autograd.set_detect_anomaly(True)` shows its line."
        ),
    ),
    Fault(
        "step-before-second-backward",
        "optimizer.step() changed weights that a later backward of the same graph needs",
        "autograd",
        "02",
        section="In place: version counters",
        why=(
            "`optimizer.step()` writes into the weights in place. A graph recorded before still refers to "
            "them, so a later backward through it finds a tensor of another version than it saved."
        ),
        fix=(
            "Call every `backward()` of a forward pass before `step()`, or run the forward pass again with the "
            "new weights. Two networks that train in turn, as in a GAN, each need a forward pass of their own, "
            "with the other's output detached."
        ),
    ),
    Fault(
        "backward-twice",
        "backward through a graph whose saved tensors were freed",
        "autograd",
        "02",
        section="What backward frees",
        why=(
            "`backward()` frees the tensors that were saved for it as it goes, which returns their memory "
            "early. A second pass over the same part of the graph finds nothing there. In a notebook it is "
            "enough to run a cell with `backward()` twice."
        ),
        fix=(
            "Run the forward pass again before each `backward()`. If two losses share a part of the graph, add "
            "them and go back once. `retain_graph=True` keeps the saved tensors; it is right where you mean to "
            "go back twice, and hides the mistake elsewhere."
        ),
    ),
    Fault(
        "hidden-state-not-detached",
        "a recurrent state carries the previous batch's graph",
        "autograd",
        "02",
        section="What backward frees",
        why=(
            "The state that the last batch handed over has a `grad_fn`: it is the end of that batch's graph. "
            "Backward of the next loss walks on into the old graph, whose saved tensors are freed."
        ),
        fix=(
            "Call `h = h.detach()` where one batch ends and the next begins (truncated backpropagation through "
            "time). `retain_graph=True` would silence the error, and let every step walk through all batches "
            "so far."
        ),
    ),
    Fault(
        "backward-of-nonscalar",
        "backward() on a tensor of several elements without a gradient argument",
        "autograd",
        "02",
        section="Backward multiplies a vector by the Jacobian",
        why=(
            "Backward computes a product of a vector with the Jacobian. For a tensor with one element the "
            "vector is 1; for several elements it could be anything, so autograd asks."
        ),
        fix=(
            "Reduce the loss first, with `mean()` or `sum()`; a loss built with `reduction='none'` needs it "
            "too. Or say which vector you mean: `y.backward(v)`, of the shape of `y`."
        ),
    ),
    Fault(
        "inplace-on-leaf",
        "in-place update of a leaf that requires grad while autograd records",
        "autograd",
        "02",
        section="In place: version counters",
        why=(
            "A recorded write would turn the leaf into the result of an operation: its old value would be the "
            "leaf, and the tensor that you hold would be none. So autograd refuses."
        ),
        fix=(
            "Updates of parameters are not part of the model: make them under `with torch.no_grad():`, or "
            "leave them to an optimizer."
        ),
    ),
    Fault(
        "parameter-rebound",
        "w = w - lr*g makes a new non-leaf tensor",
        "autograd",
        "02",
        section="In place: version counters",
        why=(
            "The right side makes a new tensor, and `=` gives it the old name. It is the result of an "
            "operation, not a leaf, so its `.grad` stays None at the next step; and an optimizer or module "
            "that held the old tensor still holds the old one."
        ),
        fix=("Change the tensor itself: `with torch.no_grad(): w -= lr * w.grad`, or `w.copy_(...)`."),
    ),
    Fault(
        "nonleaf-parameter",
        ".grad wanted of a non-leaf (e.g. randn(requires_grad=True)*0.1)",
        "autograd",
        "02",
        section="The graph is recorded while code runs",
        why=(
            "Only leaves keep a gradient. `torch.randn(3, requires_grad=True) * 0.1` is a product: the leaf is "
            "the tensor behind it, which has no name any more. `.to(...)` makes a non-leaf in the same way "
            "where it converts."
        ),
        fix=(
            "Do everything else first and ask for gradients last: `(torch.randn(3) * 0.1).requires_grad_()`. "
            "To look at the gradient of a result, call `retain_grad()` on it before backward."
        ),
    ),
    Fault(
        "missing-zero-grad",
        "gradients of earlier steps are never cleared",
        "autograd",
        "02",
        section="Gradients add up",
        why=(
            "`backward()` adds to `.grad`; it never overwrites. Without clearing, each step moves along the "
            "sum of all gradients so far, as with a momentum that never decays."
        ),
        fix=("Call `optimizer.zero_grad()` once a step, anywhere but between `backward()` and `step()`."),
    ),
    Fault(
        "graph-cut",
        "the loss has no grad_fn: no_grad, detach, NumPy or all frozen",
        "autograd",
        "02",
        section="Stopping the graph",
        why=(
            "A tensor has a `grad_fn` only if, while it was computed, recording was on and some input required "
            "gradients. `no_grad`, `detach()`, `.item()`, a detour through NumPy, or freezing every parameter "
            "ends the graph. If only a part is cut there is no error: what lies behind the cut does not train."
        ),
        fix=(
            "Print `loss.requires_grad` and `loss.grad_fn`, then the same for the tensors before it, until you "
            "find the first that has none. Keep training forward passes out of `no_grad`, and compute with "
            "torch from parameters to loss."
        ),
    ),
    Fault(
        "loss-rewrapped",
        "the loss was re-wrapped as a new leaf; nothing behind it trains",
        "autograd",
        "02",
        section="Stopping the graph",
        why=(
            "`torch.tensor(loss.item(), requires_grad=True)` makes a new leaf that has the number and not the "
            "history. `backward()` runs without an error, fills the gradient of that leaf, and reaches no "
            "parameter."
        ),
        fix=(
            "Use the loss as it was computed. If `backward()` complains that it does not require grad, the "
            "graph was cut before; look for the cut."
        ),
    ),
    Fault(
        "data-bypasses-autograd",
        ".data edit hides from the version counter; wrong gradients",
        "autograd",
        "02",
        section="In place: version counters",
        why=(
            "`.data` shares memory with the tensor and has a version counter of its own. A write through it is "
            "seen by the memory and not by autograd, so backward computes with the overwritten numbers and "
            "says nothing."
        ),
        fix=(
            "Use `detach()`, which shares the counter, so that a harmful write raises; or write under "
            "`torch.no_grad()`, which raises at backward too."
        ),
    ),
    Fault(
        "where-nan-gradient",
        "torch.where differentiates the branch not chosen; NaN gradient",
        "autograd",
        "02",
        section="Slopes that are zero, infinite or missing",
        why=(
            "`torch.where(condition, a, b)` needs both `a` and `b`, and backward goes into both: the branch "
            "that was not chosen receives a gradient of 0. If its slope is infinite or NaN there, 0 times that "
            "is NaN."
        ),
        fix=(
            "Make the input harmless, not the result: `safe = torch.where(x > 0, x, 1.0)`, then `torch.where(x "
            "> 0, safe.sqrt(), 0.0)`. Clamping the input to a positive bound works too."
        ),
    ),
    Fault(
        "sqrt-at-zero",
        "derivative of sqrt/norm/std at zero is infinite",
        "autograd",
        "02",
        section="Slopes that are zero, infinite or missing",
        why=(
            "The slope of `sqrt` at 0 is infinite. The square under it has the slope 0 there, and infinity "
            "times 0 is NaN. It comes with the first distance between two equal points, or the first constant "
            "feature."
        ),
        fix=(
            "Use `torch.linalg.vector_norm`, `norm()` or `std()`, whose gradient at zero is defined as 0, in "
            "place of the spelled-out formula. Or add a small number under the root, "
            "`(d**2).sum().add(1e-12).sqrt()`."
        ),
    ),
    Fault(
        "graph-retained-in-log",
        "losses or outputs kept with their graph; memory grows",
        "autograd",
        "02",
        section="What backward frees",
        why=(
            "A tensor with a `grad_fn` keeps its whole graph alive, and the graph keeps what it saved. `total "
            "+= loss` or a list of outputs therefore keeps all batches. Where backward has run, the saved "
            "tensors are freed and only the skeleton stays; in validation, where it has not, everything stays."
        ),
        fix=(
            "Keep numbers: `total += loss.item()`, or `loss.detach()` to stay on the device. Run validation "
            "under `torch.no_grad()`."
        ),
    ),
    Fault(
        "nondifferentiable-loss",
        "loss built on argmax/round/sign/comparison",
        "autograd",
        "02",
        section="Slopes that are zero, infinite or missing",
        why=(
            "`round`, `floor` and `sign` are flat almost everywhere, so their gradient is exactly 0 and "
            "nothing moves. `argmax` and comparisons have no gradient at all: the graph ends there."
        ),
        fix=(
            "Train on a smooth stand-in, such as cross-entropy on the logits, and report the hard metric "
            "beside it. Where a step belongs in the model, pass the gradient straight through."
        ),
    ),
    Fault(
        "missing-create-graph",
        "gradient penalty without create_graph",
        "autograd",
        "02",
        section="Gradients of inputs, and of gradients",
        why=(
            "`torch.autograd.grad` returns plain numbers: the way in which they were computed is not recorded. "
            "A penalty made of them is a constant for backward. Alone it raises; added to a loss it silently "
            "does nothing."
        ),
        fix=("Pass `create_graph=True` when the gradient goes into something that is differentiated again."),
    ),
    Fault(
        "inference-tensor-in-autograd",
        "a tensor made in inference_mode used where autograd must record",
        "autograd",
        "02",
        section="Stopping the graph",
        why=(
            "A tensor made under `inference_mode` has no version counter, for good. Autograd cannot notice a "
            "later write into it, so it refuses to save it for backward."
        ),
        fix=(
            "`clone()` it outside, which makes a normal tensor, or compute it under `torch.no_grad()` in the "
            "first place. Operations that save nothing, such as a sum, accept it."
        ),
    ),
)
