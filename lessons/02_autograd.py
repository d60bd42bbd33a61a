# %% [markdown]
# # 02 Autograd pitfalls
#
# PyTorch notes down what you compute, and `backward()` walks back along the notes. Nearly every autograd error, and
# every gradient that is silently wrong, follows from what the notes hold, and for how long.
#
# **Goals.** You can read the graph behind a tensor; say which tensors get a gradient, what is kept for backward and when
# it is freed; choose between `detach`, `no_grad` and `inference_mode`; tell a harmful in-place operation from a harmless
# one; differentiate inputs and gradients; and build reverse-mode autograd yourself.
#
# **Prerequisites.** Lesson 01, and the chain rule. **Time.** About 180 minutes, most of them for exercises.
#
# **What it measures.** Five sayings: "zero_grad may also stand after step", "... after backward", "detach cuts the
# tensor loose", "no_grad saves memory", "inference_mode is faster than no_grad". Gradients and bytes are checked
# exactly; times and accuracies are this machine's. **Predict** before you run a cell: a wrong guess teaches most.

# %%
import math
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from course import begin, check, claim, draw_graph, hint, pitfall, solution
from course.figures.graph_memory import KeptTensors
from course.training.device import choose_device
from course.training.timing import compare_times

begin("02")

# %% tags=["parameters"]
device = "auto"  # "auto", "cpu", "cuda" or "mps": where times are measured
profile = "quick"  # how long each time is measured: "smoke", "quick" or "full" (some seconds more)

# %%
run_device = choose_device(device)
min_run_time = {"smoke": 0.001, "quick": 0.02, "full": 0.2}[profile]


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<52} {eval(expression, globals())!s}")


def history(**tensors: Tensor) -> None:
    """Print whether each tensor is a leaf, and which function made it."""
    for name, tensor in tensors.items():
        made_by = type(tensor.grad_fn).__name__ if tensor.grad_fn is not None else "-"
        print(f"{name:<10} requires_grad {tensor.requires_grad!s:<6} is_leaf {tensor.is_leaf!s:<6} grad_fn {made_by}")


# %% [markdown]
# ## The graph is recorded while code runs
#
# Each operation on a tensor with `requires_grad` leaves a note: a **function** that knows the way back. The result
# refers to it by `grad_fn`. A tensor that no recorded operation made is a **leaf**. Backward starts at a result,
# follows the notes, and puts gradients into `.grad` of the leaves that require them.
# > **Predict.** Which of these five tensors are leaves, and which will hold a gradient?

# %%
w, b = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor(0.5, requires_grad=True)
x = torch.tensor([3.0, 4.0])
h = w * x
loss = (h.sum() + b - 1) ** 2
history(w=w, x=x, b=b, h=h, loss=loss)
draw_graph(loss, title="loss = ((w * x).sum() + b - 1) ** 2", w=w, x=x, b=b, h=h, loss=loss)

show("[type(f).__name__ for f, _ in h.grad_fn.next_functions]", "h.grad_fn._saved_other.tolist()")
loss.backward()
claim("gradient of w, by the chain rule", w.grad, equals=2 * (h.sum() + b - 1).detach() * x)
draw_graph(loss, title="the same graph after loss.backward()", w=w, x=x, b=b, h=h, loss=loss)

# %% [markdown]
# **Explain.** `w`, `x` and `b` are leaves; nobody asked for a gradient of `x`. The product has kept `x`, because the
# slope of `w * x` along `w` is `x`. It has not kept `w`: nobody wants the slope along `x`. The power has kept its
# input. Sums keep nothing, because their slope is 1 everywhere. After backward the gradients lie in the leaves, and
# what was kept is freed. By hand: `next_functions` leads on to the inputs, and `AccumulateGrad` stands for a leaf.
#
# The notes are of what *ran*, not of the program: a branch not taken leaves none, and a loop leaves some at each turn.
# So `print`, `if` and a debugger work in the middle of a model.
# > **Predict.** Which function made each of these? Which are leaves, and get a gradient?

# %%
branch, other = (v * 2 if v.sum() > 0 else v.exp() for v in (w, -w))
weights = torch.ones(3, requires_grad=True) * 0.1
history(branch=branch, other=other, converted=w.double(), same=w.to(torch.float32), weights=weights)
(weights**2).sum().backward()
with pitfall("nonleaf-parameter", UserWarning):
    weights.grad
weights = (torch.ones(3) * 0.1).requires_grad_()
(weights**2).sum().backward()
show("weights.is_leaf", "weights.grad")

# %% [markdown]
# **Explain.** A conversion and a product are operations, so `converted` and `weights` are no leaves and collect
# nothing. (`w.to(torch.float32)` had nothing to do and returned `w`.) Ask for gradients last.

# %%
# exercise: autograd.who_gets_grad

# %%
# exercise: autograd.by_hand

# %% [markdown]
# ## Backward multiplies a vector by the Jacobian
#
# A function from n to m numbers has m · n slopes, the **Jacobian** J. Backward never builds it. It takes a vector v
# with one weight for each *result* and computes v @ J, one number for each *input*. A loss has one result and v is 1,
# so one pass gives the slopes along all inputs. For several results, autograd asks which v you mean.
# > **Predict.** `y = x ** 2` at 1, 2, 3. What does `y.backward(torch.tensor([1.0, 10.0, 100.0]))` leave in `x.grad`?

# %%
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
with pitfall("backward-of-nonscalar", RuntimeError):
    (x**2).backward()
(x**2).backward(torch.tensor([1.0, 10.0, 100.0]))
y = torch.stack([x[0] * x[1], x.sum()])
for v in torch.eye(2):
    print(v.tolist(), "@ J =", torch.autograd.grad(y, x, v, retain_graph=True)[0].tolist())
show("x.grad")

# %% [markdown]
# **Explain.** The slopes 2, 4, 6 were weighted by 1, 10, 100. If a loss is meant, reduce it first: `y.sum()` is v = 1.
# The loop shows the rows of a Jacobian. `torch.autograd.grad` *returns* the product, and touches nobody's `.grad`.

# %%
# exercise: autograd.gradient_of

# %%
# exercise: autograd.jacobian

# %% [markdown]
# ## Gradients add up
#
# `backward()` *adds* to `.grad`. A value that is used twice needs this: its gradient is the sum over its uses. But
# nothing tells a second use from a second training step.
# > **Predict.** The gradient of `3 * w` is 3. What does `w.grad` hold after each of three steps?
#
# **Sayings: "zero_grad may also stand after step"** and **"... after backward"**. Same model, same data, three orders.

# %%
w, gradients = torch.tensor(1.0, requires_grad=True), []
with pitfall("missing-zero-grad") as p:
    for _ in range(3):
        (3 * w).backward()
        gradients.append(w.grad.item())
    p.shows(seen=gradients, wanted=[3.0, 3.0, 3.0])
w.grad = None  # what zero_grad() does for each parameter
(3 * w).backward()
show("w.grad")

weights = {}
for order in ("no training", "zero_grad backward step", "backward step zero_grad", "backward zero_grad step"):
    torch.manual_seed(0)
    model, inputs = nn.Linear(3, 1), torch.randn(5, 8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in inputs if order != "no training" else ():
        loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
        for call in order.split():
            {"zero_grad": optimizer.zero_grad, "backward": loss.backward, "step": optimizer.step}[call]()
    weights[order] = model.weight.tolist()
usual, after_backward = weights["zero_grad backward step"], weights["backward zero_grad step"]
claim("zero_grad after step trains the same", weights["backward step zero_grad"] == usual, equals=True)
claim("zero_grad after backward trains the same", after_backward == usual, equals=False)
claim("zero_grad after backward trains nothing", after_backward == weights["no training"], equals=True)

# %%
# exercise: autograd.zero_grad_order

# %% [markdown]
# **Explain.** `step()` reads what `backward()` wrote, so clear anywhere but between them. But adding up is useful too: a
# batch too large for memory goes through in pieces, each forward and backward, with one `step()` at the end. As losses
# are means, each piece counts by its share of the rows.
# > **Predict.** Do two half batches, each loss halved, make the whole batch's gradient? And with BatchNorm?

# %%
torch.manual_seed(0)
rows, linear = torch.randn(16, 4), nn.Linear(4, 8)
normed = nn.Sequential(linear, nn.BatchNorm1d(8), nn.Tanh())
for name, model in {"without BatchNorm": nn.Sequential(linear, nn.Tanh()), "with BatchNorm": normed}.items():
    (whole,) = torch.autograd.grad(model(rows).square().mean(), linear.weight)
    linear.zero_grad()
    for part in rows.chunk(2):
        (model(part).square().mean() / 2).backward()
    claim(f"two halves make a whole {name}", torch.allclose(linear.weight.grad, whole), equals=model is not normed)

# %% [markdown]
# **Explain.** BatchNorm in train mode normalises by the statistics of the rows that it sees: other rows, other output.
# Accumulation cannot mend that; GroupNorm and LayerNorm look at one row at a time.

# %%
# exercise: autograd.accumulate

# %% [markdown]
# ## What backward frees
#
# What is kept for backward is most of the memory of training. `KeptTensors` wraps each tensor that a graph keeps
# (by `torch.autograd.graph.saved_tensors_hooks`); weak references to the wrappers tell which ones graphs still hold.
# > **Predict.** `a` holds 1000 `float32`. How many bytes do these graphs keep: three `exp` in a row; adding 1 and
# > multiplying by 2; `a * a`? What is left of the first after `backward()`? And which raises when `backward()` is called
# > twice on the same result: `(w * w).sum()` or `(w + w).sum()`?

# %%
a = torch.ones(1000, requires_grad=True)
with KeptTensors() as kept:
    y = a.exp().exp().exp()
    claim("three exp keep their three results", kept.bytes, equals=12_000, unit="bytes")
    y.sum().backward()
    claim("after backward", kept.bytes, equals=0, unit="bytes")
    y = (a + 1) * 2
    claim("adding 1 and doubling keep nothing of a", kept.bytes, equals=0, unit="bytes")
    y = a * a
    claim("a * a keeps its factor, which is a itself", kept.bytes, equals=4000, unit="bytes")

w = torch.tensor([1.0, 2.0], requires_grad=True)
total = (w + w).sum()
total.backward()
total.backward()
show("w.grad")
total = (w * w).sum()
total.backward()
with pitfall("backward-twice", RuntimeError):
    total.backward()
(w * w).sum().backward()  # forward again: a new graph

rnn, sequence, state = nn.RNN(2, 3, batch_first=True), torch.ones(4, 5, 2), torch.zeros(1, 4, 3)
with pitfall("hidden-state-not-detached", RuntimeError):
    for _ in range(2):
        output, state = rnn(sequence, state)
        output.mean().backward()
for _ in range(2):
    output, state = rnn(sequence, state.detach())  # the numbers go on, the history does not
    output.mean().backward()

# %% [markdown]
# **Explain.** Backward frees while it walks, so a second walk finds nothing. In a notebook it is enough to run a cell
# with `backward()` twice; in a training loop the usual cause is a recurrent state handed on with its history. `w + w`
# saved nothing, so its gradient just doubled. `retain_graph=True` keeps all for another walk; it is no cure for this.
#
# The opposite trouble is a graph that lives too long. Every tensor with a `grad_fn` holds its graph.
# > **Predict.** A validation loop appends three losses to a list. Do the graphs stay? And if each loss went backward?

# %%
model, batch, losses = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), torch.ones(5, 4), []
with KeptTensors() as kept:
    for _ in range(3):
        losses.append(model(batch).square().mean())
    with pitfall("graph-retained-in-log") as p:
        p.shows(seen=f"{len(kept)} tensors kept", wanted="0 tensors kept")
    for loss in losses:
        loss.backward()
    print("after backward: ", len(kept), "tensors; losses[0].grad_fn is", type(losses[0].grad_fn).__name__)
    losses = [model(batch).square().mean().item() for _ in range(3)]
    print("numbers instead:", len(kept), "tensors")

# %% [markdown]
# **Explain.** Without backward the list keeps all that was saved, and memory grows at each turn. After backward only
# the skeleton stays; that is small, and it still grows. `total += loss` is the same fault: the sum refers to all its
# parts. Keep `loss.item()`, or `loss.detach()` where `.item()` would wait for a GPU.

# %%
# exercise: autograd.loss_log

# %% [markdown]
# ## Stopping the graph
#
# `x.detach()` is a tensor with the numbers of `x` and no history. `with torch.no_grad():` records nothing at all.
# `torch.inference_mode()` records nothing and marks what it makes: recording may never save it.
# > **Predict.** `y` was recorded, `z = y.detach()`, then `z[0] = 100`. What is `y`?

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True)
y = w * 3
z = y.detach()
z[0] = 100
claim("y after a write into y.detach()", y.tolist(), stated="detach cuts the tensor loose", equals=[100.0, 6.0])
history(y=y, z=z)
draw_graph(z * w + y, title="z * w + y, where z = y.detach()", w=w, y=y, z=z)

model, batch = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), torch.ones(4, 2)
with pitfall("graph-cut", RuntimeError):
    with torch.no_grad():
        loss = model(batch).mean()
    loss.backward()

with pitfall("loss-rewrapped") as p:
    torch.tensor(loss.item(), requires_grad=True).backward()
    p.shows(seen=[name for name, q in model.named_parameters() if q.grad is None], wanted=[])

with pitfall("graph-cut") as p:
    model[1](torch.from_numpy(model[0](batch).detach().numpy())).mean().backward()
    p.shows(seen=[name for name, q in model.named_parameters() if q.grad is None], wanted=[])
model(batch).mean().backward()  # reaches all of them

# %% [markdown]
# **Explain.** `detach` cuts the *history*; the memory is shared. For a tensor of its own, write `detach().clone()`. In
# the picture the factor z ends in a grey box: it is kept for the product with w, and backward does not go there.
#
# If the cut goes through the only path, the loss has no `grad_fn`, and `backward()` says so. If it goes through one of
# several, nothing is said. To make the loss "require grad" silences the error and trains nothing. Ask each tensor
# between parameters and loss for its `grad_fn`, and mend the first that has none.
#
# **Saying: "no_grad saves memory".** What it saves is exactly what would be kept for backward.

# %%
layers, batch = nn.Sequential(nn.Tanh(), nn.Linear(100, 1), nn.Sigmoid()), torch.ones(1000, 100, requires_grad=True)
with KeptTensors() as kept:
    output = layers(batch)
    weight = layers[1].weight.untyped_storage().nbytes()  # kept as well, but it is there anyway
    claim("kept: results of tanh and sigmoid", kept.bytes - weight, equals=400_000 + 4000, unit="bytes")
    with torch.no_grad():
        output = layers(batch)
        claim("kept under no_grad", kept.bytes, stated="no_grad saves memory", equals=0, unit="bytes")

# %% [markdown]
# `no_grad` is about recording only: Dropout and BatchNorm behave as in training until `model.eval()`, which in turn
# does not stop recording. Validation needs both.
#
# **Saying: "inference_mode is faster than no_grad".** It also does without version counters and view tracking.
# > **Predict.** How much faster is it for a small model, where overhead counts most?

# %% tags=["measured"]
small, numbers = nn.Linear(8, 8).to(run_device), torch.ones(4, 8, device=run_device)


def forward(context: Callable) -> None:
    """Make twenty small forward passes in a context."""
    with context():
        for _ in range(20):
            small(numbers).relu().view(2, 16)


contexts = {"recording": torch.enable_grad, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
cases = {name: lambda context=context: forward(context) for name, context in contexts.items()}
times = compare_times(cases, min_run_time=min_run_time)
claim("recording against no_grad", times.ratio("recording", "no_grad"), stated="slower", low=1.05, unit="x")
faster = times.ratio("no_grad", "inference_mode")
claim("no_grad against inference_mode", faster, stated="inference_mode is faster", low=1.05, unit="x")
times

# %% [markdown]
# **Explain.** Not recording is what helps. What `inference_mode` adds is in the last line of the table; look whether it
# is anything here. The price is that its tensors cannot come back.
# > **Predict.** `t` was made in inference mode. Which work: `w + t`, `w * t`, `w * t.clone()`?

# %%
with torch.inference_mode():
    t = torch.ones(2)
with pitfall("inference-tensor-in-autograd", RuntimeError):
    w * t
show("(w + t).requires_grad", "(w * t.clone()).requires_grad", "(t.is_inference(), t.clone().is_inference())")

# %%
# exercise: autograd.td_loss

# %% [markdown]
# ## In place: version counters
#
# A tensor counts the writes into it, and autograd notes the count when it saves one. At backward both must agree.
# > **Predict.** `y += 1` follows `y = x + 2` in one case and `y = x.exp()` in the other. Which `backward()` fails?

# %%
x = torch.zeros(3, requires_grad=True)
y = x + 2
y += 1
y.sum().backward()
show("y._version", "x.grad")
y = x.exp()
y += 1
draw_graph(y.sum(), title="y = x.exp(); y += 1; y.sum()", x=x, y=y)
with pitfall("inplace-on-saved", RuntimeError):
    y.sum().backward()
with warnings.catch_warnings(record=True) as caught, torch.autograd.set_detect_anomaly(True):
    warnings.simplefilter("always")
    try:
        y = x.exp()
        y += 1
        y.sum().backward()
    except RuntimeError:
        lines = [line for line in str(caught[-1].message).splitlines() if "Error" in line or " = " in line]
        print(lines[0], "...", lines[-1], sep="\n")

# %% [markdown]
# **Explain.** The slope of `exp` is its result, so `exp` keeps it, and the write destroyed it. A sum keeps nothing. So
# "never work in place" is too strict: ask whether anything saved the tensor. Here `y = y + 1` is the remedy. The error
# names the function that had saved; anomaly detection, which is slow, adds the line of yours that called it.
#
# Parameters meet the rule in three ways. A write into a leaf is refused while autograd records. An update by `=` makes
# a new tensor that is no leaf. And `step()` writes into weights that an older graph may still need. Last, there is a way
# to fool the counter: `detach()` shares memory and version counter, `.data` shares only the memory.
# > **Predict.** The same harmful write, through `detach()` and through `.data`. Which gradient do you get?

# %%
w = torch.ones(2, requires_grad=True)
(w**2).sum().backward()
with pitfall("inplace-on-leaf", RuntimeError):
    w -= 0.1 * w.grad

with pitfall("parameter-rebound") as p:
    rebound = w - 0.1 * w.grad
    p.shows(seen=f"is_leaf {rebound.is_leaf}", wanted="is_leaf True")
with torch.no_grad():
    w -= 0.1 * w.grad

model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
optimizer, output = torch.optim.SGD(model.parameters(), lr=0.1), model(torch.ones(3, 2))
with pitfall("step-before-second-backward", RuntimeError):
    output.mean().backward(retain_graph=True)
    optimizer.step()
    output.square().mean().backward()
output = model(torch.ones(3, 2))
(output.mean() + output.square().mean()).backward()  # both losses first, then the step
optimizer.step()

x = torch.zeros(3, requires_grad=True)
with pitfall("inplace-on-saved", RuntimeError):
    y = x.exp()
    y.detach().add_(1)
    y.sum().backward()

with pitfall("data-bypasses-autograd") as p:
    y = x.exp()
    y.data.add_(1)
    y.sum().backward()
    p.shows(seen=x.grad.tolist(), wanted=[1.0, 1.0, 1.0])

# %% [markdown]
# **Explain.** The slope of `exp` at 0 is 1. Through `.data`, backward read the overwritten 2 and reported it without a
# word. `detach()` and `no_grad` do what `.data` does, and tell you when it is wrong.

# %%
# exercise: autograd.fix_in_place

# %% [markdown]
# ## Slopes that are zero, infinite or missing
# > **Predict.** All these losses are finite. What are the gradients: of `where(x > 0, x.sqrt(), 0)` at -1; of a length
# > `(d * d).sum().sqrt()` at d = 0; of a count of errors made with `round`?

# %%
x, d = torch.tensor([-1.0, 4.0], requires_grad=True), torch.zeros(3, requires_grad=True)
with pitfall("where-nan-gradient") as p:
    torch.where(x > 0, x.sqrt(), 0.0).sum().backward()
    p.shows(seen=x.grad.tolist(), wanted=[0.0, 0.25])

with pitfall("sqrt-at-zero") as p:
    (d * d).sum().sqrt().backward()
    p.shows(seen=d.grad.tolist(), wanted=[0.0, 0.0, 0.0])
x.grad = None
torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0).sum().backward()
show("x.grad")
for length in (torch.linalg.vector_norm, torch.norm, torch.std):
    claim(f"gradient of {length.__name__} at zero", torch.autograd.grad(length(d), d)[0].tolist(), equals=[0.0] * 3)

torch.manual_seed(0)
scorer, features, targets = nn.Linear(3, 1), torch.randn(16, 3), torch.randint(0, 2, (16, 1)).float()
with pitfall("nondifferentiable-loss") as p:
    (scorer(features).sigmoid().round() - targets).square().mean().backward()
    p.shows(seen=f"largest slope {scorer.weight.grad.abs().max():.1f}", wanted="a slope that is not 0")

with pitfall("nondifferentiable-loss", RuntimeError):
    ((scorer(features) > 0) != (targets == 1)).float().mean().backward()
F.binary_cross_entropy_with_logits(scorer(features), targets).backward()
claim("cross-entropy has a slope", bool((scorer.weight.grad != 0).all()), equals=True)

# %% [markdown]
# **Explain.** Backward goes into both branches of `where`, and 0 times NaN or infinity is NaN. Make the *input*
# harmless. PyTorch's own norms and `std` define their slope at zero as 0; formulas that you spell out do not.
# `round` is flat: its slope is 0, and the loss stands still. Comparisons and `argmax` have no slope, and the graph
# ends there. Train on a smooth loss and report the hard one.

# %%
# exercise: autograd.safe_norm

# %%
# exercise: autograd.quantise

# %% [markdown]
# ## Gradients of inputs, and of gradients
#
# The leaf need not be a weight. The slope along each *input* tells which small change hurts most, and a step along its
# sign makes an **adversarial example**.
# > **Predict.** A linear classifier is right on nearly all of its data. Each of 100 features moves by 0.3, a third of
# > its noise: once at random, once along the sign of the slope. What is left of the accuracy?

# %% tags=["measured"]
torch.manual_seed(0)
labels = torch.randint(0, 2, (500, 1)).float()
points = torch.randn(500, 100) + 0.25 * (2 * labels - 1)
classifier = nn.Linear(100, 1)
optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
for _ in range(100):
    optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(classifier(points), labels).backward()
    optimizer.step()
attacked = points.clone().requires_grad_()
(slope,) = torch.autograd.grad(F.binary_cross_entropy_with_logits(classifier(attacked), labels), attacked)
moves = {"no change": 0 * points, "random signs": torch.randn_like(points).sign(), "signs of the slope": slope.sign()}
for (name, move), (low, high) in zip(moves.items(), [(0.95, 1.0), (0.9, 1.0), (0.0, 0.5)], strict=True):
    right = (classifier(points + 0.3 * move) > 0) == (labels == 1)
    claim(f"accuracy, {name}", right.float().mean().item(), low=low, high=high)

# %% [markdown]
# **Explain.** Random changes cancel over 100 features. Changes along the slope all pull the same way.
#
# The gradient of a mean loss is the mean of the samples' gradients. `torch.func` gives them one by one: `grad` turns a
# function into its gradient, and `vmap` applies it to every sample at once.

# %%
w, xs = torch.tensor([1.0, -1.0]), torch.tensor([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]])
each = vmap(grad(lambda w, x: (w @ x) ** 2), in_dims=(None, 0))(w, xs)
show("each.tolist()")
of_the_mean = grad(lambda w: (xs @ w).square().mean())(w)
claim("their mean is the gradient of the mean", torch.allclose(each.mean(0), of_the_mean), equals=True)

# %%
# exercise: autograd.per_sample

# %% [markdown]
# A gradient is a tensor like any other. With `create_graph=True` the way to it is recorded too, and you can go on: the
# second derivative of x³ is 6x. Without it the gradient is a plain number, and a penalty made of it a constant.
# > **Predict.** The slope of `v * u ** 2` along u is 2vu. Its square is added to `5 * v`. What is the gradient of v?

# %%
v, u = torch.tensor(1.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
with pitfall("missing-create-graph") as p:
    (slope,) = torch.autograd.grad(v * u**2, u)
    p.shows(seen=torch.autograd.grad(5 * v + slope**2, v)[0].item(), wanted=5.0 + 8.0 * 3**2)
(slope,) = torch.autograd.grad(v * u**2, u, create_graph=True)
x = torch.tensor([1.0, 2.0], requires_grad=True)
(first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
show("torch.autograd.grad(5 * v + slope**2, v)", "torch.autograd.grad(first.sum(), x)")

# %% [markdown]
# **Explain.** The square, 4v²u², has the slope 8vu² along v. Without `create_graph` only the 5 was seen. A product of
# a Hessian with a vector z needs no Hessian either: differentiate `(first * z).sum()`.

# %%
# exercise: autograd.gradient_penalty

# %% [markdown]
# ## Hooks, and functions of your own
#
# A **hook** is called when a gradient comes by. `register_hook` on a tensor may look at the gradient or replace it,
# `register_post_accumulate_grad_hook` on a leaf sees `.grad` when it is ready, `retain_grad()` keeps that of a result.
#
# A `torch.autograd.Function` brings its own way back, for a stable formula or for code that autograd cannot see. What
# it keeps goes through `save_for_backward`. `gradcheck` compares it with central differences, in `float64`.
# > **Predict.** The slopes of `h` are 6 and 12. What reaches `w`? Where does the wrong softplus pass `gradcheck`?

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True)
h = w * 3
h.register_hook(lambda gradient: gradient.clamp(max=7.0))
h.retain_grad()
w.register_post_accumulate_grad_hook(lambda leaf: print("w.grad is ready:", leaf.grad.tolist()))
h.square().sum().backward()
show("h.grad")


class Softplus(torch.autograd.Function):
    """log(1 + exp(x)) without overflow; its slope is sigmoid(x), which the wrong one confuses with sigmoid(-x)."""

    @staticmethod
    def forward(ctx, x: Tensor, wrong: bool) -> Tensor:
        ctx.save_for_backward(x)
        ctx.wrong = wrong
        return x.clamp(min=0) + torch.log1p(torch.exp(-x.abs()))

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return gradient * torch.sigmoid(-x if ctx.wrong else x), None


for wrong in (False, True):
    for x in (torch.zeros(1), torch.tensor([-2.0, 0.5, 300.0])):
        inputs = (x.double().requires_grad_(), wrong)
        print(wrong, x.tolist(), torch.autograd.gradcheck(Softplus.apply, inputs, raise_exception=False))
show("torch.tensor(300.0).exp().log1p()", "Softplus.apply(torch.tensor(300.0), False)")

# %% [markdown]
# **Explain.** The hook cut the second slope to 7, and each went on times 3. The wrong softplus is right at 0, where both
# slopes are 0.5: check a backward of your own at several points without symmetry.
#
# ## Build it
#
# You know all that is needed: notes that hold operands and slopes, a walk back on which every value waits for all of
# its uses, and gradients that add up at the leaves. It takes about forty lines.

# %%
# exercise: autograd.scalar_engine

# %% [markdown]
# ## From error to understanding
#
# | fault | how it looks | why | fix |
# | --- | --- | --- | --- |
# | nonleaf-parameter | warning: `.grad` of a non-leaf; it is None | results keep no gradient | `requires_grad_()` last |
# | backward-of-nonscalar | "grad can be implicitly created only for scalar outputs" | which v? | reduce, or pass v |
# | missing-zero-grad | silent: steps grow | backward adds | `zero_grad` once a step |
# | backward-twice | "backward through the graph a second time" | what was saved is freed | forward again |
# | hidden-state-not-detached | the same, at the second batch | the state leads into the old graph | `h.detach()` |
# | graph-retained-in-log | memory grows with each batch | a `grad_fn` keeps the graph | `.item()`, `.detach()` |
# | graph-cut | "does not require grad and does not have a grad_fn", or silent | no path | find the first cut |
# | loss-rewrapped | silent: nothing trains | a new leaf without history | use the loss itself |
# | inference-tensor-in-autograd | "Inference tensors cannot be saved" | no version counter | `clone()`, `no_grad` |
# | inplace-on-saved | "modified by an inplace operation" | what was saved is overwritten | one op out of place |
# | step-before-second-backward | the same, after `step()` | weights were overwritten | both backwards first |
# | inplace-on-leaf | "a leaf Variable that requires grad" | it would be no leaf | `no_grad` |
# | parameter-rebound | `.grad` is None at the second step | `=` made a new tensor | change it in place |
# | data-bypasses-autograd | silent: wrong gradient | `.data` has its own counter | `detach()` |
# | where-nan-gradient | silent: NaN gradient, finite loss | both branches are walked | mend the input |
# | sqrt-at-zero | the same, at equal points | infinity times 0 | `vector_norm` |
# | nondifferentiable-loss | silent: slope 0; or no grad_fn | flat steps | a smooth loss |
# | missing-create-graph | silent: penalty without effect; or no grad_fn | a constant | `create_graph=True` |
#
# ## A table to keep
#
# | to do this | write | mind |
# | --- | --- | --- |
# | look at a graph | `y.grad_fn`, `.next_functions`, `draw_graph(y)` | it is of what ran |
# | gradients into `.grad` | `loss.backward()` | adds; frees what was saved |
# | gradients as values | `torch.autograd.grad(y, x)` | a tuple; touches no `.grad` |
# | no recording | `with torch.no_grad():` | says nothing about Dropout and BatchNorm |
# | a constant | `x.detach()` | shares memory; `.clone()` for a copy |
# | change a parameter | `with torch.no_grad(): w -= ...` | never `w = w - ...` |
# | go back twice; differentiate a gradient | `retain_graph=True`; `create_graph=True` | keeps the memory too |
# | one gradient a sample | `vmap(grad(f), in_dims=(None, 0))` | `f` takes one sample |
#
# ## Read on
#
# - [Autograd mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html): saved tensors, grad modes, in place
# - [torch.autograd](https://docs.pytorch.org/docs/stable/autograd.html)
# - [Extending torch.autograd](https://docs.pytorch.org/docs/stable/notes/extending.html)
# - [Hooks for saved tensors](https://docs.pytorch.org/tutorials/intermediate/autograd_saved_tensors_hooks_tutorial.html)
# - [Per-sample gradients](https://docs.pytorch.org/tutorials/intermediate/per_sample_grads.html) with `torch.func`
