"""Texts of the topic quantization: torch.ao, PT2E, torchao and ONNX Runtime."""

from __future__ import annotations

import pytest
from support.raised import raised, warned

from course.doctor.explain import explain

EAGER = """
import torch.ao.quantization as Q
def converted(model, x, calibrate=True):
    model = model.eval()
    model.qconfig = Q.get_default_qconfig("x86")
    prepared = Q.prepare(model)
    if calibrate: prepared(x)
    return Q.convert(prepared)
v = torch.randn(8, 4); image = torch.randn(2, 1, 8, 8)
class Op(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.l, self.d, self.op = Q.QuantStub(), nn.Linear(4, 4), Q.DeQuantStub(), lambda a, b: a
    def forward(self, x):
        x = self.q(x)
        return self.d(self.op(self.l(x), x))
def after(op):
    model = converted(Op(), v)
    model.op = op
    return model(v)
"""

REAL = [
    ("quantization-missing-stub", "converted(nn.Sequential(nn.Conv2d(1, 2, 3)), image)(image)", "conv2d"),
    ("quantization-missing-stub", "converted(nn.Sequential(nn.Linear(4, 4)), v)(v)", "linear"),
    (
        "quantization-missing-stub",
        "converted(Q.fuse_modules(nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), [['0', '1']]), v)(v)",
        "linear_relu",
    ),
    ("quantization-functional-op", "after(lambda a, b: a + b)", "`add`"),
    ("quantization-functional-op", "after(lambda a, b: a * b)", "`mul`"),
    ("quantization-functional-op", "after(lambda a, b: a - b)", "`sub`"),
    ("quantization-functional-op", "after(lambda a, b: a @ b.t())", "`mm`"),
    ("quantization-functional-op", "after(lambda a, b: a * 0.5)", "quantized"),
    ("quantization-functional-op", "after(lambda a, b: a + torch.ones(4))", "quantized"),
    ("quantization-functional-op", "after(lambda a, b: torch.softmax(a, -1))", "DeQuantStub"),
    ("quantization-functional-op", "after(lambda a, b: nn.functional.silu(a))", "`silu`"),
    ("quantization-functional-op", "after(lambda a, b: nn.BatchNorm1d(4).eval()(a))", "stayed in float"),
    (
        "fuse-in-train-mode",
        "Q.fuse_modules(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), [['0', '1']])",
        "eval",
    ),
    ("fuse-in-train-mode", "torch.nn.utils.fuse_conv_bn_eval(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))", "eval"),
    ("fuse-in-train-mode", "torch.nn.utils.fuse_linear_bn_eval(nn.Linear(2, 2), nn.BatchNorm1d(2))", "eval"),
    (
        "fuse-in-train-mode",
        "from torch.ao.quantization.quantize_fx import fuse_fx\nfuse_fx(nn.Sequential(nn.Conv2d(1, 2, "
        "3), nn.BatchNorm2d(2)))",
        "eval",
    ),
    (
        "quantized-state-dict",
        "m = converted(Q.QuantWrapper(nn.Sequential(nn.Linear(4, 4))), v)\n"
        "Q.QuantWrapper(nn.Sequential(nn.Linear(4, 4))).load_state_dict(m.state_dict())",
        "model is in float",
    ),
    (
        "quantized-state-dict",
        "m = converted(Q.QuantWrapper(nn.Sequential(nn.Linear(4, 4))), v)\n"
        "m.load_state_dict(Q.QuantWrapper(nn.Sequential(nn.Linear(4, 4))).state_dict())",
        "float model",
    ),
    (
        "quantized-state-dict",
        "m = converted(Q.QuantWrapper(nn.Sequential(nn.Conv2d(1, 2, 3))), image)\n"
        "Q.QuantWrapper(nn.Sequential(nn.Conv2d(1, 2, 3))).load_state_dict(m.state_dict())",
        "model is in float",
    ),
    (
        "quantized-state-dict",
        "m = Q.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear})\n"
        "nn.Sequential(nn.Linear(4, 4)).load_state_dict(m.state_dict())",
        "model is in float",
    ),
    (
        "quantized-state-dict",
        "m = Q.quantize_dynamic(nn.Sequential(nn.LSTM(4, 4)), {nn.LSTM})\n"
        "nn.Sequential(nn.LSTM(4, 4)).load_state_dict(m.state_dict())",
        "_all_weight_values",
    ),
    (
        "inplace-api-returns-none",
        "m = nn.Linear(2, 2)\nm = m.load_state_dict(m.state_dict())\nm.eval()",
        "not the model",
    ),
    ("inplace-api-returns-none", "m = nn.Linear(2, 2)\nm = m.load_state_dict(m.state_dict())\nm(v)", "not the model"),
    ("inplace-api-returns-none", "layers = [nn.ReLU()]\nlayers = layers.append(nn.ReLU())\nlayers[0]", "`append(...)`"),
    (
        "inplace-api-returns-none",
        "w = torch.ones(2, requires_grad=True)\nloss = (w * w).sum()\nloss = loss.backward()\nprint(loss.item())",
        "`backward(...)`",
    ),
]


@pytest.mark.parametrize(("fault", "code", "quoted"), REAL)
def test_a_real_error_is_explained_with_what_it_says(fault, code, quoted):
    found = explain(raised(EAGER + code))
    assert found
    assert found[0]["fault"] == fault
    assert quoted in found[0]["why"] + found[0]["fix"]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("quantization-uncalibrated", "converted(Q.QuantWrapper(nn.Sequential(nn.Linear(4, 4))), v, calibrate=False)"),
        ("quantization-skips-layer", "Q.prepare(nn.Sequential(nn.Linear(4, 4)).eval())"),
        ("quantization-functional-op", "after(lambda a, b: torch.cat([a, b]))"),
    ],
)
def test_a_warning_is_explained(fault, code):
    heard = [explain(line) for line in warned(EAGER + code)]
    assert [found[0]["fault"] for found in heard if found] == [fault] * len([found for found in heard if found])
    assert any(heard)


@pytest.mark.parametrize(
    "use",
    [
        "r(v)",
        "r.eval()",
        "list(r.parameters())",
        "r.state_dict()",
        "[layer for layer in r]",
        "torch.export.export(r, (v,))",
    ],
)
def test_what_quantize_returns_is_nothing(use):
    def quantize_(model, config):
        """As in torchao: in place."""

    code = f"v = torch.ones(1, 2)\nr = nn.Sequential(nn.Linear(2, 2))\nr = quantize_(r, None)\n{use}"
    found = explain(raised(code, quantize_=quantize_))
    assert found[0]["fault"] == "inplace-api-returns-none"


BACKEND = (
    "This could be because the operator doesn't exist for this backend, or was omitted during the "
    "selective/custom build "
    "process (if using custom build)."
)
LOADING = "RuntimeError: Error(s) in loading state_dict for Net:\n\t"
LITERAL = [
    (
        "quantization-missing-stub",
        "RuntimeError: Could not run 'quantized::conv2d' with arguments from the 'CPUTensorId' backend. "
        "'quantized::conv2d' "
        "is only available for these backends: [QuantizedCPUTensorId].",
    ),
    (
        "quantization-missing-stub",
        f"NotImplementedError: Could not run 'quantized::conv2d.new' with arguments from the 'CUDA' backend. {BACKEND}",
    ),
    (
        "quantization-missing-stub",
        f"NotImplementedError: Could not run 'quantized::batch_norm2d' with arguments from the 'CPU' "
        f"backend. {BACKEND}",
    ),
    (
        "quantization-missing-stub",
        f"NotImplementedError: Could not run 'aten::q_scale' with arguments from the 'CPU' backend. {BACKEND}",
    ),
    (
        "quantization-functional-op",
        f"NotImplementedError: Could not run 'aten::add.out' with arguments from the 'QuantizedCPU' backend. {BACKEND}",
    ),
    (
        "quantization-functional-op",
        "RuntimeError: Could not run 'aten::thnn_conv2d_forward' with arguments from the "
        "'QuantizedCPUTensorId' backend.",
    ),
    (
        "quantization-functional-op",
        f"NotImplementedError: Could not run 'aten::mul.out' with arguments from the 'QuantizedCUDA' "
        f"backend. {BACKEND}",
    ),
    (
        "quantization-functional-op",
        "NotImplementedError: Int8Tensor dispatch: attempting to run unimplemented operator/function: func=<OpOverload("
        "op='aten.add', overload='Tensor')>, types=(<class 'torchao.quantization.Int8Tensor'>,)",
    ),
    ("fuse-in-train-mode", "AssertionError: Fusion only for eval!"),
    ("fuse-in-train-mode", "AssertionError: Conv and BN both must be in the same mode (train or eval)."),
    (
        "quantization-uncalibrated",
        "/a/observer.py:1: UserWarning: must run observer before calling calculate_qparams.                         "
        "           Returning default scale and zero point ",
    ),
    ("quantization-uncalibrated", "ValueError: No data is collected."),
    (
        "quantization-uncalibrated",
        "[TensorRT] ERROR: Calibration failure occurred with no scaling factors detected. This could be due to no int8 "
        "calibrator or insufficient custom scales for network layers.",
    ),
    (
        "quantization-skips-layer",
        "UserWarning: None of the submodule got qconfig applied. Make sure you passed correct configuration through "
        "`qconfig_dict` or by assigning the `.qconfig` attribute directly on submodules",
    ),
    (
        "quantization-skips-layer",
        "Skipping quantizing weight with int4 weight only quantization because the shape of weight "
        "torch.Size([10, 84]) is "
        "not compatible with group_size 128",
    ),
    (
        "quantized-state-dict",
        f'{LOADING}Missing key(s) in state_dict: "fc.weight", "fc.bias". \n\tUnexpected key(s) in '
        f'state_dict: "fc.scale", '
        '"fc.zero_point", "fc._packed_params.dtype", "fc._packed_params._packed_params". ',
    ),
    (
        "quantized-state-dict",
        f'{LOADING}Unexpected key(s) in state_dict: "q.weight.absmax", "q.weight.quant_map", '
        '"q.weight.quant_state.bitsandbytes__nf4". ',
    ),
    (
        "quantized-state-dict",
        f'{LOADING}Missing key(s) in state_dict: "q.weight". \n\tUnexpected key(s) in state_dict: '
        f'"q.qweight", "q.qzeros", '
        '"q.scales", "q.g_idx". ',
    ),
    ("quantized-state-dict", "KeyError: 'features.0._packed_params._packed_params'"),
    ("quantized-state-dict", "KeyError: 'module.0.scale'"),
    (
        "quantized-state-dict",
        f'{LOADING}While copying the parameter named "0.weight", whose dimensions in the model are '
        f"torch.Size([64, 64]) and "
        "whose dimensions in the checkpoint are torch.Size([64, 64]), an exception occurred : "
        "(\"'Tensor' object has no "
        "attribute 'qdata'\",).",
    ),
    (
        "inplace-api-returns-none",
        "Traceback (most recent call last):\n"
        '  File "run.py", line 9, in <module>\n    model = quantize_(model, Int8WeightOnlyConfig()); model(x)\n'
        "TypeError: 'NoneType' object is not callable",
    ),
    ("inplace-api-returns-none", "AttributeError: '_IncompatibleKeys' object has no attribute 'eval'"),
]


@pytest.mark.parametrize(("fault", "text"), LITERAL)
def test_a_text_of_another_version_or_library_is_known(fault, text):
    found = explain(text)
    assert found
    assert found[0]["fault"] == fault


SILENT = [
    "TypeError: 'NoneType' object is not callable",
    "AttributeError: 'NoneType' object has no attribute 'shape'",
    "AssertionError: prepare_qat only works on models in training mode",
    "AssertionError: did not find fuser method for: (<class 'torch.nn.modules.conv.Conv2d'>, <class 'x.Sigmoid'>) ",
    "RuntimeError: Didn't find engine for operation quantized::conv2d_prepack NoQEngine",
    f"NotImplementedError: Could not run 'quantized::conv2d_prepack' with arguments from the 'CPU' backend. {BACKEND}",
    f"NotImplementedError: Could not run 'aten::quantize_per_tensor' with arguments from the "
    f"'QuantizedCPU' backend. {BACKEND}",
    "NotImplementedError: Calling train() or eval() is not supported for exported models.",
    "DeprecationWarning: torch.ao.quantization is deprecated and will be removed in 2.10.",
    "UserWarning: Please use quant_min and quant_max to specify the range for observers.",
    "KeyError: 'scale'",
]


@pytest.mark.parametrize("text", SILENT)
def test_what_tells_of_no_known_fault_is_not_guessed(text):
    assert explain(text) == []


def test_the_assignment_is_found_in_the_file_that_a_traceback_names(tmp_path):
    script = tmp_path / "run.py"
    text = f"""Traceback (most recent call last):
  File "{script}", line 3, in <module>
    model(x)
TypeError: 'NoneType' object is not callable
"""
    script.write_text("import torchao\nmodel = quantize_(model, config)\nmodel(x)\n", encoding="utf-8")
    assert explain(text)[0]["fault"] == "inplace-api-returns-none"
    other = tmp_path / "other.py"
    other.write_text("model = quantize_(model, config)\nx = 1\ny = 2\n", encoding="utf-8")
    assert explain(text.replace(str(script), str(other))) == []


def test_a_value_that_is_none_for_another_reason_is_not_blamed():
    error = raised("import re\nfound = re.match('a', 'b')\nlines = []\nlines.append(1)\nprint(found.group())")
    assert "inplace-api-returns-none" not in {finding["fault"] for finding in explain(error)}


def test_a_function_that_returns_what_it_made_is_not_in_place():
    error = raised("y = torch.sort(torch.ones(3)).values\nz = None\nprint(y.sum() + z.item())")
    assert "inplace-api-returns-none" not in {finding["fault"] for finding in explain(error)}
