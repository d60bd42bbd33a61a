"""Faults of losses and metrics, and of numbers in them that are none."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
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
        section="Losses that hardly push",
        why=(
            "The gradient of the squared error goes through softmax or sigmoid, whose slope is near 0 wherever the "
            "network is sure, also where it is sure and wrong. The worst mistakes push least, and training stays on a "
            "plateau."
        ),
        fix=(
            "`cross_entropy` on logits for classes, `binary_cross_entropy_with_logits` for yes and no: their gradient "
            "is the probability minus the target, largest where the mistake is. Keep the squared error as a score "
            "(Brier), if you want one."
        ),
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
        "log-of-zero",
        "log of zero or of a negative number in a loss",
        "training",
        "06",
        section="A hunt for NaN",
        why=(
            "`log(0)` is minus infinity and its slope is infinite. In a loss of one's own, p comes out as exactly 0 "
            "or 1 as soon as the network is sure, because float32 has no number between 1 - 6e-8 and 1. Then `0 * "
            "log(0)` is NaN, and after one step so is every weight."
        ),
        fix=(
            "Compute from logits: `cross_entropy`, `binary_cross_entropy_with_logits`, `log_softmax`, `logsigmoid` "
            "and `log1p` are exact where the probability is not. Where only probabilities exist, `clamp(min=1e-6)` "
            "before the logarithm."
        ),
    ),
    Fault(
        "division-by-zero",
        "a normaliser or weight sum that can be zero",
        "training",
        "06",
        section="A hunt for NaN",
        why=(
            "A deviation, a norm, a sum of weights or a count of unmasked tokens can be 0: a constant column, a row of "
            "padding only, a class that a batch does not have. 0 / 0 is NaN, and 1 / 0 infinite. Choosing another "
            "value afterwards does not help: backward multiplies the infinite slope by 0."
        ),
        fix=(
            "Divide by `std.clamp(min=1e-6)`, `count.clamp(min=1)` or `norm + eps`. Repairing the result afterwards "
            "with `where` or `nan_to_num` leaves the NaN in the gradient."
        ),
    ),
)
