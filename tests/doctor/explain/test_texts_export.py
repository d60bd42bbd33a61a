"""Texts of the topic export: torch.export, ONNX Runtime, onnx, AOTInductor, TorchScript and other runtimes."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pytest
import torch
from support.raised import raised, warned
from torch import nn

from course.doctor.explain import explain

ort = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """net.onnx is static and whole, alone/big.onnx has lost big.onnx.data, short/ has a part of it."""
    folder = tmp_path_factory.mktemp("exported")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small, big = nn.Linear(4, 2).eval(), nn.Linear(300, 300).eval()
        torch.onnx.export(small, (torch.ones(2, 4),), folder / "net.onnx", verbose=False, external_data=False)
        torch.onnx.export(big, (torch.ones(1, 300),), folder / "big.onnx", verbose=False)
    for name in ("alone", "short"):
        (folder / name).mkdir()
        shutil.copy(folder / "big.onnx", folder / name)
    (folder / "short" / "big.onnx.data").write_bytes(b"abc")
    return folder


def refused(folder, value):
    session = ort.InferenceSession(folder / "net.onnx", providers=["CPUExecutionProvider"])
    return explain(raised("session.run(None, {session.get_inputs()[0].name: value})", session=session, value=value))


@pytest.mark.slow
def test_a_runtime_that_refuses_its_input_is_explained(folder):
    for value, fault, quoted in (
        (np.zeros((5, 4), np.float32), "static-shape-export", "axis 0 is 5 and the model has 2"),
        (np.zeros((2, 4)), "runtime-input-dtype", "np.float32"),
        (np.zeros((2, 4), np.uint8), "runtime-input-dtype", "uint8"),
        (np.zeros((2, 4), np.float16), "runtime-input-dtype", "float16"),
        (np.zeros(4, np.float32), "runtime-input-dtype", "x[None]"),
        (torch.zeros(2, 4), "runtime-input-dtype", "numpy()"),
    ):
        found = refused(folder, value)
        assert found[0]["fault"] == fault, value
        assert quoted in found[0]["why"] + found[0]["fix"]


@pytest.mark.slow
def test_weights_that_were_left_behind_are_missed(folder):
    onnx = pytest.importorskip("onnx")
    for code in (
        "ort.InferenceSession(folder / 'alone' / 'big.onnx')",
        "onnx.load(folder / 'alone' / 'big.onnx')",
        "onnx.checker.check_model(str(folder / 'alone' / 'big.onnx'))",
    ):
        found = explain(raised(code, ort=ort, onnx=onnx, folder=folder))
        assert found[0]["fault"] == "external-weights-missing", code
        assert "big.onnx.data" in found[0]["why"]
    found = explain(raised("ort.InferenceSession(folder / 'short' / 'big.onnx')", ort=ort, folder=folder))
    assert found[0]["fault"] == "external-weights-missing"
    assert "360000 bytes are wanted, 3 are there" in found[0]["why"]


EXPORT = """
from torch.export import Dim, export
class View(nn.Module):
    def forward(self, x): return x.view(2, 4)
class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0: return x
        return -x
"""
REAL = [
    ("static-shape-export", "export(nn.Linear(4, 2), (torch.ones(2, 4),)).module()(torch.ones(5, 4))", "== 2"),
    (
        "static-shape-export",
        "export(View(), (torch.ones(2, 4),), dynamic_shapes=({0: Dim('b')},))",
        "the constant 2",
    ),
    (
        "static-shape-export",
        "export(nn.Linear(4, 2), (torch.ones(1, 4),), dynamic_shapes=({0: Dim('b')},))",
        "size 2 or more",
    ),
    ("data-dependent-branch", "export(Branch(), (torch.ones(2, 4),))", "if x.sum() > 0"),
]


@pytest.mark.parametrize(("fault", "code", "quoted"), REAL)
def test_a_real_error_is_explained_with_what_it_says(fault, code, quoted):
    found = explain(raised(EXPORT + code))
    assert found
    assert found[0]["fault"] == fault
    assert quoted in found[0]["why"] + found[0]["fix"]


def test_what_a_trace_warns_of():
    lines = warned(EXPORT + "torch.jit.trace(Branch(), torch.ones(2), check_trace=False)")
    assert {found[0]["fault"] for found in map(explain, lines) if found} == {"trace-loses-branch"}
    lines = warned("torch.manual_seed(0); torch.jit.trace(nn.Dropout(0.5), torch.ones(99))")
    assert {found[0]["fault"] for found in map(explain, lines) if found} == {"trace-in-train-mode"}


ORT = "onnxruntime.capi.onnxruntime_pybind11_state"
LITERAL = [
    (
        "static-shape-export",
        f"{ORT}.InvalidArgument: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for "
        f"input: images for the "
        "following indices\n index: 2 Got: 480 Expected: 640\n index: 3 Got: 480 Expected: 640\n Please "
        "fix either the inputs or "
        "the model.",
        "axis 2 is 480",
    ),
    (
        "runtime-input-dtype",
        f"{ORT}.InvalidArgument: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for "
        f"input: x for the "
        "following indices\n index: 1 Got: 224 Expected: 3\n index: 3 Got: 3 Expected: 224\n Please fix "
        "either the inputs or "
        "the model.",
        "another order",
    ),
    (
        "runtime-input-dtype",
        "INVALID_ARGUMENT : Invalid rank for input: input Got: 3 Expected: 4 Please fix either the "
        "inputs or the model.",
        "x[None]",
    ),
    (
        "runtime-input-dtype",
        "RuntimeError: Method run failed due to: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Unexpected "
        "input data type. "
        "Actual: (N11onnxruntime11NonOnnxTypeIdEE) , expected: (N11onnxruntime11NonOnnxTypeIfEE)",
        "",
    ),
    (
        "runtime-input-dtype",
        "InvalidArgument: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Unexpected input data type. "
        "Actual: (tensor(int32)) , "
        "expected: (tensor(int64))",
        "np.int64",
    ),
    (
        "runtime-input-dtype",
        "ValueError: Cannot set tensor: Got value of type FLOAT64 but expected type FLOAT32 for input 0, name: x",
        "FLOAT64",
    ),
    (
        "runtime-input-dtype",
        "RuntimeError: Error: input_handles[0]: unmatched dtype, expected: 6(at::kFloat), but got: 7",
        "double",
    ),
    (
        "static-shape-export",
        "RuntimeError: Error: input_handles[0]: unmatched dim value at 2, expected: 32, but got: 28",
        "28",
    ),
    (
        "static-shape-export",
        "RuntimeError: Error: input_handles[0]: dim value is too large at 0, expected to be <= 15, but got: 64",
        "64",
    ),
    ("static-shape-export", "RuntimeError: Expected input at *args[0].shape[0] to be equal to 2, but got 4", "4"),
    ("static-shape-export", "RuntimeError: Expected input at *args[0].shape[0] to be <= 8, but got 9", "9"),
    ("static-shape-export", "RuntimeError: Input arg0_1.shape[0] is specialized at 2", "2"),
    (
        "static-shape-export",
        "torch._dynamo.exc.UserError: Constraints violated (batch)! For more information, run with "
        'TORCH_LOGS="+dynamic".\n'
        "  - Not all values of batch = L['x'].size()[0] in the specified range batch <= 10 are valid because batch was "
        "inferred to be a constant (1).",
        "",
    ),
    (
        "static-shape-export",
        "Fail: [ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Reshape "
        "node. Name:'/Reshape' "
        "Status Message: reshape_helper.h:45 ReshapeHelper input_shape_size == size was false. The "
        "input tensor cannot be "
        "reshaped to the requested shape. Input shape:{5,4}, requested shape:{2,2,2}",
        "{2,2,2}",
    ),
    (
        "static-shape-export",
        "Fail: [ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Add node. "
        "Name:'/pos/Add' Status "
        "Message: element_wise_ops.h:560 BroadcastIterator::Init axis == 1 || axis == largest was false. Attempting to "
        "broadcast an axis by a dimension other than 1. 128 by 96",
        "/pos/Add",
    ),
    (
        "static-shape-export",
        "[TRT] [E] 3: [executionContext.cpp::setInputShape::2068] Error Code 3: API Usage Error (Static "
        "dimension mismatch "
        "while setting input shape for x. Set dimensions are [5,4]. Expected dimensions are [2,4].)",
        "",
    ),
    (
        "external-weights-missing",
        f"{ORT}.Fail: [ONNXRuntimeError] : 1 : FAIL : Deserialize tensor onnx::MatMul_42 failed.GetFileLength for "
        "./model.onnx.data failed:open file ./model.onnx.data fail, errcode = 2 - No such file or directory",
        "model.onnx.data",
    ),
    (
        "external-weights-missing",
        "Fail: [ONNXRuntimeError] : 1 : FAIL : External data path validation failed for initializer: weight. Error: "
        'tensorprotoutils.cc:619 External data path does not exist: "/srv/model.onnx.data"',
        "model.onnx.data",
    ),
    (
        "external-weights-missing",
        "onnx.onnx_cpp2py_export.checker.ValidationError: Data of TensorProto ( tensor name: fc.weight) "
        "should be stored in "
        "/srv/net.onnx.data, but it doesn't exist or is not accessible.",
        "net.onnx.data",
    ),
    (
        "external-weights-missing",
        "FileNotFoundError: [Errno 2] No such file or directory: '/srv/model.onnx.data'",
        "model.onnx.data",
    ),
    (
        "external-weights-missing",
        "Fail: [ONNXRuntimeError] : 1 : FAIL : model_path must not be empty. Ensure that a path is "
        "provided when the model is "
        "created or loaded.",
        "bytes",
    ),
    (
        "external-weights-missing",
        "Error: Can't create a session. ERROR_CODE: 1, ERROR_MESSAGE: Deserialize tensor "
        "onnx::MatMul_9307 failed.Failed to "
        'load external data file "./model.onnx_data", error: File not found in preloaded files.',
        "model.onnx_data",
    ),
    (
        "external-weights-missing",
        "Fail: [ONNXRuntimeError] : 1 : FAIL : tensorprotoutils.cc:792 GetExtDataFromTensorProto "
        "External initializer: pos "
        "offset: 0 size to read: 7680000 given file_length: 2293760 are out of bounds or can not be read in full.",
        "7680000",
    ),
    (
        "opset-not-honoured",
        "W1130 06:26:55.014000 29488 torch/onnx/_internal/exporter/_compat.py:133] Setting ONNX "
        "exporter to use operator set "
        "version 18 because the requested opset_version 11 is a lower version than we have implementations for.",
        "11",
    ),
    (
        "opset-not-honoured",
        "WARNING:onnxscript.version_converter:Failed to convert the model to the target version 13 "
        "using the ONNX C API. The "
        "model was not modified",
        "13",
    ),
    (
        "opset-not-honoured",
        "RuntimeError: /project/onnx/version_converter/BaseConverter.h:66: adapter_lookup: Assertion "
        "`false` failed: No Adapter "
        "From Version $13 for Gemm",
        "",
    ),
    (
        "opset-not-honoured",
        f"{ORT}.Fail: [ONNXRuntimeError] : 1 : FAIL : Load model from x.onnx "
        f"failed:/onnxruntime_src/onnxruntime/core/graph/"
        "model.cc:146 Unsupported model IR version: 10, max supported IR version: 9",
        "IR version 10",
    ),
    (
        "opset-not-honoured",
        "Fail: [ONNXRuntimeError] : 1 : FAIL : ONNX Runtime only *guarantees* support for models "
        "stamped with official released "
        "onnx opset versions. Opset 21 is under development and support for this is limited. The "
        "operator schemas and or other "
        "functionality may change before next ONNX release and in this case ONNX Runtime will not guarantee backward "
        "compatibility. Current official support for domain ai.onnx is till opset 20.",
        "opset 21",
    ),
    (
        "trace-loses-branch",
        "/a/net.py:9: TracerWarning: Converting a tensor to a Python boolean might cause the trace to "
        "be incorrect. We can't "
        "record the data flow of Python values, so this value will be treated as a constant in the "
        "future.\n  if x.sum() > 0:",
        "boolean",
    ),
    (
        "static-shape-export",
        "/a/net.py:9: TracerWarning: Iterating over a tensor might cause the trace to be incorrect. "
        "Passing a tensor of "
        "different shape won't change the number of iterations executed.",
        "",
    ),
    (
        "trace-in-train-mode",
        "/a/b.py:76: UserWarning: Exporting a model while it is in training mode. Please ensure that "
        "this is intended, as it "
        "may lead to different behavior during inference. Calling model.eval() before export is recommended.",
        "",
    ),
]


@pytest.mark.parametrize(("fault", "text", "quoted"), LITERAL)
def test_a_text_of_another_version_or_runtime_is_known(fault, text, quoted):
    found = explain(text)
    assert found
    assert found[0]["fault"] == fault
    assert quoted in found[0]["why"] + found[0]["fix"]


SILENT = [
    f"{ORT}.NoSuchFile: [ONNXRuntimeError] : 3 : NO_SUCHFILE : Load model from nope.onnx failed:Load "
    f"model nope.onnx failed. "
    "File doesn't exist",
    f"{ORT}.InvalidProtobuf: [ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Load model from x.onnx "
    f"failed:Protobuf parsing failed.",
    "ValueError: Required inputs (['input']) are missing from input feed (['foo']).",
    "InvalidArgument: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid output name:foo",
    "torch.onnx.errors.UnsupportedOperatorError: Exporting the operator 'aten::linalg_eigh' to ONNX "
    "opset version 20 is not "
    "supported",
    "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.data'",
    "DeprecationWarning: You are using the legacy TorchScript-based ONNX export.",
    "UserWarning: # 'dynamic_axes' is not recommended when dynamo=True",
    "NotImplementedError: Calling eval() is not supported yet.",
    "RuntimeError: PytorchStreamReader failed locating file constants.pkl: file not found.",
    "INFO exported net.onnx at opset 20, 242 KB",
]


@pytest.mark.parametrize("text", SILENT)
def test_what_tells_of_no_known_fault_is_not_guessed(text):
    assert explain(text) == []
