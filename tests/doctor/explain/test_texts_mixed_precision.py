"""Texts of the topic mixed precision, real ones and those of other versions and devices."""

from __future__ import annotations

import pytest
from support.raised import raised, warned

from course.doctor.explain import explain

SETUP = """
w = nn.Parameter(torch.ones(1)); o = torch.optim.SGD([w], lr=0.1); s = torch.amp.GradScaler("cpu")
half = torch.ones(2, 3, dtype=torch.float16)
"""
FUNCTION = """
class Mul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return {forward}
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return {backward}
x = torch.ones({x}, requires_grad=True); w = torch.ones({w}, requires_grad=True)
with torch.autocast("cpu"):
    y = Mul.apply(x, w)
y.sum().backward()
"""


def function(forward: str, backward: str, x: str, w: str) -> str:
    return FUNCTION.format(forward=forward, backward=backward, x=x, w=w)


REAL = [
    ("unscale-twice", "s.scale(w.sum()).backward(); s.unscale_(o); s.unscale_(o)", "divides"),
    (
        "unscale-twice",
        "for _ in range(2):\n    s.scale(w.sum()).backward(); s.unscale_(o); nn.utils.clip_grad_norm_([w], 1.0)",
        "micro-batch",
    ),
    ("scaler-update-missing", "for _ in range(2):\n    s.scale(w.sum()).backward(); s.step(o)", "update()"),
    (
        "scaler-update-missing",
        "for _ in range(2):\n    s.scale(w.sum()).backward(); s.unscale_(o); s.step(o)",
        "the one before",
    ),
    ("step-missing", "s.scale(w.sum()).backward(); s.update()", "scaler.step(optimizer)"),
    ("gradient-underflow", "w.sum().backward(); s.step(o)", "scaler.scale(loss)"),
    ("graph-cut", "s.scale(torch.ones(1, requires_grad=True).sum()).backward(); s.step(o)", "had a gradient"),
    (
        "pure-half-adam",
        "m = nn.Linear(2, 1).half(); o = torch.optim.AdamW(m.parameters())\n"
        "s.scale(m(torch.ones(1, 2).half()).sum()).backward(); s.step(o)",
        "float32",
    ),
    ("half-overflow", "half.masked_fill(half > 0, -1e9)", "`-1e9`"),
    ("half-overflow", "half.fill_(70000.0)", "float16"),
    ("half-overflow", "torch.full((2,), 1e6, dtype=torch.float16)", "float16"),
    ("half-overflow", "half.clamp_(max=1e8)", "finfo"),
    ("half-overflow", "half.masked_fill_(half > 0, torch.finfo(torch.float32).min)", "finfo"),
    ("bfloat16-to-numpy", "half.bfloat16().numpy()", "float()"),
    ("bfloat16-to-numpy", "np.asarray(half.bfloat16())", "float()"),
    (
        "bfloat16-to-numpy",
        "with torch.autocast('cpu'): y = nn.Linear(3, 2)(half.float())\ny.detach().numpy()",
        "float()",
    ),
    ("custom-function-autocast", function("x @ w", "g @ w.t(), x.t() @ g", "2, 3", "3, 4"), "`backward`"),
    (
        "custom-function-autocast",
        function("torch.nn.functional.linear(x, w)", "torch.mm(g, w), torch.mm(g.t(), x)", "2, 3", "4, 3"),
        "`backward`",
    ),
    (
        "custom-function-autocast",
        function("torch.bmm(x, w)", "torch.bmm(g, w.mT), torch.bmm(x.mT, g)", "2, 3, 4", "2, 4, 5"),
        "`backward`",
    ),
    (
        "custom-function-autocast",
        function(
            "torch.nn.functional.conv2d(x, w)",
            "torch.nn.grad.conv2d_input(x.shape, w, g), torch.nn.grad.conv2d_weight(x, w.shape, g)",
            "1, 1, 4, 4",
            "1, 1, 3, 3",
        ),
        "`backward`",
    ),
    ("legacy-amp-api", "torch.autocast()", "device"),
]


@pytest.mark.parametrize(("fault", "code", "quoted"), REAL)
def test_a_real_error_is_explained_with_what_it_says(fault, code, quoted):
    found = explain(raised(SETUP + code))
    assert found
    assert found[0]["fault"] == fault
    assert quoted in found[0]["why"] + found[0]["fix"]


@pytest.mark.parametrize(
    "code",
    [
        "torch.cuda.amp.autocast()",
        "torch.cuda.amp.GradScaler()",
        "torch.cpu.amp.autocast()",
        "torch.cuda.amp.custom_fwd(lambda x: x)",
        "torch.cuda.amp.custom_bwd(lambda x: x)",
    ],
)
def test_an_old_name_warns(code):
    found = explain(warned(code)[0])
    assert found[0]["fault"] == "legacy-amp-api"


LITERAL = [
    (
        "half-overflow",
        "RuntimeError: value cannot be converted to type at::Half without overflow",
    ),
    (
        "half-overflow",
        "RuntimeError: value cannot be converted to type at::Half without overflow: -1e+30",
    ),
    (
        "half-overflow",
        "RuntimeError: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to "
        "autocast.\nMany models "
        "use a sigmoid layer right before the binary cross entropy layer.\nIn this case, combine the two layers using "
        "torch.nn.functional.binary_cross_entropy_with_logits\nor torch.nn.BCEWithLogitsLoss.",
    ),
    (
        "half-overflow",
        "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding. Try lowering the "
        "learning rate, using gradient clipping or increasing the batch size.",
    ),
    (
        "half-overflow",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
    ),
    ("unscale-twice", "RuntimeError: unscale_() has already been called on this optimizer since the last update()."),
    ("scaler-update-missing", "RuntimeError: step() has already been called since the last update()."),
    ("pure-half-adam", "ValueError: Attempting to unscale FP16 gradients."),
    (
        "pure-half-adam",
        "NotImplementedError: \"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'",
    ),
    ("bfloat16-to-numpy", "TypeError: Got unsupported ScalarType BFloat16"),
    ("bfloat16-to-numpy", "TypeError: data type 'bfloat16' not understood"),
    (
        "legacy-amp-api",
        "/a/train.py:12: FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. Please use "
        "`torch.amp.autocast('cuda', args...)` instead.\n  with torch.cuda.amp.autocast():",
    ),
    (
        "legacy-amp-api",
        "/a/train.py:9: FutureWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated. Please use "
        "`torch.amp.GradScaler('cuda', args...)` instead.",
    ),
    (
        "legacy-amp-api",
        "UserWarning: torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
    ),
    (
        "legacy-amp-api",
        "UserWarning: User provided device_type of 'cuda', but CUDA is not available. Disabling",
    ),
    ("legacy-amp-api", "AttributeError: module 'torch.amp' has no attribute 'GradScaler'"),
    ("legacy-amp-api", "ImportError: cannot import name 'GradScaler' from 'torch.amp' (/opt/torch/amp/__init__.py)"),
    ("legacy-amp-api", "TypeError: __init__() missing 1 required positional argument: 'device_type'"),
    ("legacy-amp-api", "RuntimeError: User specified an unsupported autocast device_type 'cuda:0'"),
    (
        "custom-function-autocast",
        "Traceback (most recent call last):\n"
        '  File "train.py", line 30, in <module>\n    loss.backward()\n'
        '  File "/opt/python3.12/site-packages/torch/_tensor.py", line 648, in backward\n    torch.autograd.backward(\n'
        '  File "/opt/python3.12/site-packages/torch/autograd/function.py", line 307, in apply\n'
        "    return user_fn(self, *args)\n"
        '  File "train.py", line 14, in backward\n    return g @ w.t(), x.t() @ g\n'
        "RuntimeError: expected mat1 and mat2 to have the same dtype, but got: c10::Half != float",
    ),
    (
        "custom-function-autocast",
        "Traceback (most recent call last):\n"
        '  File "train.py", line 30, in <module>\n    y = Mul.apply(x, w)\n'
        '  File "/opt/python3.12/site-packages/torch/autograd/function.py", line 574, in apply\n'
        "    return super().apply(*args, **kwargs)\n"
        '  File "train.py", line 9, in forward\n    return ext.matmul(x, w)\n'
        "RuntimeError: expected scalar type Float but found Half",
    ),
]


@pytest.mark.parametrize(("fault", "text"), LITERAL)
def test_a_text_of_another_version_or_device_is_known(fault, text):
    found = explain(text)
    assert found
    assert found[0]["fault"] == fault


SILENT = [
    "RuntimeError: \"LayerNormKernelImpl\" not implemented for 'Half'",
    "TypeError: Got unsupported ScalarType QUInt8",
    "/a/b.py:3: RuntimeWarning: overflow encountered in exp",
    "ValueError: Expected `device_type` of type `str`, got: `<class 'torch.device'>`",
    "UserWarning: In CPU autocast, but the target dtype is not supported. Disabling autocast.",
    "AttributeError: module 'torch.amp' has no attribute 'Scaler'",
    "INFO loss scale is 65536.0, using bfloat16 autocast on cuda:0",
    "TypeError: __init__() missing 1 required positional argument: 'lr'",
]


@pytest.mark.parametrize("text", SILENT)
def test_what_tells_of_no_known_fault_is_not_guessed(text):
    assert explain(text) == []


def test_an_integer_that_overflows_is_no_half():
    found = explain("RuntimeError: value cannot be converted to type int16_t without overflow")
    assert "half-overflow" not in {finding["fault"] for finding in found}


def test_mixed_dtypes_outside_of_a_function_are_not_blamed_on_one():
    error = raised(SETUP + "nn.Linear(3, 2)(half)")
    assert "custom-function-autocast" not in {finding["fault"] for finding in explain(error)}
