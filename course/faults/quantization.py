"""Faults of quantized models."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "quantization-skips-layer",
        "the requested layer type is silently left in float",
        "quantization",
        "13",
        section="The eager API, as history",
        why=(
            "A quantizer changes the layer types that it has a recipe for and passes over the rest in silence. "
            "`quantize_dynamic` has none for `Conv2d`, whatever set of types it is given, and `quantize_` takes "
            "`Linear` only, unless it is told otherwise. The file and the time then hardly change."
        ),
        fix=(
            "List what was changed: walk `named_modules()` and look at the types and at `weight`, or walk the nodes "
            "of the exported graph. Convolutions need static quantization: `prepare_pt2e`, calibrate, `convert_pt2e`."
        ),
    ),
    Fault(
        "quantization-uncalibrated",
        "convert without calibration",
        "quantization",
        "13",
        section="Static: calibrate, then convert",
        why=(
            "Static quantization fixes the range of each activation in advance, from data that it has seen. Observers "
            "that saw nothing give the scale 1 and the zero point 0, with a warning, and `convert` goes on: nearly all "
            "activations round to a handful of codes."
        ),
        fix=(
            "Run some hundred representative images through the prepared model before `convert_pt2e`. Treat the "
            "warning `must run observer before calling calculate_qparams` as an error, and compare the accuracy."
        ),
    ),
    Fault(
        "quantization-outlier",
        "calibration range stretched by an outlier",
        "quantization",
        "13",
        section="Clipping against rounding",
        why=(
            "A range from minimum to maximum ends at the largest number that ever came. One number a hundred times "
            "larger than the rest makes the step a hundred times coarser, and the rest shares a few of the 256 codes."
        ),
        fix=(
            "Choose the range by a percentile, a histogram or a moving average: clipping a few numbers costs less than "
            "coarse steps for all. Find out where the outlier comes from: unscaled images are a common source."
        ),
    ),
    Fault(
        "quantization-per-tensor-weights",
        "one scale for all channels",
        "quantization",
        "13",
        section="Per tensor or per channel",
        why=(
            "With one scale for a weight, its largest channel decides the step. A channel whose weights are all "
            "smaller than half a step becomes zero, and a class that depends on it is never predicted again, while the "
            "mean accuracy falls by little. Folded BatchNorm makes channels unequal."
        ),
        fix=(
            "Take a scale for each output channel: `per_channel=True` in ONNX Runtime, the default of the x86 "
            "quantizer of PT2E. Report the accuracy of each class, before and after."
        ),
    ),
    Fault(
        "quantization-missing-stub",
        "float tensor reaches a quantized layer",
        "quantization",
        "13",
        section="The eager API, as history",
        why=(
            "In the eager API a converted layer takes quantized tensors only, and nothing converts its input by "
            "itself. Without a `QuantStub` before it, the float image reaches a kernel for quantized tensors: `Could "
            "not run 'quantized::conv2d.new' with arguments from the 'CPU' backend`. At the exit it is the other way "
            "round: a quantized tensor reaches a layer in float."
        ),
        fix=(
            "Put `QuantStub` at the entry and `DeQuantStub` at the exit, or wrap the model in `QuantWrapper`. Export-"
            "based quantization (PT2E) places both by itself."
        ),
    ),
    Fault(
        "quantization-functional-op",
        "functional add/cat on quantized tensors",
        "quantization",
        "13",
        section="The eager API, as history",
        why=(
            "The result of an operation on quantized tensors needs a scale of its own. In the eager API it is kept by "
            "a module; `a + b` has none, and no kernel: `Could not run 'aten::add.out' with arguments from the "
            "'QuantizedCPU' backend`. Softmax, sums and losses have no such kernel either."
        ),
        fix=(
            "Make a module of it before calibration: `self.add = torch.ao.nn.quantized.FloatFunctional()` and "
            "`self.add.add(a, b)`. What is for the float result belongs behind `DeQuantStub`. PT2E sees every "
            "operation of the graph and needs no such change."
        ),
    ),
    Fault(
        "fuse-in-train-mode",
        "fuse_modules in train mode",
        "quantization",
        "13",
        section="Fold BatchNorm first",
        why=(
            "Folding puts the running statistics of BatchNorm into the convolution. In training mode the norm uses "
            "those of the batch, so there is nothing constant to fold: `fuse_modules` says `Fusion only for eval!`."
        ),
        fix=(
            "Call `model.eval()` first, as before every export. `torch.nn.utils.fuse_conv_bn_eval` folds a pair "
            "without the deprecated API, and asks for evaluation mode as well."
        ),
    ),
    Fault(
        "quantized-state-dict",
        "quantized state_dict loaded into a float model",
        "quantization",
        "13",
        section="The eager API, as history",
        why=(
            "A converted layer has other entries than the float layer: scale, zero point and packed weights instead "
            "of `weight` and `bias`. `load_state_dict` names them all as missing and unexpected; with `strict=False` "
            "it loads nothing and says so only in its result."
        ),
        fix=(
            "Keep the float checkpoint and make the quantized model from it. Ship an artefact that holds graph and "
            "weights (`.onnx`, `.pt2`); or build the model, prepare and convert it in the same way, and then load."
        ),
    ),
    Fault(
        "inplace-api-returns-none",
        "result of an in-place API assigned",
        "quantization",
        "13",
        section="quantize_ of torchao: in place, Linear only",
        why=(
            "`quantize_` changes the model that it is given and returns nothing, as its underscore says. `model = "
            "quantize_(model, config)` throws the model away and keeps `None`; the error comes later, at a call. "
            "`loss.backward()`, `list.append` and an optimizer's `load_state_dict` return nothing either."
        ),
        fix=(
            "Call it for its effect: `quantize_(model, config)`. To keep the float model, copy it first: `copy."
            "deepcopy(model)`."
        ),
    ),
)
