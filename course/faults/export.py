"""Faults of exported models."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "trace-loses-branch",
        "trace records one path",
        "export",
        "12",
        section="TorchScript, for the record",
        why=(
            "`torch.jit.trace` runs the function once and writes down the operations that took place. A Python `if` is "
            "no operation: the branch that the example took is all there is. A `TracerWarning` says so, once, at the "
            "time of tracing."
        ),
        fix=(
            "Export with `torch.export.export`, which refuses a branch on a tensor's value, and write the choice as "
            "`torch.where` or `torch.cond`. Compare both branches with the model, with inputs that take each."
        ),
    ),
    Fault(
        "trace-in-train-mode",
        "dropout baked into a trace",
        "export",
        "12",
        section="TorchScript, for the record",
        why=(
            "What is recorded is what ran, and in training mode dropout ran. The mode became a constant of the graph: "
            "`eval()` on the result does not reach it. torch.export records the mode in the same way."
        ),
        fix=(
            "Call `model.eval()` before the export, and compare the result with the model in evaluation mode; "
            "`course.deployment.parity` refuses any other. Two calls with one input must agree."
        ),
    ),
    Fault(
        "static-shape-export",
        "exported shapes are fixed to the example's",
        "export",
        "12",
        section="Shapes are the example's",
        why=(
            "Every size of the example becomes a constant of the graph unless it is declared dynamic. `Dim.AUTO`, and "
            "an example of size 1, leave it a constant as well, with a line in the log at most."
        ),
        fix=(
            'Name the axis: `dynamic_shapes=({0: Dim("batch")},)`, with an example of size 2 or more. A named `Dim` '
            "that the code does not allow is an error. Run the result at batch 1, 2, 7 and 64."
        ),
    ),
    Fault(
        "runtime-input-dtype",
        "wrong input dtype or layout at the runtime",
        "export",
        "12",
        section="What a runtime refuses",
        why=(
            "An exported model takes the dtype and the layout of its example; nothing is converted. NumPy computes in "
            "float64, and image decoders deliver uint8 with the channels last. Where the sizes happen to fit, a wrong "
            "layout is not even an error."
        ),
        fix=(
            "Compare dtype and shape with the model's inputs before each call (`session.get_inputs()`), and convert "
            "once: `array.astype(np.float32)`, `transpose(0, 3, 1, 2)`. Better: take bytes, and put the preprocessing "
            "into the graph."
        ),
    ),
    Fault(
        "external-weights-missing",
        "model.onnx.data left behind",
        "export",
        "12",
        section="One file or two",
        why=(
            "`torch.onnx.export` writes weights to a second file, `model.onnx.data`, by default. The model names it, "
            "relative to its own folder. Copied alone, it is a graph without weights."
        ),
        fix=(
            "Export with `external_data=False` (a single file holds up to 2 GB), or move both files together under "
            "the same names. `course.deployment.runtime.external_files` tells which files a model needs."
        ),
    ),
    Fault(
        "opset-not-honoured",
        "requested opset differs from the file's",
        "export",
        "12",
        section="The opset",
        why=(
            "The exporter has operators from opset 18 on. For a lower number it exports at 18 and then tries to "
            "convert the model down. Where an operator has no way back, the file stays at 18, and only the log says "
            "so; an older runtime refuses it later, by its opset or by its IR version."
        ),
        fix=(
            "Read what the file says: `onnx.load(path).opset_import`. Ask for 18 or more, and bring the runtime up to "
            "it: `onnxruntime` reads old opsets and new ones."
        ),
    ),
)
