"""Faults of the training loop, schedules and optimizers."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "zero-grad-before-step",
        "zero_grad() between backward() and step()",
        "training",
        "05",
        section="One step, in order",
        why=(
            "`optimizer.step()` uses what is in `.grad` at that moment. `zero_grad()` after `backward()` has just set "
            "it to None, and parameters without a gradient are skipped in silence. So nothing moves, and the loss "
            "stays the same to the last digit."
        ),
        fix=(
            "Keep the order zero_grad, forward, loss, backward, clip, step. `zero_grad()` may stand anywhere between "
            "one `step()` and the next `backward()`."
        ),
    ),
    Fault(
        "eval-mode-missing",
        "evaluation in train mode",
        "training",
        "05",
        section="Modes, and metrics that count every image",
        why=(
            "In training mode dropout drops, so the same image gets another answer each time, and BatchNorm normalises "
            "with the statistics of the batch, so an answer depends on what else is in the batch. It also lets the "
            "held-out data move the running statistics. `torch.no_grad()` changes none of that."
        ),
        fix=("`model.eval()` and `torch.no_grad()`, both, around every evaluation; put the mode back afterwards."),
    ),
    Fault(
        "train-mode-not-restored",
        "training goes on in eval mode after validation",
        "training",
        "05",
        section="Modes, and metrics that count every image",
        why=(
            "`eval()` sets a flag that stays until `train()` is called. A helper that evaluates and returns leaves the "
            "rest of the training without dropout and with frozen BatchNorm statistics, from the first evaluation on."
        ),
        fix=("Call `model.train()` at the start of every epoch, and let evaluation restore the mode that it found."),
    ),
    Fault(
        "scheduler-per-batch",
        "an epoch-wise scheduler stepped per batch",
        "training",
        "05",
        section="Schedules, and where they step",
        why=(
            "A scheduler counts calls of `step()`; it does not know what an epoch is. A schedule that was written in "
            "epochs and is stepped for every batch runs hundreds of times too fast: the learning rate is practically "
            "zero after a few batches."
        ),
        fix=(
            "Step it once an epoch, or express its lengths in batches. Draw `get_last_lr()` over a whole run before "
            "the run."
        ),
    ),
    Fault(
        "scheduler-before-optimizer",
        "scheduler.step() before optimizer.step()",
        "training",
        "05",
        section="Schedules, and where they step",
        why=(
            "`scheduler.step()` sets the learning rate of the next update. Called before the first `optimizer.step()`, "
            "it replaces the first value of the schedule before it was used. torch warns once."
        ),
        fix=("`optimizer.step()` first, then `scheduler.step()`."),
    ),
    Fault(
        "learning-rate-too-high",
        "loss grows, becomes inf or NaN",
        "training",
        "05",
        section="Overfit one batch",
        why=(
            "A step along the gradient is right for a short distance only. Beyond a limit that depends on the "
            "curvature each step overshoots further than the one before: the loss grows, becomes infinite, then NaN, "
            "and the loop goes on to the end."
        ),
        fix=(
            "Divide the rate by ten. Normalise the inputs, start with a warm-up, clip the norm of the gradients, and "
            "stop at the first loss that is not finite."
        ),
    ),
    Fault(
        "accumulation-not-scaled",
        "micro-batch losses not divided by the accumulation steps",
        "training",
        "05",
        section="Accumulate micro-batches",
        why=(
            "`backward()` adds to `.grad`. Each micro-batch brings the gradient of its own mean, so k of them bring k "
            "times the gradient of the mean over all: the learning rate is k times larger than it says."
        ),
        fix=(
            "Divide each loss by the number of micro-batches in the group before `backward()`, also in a shorter group "
            "at the end. With unequal sizes divide sums by the number of samples."
        ),
    ),
    Fault(
        "unnormalised-inputs",
        "raw features of very different scale",
        "training",
        "05",
        section="Overfit one batch",
        why=(
            "The gradient of a weight is proportional to its input. If one feature is a thousand times larger than "
            "another, or all lie far from 0, no single learning rate suits: what is stable for the large one leaves "
            "the small one where it was. (Images of 0 to 255, and two pipelines that scale differently, are "
            "`input-scale-mismatch`.)"
        ),
        fix=(
            "Subtract the mean and divide by the deviation of the training set, for each channel or feature, and do "
            "the same to validation and test data."
        ),
    ),
    Fault(
        "mean-of-batch-means",
        "epoch metric ignores the short last batch",
        "training",
        "05",
        section="Modes, and metrics that count every image",
        why=(
            "The last batch is mostly smaller. In a mean of batch means its samples weigh more than the others, and "
            "the result changes with the batch size."
        ),
        fix=(
            "Add up `loss.item() * len(targets)` and the numbers of right answers, and divide by the number of samples "
            "once, at the end."
        ),
    ),
    Fault(
        "clip-after-step",
        "clipping after the step (or before backward)",
        "training",
        "05",
        section="Clip, in its place",
        why=(
            "`clip_grad_norm_` changes `.grad` in place. After `step()` the optimizer has used the long gradient "
            "already; before `backward()` there is nothing to clip, or only the last step's."
        ),
        fix=(
            "backward, then clip, then step. Log the norm that it returns: it is the norm before clipping, and tells "
            "whether the limit ever acts."
        ),
    ),
    Fault(
        "split-leakage",
        "statistics or duplicates leak from test to train",
        "training",
        "04",
        section="Parts with transforms of their own",
        why="What is nearly the same row stands in both parts (copies of a photo, one speaker, one patient), or a mean "
        "and a deviation were taken over all of them. The model is then tested on what it has seen.",
        fix="Split first, by source and not by row; compute statistics and choose settings on the training part alone.",
    ),
    Fault(
        "exploding-gradient",
        "gradient norms grow layer by layer or step by step",
        "training",
        "06",
        section="Chains and saturation",
        why=(
            "Backward multiplies by one matrix after the other. If each makes the gradient a little longer, many "
            "layers or time steps make it longer by that factor to the power of their number: norms of 1e6 in front, "
            "inf after a few steps. The rate is not at fault; no rate suits all layers."
        ),
        fix=(
            "Keep the scale from layer to layer: the usual initialisation (`kaiming_normal_` for ReLU), normalisation "
            "layers, residual connections. Clip the norm, above all in recurrent networks, and look at the norm of "
            "each layer's gradient, not at the total alone."
        ),
    ),
    Fault(
        "vanishing-gradient",
        "gradients of early layers are practically zero",
        "training",
        "06",
        section="Chains and saturation",
        why=(
            "Backward multiplies by the slope of each activation. A sigmoid's slope is at most 1/4, and near 0 where "
            "it saturates, so each layer passes on a small share: after ten of them the first layers get a millionth, "
            "and stay as they were initialised. The last layers train, so the loss falls a little and stops."
        ),
        fix=(
            "ReLU or GELU between the layers, an initialisation that keeps the scale, BatchNorm or LayerNorm, "
            "residual connections. Print `p.grad.norm() / p.norm()` for each layer: the values should be of one "
            "order."
        ),
    ),
    Fault(
        "learning-rate-too-low",
        "updates too small to change the loss",
        "training",
        "05",
        section="Overfit one batch",
        why=(
            "The step is the rate times the gradient. A rate that is a thousand times too small needs a thousand times "
            "as many steps; within the run the loss moves in a digit that nobody prints, and looks like a bug of the "
            "network."
        ),
        fix=(
            "Look at the relative size of an update, `lr * grad.norm() / weight.norm()`: about a thousandth is usual. "
            "Multiply the rate by ten until the loss of one batch falls fast, and stop before it diverges."
        ),
    ),
    Fault(
        "step-missing",
        "optimizer.step() never called, or parameters never change",
        "training",
        "06",
        section="Why does nothing move?",
        why=(
            "`backward()` only fills `.grad`. If `optimizer.step()` is never reached (a condition that is never true, "
            "a counter that does not count, `step` without parentheses), nothing is an error: the loss flutters with "
            "the batches, and the weights stay equal to the last bit."
        ),
        fix=(
            "Compare a copy of one weight before and after a step: `not torch.equal(before, weight)`. Count the calls "
            "of `step()` in an epoch."
        ),
    ),
    Fault(
        "out-of-memory",
        "memory exhausted: batch, kept graphs, precision, fragmentation",
        "training",
        "06",
        section="Out of memory",
        why=(
            "Weights, gradients and the optimizer's state take the same memory in each step; activations grow with "
            "the batch and are kept until backward. What grows from step to step is a graph that something still "
            "holds. And memory that is free in pieces cannot hold one large tensor."
        ),
        fix=(
            "Find out which: `torch.cuda.max_memory_allocated()` after the first step and after the hundredth. "
            "Growing: log `loss.item()`, evaluate under `no_grad`. Too large at once: smaller batch with "
            "accumulation, autocast, `torch.utils.checkpoint`. Much reserved, little allocated: "
            "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`."
        ),
    ),
)
