# %% [markdown]
# # 10 Profiling and throughput
# The loop of lesson 05 learns. How fast could it be? Everybody knows a trick, and most tricks are true of some other machine.
# This lesson believes none of them. It takes that loop as the **reference**, asks where its time goes, changes one thing at a
# time, and measures each change against the reference. Some changes win a lot, some nothing, and you will see both.
#
# **Goals.** You can time a loop so that others find the same ratio; say from a trace what to change first; count what backward
# keeps; and say of an operation whether memory or arithmetic limits it. **Prerequisites.** Lessons 02, 04 and 05. **Time.**
# About 150 minutes, half of them for exercises.
#
# **What it measures.** "A GPU at 30 % means the loader", "workers = cores", "larger batches are faster" and "channels_last helps
# convolutions"; and in the full profile, on the real images, a whole run with all that paid.

# %%
import os

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # silences the profiler's own log; it is read when torch is imported
import inspect
import itertools
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torchvision import transforms

from course import begin, check, choose_device, claim, hint, pitfall, seed_everything, solution
from course.data import ImageTensors, channel_statistics, cifar10, normalise, random_crop_flip
from course.data.alternating import AlternatingBatches
from course.environment.tools import compiler
from course.figures.roofline import draw_roofline
from course.figures.timeline import draw_timeline
from course.training.kept import kept_bytes
from course.training.made_up import MadeUpDevice, made_up_steps
from course.training.networks import fast_network
from course.training.profiling import busy_share, forward_flop, operations, parts_of, profile_steps
from course.training.recipes import RECIPES, train_recipe
from course.training.reference_loop import conv_net, loader_source, loading, repeated, resized, training, with_threads
from course.training.throughput import compare_throughput
from course.training.timing import compare_times

begin("10")

# %% tags=["parameters"]
device = "auto"  # "auto", "cpu", "cuda" or "mps"
profile = "quick"  # "smoke", "quick" or "full" (longer rounds, a compiled step, and a whole training run)
data = ""  # a folder that holds CIFAR-10; without one, COURSE_DATA or the drawn stand-in

# %%
run_device = choose_device(device)
batches, rounds, min_run_time = {"smoke": (1, 1, 0.001), "quick": (2, 3, 0.01), "full": (20, 7, 0.2)}[profile]
cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<85} {eval(expression, globals())!s}")


# %% [markdown]
# ## An honest clock
# An accelerator works on its own: a call puts work into a queue and returns, and Python goes on. So that everybody can see it, here
# is a **made-up device with a made-up clock**, in microseconds. It computes nothing.

# %%
print(inspect.getsource(MadeUpDevice))

# %% [markdown]
# > **Predict.** Each step queues work of 800. What does a clock say that is read right before and after the call? Then five steps
# > are timed, with synchronising, on a device that was just switched on: what is their mean, and what their median?

# %%
warm = MadeUpDevice()
warm.launch(0)
warm.synchronise()
with pitfall("clock-without-synchronise") as p:
    start = warm.now
    warm.launch(800)
    seen = warm.now - start
    warm.synchronise()
    p.shows(seen=seen, wanted=warm.now - start)
cold, times = MadeUpDevice(), []
for _ in range(5):
    start = cold.now
    cold.launch(800)
    cold.synchronise()
    times.append(cold.now - start)
with pitfall("warm-up-timed") as p:
    p.shows(seen=f"mean {sum(times) // len(times)} of {times}", wanted=f"median {sorted(times)[2]}")

# %% [markdown]
# **Explain.** The first clock timed the queue. The second was right each time, and its mean is still a number that no step took.
# So: warm up, synchronise, and take the median.
#
# Real machines add a third trouble. Other programs run, and the clock of the processor goes up and down.
# > **Predict.** A matrix product is compared with **itself**, in interleaved rounds. How far from 1 is the ratio?

# %% tags=["measured"]
square = torch.randn(256, 256, device=run_device)
cases = {"once": lambda: square @ square, "and again": lambda: square @ square}
compare_times(cases, rounds=9, min_run_time=min_run_time)

# %% [markdown]
# **Explain.** That is the **noise floor** of this machine, now: a smaller gain is no gain. What helps:
# - **Interleave** A, B, B, A, take ratios within a round, and report their **median and middle half**.
# - Count **CPU seconds** beside seconds: they show what threads and workers cost, and other programs disturb them less.
#
# `compare_times` does that for calls, with `torch.utils.benchmark.Timer`. `compare_throughput` does it for loops: images per
# second, and per CPU second of this process and its workers.

# %%
# exercise: throughput.honest_timer

# %% [markdown]
# ## The reference loop
# As in lesson 05: PIL images, each cropped, mirrored, made a tensor and normalised; a `DataLoader` with two workers; batches
# of 64; conv32-pool-conv64-pool-linear; Adam at 1e-3. The layers stand in the usual order, conv, ReLU, pool, and in the default
# layout: the course's own `reference_network` has already taken two of the steps below.

# %%
print(inspect.getsource(training), inspect.getsource(loader_source), sep="\n")

# %% [markdown]
# Look at `order.wanted`. A loader fetches ahead. Whoever times twenty batches of an endless loader with full queues has timed
# sixteen, and was given four. This one makes exactly the batches that are asked for.

# %%
train_set, test_set = cifar10("train", data or None), cifar10("test", data or None)
real = "stand-in" not in train_set.source
memory = ImageTensors.from_dataset(train_set)
mean, std = channel_statistics(memory.images)
augment = [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip()]
scale = transforms.Normalize(mean.tolist(), std.tolist())
train_set.transform = transforms.Compose([*augment, transforms.ToTensor(), scale])
in_pil = loader_source(train_set, workers=2)
reference, ladder = training(in_pil, conv_net().to(run_device)), {}
compare = partial(compare_throughput, batches=batches, rounds=rounds, warmup=1)

# %% [markdown]
# ## Where the time goes
# The cheapest question first: leave a part out. A loop that only loads, and one that only computes, with the same batch again and
# again, say how fast the whole could be if the other part cost nothing.
# > **Predict.** Two processes load while this one computes. Is the loop as fast as the slower of its parts, or slower than both?

# %% tags=["measured"]
((inputs, targets),) = in_pil(1)
one_batch = inputs.to(run_device), targets.to(run_device)
compute = training(repeated(one_batch), conv_net().to(run_device))
compare({"reference loop": reference, "only loading": loading(in_pil), "only computing": compute})

# %% [markdown]
# **Explain.** The smaller of the two bounds is the **bottleneck**. Where cores are free, or an accelerator computes, the loop comes
# close to it. Where the network uses the cores that the workers want, the times add up, and the loop is slower than both.
#
# A **profiler** says more. `torch.profiler.profile` notes start and duration of every operation, and of every part that is named with
# `record_function`. An accelerator is waited for after each part, so that work counts where it was given. That slows the loop
# down; it belongs into a profile, and never into a measurement of speed.
# > **Predict** the shares of the parts of a step: load, transfer (to an accelerator), forward, backward, optimizer.

# %% tags=["measured"]
record = profile_steps(in_pil, conv_net().to(run_device), steps=2 if profile == "smoke" else 4)
draw_timeline(parts_of(record), title="Steps of the reference loop")
rows = [row for row in record.key_averages() if row.key.startswith("aten::")]
for row in sorted(rows, key=lambda row: -row.self_cpu_time_total)[:8]:
    print(f"{row.key:<40} {row.self_cpu_time_total / 1e3:8.2f} ms in {row.count:4d} calls")

# %% [markdown]
# **Explain.** "load" is what the loop *waits* for a batch, and not what it costs to make one: that happens in other processes. A step
# that waits is limited by its loader. A step that does not wait gains nothing from a faster loader, but free cores.
#
# The list below the picture names operations by the time in themselves, without what they call. Much of it stands where nobody looks:
# pooling, filling with zeros, ReLU. `record.key_averages().table(sort_by="self_cpu_time_total")` prints all of it, and
# `record.export_chrome_trace("trace.json")` writes it for [Perfetto](https://ui.perfetto.dev), and for programs: it is JSON.
# Add `ProfilerActivity.CUDA` for the kernels of a GPU.

# %%
with tempfile.TemporaryDirectory() as folder:
    record.export_chrome_trace(f"{folder}/trace.json")
    events = json.loads(Path(folder, "trace.json").read_text(encoding="utf-8"))["traceEvents"]
forward = next(event for event in events if event.get("name") == "forward")
show("[key for key in ('name', 'ts', 'dur', 'tid') if key in forward]")  # microseconds, and the thread

# %%
# exercise: throughput.find_bottleneck

# %% [markdown]
# **Saying: "a GPU at 30 % means the loader".** Three loops on the made-up device. One waits for its loader. One launches many small
# operations, each of them shorter than its launch. One prints the loss of each step.
# > **Predict** how busy the device is in each. Which of them does a faster loader help?

# %%
loops = {
    "waits for its loader": {"python": 1000, "work": 300},
    "small operations": {"launches": 100, "work": 3},
    "prints the loss": {"python": 600, "work": 270, "waits": True},
}
for name, what in loops.items():
    time, share = made_up_steps(20, **what)
    print(f"{name:<22} {time:6d} us, busy {100 * share:.0f} %")

# %% tags=["measured"]
share = busy_share(compute, 20, run_device)
busy = {"stated": "only a loader leaves it idle", "low": 90, "unit": "%", "reason": "there is no CUDA device to watch"}
claim("GPU at work, without any loader", share and 100 * share, **busy)

# %% [markdown]
# **Explain.** All three are near 30 %. "Utilisation" says that a device waits, and never for what. A small network with small
# batches leaves a large GPU idle with no loader at all. Leave the loader out of the loop, and you know.
#
# ## The data set in memory
# Fifty thousand small images are 150 MB as uint8. Keep them as **one tensor**: no queue, no pickling from process to process.
# Torchvision's augmentation stays, now on tensors, still image by image.
#
# **Saying: "workers = cores".**
# > **Predict.** Order these by speed when nothing else runs: no worker, two, as many as cores, and the tensor in memory.


# %%
def image_by_image(count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of 64 from memory, each image augmented by itself."""
    each = transforms.Compose(augment)
    for images, targets in itertools.islice(memory.batches(64, shuffle=True, drop_last=True), count):
        yield normalise(torch.stack([each(image) for image in images]), mean, std), targets


# %% tags=["measured"]
as_cores = min(cores, 8)
sources = {f"{number} workers": loader_source(train_set, number) for number in sorted({0, 2, as_cores})}
loaders = {name: loading(source) for name, source in sources.items()} | {"in memory": loading(image_by_image)}
print("Only loading", compare(loaders), sep="\n")
loops = {name: training(source, conv_net().to(run_device)) for name, source in sources.items()}
trained = compare(loops | {"in memory": training(image_by_image, conv_net().to(run_device))})
print("\nTraining", trained, sep="\n")
share = trained[f"{as_cores} workers"].per_second / max(trained[name].per_second for name in sources)
claim("workers = cores, against the best number", share, stated="the best number", low=0.95, unit="x")
ladder["data set in memory"] = trained.ratio("in memory", "2 workers")
del sources, loaders, loops  # ends their workers

# %% [markdown]
# **Explain.** Workers buy images per second as long as a core is free, and pay in images per CPU second. While the network trains, cores
# are rarely free: no rule knows your machine. "In memory" has lost the processes, and now makes its batches itself, while the
# network waits. Whether that is a step forwards depends on free cores. What is left to pay is the work itself: that is next.
#
# ## The whole batch at once
# An operation of torch costs microseconds before it does anything. An image of 32 x 32 is done in less.
# > **Predict.** 8 images are mirrored one by one, then 16. Does the number of operations grow? And for `random_crop_flip`?


# %%
def mirrored_one_by_one(images: Tensor) -> Tensor:
    return torch.stack([image.flip(-1) if number % 2 else image for number, image in enumerate(images)])


few = memory.images[:16]
with pitfall("python-loop-over-images") as p:
    grows = {}
    for function in (mirrored_one_by_one, random_crop_flip):
        less, more = (operations(partial(function, few[:count])).total() for count in (8, 16))
        grows[function] = more > less
    p.shows(seen=f"grows: {grows[mirrored_one_by_one]}", wanted=f"grows: {grows[random_crop_flip]}")

# %% [markdown]
# **Explain.** `random_crop_flip` draws offsets and flips for all images, computes from them where each pixel comes from, and fetches all
# pixels in one `gather`. There is a wrong way to be as fast: to give the batch to a transform that was made for one image.
# > **Predict.** A batch holds one image 64 times. How many different ones come out of `RandomCrop` and `RandomHorizontalFlip`?

# %%
copies = memory.images[:1].expand(64, -1, -1, -1)
seed_everything(0)
with pitfall("one-draw-for-the-batch") as p:
    ways = transforms.Compose(augment), random_crop_flip
    alike = [bool((batch == batch[:1]).all()) for batch in (way(copies) for way in ways)]
    p.shows(seen=f"all 64 alike: {alike[0]}", wanted=f"all 64 alike: {alike[1]}")

# %%
# exercise: throughput.crop_flip

# %% tags=["measured"]
there = memory.to(run_device)
to_zero_mean = partial(normalise, mean=mean.to(run_device), std=std.to(run_device))


def whole_batch(count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches from memory, on the device of the run, augmented at once."""
    ready = there.batches(64, True, drop_last=True, transform=lambda x: to_zero_mean(random_crop_flip(x)))
    return itertools.islice(ready, count)


loops = {"reference loop": reference, "whole batch": training(whole_batch, conv_net().to(run_device))}
step = compare(loops | {"only computing": compute})
ladder["whole-batch augmentation"] = step.ratio("whole batch")
print(step)
share = step.ratio("whole batch", "only computing")
claim("whole batches, against computing alone", share, stated="loading is nearly free", low=0.9, unit="x")

# %% [markdown]
# **Explain.** The order matters, too: crop while pixels are bytes, then make them floats, which are four times as large. Now the loop is
# about as fast as its own network. No loader in the world makes it faster. The network has to.
#
# ## Layout
# In the default layout of images a channel is stored whole, one after the other. With `channels_last` the channels of a pixel are
# neighbours. Shapes stay (lesson 01). Weights in that layout are enough: the first convolution passes it on.
#
# **Saying: "channels_last helps convolutions".**
# > **Predict.** Forward and backward of a convolution and of a pooling layer, in both layouts. Which of the two gains?

# %%
hidden = conv_net().to(memory_format=torch.channels_last)[0](to_zero_mean(few))
claim("the layout is passed on", hidden.is_contiguous(memory_format=torch.channels_last), equals=True)

# %% tags=["measured"]
shape, cases = (2 if profile == "smoke" else 16, 32, 16, 16), {}
makers = {"convolution": partial(nn.Conv2d, 32, 64, 3, padding=1), "pooling": partial(nn.MaxPool2d, 2)}
for name, make in makers.items():
    for layout in ("contiguous_format", "channels_last"):
        layer = make().to(run_device, memory_format=getattr(torch, layout))
        x = torch.randn(shape, device=run_device).to(memory_format=getattr(torch, layout)).requires_grad_()
        cases[f"{name}, {layout}"] = partial(lambda layer, x: layer(x).sum().backward(), layer, x)
layers = compare_times(cases, rounds=2 * rounds, min_run_time=min_run_time)
print(layers)
for name in ("convolution", "pooling"):
    faster = layers.ratio(f"{name}, contiguous_format", f"{name}, channels_last")
    claim(f"channels_last, {name}", faster, stated="helps", low=1.1, unit="x")

# %% tags=["measured"]
laid_out = training(whole_batch, conv_net().to(run_device, memory_format=torch.channels_last))
step = compare(loops | {"channels_last": laid_out})
ladder["channels_last"] = step.ratio("channels_last")
step

# %% [markdown]
# **Explain.** On a CPU the library behind convolutions rearranges what it gets into a layout of its own, so the convolution hardly cares.
# Pooling does: with channels as neighbours one instruction compares many of them. On a GPU it is the convolutions that gain, with
# half-precision numbers and channels in multiples of eight. Measure the layers of your own network.
#
# ## Fewer numbers through the same layers
# ReLU never changes which of four numbers is the largest, so pooling can come first.
# > **Predict.** Are the outputs equal to the last bit, and what work is saved? Is the gradient the same?

# %%
x, results = to_zero_mean(few), []
for model in (conv_net(), conv_net(pool_first=True)):
    F.cross_entropy(model(x), torch.arange(16) % 10).backward()
    results.append((model(x), [parameter.grad for parameter in model.parameters()]))
(outputs, gradients), (outputs_first, gradients_first) = results
claim("pooling first: the same outputs", torch.equal(outputs, outputs_first), equals=True)
close = all(map(partial(torch.allclose, atol=1e-6), gradients, gradients_first))
claim("pooling first: the same gradients", close, equals=True)

# %% [markdown]
# **Explain.** ReLU gets a quarter of the numbers, forward and backward. No library does that for you: it is *your* network.
#
# The **optimizer** has little to do with 60,000 parameters, and does it in many small operations. `fused=True` makes them one call.
# > **Predict.** Which of the two steps is above the noise floor? Look at the profile above before you answer.

# %% tags=["measured"]
pooled, fused = (conv_net(pool_first=True).to(run_device, memory_format=torch.channels_last) for _ in range(2))
loops = {"reference loop": reference, "channels_last": laid_out}
loops |= {"and pooling first": training(whole_batch, pooled), "and fused": training(whole_batch, fused, fused=True)}
step = compare(loops)
ladder |= {"pooling first": step.ratio("and pooling first"), "fused optimizer": step.ratio("and fused")}
step

# %% [markdown]
# **Explain.** A gain is limited by the share of what it changes: make four per cent of the time twice as fast, and you gain two. With
# more parameters, or on a GPU where each small operation is a launch, the same switch can matter.
#
# ## A loop that does not wait
# A progress bar with the loss of each step is nice. It wants a number, and a number has to be waited for.
# > **Predict.** Python prepares each step in 300, the device computes it in 500. How long do four steps take, if each one ends
# > with `loss.item()`, and how long if the loop asks once, at the end?

# %%
with pitfall("item-in-the-loop") as p:
    times = [made_up_steps(4, python=300, work=500, waits=waits)[0] for waits in (True, False)]
    p.shows(seen=times[0], wanted=times[1])
loss = F.cross_entropy(torch.zeros(4, 10), torch.arange(4))
fetch = "aten._local_scalar_dense"  # the operation that hands a number to Python
show("operations(lambda: loss.item())[fetch]", "operations(lambda: loss.detach() * 4)[fetch]")

# %% [markdown]
# **Explain.** While the device works, Python prepares the next step, unless it has to wait: `.item()`, `print(loss)`, `if loss > x`,
# `.cpu()` and `.tolist()` all do. Add up on the device, and ask once. A CPU loses nothing by it, so such a line survives until
# the day the loop moves.

# %%
# exercise: throughput.fastest_loop

# %% [markdown]
# ## Larger batches
# **Saying: "larger batches are faster".**
# > **Predict.** Images per second of the network alone: with batches of 64, and of 256?

# %% tags=["measured"]
models = {size: conv_net(pool_first=True).to(run_device, memory_format=torch.channels_last) for size in (64, 256)}
loops = {f"batches of {size}": resized(one_batch, size, model) for size, model in models.items()}
sizes = compare(loops, batches=4 * -(-batches // 4), warmup=4)  # as many images of either size
print(sizes)
claim("batches of 256", sizes.ratio("batches of 256"), stated="faster than 64", low=1.05, unit="x")

# %% [markdown]
# **Explain.** A larger batch spreads the cost of a call over more images; that pays on a GPU, until it is full. On a CPU large tensors
# fall out of the caches, and each layer fetches them from memory again.
#
# It is another training, too: an epoch has fewer steps.
# > **Predict.** A plane is fitted in one epoch of 256 points by SGD at the rate 0.1, with batches of 16. Then the batches are made four
# > times as large, and nothing else. How does the loss change?

# %%
points = torch.randn(256, 2, generator=torch.Generator().manual_seed(0))


def loss_after_an_epoch(batch_size: int, rate: float) -> float:
    weights, goal = torch.zeros(2), torch.tensor([2.0, -1.0])
    for part in points.split(batch_size):
        weights = weights - rate * 2 / len(part) * part.t() @ (part @ (weights - goal))
    return round(F.mse_loss(points @ weights, points @ goal).item(), 2)


with pitfall("learning-rate-not-scaled") as p:
    p.shows(seen=loss_after_an_epoch(64, 0.1), wanted=loss_after_an_epoch(16, 0.1))
show("loss_after_an_epoch(64, 4 * 0.1)")

# %% [markdown]
# **Explain.** A rule of thumb: multiply the rate of SGD by the same factor, that of Adam by its root. It ends where a rate is too high
# for any batch. And a schedule that counts steps has to be told the new number. What counts is accuracy after the same time.
#
# ## Threads, and the compiler
# > **Predict.** Two threads do the work of one. Are there twice as many images per second? And per CPU second?

# %% tags=["measured"]
final = training(whole_batch, fused, fused=True)
threads = sorted({1, 2, cores}) if run_device.type == "cpu" and cores > 1 else [1]
tried = compare({f"threads: {number}": with_threads(number, final) for number in threads}, batches=-(-batches // 2))
print(tried)
gain = tried.ratio(f"threads: {threads[-1]}") / threads[-1] if len(threads) > 1 else None
reason = "the loop runs on an accelerator, or there is one core"
claim("gain per thread with all cores", gain, stated="as many threads, as many times", low=0.9, unit="x", reason=reason)

faster, reason = None, "the full profile does it" if profile != "full" else "no compiler for this device here"
if profile == "full" and (run_device.type == "cuda" or (run_device.type == "cpu" and compiler().state == "ok")):
    from course.training.compilation import without_cuda_notice

    without_cuda_notice()
    compiled = torch.compile(conv_net(pool_first=True).to(run_device, memory_format=torch.channels_last))
    faster = compare({"eager": final, "compiled": training(whole_batch, compiled, fused=True)}).ratio("compiled")
claim("the same loop, compiled", faster, stated="20-40 % faster", low=1.2, high=1.4, unit="x", reason=reason)

# %% [markdown]
# **Explain.** What is not shared out among threads stays as it is, memory has one width for all of them, and on a busy machine a thread too
# many makes the others wait. Compiling (lesson 09) fuses what lies between convolutions; with generated pooling it may well lose.
#
# ## The shape of the network
# > **Predict.** The second convolution is replaced by a *depthwise* one (a filter for each channel, no sums across channels) and a
# > 1 x 1 convolution. That is an eighth of its arithmetic. How much faster is the loop?


# %%
def depthwise_net() -> nn.Sequential:
    model = conv_net(pool_first=True)
    model[3] = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 64, 1))
    return model


fast = fast_network(to_zero_mean(memory.images[:500]))
networks = {"reference": conv_net(pool_first=True), "depthwise": depthwise_net(), "lesson 05's fast one": fast}
for name, model in networks.items():
    print(f"{name:<22} {forward_flop(model) / 1e6:6.2f} million FLOP an image")
by_hand = 2 * (32 * 32 * 32 * 27 + 64 * 16 * 16 * 288 + 4096 * 10)
claim("FLOP of the reference network", forward_flop(networks["reference"]), equals=by_hand)

# %% tags=["measured"]
moved = {name: model.to(run_device, memory_format=torch.channels_last) for name, model in networks.items()}
shapes = compare({name: training(whole_batch, model, fused=True) for name, model in moved.items()})
print(shapes, "FLOP of forward and backward (three times forward) per CPU second:", sep="\n\n")
for name, model in networks.items():
    print(f"{name:<22} {3 * forward_flop(model) * shapes[name].per_cpu_second / 1e9:6.1f} GFLOP/s")

# %% [markdown]
# **Explain.** Less arithmetic is not as much less time: a depthwise convolution moves as many numbers as it computes with. The fast
# network computes more for each image and needs far fewer images. So count **accuracy per second**, and nothing smaller.
#
# ## Who holds the memory
# > **Predict.** One training step of the reference network, 64 images, Adam. Order by size: parameters, gradients, the optimizer's
# > state, what forward keeps for backward (**activations**).

# %%
model, x = conv_net(), torch.zeros(64, 3, 32, 32)
optimizer = torch.optim.Adam(model.parameters())
activations, outputs = kept_bytes(lambda: model(x))
outputs.sum().backward()
optimizer.step()
state = sum(t.nbytes for entry in optimizer.state.values() for t in entry.values())
show("sum(p.nbytes for p in model.parameters()), sum(p.grad.nbytes for p in model.parameters()), state")
# images, ReLU's results, pooling's results where the next layer keeps them, pooling's int64 positions
by_hand = 4 * 64 * (3072 + 32768 + 8192 + 16384 + 4096) + 8 * 64 * (8192 + 4096)
claim("bytes of activations", activations, equals=by_hand)
four_times = kept_bytes(lambda: model(x.repeat(4, 1, 1, 1)))[0]
claim("activations of 256 images, against 64", four_times / activations, equals=4.0)

# %% [markdown]
# **Explain.** Small network, large activations: they grow with the batch, and nothing else does. So accumulation (lesson 05) saves
# memory: four micro-batches of 64 keep a quarter of what 256 images keep, and give the same gradient. On a GPU see
# `torch.cuda.max_memory_allocated()`. A list of losses without `detach()` holds every graph (lesson 02).

# %%
# exercise: throughput.peak_activation

# %% [markdown]
# ## Compute it twice, keep it once
# **Checkpointing** keeps the inputs of a block, and runs the block again during backward.
# > **Predict.** Eight blocks with dropout, in two, four or eight checkpointed segments. Which keeps least after forward? Is the
# > gradient the same, although dropout runs twice?

# %%
seed_everything(0)
blocks = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.5)) for _ in range(8)])
x = torch.randn(256, 64)


def kept_and_gradients(run: Callable[[Tensor], Tensor]) -> tuple[int, list[Tensor]]:
    blocks.zero_grad()
    torch.manual_seed(1)
    kept, outputs = kept_bytes(lambda: run(x))
    outputs.square().mean().backward()
    return kept, [parameter.grad for parameter in blocks.parameters()]


in_parts = partial(checkpoint_sequential, blocks, use_reentrant=False)
kept, gradients = kept_and_gradients(blocks)
parts = {n: kept_and_gradients(lambda x: in_parts(n, x))[0] for n in (2, 4, 8)}  # noqa: B023
show("kept", "parts")
by_hand = {n: (n - 1) * x.nbytes + kept // n for n in parts}  # the inputs of all but the last, and the last one whole
claim("bytes kept with segments", parts, equals=by_hand)
_, gradients_in_parts = kept_and_gradients(lambda x: in_parts(4, x))
claim("the same gradients", all(map(torch.equal, gradients_in_parts, gradients)), equals=True)
with pitfall("checkpointed-dropout-redrawn") as p:
    _, redrawn = kept_and_gradients(lambda x: in_parts(4, x, preserve_rng_state=False))
    p.shows(seen=f"same gradients: {all(map(torch.equal, redrawn, gradients))}", wanted="same gradients: True")

# %% [markdown]
# **Explain.** A segment keeps its input; the last one keeps everything, because backward begins there. The peak comes later: what is
# kept, and one segment that is computed again. Few segments are long ones, many keep many inputs; about the root of the number of
# blocks is a good start. The price is one more forward pass: it buys memory, and never speed.

# %%
# exercise: throughput.checkpointed

# %% [markdown]
# ## The roofline of this machine
# A machine moves so many bytes a second, and computes so many FLOP. **Intensity** is what an operation computes for each byte that it
# moves. Little: memory limits it, and the roof rises with intensity. Much: arithmetic does, and the roof is flat.
# > **Predict.** Where do ReLU, the two convolutions, and a linear layer with one row and with 16 rows stand?

# %% tags=["measured"]
width = {"smoke": 256, "quick": 1536, "full": 4096}[profile]
a, b = torch.randn(2, width, width, device=run_device)  # larger than a cache
side = min(width, 512 if run_device.type == "cpu" else 4096)
square = torch.randn(side, side, device=run_device)
calls = {"copy": lambda: b.copy_(a), "matmul": lambda: square @ square, "ReLU": a.relu}
moved, flop = {"ReLU": 2 * a.nbytes}, {"ReLU": a.numel()}
images, hidden = torch.randn(16, 3, 32, 32, device=run_device), torch.randn(16, 32, 16, 16, device=run_device)
wide = nn.Linear(width, width, device=run_device)
cases = {"first convolution": (fused[0], images), "second convolution": (fused[3], hidden)}
cases |= {"linear, 1 row": (wide, a[:1]), "linear, 16 rows": (wide, a[:16])}
with torch.inference_mode():
    for name, (layer, x) in cases.items():
        calls[name], moved[name] = partial(layer, x), sum(t.nbytes for t in (x, layer(x), *layer.parameters()))
        flop[name] = forward_flop(layer, tuple(x.shape))
    timed = compare_times(calls, rounds=8 * rounds, min_run_time=1e-6, threads=torch.get_num_threads())
least = {name: min(timed[name].seconds) for name in calls}  # the fastest call: a roof says what is possible
bandwidth, peak = 2 * a.nbytes / least["copy"], 2 * len(square) ** 3 / least["matmul"]
points = {name: (flop[name] / moved[name], flop[name] / least[name]) for name in moved}
draw_roofline(bandwidth, peak, points)

# %% [markdown]
# **Explain.** A point far below its roof can be made faster. A point at the sloping roof gets faster only by moving less: fewer passes,
# smaller numbers, fusion. A point above it found its numbers in a cache. That is why a larger batch helps the linear layer, where
# each weight is fetched once for all rows, and why ReLU behind the pooling costs less.

# %%
# exercise: throughput.roofline

# %% [markdown]
# ## The whole run
# What each step brought; then all that paid, with the network of lesson 05, a recipe, and one more idea: `AlternatingBatches`
# mirrors an image in every other epoch, so that two epochs show it both ways. A test image is judged with its mirror image.

# %% tags=["measured"]
for name, ratio in ladder.items():
    print(f"{name:<26} {ratio:5.2f} times the reference loop")
count, changes = {"smoke": (128, {"epochs": 1}), "quick": (256, {"epochs": 2}), "full": (len(there), {})}[profile]
recipe = replace(RECIPES["75 %"], **changes)
chosen = ImageTensors(there.images[:count], there.targets[:count])
tests = ImageTensors.from_dataset(test_set, None if profile == "full" else 200).to(run_device)
augmented = AlternatingBatches(chosen, recipe.batch_size, recipe.padding, seed_everything(recipe.seed), to_zero_mean)
judged = tests.batches(500, transform=to_zero_mean)
network, entries = train_recipe(recipe, augmented, judged, to_zero_mean(there.images[:5000]), after_epoch=print)
whole = real and profile == "full"
why = "needs the full run on the real images: course run 10 --full --param data=FOLDER"
accuracy = 100 * entries[-1].accuracy if whole else None
claim("test accuracy of the recipe", accuracy, stated="passes 75 %", low=75, unit="%", reason=why)

# %% [markdown]
# ## From symptom to understanding
# | what you see | fault | why | fix |
# | --- | --- | --- | --- |
# | steps take no time, then one takes all | clock-without-synchronise | the queue was timed | synchronise, then read the clock |
# | mean far above median | warm-up-timed | first calls are others | warm up, take medians |
# | time grows with the number of images in Python | python-loop-over-images | a call for each image | one operation for the batch |
# | fast augmentation that helps less than it should | one-draw-for-the-batch | one decision for all | one draw an image |
# | idle between steps, no loader | item-in-the-loop | waits for a number | add up on the device |
# | faster epochs, worse network | learning-rate-not-scaled | fewer steps | scale the rate, tell the schedule |
# | checkpointed training is worse | checkpointed-dropout-redrawn | another mask | `preserve_rng_state=True` |
#
# ## A table to keep
# | question | ask | if yes |
# | --- | --- | --- |
# | is it a gain? | is it above the noise floor, A against A? | keep it, write the ratio down |
# | is it the loader? | is the loop faster with one batch again and again? | memory, whole batches, workers |
# | is it waiting? | `.item()`, `print`, `.cpu()` in the loop? | once an epoch |
# | is it launches? | many operations of microseconds in the profile? | larger batches, fused, `torch.compile` |
# | is it memory traffic? | below the ridge of the roofline? | fewer passes, fewer bytes |
# | is it memory space? | activations against the rest? | accumulate, checkpoint |
#
# **Read on:** [torch.profiler](https://docs.pytorch.org/docs/stable/profiler.html), [benchmark](https://docs.pytorch.org/docs/stable/benchmark_utils.html),
# [checkpoint](https://docs.pytorch.org/docs/stable/checkpoint.html), [tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html),
# [channels_last](https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html).
