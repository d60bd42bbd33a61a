"""Makers of variants: BatchNorm folded, ONNX Runtime in float and in int8, and int8 through torch.export and inductor.

Each takes the trained network, in evaluation mode, and returns a :class:`~course.deployment.variants.Variant`; the
network stays as it is. Folders are where files go; the caller removes them. ONNX needs the packages onnx, onnxscript
and onnxruntime, the exported int8 network torchao, and compiling it a C++ compiler.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from torch import Tensor, nn

from course.deployment.processor import int8_support
from course.deployment.runtime import OnnxModel
from course.deployment.variants import Variant

LAYERS = (nn.Conv2d, nn.Linear)


def eager_float(network: nn.Module, name: str = "eager float") -> Variant:
    """The network as it is: what the others are compared with. Its size is that of the file with its state_dict."""
    return Variant(name, network, saved_bytes(network.state_dict()))


def fold_batch_norm(network: nn.Sequential) -> nn.Sequential:
    """A copy in which each Conv2d followed by a BatchNorm2d computes both; an Identity stands where the norm was.

    network: in evaluation mode, otherwise ValueError: the running statistics are folded, not those of a batch.
    The names of the other layers stay, and so does the memory layout of the weights.
    """
    if any(module.training for module in network.modules()):
        raise ValueError("fold_batch_norm folds the running statistics: call network.eval() first")
    folded = copy.deepcopy(network)
    for index in range(len(folded) - 1):
        conv, norm = folded[index], folded[index + 1]
        if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            fused = nn.utils.fusion.fuse_conv_bn_eval(conv, norm)
            folded[index], folded[index + 1] = fused.to(memory_format=torch.channels_last), nn.Identity()
    return folded.requires_grad_(False)


def folded_float(network: nn.Sequential, name: str = "BatchNorm folded") -> Variant:
    """The eager network with its BatchNorm folded into the convolutions, in float32."""
    folded = fold_batch_norm(network)
    changed = [key for key, layer in network.named_children() if isinstance(layer, nn.BatchNorm2d)]
    return Variant(name, folded, saved_bytes(folded.state_dict()), tuple(changed))


def onnx_float(
    network: nn.Module,
    folder: str | os.PathLike[str],
    *,
    size: int = 32,
    threads: int = 1,
    name: str = "ONNX Runtime float",
) -> Variant:
    """The network as `float.onnx` in `folder`, with a free batch size, run by ONNX Runtime.

    size: height and width of the images. threads: of an operator.
    """
    path = export_onnx(network, Path(folder) / "float.onnx", size=size)
    return Variant(name, OnnxModel(path, threads=threads), path.stat().st_size)


def onnx_int8(
    network: nn.Module,
    calibration: Tensor,
    folder: str | os.PathLike[str],
    *,
    reduce_range: bool | None = None,
    per_channel: bool = True,
    activations: str = "uint8",
    threads: int = 1,
    name: str = "ONNX Runtime int8",
) -> Variant:
    """Static quantization by ONNX Runtime: int8 weights, 8-bit activations with ranges seen in `calibration`.

    calibration: normalised images float32 (N, 3, H, W). reduce_range: 7-bit weights; by default what
    :func:`~course.deployment.processor.int8_support` advises. per_channel: a scale for each output channel of a weight.
    activations: "uint8" or "int8". The file is `int8.onnx` in `folder`, `changed` names the layers with int8 weights.
    """
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    folder = Path(folder)
    exact = export_onnx(network, folder / "int8-source.onnx", size=calibration.shape[-1])
    prepared, path = folder / "int8-prepared.onnx", folder / "int8.onnx"
    with quiet():
        quant_pre_process(str(exact), str(prepared))
        quantize_static(
            str(prepared),
            str(path),
            _reader(calibration),
            quant_format=QuantFormat.QDQ,
            per_channel=per_channel,
            reduce_range=int8_support().reduce_range if reduce_range is None else reduce_range,
            activation_type=QuantType.QUInt8 if activations == "uint8" else QuantType.QInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
        )
    return Variant(name, OnnxModel(path, threads=threads), path.stat().st_size, int8_layers_of_onnx(path, network))


def pt2e_int8(
    network: nn.Module, calibration: Tensor | None, *, reduce_range: bool | None = None, skip: tuple[str, ...] = ()
) -> nn.Module:
    """Static quantization by torch.export and torchao's X86InductorQuantizer; returns the converted graph module.

    network: in evaluation mode. calibration: normalised images float32 (N, 3, H, W), or None to leave the observers
    empty. reduce_range: as in :func:`onnx_int8`. skip: names of layers to leave in float.

    The result computes in float what int8 would give (quantize, dequantize, float operation); only compiled by
    inductor, with freezing, does it run int8 kernels. It takes any batch size.
    """
    with quiet(), torch.no_grad():
        from torchao.quantization import pt2e
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        prepared = prepare_pt2e(exported(network), x86_quantizer(reduce_range, skip=skip))
        if calibration is not None:
            for part in calibration.split(64):
                prepared(part)
        converted = convert_pt2e(prepared)
        pt2e.move_exported_model_to_eval(converted)
    return converted


def compiled_int8(
    network: nn.Module,
    calibration: Tensor,
    *,
    reduce_range: bool | None = None,
    dynamic: bool = False,
    name: str = "PT2E int8, compiled",
) -> Variant:
    """:func:`pt2e_int8`, compiled by inductor: int8 kernels. Needs a C++ compiler, at the first call of each shape.

    dynamic: one graph for all batch sizes above 1; otherwise each batch size is compiled when it first comes.
    """
    return compiled(pt2e_int8(network, calibration, reduce_range=reduce_range), dynamic=dynamic, name=name)


def compiled(converted: nn.Module, *, dynamic: bool = False, name: str = "PT2E int8, compiled") -> Variant:
    """The variant that runs a converted graph module of :func:`pt2e_int8` by inductor, its weights frozen."""
    program = torch.compile(converted, dynamic=dynamic)
    settings = torch._inductor.config

    def call(images: Tensor) -> Tensor:
        # Any call may compile: a new shape, and known ones too once another network was exported and compiled. Without
        # freezing, which options= of torch.compile asks for too late, there would be no int8 kernels.
        before = settings.freezing
        settings.freezing = True
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.filterwarnings("ignore", message="To copy construct from a tensor", category=UserWarning)
                return program(images)
        finally:
            settings.freezing = before

    return Variant(name, call, graph_bytes(converted), int8_layers(converted))


def int8_layers(converted: nn.Module) -> tuple[str, ...]:
    """Names of the layers of a converted graph module whose operation reads a dequantized input and weight."""
    found = []
    for node in converted.graph.nodes:
        if node.op != "call_function" or not any(word in str(node.target) for word in ("conv2d", "linear")):
            continue
        sources = [str(argument.target) for argument in node.args[:2]]
        if all("dequantize" in source for source in sources):
            found.append(_layer_name(node))
    return tuple(found)


def int8_layers_of_onnx(path: str | os.PathLike[str], network: nn.Module) -> tuple[str, ...]:
    """Names of the layers of `network`, in its order, whose weight is stored in 8 bits in the ONNX file."""
    import onnx

    stored = {
        tensor.name
        for tensor in onnx.load(os.fspath(path)).graph.initializer
        if tensor.data_type in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
    }
    layers = [name for name, layer in network.named_modules() if isinstance(layer, LAYERS)]
    return tuple(name for name in layers if f"{name}.weight_quantized" in stored)


def export_onnx(network: nn.Module, path: Path, *, size: int = 32) -> Path:
    """Write the network as one ONNX file with a free batch size; input "images", output "logits"."""
    with quiet():
        torch.onnx.export(
            network,
            (torch.zeros(2, 3, size, size),),
            path,
            dynamo=True,
            verbose=False,
            dynamic_shapes=({0: "batch"},),
            input_names=["images"],
            output_names=["logits"],
            external_data=False,
        )
    return path


def saved_bytes(state: dict[str, Tensor]) -> int:
    """Bytes of the file that torch.save writes for these tensors."""
    file = io.BytesIO()
    torch.save({name: tensor.detach().contiguous() for name, tensor in state.items()}, file)
    return file.tell()


def graph_bytes(converted: nn.Module) -> int:
    """Bytes of a file with the tensors that a graph module reads: not the float weights that it still holds unused."""
    state = {}
    for node in converted.graph.nodes:
        if node.op == "get_attr":
            value: Any = converted
            for part in str(node.target).split("."):
                value = getattr(value, part)
            if isinstance(value, Tensor):
                state[str(node.target)] = value
    return saved_bytes(state)


def exported(network: nn.Module) -> nn.Module:
    """The graph module that prepare_pt2e takes, for images (N, 3, 32, 32) of any number N."""
    example = torch.zeros(2, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    batch = torch.export.Dim("batch", min=1, max=4096)
    return torch.export.export(network, (example,), dynamic_shapes=({0: batch},)).module()


def x86_quantizer(reduce_range: bool | None = None, *, qat: bool = False, skip: tuple[str, ...] = ()) -> Any:
    """An X86InductorQuantizer for all layers but those in `skip`; weights get a scale for each channel.

    reduce_range: 7-bit weights, by default what :func:`~course.deployment.processor.int8_support` advises. qat: fake
    quantization that trains, for prepare_qat_pt2e.
    """
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    reduce = int8_support().reduce_range if reduce_range is None else reduce_range
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_qat=qat, reduce_range=reduce))
    for name in skip:
        quantizer.set_module_name_qconfig(name, None)
    return quantizer


def _layer_name(node: Any) -> str:
    path, _ = list(node.meta["nn_module_stack"].values())[-1]
    return str(path).replace("L['self'].", "").replace("_modules['", "").replace("']", "")


def _reader(calibration: Tensor) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Images(CalibrationDataReader):
        def __init__(self) -> None:
            self.parts = iter(calibration.contiguous().split(64))

        def get_next(self) -> dict[str, Any] | None:
            part = next(self.parts, None)
            return None if part is None else {"images": part.numpy()}

    return Images()


def deprecated(work: Callable[[], Any]) -> Any:
    """Run calls of torch.ao.quantization without its warnings; of an error with pages of text, keep one sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return work()
        except NotImplementedError as error:
            raise NotImplementedError(str(error).split(". ")[0]) from None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what torchao and ONNX Runtime log below errors, and their warnings about each other's code."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            for message in (
                "The input of maxpool2d is not quantized",
                "To copy construct from a tensor",
                "must run observer before calling calculate_qparams",
                ".isinstance.treespec, LeafSpec.. is deprecated",
            ):
                warnings.filterwarnings("ignore", message=f"(?s).*{message}")
            yield
    finally:
        logging.disable(before)
