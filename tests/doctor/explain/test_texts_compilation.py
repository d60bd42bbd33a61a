"""Texts of the topic compile, real ones and those of other versions."""

from __future__ import annotations

import pytest
import torch
from support.raised import raised

from course.doctor.explain import explain


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


COMPILE = """
x = torch.ones(3)
def run(function, *inputs, **options):
    return torch.compile(function, backend="eager", fullgraph=True, **options)(*(inputs or (x,)))
"""

REAL = [
    ("data-dependent-branch", "def f(x):\n    if x.sum() > 0: return x\n    return -x\nrun(f)", ""),
    ("data-dependent-branch", "def f(x):\n    while x.sum() < 9: x = x * 2\n    return x\nrun(f)", ""),
    (
        "data-dependent-branch",
        "def f(x):\n    for _ in range(x.max().item()): x = x + 1\n    return x\nrun(f, x.long())",
        "item()",
    ),
    ("data-dependent-branch", "run(lambda x: x if x.max() > 0 and x.min() < 5 else -x)", ""),
    ("data-dependent-branch", "torch.fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)", ""),
    ("data-dependent-branch", "torch.vmap(lambda x: x if x > 0 else -x)(x)", "vmap"),
    (
        "data-dependent-branch",
        "class M(nn.Module):\n    def forward(self, x):\n        if x.sum() > 0: return x\n        return -x\n"
        "torch.export.export(M(), (x,))",
        "",
    ),
    ("graph-break", "def f(x):\n    print(x)\n    return x + 1\nrun(f)", "`print`"),
    ("graph-break", "def f(x):\n    breakpoint()\n    return x + 1\nrun(f)", "`breakpoint`"),
    ("graph-break", "def f(x):\n    torch._dynamo.graph_break()\n    return x + 1\nrun(f)", "graph_break"),
    ("graph-break", "@torch.compiler.disable\ndef g(x): return x\nrun(lambda x: g(x) + 1)", "`g`"),
    (
        "graph-break",
        "def f(x):\n    y = (x * x).sum(); y.backward()\n    return y\nrun(f, x.requires_grad_())",
        "`backward`",
    ),
    ("graph-break", "run(lambda x: sum(x.tolist()))", ""),
    (
        "recompiles",
        "c = torch.compile(lambda x: x + 1, backend='eager', dynamic=False)\n"
        "with torch._dynamo.config.patch(error_on_recompile=True):\n    c(torch.ones(3)); c(torch.ones(4))",
        "was 3 and now is 4",
    ),
    (
        "recompiles",
        "c = torch.compile(lambda x: x + 1, backend='eager', dynamic=False)\nc(torch.ones(3))\n"
        "with torch.compiler.set_stance('fail_on_recompile'): c(torch.ones(4))",
        "axis 0",
    ),
    (
        "recompiles",
        "c = torch.compile(lambda x, n: x * n, backend='eager', dynamic=False, fullgraph=True)\n"
        "for n in range(2, 14): c(x, float(n) if n % 2 else n)",
        "",
    ),
]


@pytest.mark.parametrize(("fault", "code", "quoted"), REAL)
def test_a_real_error_is_explained_with_what_it_says(fault, code, quoted):
    found = explain(raised(COMPILE + code))
    assert found
    assert found[0]["fault"] == fault
    assert quoted in found[0]["why"]


LITERAL = [
    ("data-dependent-branch", "torch._dynamo.exc.Unsupported: generic_jump TensorVariable()"),
    (
        "data-dependent-branch",
        "torch._dynamo.exc.UserError: Dynamic control flow is not supported at the moment. Please use "
        "functorch.experimental.control_flow.cond to explicitly capture the control flow. For more "
        "information about this "
        "error, see: https://pytorch.org/docs/main/generated/exportdb/index.html#cond-operands\n\nfrom user code:\n"
        '   File "model.py", line 8, in forward\n    if b.sum() < 0:',
    ),
    (
        "data-dependent-branch",
        "torch._dynamo.exc.UserError: Consider annotating your code using torch._constrain_as_*(). It "
        "appears that you're "
        "trying to get a value out of symbolic int/float whose value is data-dependent (and thus we do "
        "not know the true "
        "value.)  The expression we were trying to evaluate is Eq(u0, 1)",
    ),
    (
        "data-dependent-branch",
        "torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode: Could not guard on "
        "data-dependent expression "
        "u0 > 3 (unhinted: u0 > 3).  (Size-like symbols: none)",
    ),
    (
        "data-dependent-branch",
        "torch._subclasses.fake_tensor.DataDependentOutputException: aten._local_scalar_dense.default",
    ),
    (
        "data-dependent-branch",
        "torch._dynamo.exc.Unsupported: Data-dependent assertion failed (cannot compile partial graph)\n  Explanation: "
        "Dynamo has determined when encountering a data-dependent assert failure that it should not compile.",
    ),
    (
        "data-dependent-branch",
        "torch.fx.proxy.TraceError: symbolically traced variables cannot be used as inputs to control flow",
    ),
    (
        "graph-break",
        "torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print) [TensorVariable()] {}\n\nfrom user code:\n"
        '   File "model.py", line 4, in forward\n    print(x)',
    ),
    (
        "graph-break",
        "torch._dynamo.exc.Unsupported: 'inline in skipfiles: Pos.forward | decorate_context "
        "/opt/site-packages/torch/utils/_contextlib.py, skipped according trace_rules.lookup SKIP_DIRS'",
    ),
    (
        "graph-break",
        "torch._dynamo.exc.Unsupported: call_method UserDefinedObjectVariable(set_timesteps) __call__ [] {}",
    ),
    (
        "graph-break",
        "torch._dynamo.exc.Unsupported: Attempted to call function marked as skipped\n  Explanation: Dynamo developers "
        "have intentionally marked that the function `_call_with_frames_removed` should not be traced.",
    ),
    (
        "graph-break",
        "V1130 06:33:05.166000 7926 torch/_dynamo/symbolic_convert.py:5368] [0/0] [__graph_breaks] "
        "Graph break in user code "
        "at /a/run.py:8",
    ),
    ("graph-break", "torch._subclasses.fake_tensor.DynamicOutputShapeException: aten.nonzero.default"),
    (
        "data-dependent-branch",
        "  Hint: Use `torch.cond` to express dynamic control flow.\n\n  Developer debug context: "
        "attempted to jump with "
        "TensorVariable()\n\n For more details about this graph break, please visit: "
        "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html",
    ),
    (
        "recompiles",
        "W1029 21:16:44.769000 20836 torch/_dynamo/convert_frame.py:844] [1/8] torch._dynamo hit "
        "config.cache_size_limit (8)\n"
        "W1029 21:16:44.769000 20836 torch/_dynamo/convert_frame.py:844] [1/8]    function: 'forward' "
        "(/a/model.py:320)\n"
        "W1029 21:16:44.769000 20836 torch/_dynamo/convert_frame.py:844] [1/8]    last reason: 1/0: L['n'] == 31868",
    ),
    (
        "recompiles",
        "[2023-08-16 22:28:39,856] torch._dynamo.convert_frame: [WARNING] torch._dynamo hit "
        "config.cache_size_limit (64)\n"
        "   function: 'step' (/a/run.py:12)\n   reasons:  ___check_type_id(L['n'], 7640416)",
    ),
    ("recompiles", "torch._dynamo.exc.Unsupported: cache_size_limit reached"),
    (
        "recompiles",
        "torch._dynamo.exc.FailOnRecompileLimitHit: recompile_limit reached with fullgraph=True. "
        "Excessive recompilations "
        "can degrade performance due to the compilation overhead of each recompilation.",
    ),
    (
        "recompiles",
        "torch._dynamo.exc.RecompileError: Recompiling function step in /a/run.py:3\n    triggered by "
        "the following guard "
        "failure(s):\n    - 0/0: tensor 'L['x']' size mismatch at index 1. expected 128, actual 131",
    ),
    (
        "recompiles",
        "V0815 19:38:37.056000 8614 torch/_dynamo/guards.py:2813] [0/1] [__recompiles] Recompiling "
        "function f in /a/b.py:3",
    ),
    (
        "recompiles",
        "/opt/torch/_inductor/cudagraph_utils.py:312: UserWarning: CUDAGraph supports dynamic shapes by "
        "recording a new "
        "graph for each distinct input size. Recording too many CUDAGraphs may lead to extra overhead. "
        "We have observed 51 "
        "distinct sizes.",
    ),
    (
        "hook-after-compile",
        "/opt/torch/_dynamo/utils.py:1: UserWarning: nn.Module forward/_pre hooks are only partially "
        "supported, and were "
        "detected in your model. In particular, if you do not change/remove hooks after calling .compile(), you can "
        "disregard this warning",
    ),
]


@pytest.mark.parametrize(("fault", "text"), LITERAL)
def test_a_text_of_another_version_is_known(fault, text):
    found = explain(text)
    assert found
    assert found[0]["fault"] == fault


SILENT = [
    "torch._dynamo.exc.Unsupported: Observed exception\n  Explanation: Dynamo found no exception "
    "handler at the top-level "
    "compiled function when encountering an exception.\n  Developer debug context: raised exception ValueError('no')",
    "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in "
    "torch._inductor.config.cpp.cxx: (None, 'g++')",
    "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised: RuntimeError: Cannot find a working triton "
    "installation.",
    "torch._dynamo.exc.InternalTorchDynamoError: IndexError: tuple index out of range",
    "AssertionError: A callable function is expected, but <class 'NoneType'> is provided.",
    "I0815 torch/_dynamo/eval_frame.py:12] step 1: torchdynamo start tracing forward /a/b.py:3",
]


@pytest.mark.parametrize("text", SILENT)
def test_what_tells_of_no_known_fault_is_not_guessed(text):
    assert explain(text) == []


def test_an_error_of_the_code_itself_is_not_blamed_on_the_compiler():
    ours = {"graph-break", "recompiles", "data-dependent-branch", "method-not-compiled", "hook-after-compile"}
    found = explain(raised(COMPILE + "run(lambda x: x @ torch.ones(4, 4))"))
    assert not ours & {finding["fault"] for finding in found}
