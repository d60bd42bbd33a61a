# %% [markdown]
# # 08 Mixed precision
# Half the bits, half the memory, and on hardware that was built for it several times the speed. The price is paid in
# numbers that do not exist: too large, too small, or between two neighbours. This lesson shows where they are missing,
# what `autocast` and `GradScaler` do about it, and what they do not.
#
# **Goals.** You can read the bits of four formats and say what they cannot hold; predict the dtype of each operation
# under autocast; scale, unscale, clip and accumulate in order; and measure whether any of it pays on your machine.
# **Prerequisites.** Lessons 01, 02 and 05. **Time.** About 120 minutes, most of them for 11 exercises.
#
# **What it measures.** "AMP saves 30-40 % memory and is 40-80 % faster" and "float16 without a scaler does not
# converge". All of it runs on the CPU. Cells that need CUDA say so where there is none.

# %%
import math
import warnings
from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course import begin, check, choose_device, claim, compare_times, hint, pitfall, seed_everything, solution
from course.figures.number_formats import FORMATS, draw_bits, draw_scale, draw_spacing
from course.training.half import half_instructions, step_bytes, step_to_time, train_small
from course.training.networks import reference_network

begin("08")

# %% tags=["parameters"]
device = "auto"  # "auto", "cpu", "cuda" or "mps"
profile = "quick"  # "smoke" (two steps), "quick" or "full" (longer measurements, about two minutes more)

# %%
run_device = choose_device(device)
training_steps, rounds = {"smoke": (2, 2), "quick": (80, 3), "full": (400, 15)}[profile]
half, brain = torch.float16, torch.bfloat16


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<70} {eval(expression, globals())!s}")


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# %% [markdown]
# ## Bits: range and precision
# A floating number is a sign, an exponent and a mantissa: ± (1 + mantissa) · 2^exponent. Bits of exponent buy
# **range**, bits of mantissa buy **precision**.
# > **Predict.** float16 and bfloat16 both have 16 bits. Which of them reaches further, and which is more precise?

# %%
draw_bits()

# %% [markdown]
# **Explain.** bfloat16 is float32 without its last 16 bits: the range stays, and of seven decimal digits two or three
# are left. float16 takes three bits from the exponent for the mantissa: eight times as precise as bfloat16, and it ends
# at 65504. tf32 is no dtype. It is what tensor cores of NVIDIA GPUs make of float32 inputs, if you let them.

# %%
for each in FORMATS:
    print(f"{each.name:<9} largest {each.largest:<12.6g} smallest normal {each.smallest_normal:<12.3g}", end=" ")
    print(f"smallest {each.smallest:<10.3g} eps 2^-{each.mantissa}")
claim("largest float16", torch.finfo(half).max, equals=65504.0)
claim("bfloat16 and float32 begin at the same number", torch.finfo(brain).tiny, equals=torch.finfo(torch.float32).tiny)
upper = torch.tensor(math.pi).view(torch.int32) >> 16 << 16
claim("pi, cut to its upper 16 bits", upper.view(torch.float32).item(), equals=torch.tensor(math.pi).to(brain).item())

# %%
# exercise: precision.decode

# %% [markdown]
# ## Gaps between numbers
# From one power of two to the next there are equally many numbers, so the gap between neighbours doubles each time.
# > **Predict.** How large is the gap at 1 in bfloat16? At 300? From where on is it larger than 1?

# %%
draw_spacing()

# %% [markdown]
# What is less than half a gap is **absorbed**: the sum rounds back to where it was. Halfway, the number whose last bit
# is 0 wins.
# > **Predict** each of the five sums before you run the cell.

# %%
claim("1 + eps/2 in float32", (torch.tensor(1.0) + 2.0**-24).item(), equals=1.0)
claim("2048 + 1 in float16", (torch.tensor(2048.0, dtype=half) + 1).item(), equals=2048.0)
claim("2048 + 3 in float16", (torch.tensor(2048.0, dtype=half) + 3).item(), equals=2052.0)
claim("256 + 1 in bfloat16", (torch.tensor(256.0, dtype=brain) + 1).item(), equals=256.0)
claim("1 - 0.001 in bfloat16", (torch.tensor(1.0, dtype=brain) - 0.001).item(), equals=1.0)

# %% [markdown]
# **Explain.** In bfloat16 the gap is 1/128 at 1 and 2 at 300; from 256 on it is larger than 1. At 2048 the neighbours
# in float16 are 2 apart. The last line is a weight of 1 and a step of 0.001, as an optimizer makes it: the weight does
# not move. Hence the rule of this lesson: **what adds up, stays float32.** Counters, sums, running means, averaged
# weights, the weights themselves.

# %%
counter, average = torch.zeros((), dtype=brain), torch.ones((), dtype=brain)
for _ in range(1000):
    counter += 1
    average = 0.999 * average + 0.001 * 2.0
with pitfall("half-accumulator") as p:
    p.shows(seen=counter.item(), wanted=1000.0)
with pitfall("half-accumulator") as p:
    p.shows(seen=f"average {average.item():.2f}", wanted=f"average {2 - 0.999**1000:.2f}")
counter, average = torch.zeros(()), torch.ones(())
for _ in range(1000):
    counter += 1
    average = 0.999 * average + 0.001 * 2.0
show("counter", "f'{average:.2f}'", "torch.ones(1000, dtype=brain).sum(dtype=torch.float32)")

# %%
# exercise: precision.count_values

# %%
# exercise: precision.absorbed

# %%
# exercise: precision.moving_average

# %% [markdown]
# ## Overflow: the first infinity
# Beyond the largest number comes infinity, and soon after it nan.
# > **Predict.** A row of four activations of 300. Is the sum of its squares finite in float16? And 65504 + 15, 65504 +
# 16?

# %%
row = torch.full((4,), 300.0, dtype=half)
with pitfall("half-overflow") as p:
    p.shows(seen=row.square().sum().item(), wanted=360_000.0)
show("row.float().square().sum()", "row.to(brain).square().sum()", "row.square() - row.square()")
edge = torch.tensor(65504.0, dtype=half)
show("edge + 15", "edge + 16")

# %% [markdown]
# **Explain.** In float32 and bfloat16 the sum is finite; bfloat16 rounds it. The difference of two infinities is nan,
# and nan is what you meet, many operations later. So look for the **first** output that is not finite. And 65504 + 15
# rounds down to 65504: the last gap is 32, and less than half of it is absorbed.

# %%
# exercise: precision.find_overflow

# %% [markdown]
# ## What autocast chooses
# `torch.autocast(device_type, dtype)` decides for each operation. Three groups: those that **go down** to the lower
# dtype, those that **go up** to float32, and all the rest, which take what comes. Which is which depends on the device
# type.
# > **Predict.** A float32 matrix goes through matmul, relu, softmax, `sum` and `mse_loss` under bfloat16 autocast on
# the CPU.
# > What are the five dtypes? And if the matrix is bfloat16 already?

# %%
operations = {
    "x @ x": lambda x: x @ x,
    "F.linear(x, x)": lambda x: F.linear(x, x),
    "F.conv2d": lambda x: F.conv2d(x[None, None], x[None, None]),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "x + x": lambda x: x + x,
    "F.relu(x)": F.relu,
    "x.sum()": lambda x: x.sum(),
    "x.softmax(1)": lambda x: x.softmax(1),
    "x.logsumexp(1)": lambda x: x.logsumexp(1),
    "F.layer_norm": lambda x: F.layer_norm(x, (4,)),
    "F.mse_loss": lambda x: F.mse_loss(x, x),
    "F.cross_entropy": lambda x: F.cross_entropy(x, torch.arange(4, device=x.device)),
    "x.prod()": lambda x: x.prod(),
}


def result_dtypes(kind: str, lower: torch.dtype) -> None:
    """Print the dtype that each operation gives under autocast, for float32 and for lower inputs."""
    x = torch.rand(4, 4, device=kind)
    print(f"{'on ' + kind:<17} {'float32 in':<12} {name(lower)} in")
    with torch.autocast(kind, dtype=lower):
        for operation, call in operations.items():
            print(f"{operation:<17} {name(call(x).dtype):<12} {name(call(x.to(lower)).dtype)}")


result_dtypes("cpu", brain)
with torch.autocast("cpu", dtype=half):
    claim("matmul under float16 autocast", name((torch.ones(2, 2) @ torch.ones(2, 2)).dtype), equals="float16")

# %% [markdown]
# **Explain.** Matrix products, convolutions and attention go down: there lies the speed. Losses and `prod` go up. The
# rest takes what comes: on the CPU softmax, sums and normalisation stay bfloat16 after a bfloat16 layer. **On CUDA**,
# by its documented list, `exp`, `softmax`, `layer_norm` and sums go up to float32. "autocast keeps softmax in float32"
# is true there, and not here. In-place operations and calls with `out=` are never cast, and float64 stays float64.
# Mixed inputs give the wider dtype (lesson 01).

# %% tags=["measured"]
if run_device.type == "cuda":
    result_dtypes("cuda", half)
else:
    print("not run here: no CUDA device")

# %% [markdown]
# Autocast casts *inputs*, never parameters. The cast is an operation of the graph, so gradients come back in float32.
# Only the forward pass and the loss stand inside the block. `backward` runs each operation in the dtype of its forward
# pass.

# %%
layer = nn.Linear(8, 8)
with torch.autocast("cpu", dtype=brain):
    hidden = layer(torch.ones(4, 8))
    loss = F.mse_loss(hidden, torch.zeros(4, 8))
loss.backward()
show("hidden.dtype", "loss.dtype", "layer.weight.dtype", "layer.weight.grad.dtype")

# %%
# exercise: precision.op_dtypes

# %% [markdown]
# ## Switch it off where it hurts
# A block inside of the block switches autocast off: `torch.autocast(device_type, enabled=False)`. Off means that
# nothing is cast, not down and **not up** either: what comes in half stays half.
# > **Predict.** `scores = a @ b.T` of float32 embeddings, under float16 autocast. `a.float() @ b.float().T` is tried,
# then a block
# > that is switched off. Which dtype has each?

# %%
a, b = torch.full((2, 4), 200.0), torch.full((2, 4), 200.0)
with torch.autocast("cpu", dtype=half):
    with pitfall("half-overflow") as p:
        p.shows(seen=(a.float() @ b.float().T)[0, 0].item(), wanted=160_000.0)
    with torch.autocast("cpu", enabled=False):
        show("a @ b.T", "(a.half() @ b.half().T)[0, 0]", "(a.half().float() @ b.half().float().T)[0, 0]")

# %% [markdown]
# **Explain.** The cast up is in vain while autocast is on: `@` casts down again. Switched off, half inputs overflow as
# before. A loss that works for every caller does both: switch off, and cast up inside.

# %%
# exercise: precision.safe_loss

# %% [markdown]
# ## Operations of your own
# > **Predict.** An `autograd.Function` multiplies two float32 matrices and saves them. Under autocast, `forward` works.
# What does
# > `backward` get, and is autocast on in it?


# %%
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        print(f"backward: gradient {name(gradient.dtype)}, saved {name(w.dtype)}", end=", ")
        print(f"autocast {'on' if torch.is_autocast_enabled('cpu') else 'off'}")
        return gradient @ w.T, x.T @ gradient


x, w = torch.ones(2, 3, requires_grad=True), torch.ones(3, 2, requires_grad=True)
with torch.autocast("cpu", dtype=brain):
    y = Product.apply(x, w)
with pitfall("custom-function-autocast", RuntimeError):
    y.sum().backward()


class Mended(Product):
    forward = staticmethod(torch.amp.custom_fwd(Product.forward, device_type="cpu"))
    backward = staticmethod(torch.amp.custom_bwd(Product.backward, device_type="cpu"))


with torch.autocast("cpu", dtype=brain):
    y = Mended.apply(x, w)
y.sum().backward()
show("y.dtype", "x.grad.dtype", "x.grad")

# %% [markdown]
# **Explain.** `custom_bwd` gives backward the autocast state that `custom_fwd` noted. In a class of your own they are
# decorators, below `@staticmethod`. For an operation that needs float32, write `custom_fwd(...,
# cast_inputs=torch.float32)`: under autocast it casts the inputs up and runs with autocast off.

# %%
# exercise: precision.custom_linear

# %% [markdown]
# ## Why the loss is scaled
# A weight is float32, but the gradient passes through half activations on its way to it.
# > **Predict.** A loss whose gradient is 1e-8. What arrives through float16, through bfloat16, and through float16 if
# the loss is
# > multiplied by 65536?


# %%
def arriving(dtype: torch.dtype, scale: float = 1.0) -> float:
    """The gradient, unscaled, of a loss of slope 1e-8 behind an activation of this dtype."""
    activation = torch.ones((), dtype=dtype, requires_grad=True)
    (activation.float() * 1e-8 * scale).backward()
    return activation.grad.float().item() / scale


with pitfall("gradient-underflow") as p:
    p.shows(seen=arriving(half), wanted=1e-8)
for dtype, scale in ((half, 65536.0), (brain, 1.0)):
    print(f"{name(dtype):<9} scale {scale:<8g} {arriving(dtype, scale):.3g}")
claim("smallest positive float16", torch.tensor(2.0**-24).to(half).item(), equals=2.0**-24)
claim("half of it", torch.tensor(2.0**-25).to(half).item(), equals=0.0)
claim("bfloat16 keeps 1e-30 without a scaler", arriving(brain, 1e-22) > 0, equals=True)

# %% [markdown]
# **Explain.** Multiplying the loss multiplies every gradient, so they are large while they are float16. Once they are
# float32, they are divided. Nothing is lost but what overflows. bfloat16 has the exponents of float32: **it needs no
# scaler.**

# %%
# exercise: precision.lost_gradients

# %% [markdown]
# **Saying: "float16 without a scaler does not converge".**
# > **Predict.** A small network is trained four ways, with an ordinary loss. Then the same with the loss times 1e-6,
# and a learning
# > rate a million times larger: in exact arithmetic the same training. Which of the eight runs fail?


# %% tags=["measured"]
ways = {"float32": (None, False), "float16": (half, False), "float16, scaler": (half, True), "bfloat16": (brain, False)}
errors = {(way, size): train_small(*ways[way], size, training_steps) for size in (1.0, 1e-6) for way in ways}
for way in ways:
    print(f"{way:<16} loss as it is {errors[way, 1.0]:.5f}    loss times 1e-6 {errors[way, 1e-6]:.5f}")
too_short = "two steps are no training" if profile == "smoke" else None
for size, about in ((1.0, "an ordinary loss"), (1e-6, "a loss of 1e-6")):
    ratio = None if too_short else errors["float16", size] / errors["float16, scaler", size]
    claim(f"error without a scaler, {about}", ratio, stated="does not converge", low=3.0, unit="x", reason=too_short)

# %% [markdown]
# **Explain.** With an ordinary loss all four come to about the same error: the saying does not hold. With gradients a
# million times smaller, float16 alone learns next to nothing, and the scaler mends it. Which of the two you have, you
# do not know beforehand, and it changes as the loss falls: hence the scaler. For `enabled=False` it does nothing, so
# one loop serves all four.
#
# ## Keep the weights in float32
# `model.half()` looks like a simpler way. Then gradients and the optimizer's state are half, too.
# > **Predict.** Adam, lr 0.001, makes one step with three float16 weights of 1. Their gradients are 0, 1e-5 and 1. What
# do they
# > become? And in bfloat16?


# %%
def after_adam(dtype: torch.dtype) -> Tensor:
    """Three weights of 1 after one step of Adam with the gradients 0, 1e-5 and 1."""
    weights = nn.Parameter(torch.ones(3, dtype=dtype))
    weights.grad = torch.tensor([0.0, 1e-5, 1.0], dtype=dtype)
    torch.optim.Adam([weights], lr=1e-3).step()
    return weights.detach().float()


with pitfall("pure-half-adam") as p:
    p.shows(seen=after_adam(half).tolist()[:2], wanted=[1.0, round(after_adam(torch.float32)[1].item(), 3)])
with pitfall("pure-half-adam") as p:
    p.shows(seen=after_adam(brain).tolist()[2], wanted=round(after_adam(torch.float32)[2].item(), 3))
weights = nn.Parameter(torch.ones(3, dtype=half))
scaler, adam = torch.amp.GradScaler("cpu"), torch.optim.Adam([weights], lr=1e-3)
scaler.scale(weights.float().sum() * 1e-5).backward()
with pitfall("pure-half-adam", ValueError):
    scaler.unscale_(adam)
show("after_adam(torch.float32)")

# %% [markdown]
# **Explain.** In float16 `eps=1e-8` is 0 and so is the square of a small gradient: 0/0 and x/0. In bfloat16 the step of
# 0.001 is absorbed. And the scaler refuses float16 gradients: there is no float32 in which to divide them. Autocast
# keeps weights, gradients and moments in float32. That costs memory: "half the bits" holds for activations, not for the
# optimizer.
#
# ## One step with a scaler, in order
# **zero_grad; forward and loss under autocast; scale; backward; unscale_; clip; step; update.** Without a clip,
# `unscale_` may be left out: `step` does it. With accumulation, the first half runs for each micro-batch, `unscale_`
# and what follows **once**.
# > **Predict.** A gradient of 4 is clipped at 1, and a step of 1.0 is made. How far does the weight move if the clip
# stands before
# > `unscale_`, at scale 1024? Then two errors: what is wrong with each loop?


# %%
def parts(scale: float = 1024.0) -> tuple[nn.Parameter, torch.optim.Optimizer, torch.amp.GradScaler]:
    """A weight of 1, SGD with a rate of 1, and a scaler."""
    weight = nn.Parameter(torch.ones(1))
    return weight, torch.optim.SGD([weight], lr=1.0), torch.amp.GradScaler("cpu", init_scale=scale)


def clipped_step(unscale_first: bool) -> float:
    """How far a clipped step moves the weight."""
    weight, optimizer, scaler = parts()
    scaler.scale(4 * weight.sum()).backward()
    if unscale_first:
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_([weight], 1.0)
    scaler.step(optimizer)
    scaler.update()
    return round(1 - weight.item(), 4)


with pitfall("clip-before-unscale") as p:
    p.shows(seen=clipped_step(unscale_first=False), wanted=clipped_step(unscale_first=True))
weight, optimizer, scaler = parts()
with pitfall("unscale-twice", RuntimeError):
    for _ in range(2):  # micro-batches
        scaler.scale(weight.sum() / 2).backward()
        scaler.unscale_(optimizer)
weight, optimizer, scaler = parts()
with pitfall("scaler-update-missing", RuntimeError):
    for _ in range(2):  # steps
        optimizer.zero_grad()
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)

# %%
weight, optimizer, scaler = parts()
for _ in range(2):  # two steps of two micro-batches each
    optimizer.zero_grad()
    for _ in range(2):
        scaler.scale(4 * weight.sum() / 2).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_([weight], 1.0)
    scaler.step(optimizer)
    scaler.update()
    print(f"true norm {norm.item():g}, weight {weight.item():.4f}, scale {scaler.get_scale():g}")

# %% [markdown]
# How large is the scale? As large as it can be. If a gradient overflows, `step` leaves the step out, and `update`
# halves the scale (**back-off**). After `growth_interval` good steps in a row, 2000 by default, it doubles
# (**growth**).
# > **Predict.** The scale starts at 2^16 and grows after 5 good steps. Steps 3, 4 and 12 meet an infinity. Draw the
# curve.

# %%
weight, optimizer, _ = parts()
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=5)
scales, bad_steps = [], (3, 4, 12)
for step in range(20):
    optimizer.zero_grad()
    scaler.scale(weight.sum() * (torch.inf if step in bad_steps else 1e-3)).backward()
    scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale())
draw_scale(scales, bad_steps, title="The loss scale with three infinities")
claim("scale after the two infinities", scales[4], equals=2.0**14)
claim("scale after five good steps", scales[9], equals=2.0**15)
claim("updates that moved the weight", round((1 - weight.item()) / 1e-3), equals=17)

# %% [markdown]
# **Explain.** 17 of 20 steps were made. A skipped step is normal in the first steps and rare later. A scale that falls
# without end is a nan of another origin: in the data (lesson 04), or in an operation that overflows at any scale. A
# scheduler that steps before the first real step of the optimizer warns, as in lesson 05. Save `scaler.state_dict()`
# with the rest (lesson 06).

# %%
# exercise: precision.amp_step

# %%
# exercise: precision.loss_scaler

# %% [markdown]
# ## Old names, and NumPy
# Older code says `torch.cuda.amp`. Those names still exist in torch 2.11 to 2.14, and warn.
# > **Predict.** On a machine without CUDA: what does the old autocast do to a matrix product, and is the old scaler on?

# %%
ones = torch.ones(2, 2)
with pitfall("legacy-amp-api", FutureWarning, UserWarning):
    old_scaler = torch.cuda.amp.GradScaler()
    with torch.cuda.amp.autocast():
        by_the_old_name = (ones @ ones).dtype
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # without CUDA: "Disabling"
    claim("torch.amp.GradScaler() means CUDA", torch.amp.GradScaler().is_enabled(), equals=torch.cuda.is_available())
with torch.autocast("cpu", dtype=brain):
    by_device_type = (ones @ ones).dtype
show("by_the_old_name", "by_device_type", "torch.amp.GradScaler('cpu').is_enabled()")
with pitfall("bfloat16-to-numpy", TypeError):
    (ones.to(brain)).numpy()
show("ones.to(brain).float().numpy().tolist()", "ones.to(half).numpy().dtype")

# %% [markdown]
# **Explain.** The old names meant CUDA. Without it they switch themselves off, and the rest of the program runs on in
# float32, slower than you think and with other numbers. Name the device type of your tensors.
#
# ## What it saves: memory
# Activations that wait for backward are most of the memory of a training step. The graph tells what it keeps (lesson
# 02).
# > **Predict.** Three linear layers with ReLU on 512 rows. By what share do the kept bytes fall under bfloat16
# autocast? By half?


# %% tags=["measured"]
seed_everything(0)
mlp = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
images = torch.randn(64, 3, 32, 32).contiguous(memory_format=torch.channels_last)
for title, model, inputs in (("linear layers", mlp, torch.randn(512, 256)), ("conv net", reference_network(), images)):
    wide, lower = (step_bytes(model, inputs, dtype) for dtype in (None, brain))
    fixed = 4 * sum(p.nbytes for p in model.parameters())  # weights, gradients and two moments of Adam, all float32
    print(f"{title:<14} kept for backward: {wide:>10,} bytes, under bfloat16 autocast {lower:>10,}")
    print(f"{'':<14} weights, gradients, Adam: {fixed:,} bytes, the same in both")
    claim(f"kept bytes saved, {title}", 100 * (1 - lower / wide), stated="30-40 %", low=30, high=40, unit="%")
    total = 100 * (1 - (lower + fixed) / (wide + fixed))
    claim(f"all of it, {title}", total, stated="30-40 %", low=30, high=40, unit="%")

# %% [markdown]
# **Explain.** Activations are half as large. But the graph keeps half **copies of the weights** as well, float32
# tensors around the loss, and indices of pooling, which have no dtype to lower. Weights, gradients and moments do not
# shrink at all. What you save in all depends on which part is the largest: long sequences and large images save more
# than large layers do.
#
# ## What it costs: time
# The saving in time comes from instructions that multiply half numbers. On Intel and AMD CPUs these are `avx512_bf16`,
# `amx_bf16`, and for float16 `avx512_fp16`; on ARM `bf16` and `asimdhp`. Without them, each number is widened first.
# > **Predict.** Two matrices of 512 x 512 on this CPU, in float32, bfloat16 and float16. In which order? Then a
# training step of
# > linear layers, and of the conv net of lesson 05 in two layouts.

# %% tags=["measured"]
found = "unknown here" if half_instructions() is None else half_instructions()
print(f"torch uses {torch.backends.cpu.get_cpu_capability()}; instructions for half numbers: {found}")
matrix = torch.randn(512, 512)
low, short = matrix.to(brain), matrix.to(half)
products = {"float32": lambda: matrix @ matrix, "bfloat16": lambda: low @ low, "float16": lambda: short @ short}
times = compare_times(products, rounds=rounds)
for faster in (brain, half):
    gain = 1 / times.ratio(name(faster))
    claim(f"matrix product in {name(faster)} on this CPU", gain, stated="40-80 % faster", low=1.4, high=1.8, unit="x")
times


# %% tags=["measured"]
wide_mlp = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
plain = reference_network().to(memory_format=torch.contiguous_format)
networks = {
    "linear layers": (wide_mlp, torch.randn(128, 512)),
    "conv net, channels_last": (reference_network(), images[:16]),
    "conv net, default layout": (plain, images[:16].contiguous()),
}
for title, (model, inputs) in networks.items():
    steps = {"float32": step_to_time(model, inputs), "bfloat16": step_to_time(model, inputs, brain)}
    times = compare_times(steps, rounds=rounds)
    gain = 1 / times.ratio("bfloat16")
    claim(f"training step on this CPU, {title}", gain, stated="40-80 % faster", low=1.4, high=1.8, unit="x")
    print(times)
few = images[:2].contiguous()
steps = {"float32": step_to_time(plain, few), "float16": step_to_time(plain, few, half)}
print(times := compare_times(steps, rounds=min(rounds, 3), min_run_time=0.001))
claim("float16 against float32, conv net, 2 images", times.ratio("float16"), stated="slower", low=1.0, unit="x")

# %% [markdown]
# **Explain.** Read it as one machine's answer. A matrix product gains where the CPU has the instruction, and float16
# may gain nothing although bfloat16 does. A whole step gains less than a product: casts, losses and the optimizer run
# as before. How much a network gains depends on its memory layout too (lesson 01: channels_last). And float16
# convolutions may take a way that nobody has tuned. **Measure before you switch it on**, in your loop, on your machine.
#
# There is a third way. `torch.set_float32_matmul_precision("high")` or `"medium")` lets the hardware round the *inputs*
# of float32 products, on CUDA to tf32 or bfloat16. The dtype stays float32, so no test for dtypes notices.
# > **Predict.** Does `"medium"` change a float32 product on this CPU?

# %% tags=["measured"]
exact = matrix.double() @ matrix.double()
for precision in ("highest", "high", "medium"):
    torch.set_float32_matmul_precision(precision)
    worst = ((matrix @ matrix).double() - exact).abs().max().item()
    print(f"{precision:<8} largest error {worst:.2g}, dtype {name((matrix @ matrix).dtype)}")
torch.set_float32_matmul_precision("highest")

# %% tags=["measured"]
absent = "not run here: no CUDA device"
faster = saved = None
if run_device.type == "cuda":
    peaks, steps = {}, {}
    for way, lower in (("float32", None), ("bfloat16", brain), ("float16", half)):
        steps[way] = step_to_time(reference_network(), images.repeat(16, 1, 1, 1), lower, "cuda")
        steps[way]()  # the first step sets up libraries
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        steps[way]()
        peaks[way] = torch.cuda.max_memory_allocated() - before
    print(compare_times(steps, rounds=rounds), peaks, sep="\n")
    faster = 1 / compare_times(steps, rounds=rounds).ratio("bfloat16")
    saved = 100 * (1 - peaks["bfloat16"] / peaks["float32"])
else:
    print(absent)
claim("training step on CUDA, conv net", faster, stated="40-80 % faster", low=1.4, high=1.8, unit="x", reason=absent)
claim("peak memory on CUDA, conv net", saved, stated="30-40 % less", low=30, high=40, unit="%", reason=absent)

# %% [markdown]
# ## A table to keep
# | | float32 | bfloat16 | float16 |
# | --- | --- | --- | --- |
# | bits: sign, exponent, mantissa | 1, 8, 23 | 1, 8, 7 | 1, 5, 10 |
# | largest | 3.4e38 | 3.4e38 | 65504 |
# | becomes 0 (at most half the smallest) | 7e-46 | 4.6e-41 | 3e-8 |
# | integers exact up to | 2^24 | 256 | 2048 |
# | needs a scaler | no | no | yes, for training |
# | NumPy has it | yes | no | yes |
#
# | you want | write |
# | --- | --- |
# | a forward pass in half | `with torch.autocast(device.type, dtype=torch.bfloat16):` around model and loss |
# | float16 training | `scaler.scale(loss).backward()`, `unscale_`, clip, `scaler.step(optimizer)`, `scaler.update()` |
# | accumulation | scale and backward for each micro-batch; the rest once |
# | float32 in a block | `torch.autocast(device.type, enabled=False)` **and** `.float()` |
# | sums, counters, averages | float32, always |
# | your own Function | `custom_fwd` and `custom_bwd` with the device type |
#
# **Versions.** The cells run on the torch named in `constraints.txt`; the oldest supported is 2.11. Of the scaler, the
# old names and the CPU list we found no report of a change in between. Kernels do change, in speed and in digits: on
# Arm CPUs, bfloat16 attention was reported to give other digits in 2.12 than in 2.11.
#
# ## Read on
# - [torch.amp](https://docs.pytorch.org/docs/stable/amp.html): the lists of operations, by device
# - [AMP examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html): clipping, accumulation, and more
# - [Numerical accuracy](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html)
# - [float32 products](https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html)
