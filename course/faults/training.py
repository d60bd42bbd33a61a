"""Faults of the training loop, losses and optimizers."""

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
        "double-softmax",
        "softmax output fed to CrossEntropyLoss",
        "training",
        "05",
        section="Losses want logits",
        why=(
            "`cross_entropy` applies `log_softmax` to what it gets. Probabilities lie between 0 and 1, so a second "
            "softmax can never come near 0 or 1: with ten classes the loss cannot fall below about 1.46, however good "
            "the network is, and the gradients are small."
        ),
        fix=(
            "Let the network end with a linear layer and give its logits to the loss. Use softmax only where you want "
            "to read probabilities; the most probable class needs none, as `argmax` is the same."
        ),
    ),
    Fault(
        "double-sigmoid",
        "sigmoid output fed to BCEWithLogitsLoss",
        "training",
        "05",
        section="Losses want logits",
        why=(
            "`binary_cross_entropy_with_logits` applies the sigmoid itself. A second one maps (0, 1) to (0.5, 0.73): a "
            "confident, right answer still has a loss of 0.31, and no input is ever taken for a clear no."
        ),
        fix=("Give it the logits. Apply `sigmoid` only to report probabilities; the threshold 0.5 is the logit 0."),
    ),
    Fault(
        "nll-without-log",
        "NLLLoss fed probabilities or raw logits",
        "training",
        "05",
        section="Losses want logits",
        why=(
            "`nll_loss` takes minus the number at the right class; it computes no logarithm, although its name "
            "suggests one. With probabilities the loss lies between -1 and 0 and its gradient does not grow where the "
            "network is wrong; with raw logits it falls without end."
        ),
        fix=(
            "Use `cross_entropy` on logits, or `nll_loss` on `log_softmax(dim=1)`, which is the same. A classification "
            "loss below 0 means that something else than log-probabilities went in."
        ),
    ),
    Fault(
        "bce-fed-logits",
        "BCELoss fed logits",
        "training",
        "05",
        section="Losses want logits",
        why=(
            "`binary_cross_entropy` takes probabilities. Logits are any number, and those outside 0 to 1 have no "
            "logarithm on one of the two sides. It raises on the CPU; a batch whose logits happen to lie within 0 and "
            "1 passes in silence."
        ),
        fix=(
            "Use `binary_cross_entropy_with_logits`, which is also more exact for large logits. If the network has to "
            "return probabilities, apply `sigmoid` before the loss."
        ),
    ),
    Fault(
        "mse-on-probabilities",
        "squared error on softmax/sigmoid outputs for classification",
        "training",
        "06",
    ),
    Fault(
        "class-target-dtype",
        "class-index targets that are not int64",
        "training",
        "05",
        section="Losses want logits",
        why=(
            "Class targets are indices, and `cross_entropy` takes int64 (or uint8) for them. Tables, NumPy and "
            "`torch.tensor([0.0, 1.0])` give floats or int32. Floats of shape (N, C) are another thing: probabilities "
            "for each class."
        ),
        fix=("Convert once, where the data come in: `targets.long()`."),
    ),
    Fault(
        "class-target-shape",
        "class-index targets with an extra axis",
        "training",
        "05",
        section="Losses want logits",
        why=(
            "Class indices for logits (N, C) have shape (N,). A column of a table, or a loader of one label a sample, "
            "gives (N, 1), which would be a second axis of predictions."
        ),
        fix=(
            "`targets.squeeze(1)` or `targets.flatten()`. `squeeze()` without an axis also drops the batch axis when "
            "the batch holds one sample."
        ),
    ),
    Fault(
        "class-index-out-of-range",
        "labels outside 0..C-1",
        "training",
        "05",
        section="Losses want logits",
        why=(
            'With C logits the classes are 0 to C - 1. Labels that count from 1, use -1 or 255 for "nothing", or a '
            'last layer with too few outputs, point beyond the row. On a GPU the error is "device-side assert '
            'triggered", and the process has to be started anew.'
        ),
        fix=(
            "Look at `targets.min()` and `targets.max()` before training. Map the labels to 0 .. C - 1; for "
            '"nothing" use `ignore_index`. Run one batch on the CPU to read the plain message.'
        ),
    ),
    Fault(
        "class-axis-misplaced",
        "cross_entropy fed (N,T,C) instead of (N,C,T)",
        "training",
        "05",
        section="Losses want logits",
        why=(
            "`cross_entropy` expects the classes in axis 1: (N, C), (N, C, T), (N, C, H, W). Sequence models return "
            "(N, T, C). Where T and C differ the sizes do not fit and it raises; where they are equal it computes a "
            "loss over the wrong axis in silence."
        ),
        fix=(
            "`logits.movedim(-1, 1)`, or merge the other axes: `cross_entropy(logits.flatten(0, 1), "
            "targets.flatten())`."
        ),
    ),
    Fault(
        "argmax-wrong-axis",
        "argmax/softmax over the batch axis",
        "training",
        "05",
        section="Modes, and metrics that count every image",
        why=(
            "`argmax(0)` runs over the batch: it tells for each class which sample scores highest. The result has C "
            "entries, not N, and where both are equal, or broadcasting helps, the comparison goes through and gives "
            "about chance."
        ),
        fix=("`logits.argmax(dim=1)`. Try a metric on logits written by hand before you believe it."),
    ),
    Fault(
        "bce-target-dtype",
        "BCE losses fed integer targets",
        "training",
        "05",
        section="Losses want logits",
        why=(
            "The binary losses multiply targets with logarithms, and targets may be anything between 0 and 1. They do "
            "not convert integers: the result cannot be written into an integer type."
        ),
        fix=("`targets.float()`, with the shape of the logits."),
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
            "the small one where it was."
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
    Fault("exploding-gradient", "gradient norms grow layer by layer or step by step", "training", "06"),
    Fault("vanishing-gradient", "gradients of early layers are practically zero", "training", "06"),
    Fault("log-of-zero", "log of zero or of a negative number in a loss", "training", "06"),
    Fault("division-by-zero", "a normaliser or weight sum that can be zero", "training", "06"),
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
    Fault("step-missing", "optimizer.step() never called, or parameters never change", "training", "06"),
    Fault(
        "out-of-memory",
        "memory exhausted: batch, kept graphs, precision, fragmentation",
        "training",
        "06",
    ),
)
