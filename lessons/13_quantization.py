# %% [markdown]
# # 13 Quantization
# A float32 weight takes four bytes. **Quantization** keeps one byte, a whole number, and one scale for many of them. The
# file becomes four times smaller, and a processor multiplies four times as many numbers in an instruction. The price is
# rounding. Most of its mistakes are silent: a layer that stayed in float, a range that was never seen, a class that died.
#
# **Goals.** You can choose scale and zero point, and say what an outlier costs; fold BatchNorm; calibrate and convert a
# network; train with the rounding; list what was changed; and judge a variant by bytes, latency, accuracy and its worst
# class. **Prerequisites.** Lessons 03, 05 and 12. **Time.** About 150 minutes, two thirds of them for 8 exercises.
#
# **What it measures.** "int8 is 2-4 times faster", "dynamic: small loss, static: middle, QAT: least", "some classes fall
# much more than the mean". All on one thread of this processor. The saying "quantize_dynamic({Linear, Conv2d})" needs no clock.

# %%
import copy
import io
import math
import os
import tempfile
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course import begin, check, choose_device, claim, hint, pitfall, solution
from course.data.places import cache
from course.deployment import int8
from course.deployment.processor import int8_support
from course.deployment.small import trained_network
from course.deployment.variants import Judgement, Variant, judge
from course.environment.tools import compiler
from course.figures.number_line import draw_number_line
from course.training.compilation import without_cuda_notice

begin("13")

# %% tags=["parameters"]
device = "auto"  # "auto", "cpu", "cuda" or "mps": this lesson runs on the CPU, whatever there is
profile = "quick"  # "smoke" (two batches of training), "quick" or "full" (twice the epochs, ten times the timed calls)

# %%
choose_device(device)
torch.set_num_threads(1)
sizes = {"smoke": {"train": 128, "test": 128, "epochs": 1}, "quick": {}, "full": {"epochs": 12}}[profile]
turns = {"smoke": {1: 1, 64: 1}, "quick": {1: 20, 64: 8}, "full": {1: 200, 64: 80}}[profile]
can_compile, no_compiler = (True, None) if compiler().state == "ok" else (False, "no C++ compiler here")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache() / "inductor"))
torch._inductor.config.compile_threads = 1  # compile in this process, not in others that it starts
without_cuda_notice()
scratch = tempfile.TemporaryDirectory(prefix="lesson-13-")


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<78} {eval(expression, globals())!s}")


# %% [markdown]
# ## Codes, scale, zero point
# A **code** is a whole number of 8 bits. It stands for `(code - zero_point) * scale`. The **scale** is the step between
# two codes; the **zero point** is the code of the number 0.
# > **Predict.** The numbers from -1 to 3 are mapped to codes 0 to 255. Is 3 hit exactly? Is 0?

# %%
scale, zero_point = 4 / 255, round(1 / (4 / 255))
x = torch.tensor([-1.0, 0.0, 0.5, 3.0, 9.0])
codes = (torch.round(x / scale) + zero_point).clamp(0, 255).to(torch.uint8)
values = (codes.int() - zero_point) * scale
show("zero_point", "codes.tolist()", "(values == x).tolist()", "((values - x).abs() <= scale / 2).tolist()")
fake = torch.fake_quantize_per_tensor_affine(x, scale, zero_point, 0, 255)
claim("torch's own fake quantization gives these values", torch.allclose(fake, values), equals=True)
claim("bytes of a thousand weights, float32 and int8", [4 * 1000, 1 * 1000], equals=[4000, 1000])

# %% [markdown]
# **Explain.** 0 is exact, because the zero point is a whole number, and that moves the grid by a part of a step: no other
# number here is hit. It has to be so: padding, ReLU and dropout make zeros by the thousand. Inside of the range the error
# is at most half a step. 9 lies outside and is **clipped** to the last code.
#
# With zero point 0 and codes -127 to 127 the mapping is **symmetric**. Weights use that: a product of two codes then needs
# no correction for their zero point. Activations use the affine mapping, since after a ReLU half of the range is empty.

# %%
# exercise: quantization.affine_parameters

# %%
# exercise: quantization.quantize_dequantize

# %% [markdown]
# ## Clipping against rounding
# > **Predict.** Fifteen numbers, one of them far out, and 16 codes. Which range spends its codes best?

# %%
numbers = [-0.95, -0.8, -0.55, -0.4, -0.3, -0.1, 0.05, 0.2, 0.35, 0.5, 0.6, 0.8, 1.1, 1.3, 6.0]
draw_number_line(numbers, {"minimum to maximum": (-1.0, 6.0), "clipped": (-1.0, 1.4), "too narrow": (-0.4, 0.4)})

# %% [markdown]
# **Explain.** A wide range clips nothing and has a coarse step for everyone; a narrow one is fine inside and wrong outside.
# The range from minimum to maximum is decided by the two most unusual numbers of all. With 256 codes it takes more:
# > **Predict.** 2001 numbers from -1 to 1, and one that is 100. How many codes do the 2001 use?


# %%
def codes_used(x: Tensor, low: float, high: float) -> int:
    """How many of 256 codes from low to high the numbers of x use."""
    step = (high - low) / 255
    return torch.fake_quantize_per_tensor_affine(x, step, round(-low / step), 0, 255).unique().numel()


usual = torch.linspace(-1, 1, 2001)
seen = torch.cat([usual, torch.tensor([100.0])])
with pitfall("quantization-outlier") as p:
    p.shows(seen=f"{codes_used(usual, -1.0, 100.0)} of 256 codes", wanted="256 of 256 codes")
low, high = seen.quantile(0.001).item(), seen.quantile(0.999).item()
claim("codes used in the range without a thousandth at each end", codes_used(usual, low, high) > 250, equals=True)

# %%
# exercise: quantization.clipped_range

# %% [markdown]
# ## Per tensor or per channel
# A weight has many output channels, and their sizes differ, most of all once BatchNorm is folded into them.
# > **Predict.** Two rows, one with weights of 10, one with weights of 0.03, one scale. What is left of the second row?

# %%
weight = torch.tensor([[10.0, -10.0], [0.03, -0.02]])
one_scale = torch.fake_quantize_per_tensor_affine(weight, 10 / 127, 0, -127, 127)
with pitfall("quantization-per-tensor-weights") as p:
    p.shows(seen=one_scale[1], wanted=weight[1])
scales = weight.abs().amax(dim=1) / 127
a_scale_each = torch.fake_quantize_per_channel_affine(weight, scales, torch.zeros(2, dtype=torch.int32), 0, -127, 127)
claim(
    "with a scale each, within half a step of its row",
    ((a_scale_each - weight).abs().amax(dim=1) <= scales / 2).all().item(),
    equals=True,
)

# %% [markdown]
# **Explain.** One step is 10/127, larger than twice 0.03. The second class would never be predicted again. A scale for
# each output channel costs four bytes a channel and no time: it multiplies the finished sum. Activations keep one scale
# for the tensor, because theirs would have to be applied inside of the sum.

# %%
# exercise: quantization.per_channel

# %% [markdown]
# ## Eight bits overflow sixteen
# An 8-bit product needs 16 bits, and a sum of them more. x86 processors with **VNNI** or **AMX** sum in 32 bits. Older ones
# have `vpmaddubsw`: it multiplies unsigned with signed bytes, adds two neighbours, and **saturates** at 16 bits.
# > **Predict.** Which is the largest sum of two products, with 8-bit weights and with 7-bit weights? Which fits?


# %%
def vpmaddubsw(a: Tensor, w: Tensor) -> Tensor:
    """Sums of neighbouring products of uint8 codes and int8 weights, saturated to 16 bits as that instruction does."""
    pairs = (a.int() * w.int()).unflatten(-1, (-1, 2)).sum(-1)
    return pairs.clamp(-32768, 32767)


bright = torch.full((2,), 255, dtype=torch.uint8)
for bits, largest in (("8 bits", 127), ("7 bits", 64)):
    exact, kept = 2 * 255 * largest, vpmaddubsw(bright, torch.full((2,), largest, dtype=torch.int8)).item()
    print(f"weights of {bits}: {exact} is kept as {kept}")
generator = torch.Generator().manual_seed(0)
a = torch.randint(0, 256, (1000, 64), generator=generator, dtype=torch.uint8)
for bits, largest in ((8, 127), (7, 63)):
    w = torch.randint(-largest, largest + 1, (64,), generator=generator, dtype=torch.int8)
    off = (vpmaddubsw(a, w).sum(1) != (a.int() * w.int()).sum(1)).sum().item()
    print(f"{bits}-bit weights: {off} of 1000 sums of 64 products are wrong")
    claim(f"{bits}-bit weights: sums that are wrong", off > 0, equals=bits == 8)

# %% [markdown]
# **Explain.** A saturated sum is not a rounding error: thousands are missing, and nothing says so. With weights of 7 bits
# nothing can overflow, at the price of steps twice as wide. That is `reduce_range=True`. torch tells AVX2 from AVX-512, not
# whether there is VNNI; `int8_support` reads the processor's flags, and everything below follows it.

# %% tags=["measured"]
support = int8_support()
print(support, f"reduce_range={support.reduce_range}", sep="\n")

# %% [markdown]
# ## Fold BatchNorm first
# The network: five convolutions with BatchNorm and ReLU, one linear layer, trained once and kept in the course's cache. It
# is judged as it is, in eager mode: that is what "times as fast" refers to below.

# %% tags=["measured"]
shipment = trained_network(**sizes)
network = shipment.network
count = 128 if profile == "smoke" else 960
images, targets = shipment.normalised(shipment.test.images[:count]), shipment.test.targets[:count]
calibration = shipment.normalised(shipment.train.images[:256])
base = int8.eager_float(network)


def table(*variants: Variant) -> Judgement:
    """The variants beside eager float: layers changed, bytes, latency, accuracy, agreement and the worst class."""
    return judge([base, *variants], images, targets, shipment.classes, calls=turns)


table()

# %% [markdown]
# In evaluation mode BatchNorm is one multiplication and one addition for each channel, with constants. A convolution can do
# both: its weights times one factor a channel, its bias shifted. In training mode there is nothing constant to fold.

# %%
with pitfall("fuse-in-train-mode", AssertionError), warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch.ao.quantization is deprecated, and says so
    torch.ao.quantization.fuse_modules(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), [["0", "1"]])
pair = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
folded_pair = nn.utils.fuse_conv_bn_eval(pair[0], pair[1])
probe = torch.linspace(-1, 1, 64).view(1, 1, 8, 8)
claim(
    "folded, in evaluation mode: the same within 1e-5",
    torch.allclose(folded_pair(probe), pair(probe), atol=1e-5),
    equals=True,
)

# %% [markdown]
# > **Predict.** The whole network folded: faster by how much, at batch 1 and at batch 64? Does any prediction change?

# %% tags=["measured"]
folded = int8.fold_batch_norm(network)
folded_float = int8.folded_float(network)
table(folded_float)

# %% [markdown]
# **Explain.** A pass over memory less for each norm; predictions stay. Quantization needs it too: otherwise each BatchNorm
# would be a float island, with a conversion before it and one behind.

# %%
# exercise: quantization.fold_batch_norm

# %% [markdown]
# ## Static: calibrate, then convert
# **Static** quantization fixes the ranges of the activations in advance. The path of torch is PT2E, from torchao: export
# the network, let a **quantizer** mark what gets which codes, run data through the **observers**, convert. The quantizer
# for x86 takes symmetric int8 weights with a scale for each channel, and affine uint8 activations.

# %%
with int8.quiet():  # some warnings and log lines of torchao to itself
    from torchao.quantization import pt2e
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e


def convert(batches: list[Tensor]) -> nn.Module:
    """The folded network, calibrated with these batches and converted; it still computes in float."""
    with int8.quiet(), torch.no_grad():
        prepared = prepare_pt2e(int8.exported(folded), int8.x86_quantizer())
        for batch in batches:
            prepared(batch)
        converted = convert_pt2e(prepared)
        pt2e.move_exported_model_to_eval(converted)
        return converted


static = convert(list(calibration.split(64)))
claim("layers that read 8-bit inputs and weights", int8.int8_layers(static), equals=("0", "4", "7", "11", "14", "20"))

# %% [markdown]
# Calibration is not training: it needs no labels, and 256 images. It is easily forgotten.
# > **Predict.** `convert([])`: an error? Which predictions come out?


# %%
def scales_of(converted: nn.Module) -> list[float]:
    """The scales of the activations in a converted graph, in order."""
    marks = [n for n in converted.graph.nodes if str(n.target).startswith("quantized_decomposed.quantize_per_tensor")]
    return [float(getattr(converted, n.args[1].target) if hasattr(n.args[1], "target") else n.args[1]) for n in marks]


blind = convert([])
with pitfall("quantization-uncalibrated") as p:
    p.shows(seen=f"scales that are 1: {sum(s == 1 for s in scales_of(blind))}", wanted="scales that are 1: 0")
claim("after calibration, scales that are 1", sum(s == 1 for s in scales_of(static)), equals=0)

# %% tags=["measured"]
with torch.no_grad():
    predicted = {name: graph(images).argmax(dim=1) for name, graph in (("calibrated", static), ("blind", blind))}
for name, classes in predicted.items():
    print(f"{name}: {(classes == targets).double().mean():.1%} right, {len(classes.unique())} different answers")

# %% [markdown]
# **Explain.** No error; a warning, which `int8.quiet` hid as a busy log would. An observer that saw nothing gives the scale 1:
# each activation is rounded to a whole number. Look at the scales, and at the accuracy, before anything is shipped.
#
# The converted graph computes in float what int8 would give: it tells the accuracy, and is slower than the original.
# Speed comes when **inductor** compiles it and replaces the patterns by int8 kernels. Its weights have to be **frozen** for
# that: constants, packed once. Every shape is compiled at its first call.
# > **Predict.** How many times as fast is it at batch 64? At batch 1? How many times smaller is the file?

# %% tags=["measured"]
compiled_static = int8.compiled(static, name="PT2E static") if can_compile else None
if compiled_static is None:
    print(f"not compiled: {no_compiler}")
pt2e_variants = (
    [compiled_static]
    if compiled_static
    else [Variant("PT2E static, not compiled", static, int8.graph_bytes(static), int8.int8_layers(static))]
)
table(*pt2e_variants)

# %% [markdown]
# **Explain.** At batch 64 the arithmetic decides, and int8 wins. At batch 1 each call has fixed costs, guards of
# torch.compile and the set-up of each kernel, and there is little arithmetic to save. What is the same kernel can win in one
# service and lose in another: measure with the batch size of yours.

# %%
# exercise: quantization.static_linear

# %% [markdown]
# ## Train with the rounding
# **QAT**, quantization-aware training, puts fake quantization behind each tensor and trains on. The gradient passes straight
# through the rounding. Fold BatchNorm first: prepared with it, conversion takes most of a minute.

# %% tags=["measured"]
trainable = copy.deepcopy(folded).requires_grad_(True).train()
with int8.quiet():
    in_training = prepare_qat_pt2e(int8.exported(trainable), int8.x86_quantizer(qat=True))
    pt2e.move_exported_model_to_train(in_training)
    optimizer = torch.optim.SGD(in_training.parameters(), lr=1e-4, momentum=0.9)
    order = torch.randperm(len(shipment.train), generator=torch.Generator().manual_seed(0))
    for chosen in order.split(64)[: 2 if profile == "smoke" else 24]:
        optimizer.zero_grad()
        batch = shipment.normalised(shipment.train.images[chosen])
        F.cross_entropy(in_training(batch), shipment.train.targets[chosen]).backward()
        optimizer.step()
    pt2e.move_exported_model_to_eval(in_training)
    aware = convert_pt2e(in_training)
    pt2e.move_exported_model_to_eval(aware)
qat = (
    int8.compiled(aware, name="PT2E QAT")
    if can_compile
    else Variant("PT2E QAT, not compiled", aware, int8.graph_bytes(aware), int8.int8_layers(aware))
)
table(*pt2e_variants, qat)

# %% [markdown]
# **Explain.** Same kernels, same bytes, other weights. Where static quantization loses little, there is little for QAT to
# win back. It is for four bits, for networks of few channels, and for tasks where a point counts.

# %%
# exercise: quantization.fake_quantize

# %% [markdown]
# ## quantize_ of torchao: in place, Linear only
# `quantize_` replaces weights inside of a model: int8 weights alone, or with activations quantized as they come
# (**dynamic**: the range of each batch is measured on the spot, so there is nothing to calibrate).

# %%
with int8.quiet():
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_


def changed_by_quantize(model: nn.Module) -> tuple[str, ...]:
    """Names of the layers whose weight is no plain tensor any more."""
    layers = [
        (name, layer) for name, layer in model.named_modules() if isinstance(getattr(layer, "weight", None), Tensor)
    ]
    return tuple(
        name for name, layer in layers if "Int8" in type(layer.weight).__name__ + type(layer.weight.data).__name__
    )


with pitfall("inplace-api-returns-none", TypeError):
    lost = quantize_(copy.deepcopy(network), Int8WeightOnlyConfig())
    lost(images[:1])
dynamic = copy.deepcopy(network)
quantize_(dynamic, Int8DynamicActivationInt8WeightConfig())
claim("layers of six that quantize_ changed", changed_by_quantize(dynamic), equals=("20",))


# %% [markdown]
# > **Predict.** How much smaller is this network's file? And a network of Linear layers, 512 - 2048 - 512?


# %%
def file_bytes(model: nn.Module) -> int:
    """Bytes of the file that torch.save writes of the state dict."""
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return file.tell()


wide = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).eval()
wide_int8 = copy.deepcopy(wide)
quantize_(wide_int8, Int8WeightOnlyConfig())
claim(
    "Linear network: about four times smaller",
    round(file_bytes(wide) / file_bytes(wide_int8), 1) in (3.8, 3.9, 4.0),
    equals=True,
)
claim("convolutions: not a tenth smaller", file_bytes(dynamic) > 0.9 * file_bytes(network), equals=True)

# %% tags=["measured"]
dynamic_variant = Variant("torchao dynamic", dynamic, file_bytes(dynamic), changed_by_quantize(dynamic))
table(dynamic_variant)

# %% [markdown]
# **Explain.** `Linear` is the default, and here one small layer of it. The file stays, and dynamic ranges in eager mode cost
# more time than the smaller product saves: with few parameters of Linear there is nothing to win. Large language models are
# nearly all Linear and limited by memory; for them this is the tool.
#
# ## ONNX Runtime
# The exported file of lesson 12, quantized statically: pre-process (shapes, fusions), calibrate, and QDQ pairs around each
# operator. Activations as unsigned bytes are faster here than as signed ones, and weights get a scale for each channel.

# %% tags=["measured"]
onnx_float = int8.onnx_float(network, scratch.name)
onnx_int8 = int8.onnx_int8(network, calibration, scratch.name)
other = not support.reduce_range
onnx_other = int8.onnx_int8(
    network, calibration, scratch.name, reduce_range=other, name=f"ONNX int8, reduce_range={other}"
)
onnx_one_scale = int8.onnx_int8(network, calibration, scratch.name, per_channel=False, name="ONNX int8, one scale")
table(onnx_float, onnx_int8, onnx_other, onnx_one_scale)

# %% [markdown]
# **Explain.** ONNX Runtime has the smallest fixed cost of a call, so it leads at batch 1, in float already. Compare the
# line with the other `reduce_range`: with VNNI or AMX, 7 bits give a little accuracy away; without, 8 bits saturate and the
# loss is larger. The line with one scale for each weight shows what unequal channels cost.
#
# ## The eager API, as history
# `torch.ao.quantization` is deprecated, and many pages still teach it. You will meet it in old code.
# > **Predict.** `quantize_dynamic(model, {nn.Linear, nn.Conv2d})`: which layers does it change?

# %%
old = torch.ao.quantization
mixed = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2)).eval()
asked = int8.deprecated(lambda: old.quantize_dynamic(mixed, {nn.Linear, nn.Conv2d}, dtype=torch.qint8))
with pitfall("quantization-skips-layer") as p:
    p.shows(seen=f"Conv2d is now a {type(asked[0]).__module__}.Conv2d", wanted="Conv2d is now a quantized Conv2d")
claim(
    "Conv2d after quantize_dynamic({Linear, Conv2d})",
    type(asked[0]) is nn.Conv2d,
    stated="unchanged: True",
    equals=True,
)
claim("Linear after it is another class", type(asked[2]) is not nn.Linear, equals=True)

# %% [markdown]
# Static quantization in the eager API needs the model rewritten: stubs at both ends, and a module for each operation.


# %%
def eager_static(model: nn.Module, example: Tensor) -> nn.Module:
    """Prepare, calibrate and convert in the eager API."""
    model.eval().qconfig = old.get_default_qconfig("x86")
    prepared = old.prepare(model)
    prepared(example)
    return old.convert(prepared)


class Residual(nn.Module):
    def __init__(self, module_for_add: bool) -> None:
        super().__init__()
        self.enter, self.layer, self.leave = old.QuantStub(), nn.Linear(4, 4), old.DeQuantStub()
        self.add = torch.ao.nn.quantized.FloatFunctional() if module_for_add else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        y = self.layer(x)
        return self.leave(self.add.add(y, x) if self.add is not None else y + x)


if "x86" in torch.backends.quantized.supported_engines:
    torch.backends.quantized.engine = "x86"
rows = torch.linspace(-1, 1, 32).view(8, 4)
with pitfall("quantization-missing-stub", NotImplementedError):
    int8.deprecated(lambda: eager_static(nn.Sequential(nn.Linear(4, 2)), rows)(rows))
with pitfall("quantization-functional-op", NotImplementedError):
    int8.deprecated(lambda: eager_static(Residual(module_for_add=False), rows)(rows))
wrapped = int8.deprecated(lambda: eager_static(old.QuantWrapper(nn.Sequential(nn.Linear(4, 2))), rows))
residual = int8.deprecated(lambda: eager_static(Residual(module_for_add=True), rows))
claim("mended, both run", [tuple(model(rows).shape) for model in (wrapped, residual)], equals=[(8, 2), (8, 4)])

# %% [markdown]
# > **Predict.** The state dict of the converted layer, loaded into a float one: which entries are missing?

# %%
with pitfall("quantized-state-dict", RuntimeError):
    nn.Linear(4, 2).load_state_dict(int8.deprecated(wrapped.module[0].state_dict))
untouched = nn.Linear(4, 2)
report = untouched.load_state_dict(int8.deprecated(wrapped.module[0].state_dict), strict=False)
claim("strict=False loads nothing", report.missing_keys, equals=["weight", "bias"])
again = int8.deprecated(lambda: eager_static(old.QuantWrapper(nn.Sequential(nn.Linear(4, 2))), rows))
int8.deprecated(lambda: again.load_state_dict(wrapped.state_dict()))
claim("built, prepared and converted alike, it loads", torch.equal(again(rows), wrapped(rows)), equals=True)

# %% [markdown]
# **Explain.** It left the convolutions in float, and said nothing: for `Conv2d` it has no dynamic recipe. Names of layers
# and their types are the first thing to look at, in every API: `changed` in the table above counts them.
#
# ## All of them, class by class
# > **Predict.** Which variant would you ship for single images, which for batches of 64? Which class pays?

# %% tags=["measured"]
everything = table(folded_float, onnx_float, onnx_int8, *pt2e_variants, qat, dynamic_variant, onnx_one_scale)
everything

# %% [markdown]
# The sayings, as measured claims. On one thread, against eager float with its BatchNorm unfolded.

# %% tags=["measured"]
reason = {"reason": no_compiler}
pt2e_name = pt2e_variants[0].name
statics = [onnx_int8.name, *([pt2e_name] if can_compile else [])]
kept = [name for name in statics if everything.points_lost(name) <= 0.5] or statics
best_64 = max(kept, key=lambda name: everything.speedup(name, 64))
names = [result.name for result in everything.results[1:]]
best_1 = max(names, key=lambda name: everything.speedup(name, 1))
saying = "int8 is 2-4 times faster"
claim(f"batch 64, {best_64}", everything.speedup(best_64, 64), stated=saying, low=2, high=4, unit="x")
claim("batch 64: at least twice as fast, static int8", everything.speedup(best_64, 64), low=2, unit="x")
claim("points lost by it", everything.points_lost(best_64), high=0.5, unit="points")
claim(f"batch 1, ONNX Runtime int8: {saying}", everything.speedup(onnx_int8.name, 1), low=2, high=4, unit="x")
claim("batch 1, best variant: at least three times as fast", everything.speedup(best_1, 1), low=3, unit="x")
lost = {name: everything.points_lost(name) for name in (dynamic_variant.name, pt2e_name, qat.name)}
print("best at batch 1:", best_1, "| points lost:", {name: round(points, 2) for name, points in lost.items()})
least = lost[qat.name] - lost[pt2e_name]
claim(
    "QAT loses less than static: difference",
    least,
    stated="dynamic: small loss, static: middle, QAT: least",
    high=0,
    unit="points",
)
claim("static loses more than dynamic: difference", lost[pt2e_name] - lost[dynamic_variant.name], low=0, unit="points")
worst, points = everything.worst_class(onnx_one_scale.name)
mean = everything.points_lost(onnx_one_scale.name)
claim(
    "one scale: loss of the worst class beyond the mean",
    points - mean,
    stated="some classes fall much more than the mean",
    low=2,
    unit="points",
)
scratch.cleanup()

# %% [markdown]
# **Explain.** The table decides, not the saying: what is fastest depends on the batch size and on the processor. The order
# of losses compares unlike things: "dynamic" quantized one layer of six, so it had little to lose. A loss of a few tenths
# of a point is a handful of images of 960. A class has about 96 of them, so one image is a point of it: a worst class that
# lost two is noise, and one that lost ten is not. Judge it on more images before you ship.

# %%
# exercise: quantization.class_report

# %% [markdown]
# ## From symptom to understanding
# | what you see | fault | why | fix |
# | --- | --- | --- | --- |
# | file and time hardly change | quantization-skips-layer | no recipe for this layer type | list the types; static for Conv2d |
# | always the same class | quantization-uncalibrated | scales of 1 | run calibration data before convert |
# | accuracy collapses, with good data | quantization-outlier | the range ends at one number | percentile, histogram |
# | one class is never predicted | quantization-per-tensor-weights | one scale for all channels | a scale for each |
# | accuracy falls on one machine only | | 16-bit sums saturate | `reduce_range` without VNNI |
# | "Could not run 'quantized::...'" | quantization-missing-stub | float into a quantized layer | `QuantWrapper`, or PT2E |
# | "Could not run 'aten::add.out'" | quantization-functional-op | no scale for the sum | `FloatFunctional`, or PT2E |
# | "Fusion only for eval!" | fuse-in-train-mode | nothing constant to fold | `model.eval()` |
# | missing weight, bias; unexpected scale | quantized-state-dict | other entries | ship an artefact, keep the float file |
# | "'NoneType' object is not callable" | inplace-api-returns-none | `quantize_` works in place | do not assign its result |
#
# ## A table to keep
# | way | changes | needs | use it for |
# | --- | --- | --- | --- |
# | fold BatchNorm | convolutions with a norm behind | `eval()` | always, and first |
# | PT2E static, compiled | convolutions and Linear | 256 images, torchao, a C++ compiler | batches on x86, inside of Python |
# | PT2E QAT | the same | labels, some epochs | when static loses too much |
# | ONNX Runtime static QDQ | the same | 256 images, onnxruntime | single images, no torch in the service |
# | `quantize_` | Linear | nothing, or calibration for none | networks of Linear layers, size |
# | `torch.ao.quantization` | what has a recipe | stubs, modules for operations | reading old code |
#
# **Read on:** [PT2E quantization](https://docs.pytorch.org/ao/stable/pt2e_quantization/index.html), [torchao's quantize_](https://docs.pytorch.org/ao/stable/api_reference/generated/torchao.quantization.quantize_.html),
# [ONNX Runtime quantization](https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html), [fake_quantize_per_tensor_affine](https://docs.pytorch.org/docs/stable/generated/torch.fake_quantize_per_tensor_affine.html).
