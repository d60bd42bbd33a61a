"""Texts that faults of the topic export leave: shapes, files and traces."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen
from course.doctor.explain.texts_export_inputs import RULES as INPUTS

_OPSET = re.compile(r"requested opset_version (\d+)|target version:? (\d+)|opset version (\d+)|opset (\d+)", re.I)
_DATA = r"[\w./\\:\- ]{0,200}?(?P<file>[\w.\-]{1,120}(?:\.data|\.onnx_data|_data|\.weight|\.bin))"


def _weights(error: ParsedError, match: re.Match[str]) -> Seen:
    found = re.search(r"[\w.\-]{1,120}\.(?:onnx[._]data|data|bin)\b", error.flat)
    named = f"The file that is looked for is `{found[0]}`." if found else ""
    sizes = re.search(r"size to read: (\d+) given file_length: (\d+)", error.flat)
    if not sizes:
        swapped = re.search(r"length \((\d+)\) exceeds available data \((\d+) bytes", error.flat)
        sizes = swapped
    if sizes:
        named = (
            f"The file of weights is shorter than the model says: {sizes[1]} bytes are wanted, {sizes[2]} are there."
        )
    return Seen(None, named)


def _from_bytes(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(
        None,
        "The model was given as bytes, so nobody knows the folder where its second file lies.",
        "Give the path of the file, or a model that was exported with `external_data=False`.",
    )


def _missing_file(error: ParsedError, match: re.Match[str]) -> Seen | None:
    name = match["file"]
    if not re.search(r"onnx", error.flat + error.all_code, re.I):
        return None
    return Seen(None, f"The file that is looked for is `{name}`.")


def _version(error: ParsedError, match: re.Match[str]) -> Seen:
    found = _OPSET.search(error.flat)
    number = next((part for part in found.groups() if part), None) if found else None
    return Seen(None, f"Asked for was opset {number}." if number and int(number) < 60 else "")


def _runtime_old(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(
        None,
        f"The file has {match['what']} {match['file']}; this runtime knows up to {match['most']}.",
        "Upgrade the runtime, or export for an older version and read back what the file says.",
    )


def _added(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(
        None,
        f"`{match['op']}` cannot be written at opset {match['asked']}.",
        "Ask for a newer opset, or leave `dynamo=True`, the default.",
    )


def _constant(error: ParsedError, match: re.Match[str]) -> Seen:
    kind = match["kind"].lower()
    return Seen(None, f"A Python {kind} was made from a tensor; the trace keeps the one that the example gave.")


_TRACER = ("TracerWarning", "UserWarning")

RULES: tuple[Rule, ...] = (
    *INPUTS,
    Rule(
        "external-weights-missing",
        r"external data path (?:validation failed|does not exist)|external_data.{0,40}does not exist",
        confidence=0.97,
        look=_weights,
    ),
    Rule(
        "external-weights-missing",
        r"data of tensorproto ?\( ?tensor name: ?[^)]{0,120}\) should be stored in .{1,300}"
        r"(?:it is not regular file|it doesn't exist|is not accessible|does not exist)",
        confidence=0.97,
        look=_weights,
    ),
    Rule(
        "external-weights-missing",
        r"external initializer: .{1,160} are out of bounds or can not be read in full"
        r"|external data length \(\d+\) exceeds available data",
        confidence=0.95,
        look=_weights,
    ),
    Rule(
        "external-weights-missing",
        r"getfilelength for .{1,200} failed|getfilesizeex .{1,200} fail, errcode|failed to load external data(?: file)?"
        r"|open file .{1,200}\.(?:data|onnx_data|weight|bin|pb)\"? fail|fail(?:ed)? to open external data",
        confidence=0.93,
        look=_weights,
    ),
    Rule(
        "external-weights-missing",
        r"model_path must not be empty|model_path\.isempty\(\) was false|!model_path\.empty\(\) was false"
        r"|cannot load external data without a model path|module\.mountedfiles is not available",
        confidence=0.9,
        look=_from_bytes,
    ),
    Rule(
        "external-weights-missing",
        rf"(?:no such file or directory|file_size|cannot find the file|failed to open file)[^a-z]{{0,8}}{_DATA}",
        confidence=0.9,
        look=_missing_file,
    ),
    Rule(
        "opset-not-honoured",
        r"setting onnx exporter to use operator set version \d+ because the requested opset_version \d+"
        r"|failed to convert the model to the target version|version conversion is not supported by the onnxscript"
        r"|no adapter (?:from|to) version|no previous version of \w{1,60} exists",
        confidence=0.95,
        look=_version,
    ),
    Rule(
        "opset-not-honoured",
        r"opset (?P<file>\d+) is under development.{0,260}(?P<what>)till opset (?P<most>\d+)",
        confidence=0.9,
        look=lambda error, match: Seen(
            None,
            f"The file has opset {match['file']}; this runtime knows up to {match['most']}.",
            "Upgrade the runtime, or export for an older opset and read back what the file says.",
        ),
    ),
    Rule(
        "opset-not-honoured",
        r"unsupported model (?P<what>IR version): (?P<file>\d+), max supported IR version: (?P<most>\d+)",
        confidence=0.8,
        look=_runtime_old,
    ),
    Rule(
        "opset-not-honoured",
        r"exporting to onnx opset version (?P<op>\d+) is not supported|unsupported onnx_opset_version: ?\d+",
        ("OnnxExporterWarning", "UserWarning", "RuntimeError", "ValueError"),
        0.75,
        _version,
    ),
    Rule(
        "opset-not-honoured",
        r"exporting the operator '(?P<op>[\w:]{1,60})' to onnx opset version (?P<asked>\d+) is not supported\. "
        r"support for this operator was added in version",
        confidence=0.6,
        look=_added,
    ),
    Rule(
        "trace-loses-branch",
        r"converting a tensor to a python (?P<kind>boolean|number|float|integer|index|list)"
        r" might cause the trace to be incorrect",
        _TRACER,
        0.95,
        _constant,
    ),
    Rule(
        "trace-loses-branch",
        r"converting a tensor to a numpy array might cause the trace to be incorrect"
        r"|torch\.(?:tensor|from_numpy|as_tensor) results are registered as constants in the trace",
        _TRACER,
        0.7,
        lambda error, match: Seen(None, "Values that left the graph are constants of the trace."),
    ),
    Rule(
        "trace-loses-branch",
        r"tensor-valued constant nodes differed in value across invocations|graphs differed across invocations",
        ("TracingCheckError", "RuntimeError"),
        0.6,
    ),
    Rule(
        "static-shape-export",
        r"using len to get tensor shape might cause the trace|iterating over a tensor might cause the trace",
        _TRACER,
        0.75,
        lambda error, match: Seen(None, "The trace keeps the length that the example had.", "Write `x.shape[0]`."),
    ),
    Rule(
        "trace-in-train-mode",
        r"exporting a model while it is in training mode|trace had nondeterministic nodes\. did you forget to call"
        r"|operator '(?:dropout|feature_dropout|batch_norm)' is set to train=true"
        r"|exporting the model in training-amenable mode",
        confidence=0.93,
    ),
    Rule(
        "trace-in-train-mode",
        r"output nr ?\d+\. of the traced function does not match the corresponding output of the python function",
        (*_TRACER, "TracingCheckError"),
        0.55,
        lambda error, match: Seen(None, "Two runs with one input gave two results."),
    ),
)
