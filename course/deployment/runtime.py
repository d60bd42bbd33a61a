"""An ONNX file behind the call of a module: tensors in, tensors out, inputs checked first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# What ONNX Runtime calls the types, and what torch calls them.
DTYPES = {
    "tensor(float)": torch.float32,
    "tensor(double)": torch.float64,
    "tensor(float16)": torch.float16,
    "tensor(uint8)": torch.uint8,
    "tensor(int8)": torch.int8,
    "tensor(int32)": torch.int32,
    "tensor(int64)": torch.int64,
    "tensor(bool)": torch.bool,
}


class InputMismatch(ValueError):
    """An input is not what the model was exported for; the message says which, what was seen and what is expected."""


class OnnxModel:
    """A model file in ONNX Runtime, on the CPU.

    path: the .onnx file; weights in a second file (external data) are looked for beside it.
    threads: how many an operator may use. Called with tensors in the order of the model's inputs; returns one tensor,
    or a tuple of them. Raises FileNotFoundError for a missing file, of weights too, and InputMismatch for inputs that
    differ from the model's in number, dtype, number of axes or a fixed size.
    """

    def __init__(self, path: str | os.PathLike[str], *, threads: int = 1) -> None:
        import onnxruntime

        self.path = Path(path)
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no model file {self.path.name} in {self.path.parent}")
        missing = [name for name in external_files(self.path) if not (self.path.parent / name).is_file()]
        if missing:
            raise FileNotFoundError(
                f"{self.path.name} keeps its weights in {', '.join(missing)}, which is not beside it; "
                "move both files together, or export with external_data=False"
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors
        self._session = onnxruntime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        self.inputs = [(entry.name, DTYPES.get(entry.type), tuple(entry.shape)) for entry in self._session.get_inputs()]
        self.outputs = [entry.name for entry in self._session.get_outputs()]

    def __call__(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        if len(inputs) != len(self.inputs):
            names = ", ".join(name for name, _, _ in self.inputs)
            raise InputMismatch(f"{len(inputs)} inputs were given, the model takes {len(self.inputs)}: {names}")
        feed = {}
        for value, (name, dtype, shape) in zip(inputs, self.inputs, strict=True):
            check_input(name, value, dtype, shape)
            feed[name] = value.detach().cpu().contiguous().numpy()
        results = tuple(torch.from_numpy(result) for result in self._session.run(None, feed))
        return results[0] if len(results) == 1 else results


def check_input(name: str, value: Any, dtype: torch.dtype | None, shape: Sequence[int | str | None]) -> None:
    """Raise InputMismatch unless `value` is a tensor of this dtype whose shape fits; a name or None fits every size."""
    if not isinstance(value, Tensor):
        raise InputMismatch(f"{name} should be a tensor, not {type(value).__name__}")
    wanted = f"{str(dtype).removeprefix('torch.')} ({', '.join(str(size) for size in shape)})"
    fits = len(value.shape) == len(shape) and all(
        not isinstance(size, int) or size == given for size, given in zip(shape, value.shape, strict=True)
    )
    if (dtype is not None and value.dtype != dtype) or not fits:
        seen = f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
        raise InputMismatch(f"{name} is {seen}; the model was exported for {wanted}")


def external_files(path: str | os.PathLike[str]) -> list[str]:
    """Names of the files, relative to the model's folder, in which an ONNX file keeps weights; [] for a single file."""
    import onnx

    graph = onnx.load(os.fspath(path), load_external_data=False).graph
    names = {
        entry.value
        for tensor in graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return sorted(names)
