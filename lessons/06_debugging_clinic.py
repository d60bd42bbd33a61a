# %% [markdown]
# # 06 Debugging clinic
# The program runs, and the loss does not do what it should. Twelve reports of that kind are waiting; each is a whole
# setup that you repair. Before that you learn where to look first, and which single number settles each suspicion.
#
# **Goals.** You can suspect in a fixed order: data, model, optimisation; say in four steps why nothing moves; find the
# first NaN; read plateau, rebound and over-fitting from a curve; say what fills the memory. **Prerequisites.** Lessons
# 01 to 05. **Time.** About 180 minutes, most of them for 12 exercises. **What it measures.** "A loss that is stuck
# means a bad network", "validation above training means leakage".

# %%
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint_sequential

from course import begin, check, claim, draw_lines, explain, hint, pitfall, seed_everything, solution
from course.doctor import examine
from course.exercises import load_exercise
from course.training.kept import kept_bytes
from course.training.patients import batches, curve, fit_rings, gauges, network, rings, three_groups

begin("06")

# %% tags=["parameters"]
device = "auto"  # the twelve setups are small and stay on the CPU
profile = "quick"  # "smoke", "quick" or "full": how many epochs the curves have

# %%
epochs = {"smoke": 2, "quick": 30, "full": 100}[profile]


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<75} {eval(expression, globals())!s}")


def train(model: nn.Module, loader: Any, optimizer: torch.optim.Optimizer, steps: int = 40) -> list[float]:
    """Return the cross-entropy of each step, before its update."""
    losses: list[float] = []
    while len(losses) < steps:
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses[:steps]


# %% [markdown]
# ## An order of suspicion
# Most people begin with the network: a layer more, another rate, another optimizer. That takes hours and shows
# nothing. Begin with what everything else stands on, and ask questions that have an answer in a minute.
#
# | | ask | the answer of a sound setup |
# | --- | --- | --- |
# | **data** | What is in one batch: shape, dtype, range, NaN, some samples with their labels? | you would give the same labels |
# | | How many different samples, in which order? | all different, classes mixed |
# | **model** | How many parameters? Do two inputs give two outputs? Is the first loss that of a guess? | by hand; yes; `log(classes)` |
# | | How large is each layer's gradient beside its weight? | one order of magnitude |
# | **optimisation** | Does one batch get learnt by heart? | yes, to nearly 0 |
# | | Did a weight change in a step? By how much? | by about a thousandth |
#
# Change one thing at a time, and write down what you expected. `examine` asks most of these questions for you: it runs
# a few steps of your setup, watches them, and puts everything back.
# > **Predict.** A sound setup, and the same with a softmax too many. What does the doctor say to each?

# %%
seed_everything(0)
points, groups = three_groups()
loader = batches(points, groups)
sound = network(4, 16, 3)
print(examine(sound, loader, F.cross_entropy, torch.optim.Adam(sound.parameters(), lr=0.02)).headline)

# %% tags=["measured"]
broken = nn.Sequential(network(4, 16, 3), nn.Softmax(dim=1))
print(examine(broken, loader, F.cross_entropy, torch.optim.Adam(broken.parameters(), lr=0.02)))

# %% [markdown]
# **Explain.** A finding names one fault, what was seen, and what follows from it. Errors and warnings are to be
# repaired; a note is worth knowing. Silence proves little: some faults look like hard data. You give what you have,
# `loss_fn` with a loader of pairs, or your own `step(batch)` and `evaluate()`.
#
# For an error there is `explain`. It takes an exception, or the text of a traceback from anywhere. After `%load_ext
# course` it comes by itself below a failing cell, and `course explain` reads from the command line.
# > **Predict.** A layer expects 3136 features and gets 2704. What does `explain` know beyond the message?

# %%
try:
    nn.Linear(3136, 10)(torch.zeros(2, 2704))
except RuntimeError as error:
    print(error, "\n")
    print(explain(error))

# %% [markdown]
# **Explain.** From the live exception it reads the sizes of the tensors. An error that it does not know it calls
# unknown.
#
# ## Data first
# A table of numbers looks like a table of numbers, whatever is wrong with it. Three questions: is every number finite,
# are the samples different, and do inputs and labels belong together?
# > **Predict.** Five gauges, one of them stuck at 20, are standardised. How many of 192 rows are finite afterwards?

# %%
readings, states = gauges()
standard = (readings - readings.mean(0)) / readings.std(0)
with pitfall("nonfinite-data") as p:
    p.shows(seen=f"{int(standard.isfinite().all(1).sum())} rows are finite", wanted=f"{len(standard)} rows are finite")
show("standard.isfinite().all(0).tolist()", "readings.std(0)[3].item()")

# %% [markdown]
# **Explain.** The deviation of a constant is 0, and 0 / 0 is NaN. One such column is enough: each row has it, so each
# loss is NaN, and after one step each weight. The column tells where; ask `isfinite` after every line that prepares
# data.

# %%
# exercise: clinic.dead_gauge

# %% [markdown]
# > **Predict.** Points around three centres, shuffled. The labels are shuffled too, by a permutation of their own.
# > What is the loss after 60 steps: that of the sound setup, or that of a guess, `log(3)`?

# %%
seed_everything(0)
apart = batches(points[torch.randperm(192)], groups[torch.randperm(192)])
ends = {}
for name, data in (("together", loader), ("apart", apart)):
    model = network(4, 16, 3)
    ends[name] = sum(train(model, data, torch.optim.Adam(model.parameters(), lr=0.02), 60)[-6:]) / 6
with pitfall("label-misaligned") as p:
    p.shows(seen=f"below a half: {ends['apart'] < 0.5}", wanted=f"below a half: {ends['together'] < 0.5}")

# %% [markdown]
# **Explain.** Shapes, ranges and frequencies are right, so no check of one column sees it. The network learns the
# frequencies and a few points by heart. The one test is to look: take ten samples *out of the loader* and label them
# yourself.

# %%
# exercise: clinic.labels_apart

# %% [markdown]
# > **Predict.** A reader decodes each row into the same buffer and puts it on a list. How many different rows has the
# > list?

# %%
buffer, rows = torch.empty(4), []
for point in points:
    buffer.copy_(point)
    rows.append(buffer)
kept = torch.stack(rows)
with pitfall("duplicate-samples") as p:
    p.shows(seen=f"{len(kept.unique(dim=0))} different rows", wanted=f"{len(points.unique(dim=0))} different rows")

# %% [markdown]
# **Explain.** A list holds references. All of them lead to the one buffer, which holds the last row. Counting
# different samples takes a line; so does comparing the outputs for two inputs, which here are equal.

# %%
# exercise: clinic.one_row

# %% [markdown]
# ## Then the model
# Count its parameters by hand, and compare. Then look at what differs between two units, two inputs, two steps.
# > **Predict.** A network of 32 hidden units starts with all weights 0.1. After 40 steps, how many units differ?

# %%
x, y = rings()
alike, usual = network(2, 32, 2), network(2, 32, 2)
with torch.no_grad():
    for parameter in alike.parameters():
        parameter.fill_(0.1)
for model in (alike, usual):
    train(model, batches(x, y), torch.optim.Adam(model.parameters(), lr=0.05))
with pitfall("symmetric-init") as p:
    p.shows(
        seen=f"{len(alike[0].weight.unique(dim=0))} different", wanted=f"{len(usual[0].weight.unique(dim=0))} different"
    )

# %% [markdown]
# **Explain.** Equal units get equal gradients. Only chance, or another position, makes them differ. Layers that the
# model does not know are the other silent loss: they compute, and are never moved (lesson 03).

# %%
# exercise: clinic.plain_list

# %%
# exercise: clinic.equal_weights

# %% [markdown]
# ## Chains and saturation
# Backward multiplies: one factor for each layer. Factors a little below 1 vanish with depth, factors a little above
# explode.
# > **Predict.** Ten layers, sigmoid or ReLU between them. How much smaller is the first layer's gradient than the last
# > one's?


# %%
def shares(model: nn.Sequential, x: Tensor, y: Tensor) -> list[float]:
    """Return the norm of each layer's gradient divided by that of its weight, from first to last."""
    model.zero_grad()
    F.cross_entropy(model(x), y).backward()
    weights = [layer.weight for layer in model if isinstance(layer, nn.Linear)]
    return [(weight.grad.norm() / weight.norm()).item() for weight in weights]


seed_everything(0)
widths = (2, *[24] * 9, 2)
deep = {"sigmoid": network(*widths, activation=nn.Sigmoid), "ReLU": network(*widths)}
for layer in deep["ReLU"][::2]:
    nn.init.kaiming_normal_(layer.weight)
flow = {name: shares(model, x, y) for name, model in deep.items()}
small = {name: values[0] < 1e-4 * values[-1] for name, values in flow.items()}
with pitfall("vanishing-gradient") as p:
    text = "the first layer gets less than a ten-thousandth of the last: "
    p.shows(seen=text + str(small["sigmoid"]), wanted=text + str(small["ReLU"]))

# %% tags=["measured"]
draw_lines(flow, x="layer, from the input", y="gradient / weight", title="Ten layers before training", log=True)

# %% [markdown]
# **Explain.** The slope of a sigmoid is at most 1/4, and nine of them make a factor below 4e-6. ReLU has slope 1 where
# it is on, and `kaiming_normal_` keeps the scale of what goes through. A straight fall in this picture, one factor for
# each layer, is vanishing. A single drop is something else: a layer that is cut off.
# > **Predict.** Twenty layers of 64 units, weights drawn from the normal distribution with deviation 1. Is that
# > better?

# %%
seed_everything(0)
wide = network(2, *[64] * 19, 2)
norms = {}
for name, draw in (("deviation 1", nn.init.normal_), ("kaiming", nn.init.kaiming_normal_)):
    for layer in wide[::2]:
        draw(layer.weight)
    wide.zero_grad()
    F.cross_entropy(wide(x), y).backward()
    norms[name] = wide[0].weight.grad.norm().item()
with pitfall("exploding-gradient") as p:
    text = "the first layer's gradient is above a million: "
    p.shows(seen=text + str(norms["deviation 1"] > 1e6), wanted=text + str(norms["kaiming"] > 1e6))

# %% [markdown]
# **Explain.** Each layer multiplies by about the root of half its width. No learning rate helps: it multiplies all
# layers alike. Clipping (lesson 05) limits the total; in recurrent networks, where the same matrix comes again and
# again, it is usual.
#
# A unit can be lost alone. A **dead ReLU** is below 0 for every sample: output 0, slope 0, for good. A **saturated**
# sigmoid is near 0 or 1: its slope is nearly 0. Both come from a step that was too large, or from inputs of another
# scale.
# > **Predict.** Three steps at a rate of 50, then a count. Do half of 64 ReLU units still get a gradient?


# %%
def units_with_a_gradient(lr: float) -> int:
    """Return how many of 64 units still get one after three steps."""
    seed_everything(0)
    model = network(2, 64, 2)
    train(model, [(x, y)], torch.optim.SGD(model.parameters(), lr=lr), 3)
    model.zero_grad()
    F.cross_entropy(model(x), y).backward()
    return int(model[0].weight.grad.any(1).sum())


with pitfall("dead-activation") as p:
    p.shows(
        seen=f"half of the units: {units_with_a_gradient(50) > 32}",
        wanted=f"half of the units: {units_with_a_gradient(0.1) > 32}",
    )

# %%
# exercise: clinic.deep_sigmoid

# %% [markdown]
# ## Losses that hardly push
# A loss can be right at its minimum and useless on the way. What counts is its slope where the network is wrong.
# > **Predict.** Two classes. The network says class 0 with logits (12, 0), and it is class 1. Squared error or
# > cross-entropy: which pushes?

# %%
logits, target = torch.tensor([[12.0, 0.0]], requires_grad=True), torch.tensor([1])
F.mse_loss(logits.softmax(1), F.one_hot(target, 2).float()).backward()
squared, logits.grad = logits.grad[0, 1].item(), None
F.cross_entropy(logits, target).backward()
with pitfall("mse-on-probabilities") as p:
    p.shows(seen=f"{-squared:.3f}", wanted=f"{-logits.grad[0, 1].item():.3f}")

# %% [markdown]
# **Explain.** The squared error has its largest slope where the network is unsure. Where it is sure and wrong, softmax
# is flat and nothing comes back. Cross-entropy's slope is the probability minus the target. A softmax too many has the
# same effect, and a floor.

# %%
# exercise: clinic.softmax_twice

# %% [markdown]
# In a regression look at shapes first. `(32, 1) - (32,)` is `(32, 32)`: every prediction against every target, whose
# best answer is the mean of all targets. `mse_loss` warns of it; an expression of your own does not.

# %%
# exercise: clinic.column_and_row

# %% [markdown]
# ## A hunt for NaN
# A NaN spreads: whatever is computed with it is NaN. So the place where you see it is rarely the place where it began.
# Ask in this order: inputs (`isfinite`), then the **first** module whose output is not finite, then the first
# gradient.
# > **Predict.** A network is sure: p is exactly 1, and the answer is 1. What is the cross-entropy by its formula?

# %%
p_one, mark = torch.tensor([20.0]).sigmoid(), torch.tensor([1.0])
by_hand = -(mark * p_one.log() + (1 - mark) * (1 - p_one).log())
with pitfall("log-of-zero") as p:
    p.shows(seen=by_hand.item(), wanted=round(F.binary_cross_entropy_with_logits(torch.tensor([20.0]), mark).item(), 6))
show("p_one.item()", "0 * torch.tensor(0.0).log()")

# %% [markdown]
# **Explain.** `0 * log(0)` is 0 times minus infinity, and that is NaN. Between 1 - 6e-8 and 1 float32 has no number,
# so a logit of 18 or more gives exactly 1. The functions that take logits never compute that p.
# > **Predict.** A row of padding only: its mean is 0 / 0. It is replaced with `where`. Is the gradient finite?

# %%
mask = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
values = torch.ones(2, 2, requires_grad=True)
weight = torch.ones((), requires_grad=True)
count = mask.sum(1) * weight
mean = (values * mask).sum(1) / count
with pitfall("division-by-zero") as p:
    p.shows(seen=f"finite: {mean.isfinite().all().item()}", wanted="finite: True")
torch.where(mask.sum(1) > 0, mean, 0.0).sum().backward()
with pitfall("division-by-zero") as p:
    p.shows(seen=f"gradient of the weight is finite: {weight.grad.isfinite().item()}", wanted="finite: True")
weight.grad = None
((values * mask).sum(1) / (mask.sum(1) * weight).clamp(min=1e-6)).sum().backward()
claim("mended before the division: the gradient is finite", weight.grad.isfinite().item(), equals=True)

# %% [markdown]
# **Explain.** `where` picks the finite branch for the value. Backward still goes through the other one, with a
# gradient of 0, and 0 times infinity is NaN. Repair the divisor, not the quotient (lesson 02).
#
# To find the place in a program there are two tools. A **hook** on every module tells the first output that is not
# finite. It costs little, and does not see what happens between modules. **Anomaly detection** stops backward at the
# first function that gives NaN, and names the line of the forward pass that called it. It is slow: switch it on for a
# few steps.
# > **Predict.** A network with a logarithm inside. Which of its modules does the hook name? Which function does
# > detection name?


# %%
class Logarithm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu().log()


def name_first_nonfinite(model: nn.Module, x: Tensor) -> str | None:
    """Return the name of the first module whose output is not finite."""
    found: list[str] = []

    def look(name: str) -> Any:
        return lambda module, inputs, output: None if output.isfinite().all() else found.append(name)

    leaves = [(name, part) for name, part in model.named_modules() if not list(part.children())]
    handles = [part.register_forward_hook(look(name)) for name, part in leaves]
    model(x)
    for handle in handles:
        handle.remove()
    return found[0] if found else None


seed_everything(0)
with_log = nn.Sequential(nn.Linear(4, 8), Logarithm(), nn.Linear(8, 3))
show("name_first_nonfinite(with_log, points)", "name_first_nonfinite(sound, points)")
with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(True):
    warnings.simplefilter("ignore")  # the traceback of the forward pass comes as a warning
    with pitfall("log-of-zero", RuntimeError):
        (0 * torch.zeros(1, requires_grad=True).log()).sum().backward()

# %% [markdown]
# **Explain.** Module 1 is the first; module 2 is NaN because of it. Detection names the function by its backward,
# `...Backward0`.

# %%
# exercise: clinic.own_logarithm

# %% [markdown]
# ## Why does nothing move?
# A weight moves when four things hold. Ask them in this order; each is one line.
#
# | | question | one line |
# | --- | --- | --- |
# | 1 | Does it want a gradient? | `p.requires_grad` |
# | 2 | Did one arrive after `backward()`? | `p.grad is not None and p.grad.any()` |
# | 3 | Does the optimizer hold this very tensor? | `any(p is q for g in opt.param_groups for q in g["params"])` |
# | 4 | Was `step()` called, and did the bits change? | `torch.equal(before, p)` |
#
# If all four hold, it does move, and the loss may change in a digit that nobody prints.
# > **Predict.** Accumulation over four batches, with a counter that nobody counts up. How many of 20 calls change a
# > weight?


# %%
def moves(counting: bool) -> int:
    """Return how many of 20 calls of a step change the first weight."""
    seed_everything(0)
    model, done, changes = network(4, 16, 3), 0, 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        before = model[0].weight.detach().clone()
        (F.cross_entropy(model(points), groups) / 4).backward()
        if done % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        done += counting
        changes += not torch.equal(before, model[0].weight)
    return changes


with pitfall("step-missing") as p:
    p.shows(seen=f"{moves(False)} of 20", wanted=f"{moves(True)} of 20")


# %%
def chain(p: nn.Parameter, loss: Tensor, optimizer: torch.optim.Optimizer) -> list[bool]:
    """Answer the four questions for one step."""
    before = p.detach().clone()
    optimizer.zero_grad()
    loss.backward()
    held = any(p is q for group in optimizer.param_groups for q in group["params"])
    optimizer.step()
    return [p.requires_grad, p.grad is not None and bool(p.grad.any()), held, not torch.equal(before, p)]


seed_everything(0)
head = network(4, 16, 5)
stale = torch.optim.SGD(head.parameters(), lr=0.1)
head[2] = nn.Linear(16, 3)  # the optimizer still holds the old one
print(
    "head replaced after the optimizer was made:", chain(head[2].weight, F.cross_entropy(head(points), groups), stale)
)
slow = torch.optim.SGD(head.parameters(), lr=1e-5)
first = F.cross_entropy(head(points), groups)
print("a rate of 1e-5:                            ", chain(head[2].weight, first, slow))
second = F.cross_entropy(head(points), groups)
show("f'{first.item():.3f}' == f'{second.item():.3f}'", "first.item() == second.item()")

# %% [markdown]
# **Explain.** The first one breaks at question 3: an optimizer keeps the tensors that it was given, not the model. The
# second one has four times yes, and three digits show no change. Print a difference, or the loss after a hundred
# steps, before you call it stuck.

# %%
# exercise: clinic.new_head

# %%
# exercise: clinic.never_steps

# %% [markdown]
# ## Plateau, rebound, over-fitting
# The two rings three times: a rate that is too high, one that suits, and 30 inputs of noise beside the two that matter.
# > **Predict.** Which validation loss rises while the training loss of the same run falls? Which one jumps about?

# %% tags=["measured"]
high, suits = fit_rings(epochs, 5.0), fit_rings(epochs, 0.05)
noisy = fit_rings(epochs, 0.05, columns_of_noise=30)
lines = {"rate 5": high["other loss"], "rate 0.05": suits["other loss"], "30 inputs of noise": noisy["other loss"]}
lines = {name: [min(value, 3.0) for value in losses] for name, losses in lines.items()}
lines["the same in training"] = noisy["loss"]
draw_lines(lines, x="epoch", y="validation loss, cut at 3", title="Three runs")
rise, end = noisy["other loss"][-1] / min(noisy["other loss"]), suits["other loss"][-1] / min(suits["other loss"])
claim("last validation loss over the lowest, with noise", rise, stated="it rises", low=1.2)
claim("the same without noise, rate 0.05", end, stated="at its lowest", high=1.05)

# %% [markdown]
# **Explain.** A plateau from the first step on has the causes of the last sections; a rate too high for the data
# jumps, and never arrives. A validation loss that rises while the training loss falls is over-fitting: the network
# learns by heart what does not generalise, here the noise. Cures are more data, augmentation, weight decay, and
# keeping the weights of the lowest point.
#
# **Saying: "validation above training means leakage".**
# > **Predict.** Fresh validation points that nobody has seen, dropout of one half. Which accuracy is higher, and in
# > which epoch most?

# %% tags=["measured"]
plain, dropped = fit_rings(epochs, 0.02), fit_rings(epochs, 0.02, dropout=0.5, width=16)
for name, run in (("no dropout", plain), ("dropout 0.5", dropped)):
    above = sum(b > a for a, b in zip(run["accuracy"], run["other accuracy"], strict=True))
    claim(f"epochs with validation above training, {name}", above, stated="not one, without leakage", high=0)

# %% [markdown]
# **Explain.** It does not follow. The training figure is a mean over an epoch, of weights that were still worse, in
# training mode, with dropout and augmentation. Measure the *training* samples again in evaluation mode after the
# epoch; if validation is still clearly above, look for leakage, or for a validation set that is small or easier.

# %%
# exercise: clinic.too_fast

# %% [markdown]
# ## Out of memory
# > **Predict.** Attention over 12 million tokens at once: one number for each pair. How many bytes are asked for?

# %%
tokens = 12_000_000
with pitfall("out-of-memory", RuntimeError):
    torch.empty(tokens, tokens)

# %% [markdown]
# **Explain.** On a GPU it is `torch.OutOfMemoryError`, and much sooner. Four things fill the memory: weights,
# gradients and optimizer state, which do not depend on the batch, and **activations**: what backward will need. The
# next cell counts those.
# > **Predict.** Twice the batch, a forward pass in bfloat16, recomputing in four segments: which factor has each?


# %%
seed_everything(0)
body = network(*[64] * 17, activation=nn.Tanh)
inputs = torch.ones(256, 64)
once, out = kept_bytes(lambda: body(inputs))
claim("a batch of 512 keeps, beside one of 256", kept_bytes(lambda: body(inputs.repeat(2, 1)))[0] / once, equals=2.0)
leaf = inputs.clone().requires_grad_()
recomputed, out = kept_bytes(lambda: checkpoint_sequential(body, 4, leaf, use_reentrant=False))
claim("with four segments recomputed", recomputed / once, equals=0.5)
with torch.autocast("cpu", torch.bfloat16):
    lower, out = kept_bytes(lambda: body(inputs))
claim("with bfloat16 it is less", lower < once, equals=True)
graphs, out = kept_bytes(lambda: [body(inputs).sum() for _ in range(5)])
numbers, out = kept_bytes(lambda: [body(inputs).sum().item() for _ in range(5)])
claim("five losses on a list keep, with the input once", graphs / once, equals=4.75)
claim("five numbers on a list keep", numbers, equals=0, unit="bytes")

# %% [markdown]
# **Explain.** Activations are proportional to the batch. Checkpointing keeps the ends of the segments and computes the
# rest again. A list of losses keeps every graph: that is the memory that grows from step to step until the program
# ends, and `item()` is its cure.
#
# | what you see | what it is | cure |
# | --- | --- | --- |
# | the first step fails | too much at once | smaller batch and accumulation, autocast, checkpointing |
# | it grows from step to step | kept graphs | `loss.item()`, `detach()` hidden states, no tensors on lists |
# | it fails in validation | graphs that nobody needs | `torch.no_grad()` or `inference_mode()` |
# | it fails at one batch of many | one long sample | bucket by length, cut, sort the longest first to fail early |
# | "reserved but unallocated" is large | **fragmentation** | `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` before the start |
# | another process holds it | not yours | `nvidia-smi`; restart the kernels that you forgot |
#
# On a GPU the next cell shows the numbers; `torch.cuda.memory_summary()` prints them all, with peaks. **Allocated** is
# what tensors use, **reserved** what PyTorch holds of the GPU to give it out again. `empty_cache()` returns unused
# parts to other processes; your own tensors do not get one byte more.

# %% tags=["measured"]
if torch.cuda.is_available() and device in ("auto", "cuda"):
    kept_there = body.to("cuda")(inputs.cuda())
    print(torch.cuda.memory_summary(abbreviated=True))
else:
    print("No GPU here: torch.cuda.memory_summary() has nothing to show.")

# %% [markdown]
# ## Saying: "a loss that is stuck means a bad network"
# The twelve reports all came with a loss that is stuck, or NaN, or grows. Here the doctor sees each as it was sent in.
# > **Predict.** In how many of the twelve is the network at fault? How many does the doctor name?

# %%
reports = {
    "data": ("dead_gauge", "labels_apart", "one_row"),
    "model": ("plain_list", "equal_weights", "deep_sigmoid"),
    "loss": ("softmax_twice", "column_and_row", "own_logarithm"),
    "optimisation": ("new_head", "never_steps", "too_fast"),
}
named = 0
for place, names in reports.items():
    for name in names:
        seed_everything(0)
        found = examine(**load_exercise(f"clinic.{name}").stub_object()).worst("warning")
        named += bool(found)
        print(f"{place:<13} {name:<15} {found[0].fault if found else 'nothing found'}")
claim("reports in which the network is at fault", len(reports["model"]), stated="3 of 12", equals=3)
claim("reports that the doctor names", named, stated="11 of 12", equals=11)

# %% [markdown]
# **Explain.** Three of twelve, in this collection; it was made to spread. What it shows is that the symptom does not
# tell the place. The one that the doctor misses is a matter of looking: only a person knows which label belongs to
# which point.
#
# ## Two tables to keep
# | symptom | look here first | then |
# | --- | --- | --- |
# | loss does not fall | labels beside inputs; one batch by heart | four questions; softmax twice; rate by tens |
# | loss is the same to the last digit | `step()`; order of `zero_grad` | optimizer made before the head |
# | NaN from the first step | `isfinite` of inputs | constant columns, `log`, division, rows of padding |
# | NaN after some steps | rate divided by ten | own logarithms; float16 overflow (lesson 08); clipping |
# | falls, then rises | the rate, a schedule per batch | over-fitting, if only validation rises |
# | training good, validation bad | same transform, `eval()`, no augmentation | over-fitting; a shift between the two sets |
# | validation better than training | modes, dropout, augmentation; running means | an easy or small set; leakage between them |
# | the same answer to everything | different samples in a batch? | dead units; broadcasting; classes out of balance |
# | slow | time without the loader (lesson 04) | `.item()` in each step; CPU copies; compile (lesson 09) |
# | out of memory though memory is free | reserved and unallocated | fragmentation; another process |
# | more GPUs, slower | batch for each GPU; waiting for data | communication (lesson 11) |
# | not reproducible | seeds of all generators, workers | nondeterministic kernels (lesson 07) |
# | no GPU seen | `torch.version.cuda`, `nvidia-smi` | CPU build; `CUDA_VISIBLE_DEVICES` (lesson 00) |
#
# | the error says | it means | lesson |
# | --- | --- | --- |
# | mat1 and mat2 shapes cannot be multiplied | the features are not what the layer expects | 03 |
# | Expected all tensors to be on the same device | something was not moved with `to` | 01 |
# | expected scalar type Long but found Float | class targets are indices, int64 | 05 |
# | Target ... is out of bounds; device-side assert triggered | a label outside 0 to C - 1; run it on the CPU | 05 |
# | element 0 of tensors does not require grad | frozen, detached, or under `no_grad` | 02 |
# | Trying to backward through the graph a second time | a hidden state or loss from the last step | 02 |
# | modified by an inplace operation | backward needs the old value | 02 |
# | optimizer got an empty parameter list | layers in a Python list; a generator used up | 03 |
# | Missing key(s) in state_dict | a prefix, or another model | 07 |
# | stack expects each tensor to be equal size | samples of different length | 04 |
# | Function '...Backward0' returned nan values | anomaly detection has found the place | 06 |
# | CUDA out of memory | see the table above | 06 |
#
# ## From symptom to understanding
# | what you see | fault | why | fix |
# | --- | --- | --- | --- |
# | NaN from the first step | nonfinite-data | 0 / 0 in a normaliser, gaps in a table | `isfinite` after each line |
# | chance, with data that look right | label-misaligned | sorted or shuffled apart | one permutation for both; look |
# | one answer to everything | duplicate-samples | one buffer many times | `clone()`; count different rows |
# | first layers rest | vanishing-gradient | slopes below 1, multiplied | ReLU, scale, normalisation, residuals |
# | inf in a deep or recurrent net | exploding-gradient | factors above 1, multiplied | initialisation, normalisation, clipping |
# | sure, wrong, and stays so | mse-on-probabilities | flat where it is sure | cross-entropy on logits |
# | NaN as soon as it is sure | log-of-zero | p is exactly 0 or 1 | functions that take logits |
# | NaN in rare batches | division-by-zero | empty masks, constant rows | clamp the divisor |
# | weights equal to the last bit | step-missing | `step()` is not reached | count the calls |
# | memory is exhausted | out-of-memory | batch, kept graphs, fragments | see "Out of memory" |
#
# **Read on:** [anomaly detection](https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection),
# [numerical accuracy](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html),
# [CUDA memory](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management),
# [checkpointing](https://docs.pytorch.org/docs/stable/checkpoint.html),
# [frequently asked questions](https://docs.pytorch.org/docs/stable/notes/faq.html).
