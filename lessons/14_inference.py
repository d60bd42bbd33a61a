# %% [markdown]
# # 14 From checkpoint to answer
# A trained network is a file. A user has an image, and wants an answer, in time, whatever the image is. This lesson
# goes the way between the two: load, prepare, run, choose among the variants of lessons 12 and 13, answer, refuse.
#
# **Goals.** You can say what `eval` and `inference_mode` change; put preprocessing where it belongs; measure latency
# so that the number means something; trade latency for throughput by batching; choose a variant under a budget by a
# table of this machine; and write a `predict()` that answers what it should and refuses the rest. **Prerequisites.**
# Lessons 07, 12 and 13. **Time.** About 120 minutes, two thirds of them for 7 exercises.
#
# **What it measures.** What inference mode saves, what a mean hides, what a batch of 64 and a second thread gain, and
# the latency, accuracy and bytes of each variant. All of it on the processor that runs it, which may decide otherwise
# than yours.

# %%
import copy
import io
import math
import os
import pickle
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from course import begin, check, choose_device, claim, hint, pitfall, solution
from course.data.places import cache
from course.deployment import int8
from course.deployment.choose import NothingFits, choose
from course.deployment.latency import measure_latency
from course.deployment.predict import BadInput, Predictor
from course.deployment.runtime import InputMismatch
from course.deployment.small import small_network, trained_network
from course.deployment.variants import Variant, judge
from course.environment.tools import compiler
from course.figures.budget import Point, draw_budget, draw_calls_in_order
from course.training.checkpoint.files import load, save_atomically
from course.training.compilation import without_cuda_notice
from course.training.timing import duration

begin("14")

# %% tags=["parameters"]
device = "auto"  # "auto", "cpu", "cuda" or "mps": the variants run on the CPU; with CUDA one more cell runs
profile = "quick"  # "smoke" (two batches of training), "quick" or "full" (more timed calls, and int8 by inductor)

# %%
run_device = choose_device(device)
torch.set_num_threads(1)
sizes = {"smoke": {"train": 128, "test": 128, "epochs": 1}}.get(profile, {})
calls = {"smoke": 2, "quick": 60, "full": 400}[profile]
can_compile, no_compiler = (True, None) if compiler().state == "ok" else (False, "no C++ compiler here")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache() / "inductor"))
torch._inductor.config.compile_threads = 1  # compile in this process, not in others that it starts
without_cuda_notice()
scratch = tempfile.TemporaryDirectory(prefix="lesson-14-")
folder = Path(scratch.name)
shipped = trained_network(**sizes)  # as in lesson 13; trained when the cache has none, about half a minute


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<80} {eval(expression, globals())!s}")


# %% [markdown]
# ## From a file to a network
# What answers later is more than weights: the names of the classes, and the mean and std of the training images,
# without which the same weights give other answers. They belong into the same file. As in lesson 07, it is written
# whole or not at all, holds plain values only, and is read with `weights_only=True`.
# > **Predict.** A colleague sends `torch.save(network, ...)` instead. What does `torch.load` say?

# %%
save_atomically(
    {
        "weights": shipped.network.state_dict(),
        "classes": list(shipped.classes),
        "mean": shipped.mean,
        "std": shipped.std,
    },
    folder / "shipped.pt",
)
content = load(folder / "shipped.pt")
network = small_network(len(content["classes"]))
network.load_state_dict(content["weights"])
torch.save(network, folder / "whole.pt")
with pitfall("weights-only-refused", pickle.UnpicklingError):
    torch.load(folder / "whole.pt")
show("sorted(content)", "network.training", "next(network.parameters()).requires_grad")

# %% [markdown]
# **Explain.** It refuses: to read a whole module is to run what the file says. The file with plain values loads. Look
# at the last two lines: a network fresh from its class is in **training mode**, and its parameters want gradients.
# Neither stands in a file.
#
# ## eval and inference_mode
# Two switches, often confused. `network.eval()` sets an attribute of every module, which Dropout and BatchNorm read.
# `torch.inference_mode()` speaks to autograd, inside of a block of code.
# > **Predict.** The network still trains. It answers within `inference_mode`. Do its running statistics move?

# %%
images, targets = shipped.test.images, shipped.test.targets
normalised = shipped.normalised(images)
before = network[1].running_mean.clone()
with pitfall("eval-mode-missing") as p:
    with torch.inference_mode():
        network(normalised[:64])
    moved = not torch.equal(network[1].running_mean, before)
    p.shows(seen=f"running statistics moved: {moved}", wanted="running statistics moved: False")
network.load_state_dict(content["weights"])
network.eval()
with torch.inference_mode():
    alone = torch.cat([network(image[None]) for image in normalised[:64]])
    together = network(normalised[:64])
same = torch.allclose(alone, together, atol=1e-4)
claim("in eval mode an image alone gets the answer that it gets in a batch", same, equals=True)

# %% [markdown]
# **Explain.** They move: a service in training mode changes with every request, and an answer depends on the rest of
# the batch. No block of code helps against that; `eval()` does.
# > **Predict.** What does `inference_mode` itself change? Which of these are tensors for autograd?

# %%
with torch.no_grad():
    without = network(normalised[:1])
with torch.inference_mode():
    inference = network(normalised[:1])
with_graph = network(normalised[:1])
show("with_graph.requires_grad, without.requires_grad, inference.requires_grad")
show("without.is_inference(), inference.is_inference()")
claim(
    "all three have the same values", torch.equal(with_graph, without) and torch.equal(without, inference), equals=True
)
with pitfall("inference-tensor-in-autograd", RuntimeError):
    (inference * torch.ones(1, requires_grad=True)).sum().backward()

# %% [markdown]
# **Explain.** Values stay. `no_grad` records no graph. `inference_mode` also drops the bookkeeping that a later graph
# would need (version counters, views): its results can never be used in one. For answers that is what you want; for a
# frozen part of a network in training take `no_grad`. The next cell measures what either saves.

# %% tags=["measured"]
one = normalised[:1]


def recorded() -> None:
    with torch.enable_grad():
        network(one)


def unrecorded() -> None:
    with torch.no_grad():
        network(one)


def inferred() -> None:
    with torch.inference_mode():
        network(one)


modes = measure_latency({"with a graph": recorded, "no_grad": unrecorded, "inference_mode": inferred}, calls=calls)
saved = modes.speedup("inference_mode")
claim("inference_mode against a graph, batch 1", saved, stated="faster", low=1.02, unit="x")
modes

# %%
# exercise: inference.modes

# %% [markdown]
# ## Preprocessing where it belongs
# Between the pixels and the network lie a division and a normalisation. More answers go wrong there than in the
# network.
# > **Predict.** A grey pixel of 100 in uint8, minus 128: what is that? Then images as 0..255, with a mean for 0..1. Is
# > there an error, and is the network less sure of its answers?

# %%
pixel = torch.tensor([100], dtype=torch.uint8)
with pitfall("uint8-overflow") as p:
    p.shows(seen=(pixel - 128).tolist(), wanted=(pixel.float() - 128).to(torch.int64).tolist())
per_channel = [value.view(3, 1, 1) for value in (content["mean"], content["std"])]


def probabilities(batch: Tensor) -> Tensor:
    with torch.inference_mode():
        return network(batch).softmax(1)


unscaled = (images.float() - per_channel[0]) / per_channel[1]
wanted, seen = probabilities(normalised), probabilities(unscaled)
with pitfall("input-scale-mismatch") as p:
    close = torch.allclose(seen, wanted, atol=0.01)
    p.shows(seen=f"the same probabilities: {close}", wanted="the same probabilities: True")
kept = (seen.argmax(1) == wanted.argmax(1)).float().mean()
show("seen.isfinite().all().item()", "(seen.amax(1).median() > 0.99).item()", "(kept < 0.7).item()")

# %% [markdown]
# **Explain.** uint8 has no -28: the arithmetic wraps. And an input 255 times too large raises nothing at all; softmax
# is even very sure of itself. The remedy is to leave no choice to the caller: put the preprocessing **inside** of
# what you ship. Then the interface is "pixels as they are in the file", and can be checked by its dtype.


# %%
class WithPreprocessing(nn.Module):
    """uint8 images (N, 3, H, W) to logits; mean and std travel as buffers."""

    def __init__(self, network: nn.Module, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", mean.view(3, 1, 1))
        self.register_buffer("std", std.view(3, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        return self.network((images.float() / 255 - self.mean) / self.std)


plain = copy.deepcopy(network).to(memory_format=torch.contiguous_format)  # in a layout that the file keeps as it is
inside = WithPreprocessing(plain, content["mean"], content["std"]).eval()
batch = torch.export.Dim("batch", min=1, max=4096)
program = torch.export.export(inside, (images[:2],), dynamic_shapes=({0: batch},))
torch.export.save(program, folder / "inside.pt2")
answers = torch.export.load(folder / "inside.pt2").module()
with torch.inference_mode():
    agreed = torch.equal(answers(images[:64]).argmax(1), network(normalised[:64]).argmax(1))
claim("the exported file answers raw pixels like the network answers normalised ones", agreed, equals=True)
claim("bytes of an image that travel: uint8, float32", [images[0].nbytes, normalised[0].nbytes], equals=[3072, 12288])

# %% [markdown]
# **Explain.** The exported file needs nobody who remembers the mean. On an accelerator there is a second gain: what
# travels is uint8, a quarter of the bytes, and the arithmetic happens where it is fast. One transfer for a batch, not
# one for an image; and no `.item()` or `print` of a result before the last batch is on its way: each of them waits
# for the device.

# %% tags=["measured"]
if run_device.type == "cuda":
    on_gpu, shown = inside.to("cuda"), images[:64]
    cases = {
        "one transfer, uint8": lambda: on_gpu(shown.to("cuda")).argmax(1).cpu(),
        "a transfer for each image": lambda: on_gpu(torch.stack([image.to("cuda") for image in shown])).argmax(1).cpu(),
        "waits for each image": lambda: [on_gpu(image[None].to("cuda")).argmax(1).item() for image in shown],
    }
    print(measure_latency(cases, calls=calls))
    inside.to("cpu")
else:
    print("not run here: no CUDA device")

# %%
# exercise: inference.predict

# %% [markdown]
# ## What people wait
# A service takes image files. Nineteen of twenty are small; the twentieth is a photo of some megapixels, which has to
# be decoded and scaled down first. `Predictor` does all of it; the last section looks at it closely.
# > **Predict.** The median is one number. Where is the mean: below the median, a little above, several times as
# > large? And p99?


# %%
def file_of(image: Image.Image, kind: str = "PNG") -> bytes:
    """The bytes of an image file."""
    image.save(file := io.BytesIO(), kind)
    return file.getvalue()


service = Predictor(network, content["classes"], content["mean"], content["std"])
small_files = [file_of(Image.fromarray(image.permute(1, 2, 0).numpy())) for image in images[:19]]
photo = file_of(Image.fromarray(images[19].permute(1, 2, 0).numpy()).resize((1600, 1200)), "JPEG")
requests = cycle([*small_files, photo])

# %% tags=["measured"]
seen = measure_latency({"a file to an answer": lambda: service.predict(next(requests))}, calls=5 * calls, warmup=20)
(waited,) = seen.cases
marks = {"p50": waited.p50, "p95": waited.p95, "p99": waited.p99, "mean": waited.mean}
draw_calls_in_order(waited.seconds, marks, title="From a file to an answer, one thread")
claim(
    "mean against the median call",
    waited.mean / waited.p50,
    stated="larger, a call that nobody made",
    low=1.2,
    unit="x",
)
claim("p99 against the mean", waited.p99 / waited.mean, stated="several times the mean", low=2, unit="x")
seen

# %% [markdown]
# **Explain.** Two groups of calls. The mean lies between them, where no call is. Whoever promises it breaks the promise
# for one request in twenty, by a factor. One in twenty is the edge of p95, which may just miss the slow group; p99 does
# not. Say p50, p95 and p99, how many calls, and with how many threads. With a hundred calls p99 is one single
# measurement: do not read much into it.

# %%
# exercise: inference.read_latency

# %% [markdown]
# > **Predict.** A network is compiled, and called ten times from the start. Is the mean within three medians?

# %%
compiled_network = torch.compile(network, backend="inductor" if can_compile else "aot_eager")
seconds = []
with pitfall("warmup-in-timing") as p:
    with torch.no_grad():
        for _ in range(10):
            start = time.perf_counter()
            compiled_network(one)
            seconds.append(time.perf_counter() - start)
    factor = statistics.mean(seconds) / statistics.median(seconds)
    p.shows(seen=f"mean above 3 medians: {factor > 3}", wanted="mean above 3 medians: False")

# %% [markdown]
# **Explain.** The first call compiled. Make it before the first user does: run one batch of each shape when the
# service starts. `measure_latency` makes its warm-up calls first, takes the cases in turn, waits for the device
# before it reads the clock, and says with how many threads.

# %%
# exercise: inference.latency_report

# %% [markdown]
# ## Batches and threads
# > **Predict.** 64 images: in one call, or in 64? And with a second thread?

# %% tags=["measured"]
print(f"{'batch':>5}  {'a call':>9}  {'images a second':>15}")
few, throughput, p50 = max(2, calls // 6), {}, {}
for count in (1, 8, 64, 256):
    part = (normalised[:count],)
    p50[count] = measure_latency({"eager": network}, part, calls=few, warmup=1)["eager"].p50
    throughput[count] = len(part[0]) / p50[count]
    print(f"{count:>5}  {duration(p50[count]):>9}  {throughput[count]:>15,.0f}")
more = throughput[64] / throughput[1]
claim("images a second, batch 64 against batch 1", more, stated="more", low=1.1, unit="x")
usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
lonely = "one processor here" if usable < 2 else None
for count in (1, 64):
    timed = measure_latency({"eager": network}, (normalised[:count],), calls=few, warmup=1, threads=2)["eager"]
    faster = None if lonely else p50[count] / timed.p50
    claim(
        f"two threads against one, batch {count}",
        faster,
        stated="1 to 2 times",
        low=1,
        high=2.1,
        unit="x",
        reason=lonely,
    )

# %% [markdown]
# **Explain.** A call has fixed costs: Python, the dispatch of each operation, the start of the threads. A batch pays
# them once; each image in it waits for the whole batch. So throughput grows, and latency with it, until the processor
# has nothing idle. On one thread that is soon: a convolution of one image may fill it already. Batch what arrives
# together; do not let one request wait for the next for longer than its budget has room.
#
# Threads have fixed costs, too. Small layers give them little to share, so a batch of 1 gains least. Where another
# program holds the second processor they lose, by a large factor even: all threads of an operation wait for the last.
# A service that answers several requests at once is often best with one thread for each, and several processes: that
# is why the thread count stands beside each time in this lesson. Other runtimes have settings of their own;
# `torch.set_num_threads` says nothing to them.

# %%
# exercise: inference.micro_batches

# %% [markdown]
# ## The table of this machine
# Five ways to run one network. ONNX Runtime checks what it is given, before anything else:
# > **Predict.** The network was exported with float32 images. It gets uint8. Is that an error, or an answer?

# %%
calibration = shipped.normalised(shipped.train.images[:128])
exported = torch.export.export(network, (normalised[:2],), dynamic_shapes=({0: batch},))
variants = [
    int8.eager_float(network, "eager"),
    Variant("exported", exported.module(), int8.saved_bytes(exported.state_dict)),
    int8.onnx_float(network, folder),
    int8.onnx_int8(network, calibration, folder),
]
if can_compile:
    variants.insert(1, Variant("compiled", compiled_network, variants[0].size))
if can_compile and profile == "full":
    variants.append(int8.compiled_int8(network, calibration))
in_onnx_runtime = next(variant for variant in variants if variant.name == "ONNX Runtime float")
with pitfall("runtime-input-dtype", InputMismatch):
    in_onnx_runtime.call(images[:1])

# %% [markdown]
# **Explain.** An error, and a good one: nobody converts silently. Now the table.
# > **Predict.** Rank the variants at batch 1 and at batch 64. Which one loses accuracy?

# %% tags=["measured"]
whole = len(images) // 64 * 64  # full batches only: another size is another compilation
turns = {1: calls, 64: max(2, calls // 6)}
judged = judge(variants, normalised[:whole], targets[:whole], content["classes"], calls=turns)
if not can_compile:
    print(f"no line for the compiled network: {no_compiler}")
judged

# %% [markdown]
# **Explain.** *Compiled* fuses what lies around a convolution. *Exported* runs the same operations as eager, after a
# look at its inputs: it is a form to ship or to compile, and not faster by itself. ONNX Runtime folds BatchNorm,
# chooses layouts and has a small cost for each call, which is why it gains most at batch 1. int8 gains where the
# processor sums products of 8 bits in one instruction (lesson 13), and little elsewhere. No text can know which of
# these holds on your machine. The table does.
#
# ## A rule, then a choice
# A table does not decide. Write down what must hold, before you look: a **budget**. Then a rule. That of `choose`: of
# the variants that keep every limit the fastest; within 5 % times are equal, and accuracy decides, then bytes.
# > **Predict.** At most one point lost, and a p95 no larger than eager's: which one is chosen, for which reason?

# %% tags=["measured"]
limit = judged.latencies[1]["eager"].p95
chosen = choose(judged, max_latency=limit, max_points_lost=1.0)
print(chosen)
slow = {case.name: case.p95 for case in judged.latencies[1].cases}
points = [Point(result.name, slow[result.name], result.accuracy, result.size) for result in judged.results]
floor = judged["eager"].accuracy - 0.01
draw_budget(points, chosen.name, max_latency=limit, min_accuracy=floor, title="p95 at batch 1, one thread")
best = judged.speedup(chosen.name, 1)
claim("the chosen variant against eager, batch 1", best, stated="at least 3 times as fast", low=3, unit="x")
claim("points of accuracy lost by it", judged.points_lost(chosen.name), stated="at most 1", high=1, unit="points")

# %% [markdown]
# > **Predict.** A budget that no variant keeps. What should a rule return?

# %% tags=["measured"]
try:
    choose(judged, max_latency=limit / 1000)
except NothingFits as error:
    print(f"NothingFits: {error}")

# %% [markdown]
# **Explain.** Nothing. An answer that breaks the budget looks like one that keeps it. The error names the nearest
# variant and what it misses, so that people can decide which limit to loosen.

# %%
# exercise: inference.choose_variant

# %% [markdown]
# ## Answer, or refuse
# The winner goes behind one function. `Predictor` takes a PIL image, an array, a tensor, a path, bytes, or many of
# them.
# > **Predict.** One image in five forms, then three images at once. What comes back each time?

# %%
image = Image.fromarray(images[0].permute(1, 2, 0).numpy())
image.save(folder / "image.png")
forms = {
    "tensor": images[0],
    "float tensor": images[0].float() / 255,
    "array, channels last": images[0].permute(1, 2, 0).numpy(),
    "path": folder / "image.png",
    "bytes": file_of(image),
}
labels = {name: service.predict(form).label for name, form in forms.items()}
claim("forms of one image with one answer", len(set(labels.values())), equals=1)
many = service.predict([images[0], file_of(image), folder / "image.png"])
show("type(service.predict(images[0])).__name__", "type(many).__name__, len(many)")
batched, single = service.predict(images[:32]), [service.predict(image) for image in images[:32]]
close = torch.allclose(*(torch.tensor([a.probabilities for a in found]) for found in (batched, single)), atol=1e-4)
claim("a batch gives the probabilities of its images", close, equals=True)

# %% [markdown]
# **Explain.** One for one, a list for many, in order. Files may have any size: they are turned as EXIF says, laid on
# white where they are transparent, made RGB, scaled and cut. Tensors must fit exactly: whoever has a tensor has made
# decisions already.
#
# Now the others. An image file is a program for a decoder, written by a stranger. A **decompression bomb** is a small
# file that promises many pixels: it has to be refused by its header, before memory is taken for them.
# > **Predict.** Which of these could an unchecked `network(tensor)` answer, wrongly and without an error?

# %%
bomb = file_of(Image.new("L", (6000, 6000)))
(folder / "model.png").write_bytes(pickle.dumps({"weights": [1.0]}))
hostile = {
    "floats in 0..255": images[0].float(),
    "normalised already": normalised[0],
    "NaN": torch.full((3, 32, 32), float("nan")),
    "another size": images[0][:, :30],
    "whole numbers": images[0].long(),
    "no images": images[:0],
    "half a file": file_of(image)[:1000],
    "a bomb": bomb,
    "a pickle called .png": folder / "model.png",
    "a folder": folder,
    "one bad of two": [images[0], b"hello"],
}
for name, what in hostile.items():
    try:
        print(f"{name}: answered with {service.predict(what)}")
    except BadInput as error:
        print(f"{name}:\n    {str(error).replace(folder.name, 'FOLDER')}")
claim("the bomb has less than 100,000 bytes, for 36 million pixels", len(bomb) < 100_000, equals=True)

# %% [markdown]
# **Explain.** The first two, and every size that survives three poolings, would have been answered, and NaN with NaN:
# nothing in a convolution knows the range that it was trained on. Every refusal says what was seen, what is expected,
# and what to do. One class, `BadInput`, is the caller's fault (HTTP 400); everything else, such as NaN out of the
# network, is yours (500).

# %%
# exercise: inference.inspect_file

# %% [markdown]
# The last step: the chosen variant in place of eager. `Predictor` does not care which one it is.
# > **Predict.** How many of 64 labels change?

# %% tags=["measured"]
winner = next(variant for variant in variants if variant.name == chosen.name)
served = Predictor(winner.call, content["classes"], content["mean"], content["std"])
pairs = zip(served.predict(images[:64]), service.predict(images[:64]), strict=True)
changed = sum(a.label != b.label for a, b in pairs)
claim("labels of 64 that the chosen variant changes", changed, stated="hardly any", high=4)
requests_again = cycle(small_files)
cases = {
    name: lambda predictor=predictor: predictor.predict(next(requests_again))
    for name, predictor in (("eager, whole way", service), ("chosen, whole way", served))
}
print(measure_latency(cases, calls=calls, warmup=10))
scratch.cleanup()

# %% [markdown]
# **Explain.** From the file to the answer the gain is smaller than in the table: decoding and preprocessing cost what
# they cost, for every variant. When the network is fast enough, look there next.
#
# ## A table to keep
# | question | answer |
# | --- | --- |
# | is it in evaluation mode? | `eval()`, for every module; no block of code does it |
# | does it record a graph? | `inference_mode()` for answers, `no_grad()` for frozen parts in training |
# | where is the preprocessing? | inside what is shipped; uint8 travels, floats are made on the device |
# | how fast is it? | p50, p95, p99; number of calls; threads; after warm-up; device waited for |
# | latency or throughput? | a larger batch gives throughput, and each image waits for all of it |
# | which variant? | limits first, then a table of this machine, then a rule |
# | what comes in? | shape, dtype, range, finite; header before pixels; one class of error |
# | what goes out? | shape, finite; NaN is the network's fault, not the caller's |
#
# | what you see | fault | fix |
# | --- | --- | --- |
# | answers change with the rest of the batch | eval-mode-missing | `network.eval()` |
# | "Inference tensors cannot be saved for backward" | inference-tensor-in-autograd | `no_grad`, or clone outside |
# | very sure, and wrong | input-scale-mismatch | preprocessing inside; check the range |
# | dark and bright swapped | uint8-overflow | `.float()` before arithmetic |
# | the runtime refuses | runtime-input-dtype | the dtype of the export |
# | a mean of seconds, calls of milliseconds | warmup-in-timing | warm up, then percentiles |
#
# **Read on:** [inference
# mode](https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html), [autograd
# mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation),
# [threads](https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html),
# [torch.export](https://docs.pytorch.org/docs/stable/export.html), [ONNX Runtime's
# threads](https://onnxruntime.ai/docs/performance/tune-performance/threading.html), [Pillow:
# limits](https://pillow.readthedocs.io/en/stable/reference/limits.html) and [its image
# module](https://pillow.readthedocs.io/en/stable/reference/Image.html#PIL.Image.open).
