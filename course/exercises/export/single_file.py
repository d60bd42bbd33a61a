"""Lesson 12: an ONNX model in one file."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.onnx import OnnxExporterError

from course.checking import Exercise

exercise = Exercise(
    "export.single_file",
    seconds=120,
    title="An ONNX model in one file",
    task="""
        `write_onnx(model, example, path)` writes a model in evaluation mode that takes one tensor to the ONNX file
        `path`, and nothing else: the file is moved to another machine alone.

        - The input is called `images` and the output `logits`.
        - The first axis is dynamic; the other sizes are those of `example`, whose batch size is 2 or more.
        - The default exporter is to be used (`torch.onnx.export`, `dynamo=True`). What it returns does not matter.
        """,
    hints=(
        "input_names, output_names and dynamic_shapes are arguments of torch.onnx.export. Look into the folder after "
        "the call: how many files are there?",
        "By default weights go to a second file. external_data=False keeps them in the model: up to 2 GB. "
        'dynamic_shapes=({0: "batch"},) goes by position.',
    ),
)


@exercise.stub
def write_onnx(model: nn.Module, example: Tensor, path: str) -> None:
    """Write model to the single ONNX file path: images (batch, ...) in, logits out."""
    raise NotImplementedError


@exercise.reference
def without_external_data(model, example, path):
    torch.onnx.export(
        model,
        (example,),
        path,
        input_names=["images"],
        output_names=["logits"],
        dynamic_shapes=({0: "batch"},),
        external_data=False,
        verbose=False,
    )


@exercise.alternative
def from_an_exported_program(model, example, path):
    program = torch.export.export(model, (example,), dynamic_shapes=({0: Dim("n")},))
    names = {"input_names": ["images"], "output_names": ["logits"]}
    torch.onnx.export(program, (), path, external_data=False, verbose=False, **names)


@exercise.alternative
def saved_afterwards(model, example, path):
    names = {"input_names": ["images"], "output_names": ["logits"]}
    written = torch.onnx.export(
        model, (example,), dynamo=True, dynamic_shapes=({0: Dim("batch")},), verbose=False, **names
    )
    written.save(path, external_data=False)


@exercise.wrong(
    "The weights are in a second file beside the model. Moved alone, the model cannot be loaded.",
    fault="external-weights-missing",
)
def default_weights(model, example, path):
    names = {"input_names": ["images"], "output_names": ["logits"]}
    torch.onnx.export(model, (example,), path, dynamic_shapes=({0: "batch"},), verbose=False, **names)


@exercise.wrong("The batch size is the example's. ONNX Runtime refuses every other one.", fault="static-shape-export")
def fixed_batch(model, example, path):
    names = {"input_names": ["images"], "output_names": ["logits"]}
    torch.onnx.export(model, (example,), path, external_data=False, verbose=False, **names)


@exercise.wrong(
    "The names are those that the exporter found in the code. Whoever calls the model by `images` gets an error."
)
def names_of_the_code(model, example, path):
    shapes = ({0: "batch"},)
    torch.onnx.export(model, (example,), path, dynamic_shapes=shapes, external_data=False, verbose=False)


@exercise.wrong("Both axes are dynamic. The other sizes were to stay those of the example.")
def all_axes(model, example, path):
    names = {"input_names": ["images"], "output_names": ["logits"]}
    shapes = (dict.fromkeys(range(example.dim()), Dim.AUTO),)
    torch.onnx.export(model, (example,), path, dynamic_shapes=shapes, external_data=False, verbose=False, **names)


@exercise.wrong("`dynamo=False` is the old exporter, which is no longer developed. The task asks for the default one.")
def old_exporter(model, example, path):
    names = {"input_names": ["images"], "output_names": ["logits"]}
    axes = {"images": {0: "batch"}, "logits": {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (example,), path, dynamic_axes=axes, dynamo=False, verbose=False, **names)


@exercise.wrong(
    "This is torch's own format (`torch.export.save`). ONNX Runtime cannot read it.",
)
def torch_format(model, example, path):
    torch.export.save(torch.export.export(model, (example,), dynamic_shapes=({0: Dim("n")},)), path)


class Small(nn.Module):
    """Weights for each number of a row, whatever its length: nothing but the export fixes that. No weight is folded
    into a constant, and dropout shows the mode."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(9)
        self.layer, self.dropout = nn.Linear(1, 300), nn.Dropout(0.5)

    def forward(self, pixels):
        return self.dropout(self.layer(pixels[..., None]).cumsum(dim=1))


def session(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception:
        return None


def written_by(path):
    """Which exporter it was: the default one notes at each node where in the code it comes from."""
    import onnx

    try:
        nodes = onnx.load(str(path), load_external_data=False).graph.node
    except Exception:
        return "not an ONNX file"
    return "the default exporter" if any(node.metadata_props for node in nodes) else "another exporter"


@exercise.probe
def moved_alone(answer):
    model, example = Small().eval(), torch.arange(10.0).reshape(2, 5)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
        path = os.path.join(folder, "model.onnx")
        before = os.getcwd()
        os.chdir(folder)
        try:
            answer(model, example, path)
        except OnnxExporterError as error:
            return f"not exported: {type(error).__name__}"
        finally:
            os.chdir(before)
        files = sorted(os.listdir(folder))
        if "model.onnx" not in files:
            return f"{len(files)} files, and no model.onnx"
        loaded = session(moved := shutil.move(path, Path(elsewhere) / "moved.onnx"))
        if loaded is None:
            return len(files), "ONNX Runtime cannot load it alone", written_by(moved)
        names = [entry.name for entry in (*loaded.get_inputs(), *loaded.get_outputs())]
        free = [isinstance(size, int) for size in loaded.get_inputs()[0].shape]
        results = []
        for batch in (1, 2, 40):
            x = torch.arange(batch * 5.0).reshape(batch, 5)
            try:
                (seen,) = loaded.run(None, {loaded.get_inputs()[0].name: x.numpy()})
                results.append(torch.allclose(torch.from_numpy(seen), model.eval()(x), rtol=1e-4, atol=1e-4))
            except Exception as error:
                results.append(type(error).__name__)
        return len(files), names, free, results, written_by(moved)
