# %% [markdown]
# # 05 The CIFAR-10 loop
# A training loop is ten lines. Nearly every mistake in it raises nothing: the program runs to its end, and the network is
# worse than it could be. This lesson builds the loop from its parts, breaks each of them once, and then measures.
#
# **Goals.** You can write a training step, an evaluation and an epoch's metrics from memory; read curves and choose the cure;
# place schedules, clipping and accumulation; keep the best weights, not the last. **Prerequisites.** Lessons 01 to 04.
# **Time.** About 180 minutes, two thirds of them for 14 exercises.
# **What it measures.** "65 % without, 75 % with flip and crop after 10 epochs", "MNIST is too easy", "clip at 1.0 to be safe",
# and what it takes to pass 75 %. The first and the last need the full run on the real images, about half an hour on one core.

# %%
import copy
import inspect
import math
import os
import tempfile
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import lr_scheduler

from course import begin, check, choose_device, claim, hint, pitfall, seed_everything, solution
from course.data import ImageTensors, channel_statistics, cifar10, normalise, random_crop_flip
from course.figures.confusion import draw_confusion
from course.figures.curves import LiveCurves, draw_curves, draw_lines
from course.figures.images import draw_classes, draw_images
from course.training.best import BestWeights
from course.training.checkpoint import CheckpointManager
from course.training.history import History
from course.training.loop import evaluate, fit, predict, train_epoch
from course.training.metrics import confusion_matrix, per_class_accuracy
from course.training.networks import fast_network, fast_recipe, reference_network, whitening_convolution
from course.training.schedule import learning_rates

begin("05")

# %% tags=["parameters"]
device = "auto"  # "auto", "cpu", "cuda" or "mps"
profile = "quick"  # "smoke" (two batches), "quick" (500 images) or "full" (all images, about half an hour)
data = ""  # a folder that holds CIFAR-10; without one, COURSE_DATA or the drawn stand-in

# %%
run_device = choose_device(device)
sizes = {"smoke": (128, 64, 1, 2), "quick": (500, 400, 14, 30), "full": (49_000, 1000, 10, 100)}
images_to_train, images_held_out, epochs, one_batch_steps = sizes[profile]


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<85} {eval(expression, globals())!s}")


# %% [markdown]
# ## Look at the data first
# What are the images, how many of each class, in which order, on which scale? The training images are split once.
# **Training** images move the weights. **Validation** images decide: which epoch, which rate. **Test** images are looked at
# when all is decided, because what you have chosen by them, they can no longer measure.

# %%
train_set, test_set = cifar10("train", data or None), cifar10("test", data or None)
classes, real = train_set.classes, "stand-in" not in train_set.source
images, test_images = ImageTensors.from_dataset(train_set), ImageTensors.from_dataset(test_set)


def part(of: ImageTensors, choose: slice) -> ImageTensors:
    """Some of the images, from a fixed random order: folders are sorted by class."""
    numbers = torch.randperm(len(of), generator=torch.Generator().manual_seed(0))[choose]
    return ImageTensors(of.images[numbers], of.targets[numbers]).to(run_device)


train, validation = part(images, slice(images_to_train)), part(images, slice(-images_held_out, None))
test = part(test_images, slice(None if profile == "full" else images_held_out))
mean, std = channel_statistics(train.images)
draw_classes(images.images, images.targets, classes, title="Training images")
show("images.images.shape", "images.images.dtype", "images.targets.bincount().tolist()")
show("len(train), len(validation), len(test)", "(train.images.min().item(), train.images.max().item())")

# %% [markdown]
# All classes are equally frequent, so an answer that never changes is right in one case of ten. That is the **baseline**.
# A network at 10 % has learned nothing, whatever its loss does.
# > **Predict.** Folders are often sorted by class. If nobody shuffles, how many classes has the first batch of 64?

# %%
by_class = train.targets.argsort()
sorted_images = ImageTensors(train.images[by_class], train.targets[by_class])
with pitfall("unshuffled-classes") as p:
    p.shows(seen=len(next(iter(sorted_images.batches(64)))[1].unique()), wanted=10)
shuffled = sorted_images.batches(64, shuffle=True, generator=torch.Generator().manual_seed(0))
show("len(next(iter(shuffled))[1].unique())")

# %% [markdown]
# **Explain.** A batch of one class has a simple best answer: that class, whatever the image. Within an epoch the loss looks
# excellent, and each new class wipes out the last.
#
# Then, the scale. Pixels are integers from 0 to 255; weights are initialised for inputs of mean 0 and deviation 1. Every
# batch is normalised with the numbers of the *training* images. Training batches are **augmented** before that: each image is
# shifted by up to 4 pixels, and mirrored with probability one half.

# %%
prepare = partial(normalise, mean=mean, std=std)
batch, labels = next(iter(train.batches(64)))
ready = prepare(batch)
shifted = random_crop_flip(batch[:8], padding=4, generator=torch.Generator().manual_seed(0))
draw_images(torch.cat([batch[:8], shifted]), title="Eight images, and the same shifted and mirrored")

# %% [markdown]
# ## A network, and its first loss
# Two convolutions, two poolings, a linear layer. It returns **logits**: one number a class, of any size. No softmax. Before
# training, its accuracy should be that of a guess, and its loss too.
#
# **Saying: "MNIST is too easy: two linear layers pass 90 % in a minute".** Without MNIST it stays a saying here.

# %%
seed_everything(0)
model = reference_network().to(run_device)
print(model)
claim("parameters of the reference network", sum(p.numel() for p in model.parameters()), equals=60_362)

# %%
# exercise: training.first_loss

# %% tags=["measured"]
untrained = evaluate(model, test.batches(500, transform=prepare))
claim("first loss", untrained.loss, stated="that of a fair guess", low=2.2, high=2.5)
claim("accuracy before training", 100 * untrained.accuracy, stated="10 %", low=5, high=15, unit="%")
absent = "MNIST is not on this machine, and no lesson downloads anything by itself"
claim("two linear layers on MNIST", None, stated="90 % in a minute", low=90, unit="%", reason=absent)

# %% [markdown]
# > **Predict.** The same network gets the pixels as they are, from 0 to 255. Is its first loss higher, lower or the same?

# %%
with pitfall("unnormalised-inputs") as p, torch.no_grad():
    raw, normal = (F.cross_entropy(model(x), labels).item() for x in (batch.float(), ready))
    p.shows(seen=f"first loss above 5: {raw > 5}", wanted=f"first loss above 5: {normal > 5}")

# %% [markdown]
# **Explain.** The logits grow with the inputs, and large logits are certainty. The network is certain and wrong before it has
# seen a label. Its first steps only undo that.
#
# ## Losses want logits
# | loss | takes | targets |
# | --- | --- | --- |
# | `cross_entropy` | logits (N, C), (N, C, T), ... | int64 (N,), (N, T), ..., or probabilities of the logits' shape |
# | `nll_loss` | log-probabilities (N, C) | int64 (N,) |
# | `binary_cross_entropy_with_logits` | logits of any shape | floats of the same shape |
# | `binary_cross_entropy` | probabilities of any shape | floats of the same shape |
#
# > **Predict.** A network is right and certain: logits of 1000 at the right place. Its loss should be 0. Each of the next three
# > has one thing too much or too little. Which loss is negative? Then come five errors: what does each of them want?

# %%
right, certain, yes = torch.arange(10), 1000 * torch.eye(10), torch.ones(4)
with pitfall("double-softmax") as p:
    p.shows(seen=round(F.cross_entropy(certain.softmax(1), right).item(), 3), wanted=0.0)
with pitfall("nll-without-log") as p:
    p.shows(seen=F.nll_loss(certain.softmax(1), right).item(), wanted=0.0)
with pitfall("double-sigmoid") as p:
    p.shows(seen=round(F.binary_cross_entropy_with_logits((1000 * yes).sigmoid(), yes).item(), 3), wanted=0.0)
least = round(F.cross_entropy(certain.softmax(1), right).item(), 4)
claim("least loss behind a second softmax", least, equals=round(math.log((math.e + 9) / math.e), 4))
show("F.cross_entropy(certain, right)", "F.nll_loss(certain.log_softmax(1), right)")

# %%
logits, answers = torch.zeros(4, 3), torch.tensor([0, 1, 2, 0])
with pitfall("class-target-dtype", RuntimeError):
    F.cross_entropy(logits, answers.float())
with pitfall("class-target-shape", RuntimeError):
    F.cross_entropy(logits, answers[:, None])
with pitfall("class-index-out-of-range", IndexError):
    F.cross_entropy(logits, answers + 1)
with pitfall("bce-fed-logits", RuntimeError):
    F.binary_cross_entropy(torch.tensor([2.0, -1.0]), torch.tensor([1.0, 0.0]))
with pitfall("bce-target-dtype", RuntimeError):
    F.binary_cross_entropy_with_logits(torch.tensor([2.0, -1.0]), torch.tensor([1, 0]))
show("F.cross_entropy(logits, answers)", "F.binary_cross_entropy_with_logits(logits, torch.ones(4, 3))")

# %% [markdown]
# **Explain.** A probability is at most 1, so a second softmax gives at best e / (e + 9). None of those three raises.
# > **Predict.** A tagger gives logits (batch, time, class). With 5 steps of time and 3 classes the loss raises. And with 3?

# %%
tags = torch.tensor([[0, 0, 1, 2, 1], [2, 2, 0, 0, 1]])
tagged = 1000.0 * F.one_hot(tags, 3)
with pitfall("class-axis-misplaced", RuntimeError):
    F.cross_entropy(tagged, tags)
with pitfall("class-axis-misplaced") as p:
    p.shows(seen=f"{F.cross_entropy(tagged[:, :3], tags[:, :3]).item():.0f}", wanted="0")
show("F.cross_entropy(tagged.movedim(-1, 1), tags)", "F.cross_entropy(tagged.flatten(0, 1), tags.flatten())")

# %% [markdown]
# **Explain.** Classes belong in axis 1. Where time and classes are equally many, the sizes fit, and softmax runs along time.
#
# ## One step, in order
# **zero_grad, forward, loss, backward, clip, step.** Each needs what the one before has left.
# > **Predict.** The loss is 2w, so its gradient is 2. What is `w.grad` after three calls of `backward()`? And where is w after
# > three steps of 0.1, if `zero_grad()` stands between `backward()` and `step()`?

# %%
w = nn.Parameter(torch.tensor(1.0))
optimizer = torch.optim.SGD([w], lr=0.1)
with pitfall("missing-zero-grad") as p:
    for _ in range(3):
        (2 * w).backward()
    p.shows(seen=w.grad.item(), wanted=2.0)
with pitfall("zero-grad-before-step") as p:
    for _ in range(3):
        (2 * w).backward()
        optimizer.zero_grad()
        optimizer.step()
    p.shows(seen=round(w.item(), 4), wanted=0.4)
for _ in range(3):
    optimizer.zero_grad()
    (2 * w).backward()
    optimizer.step()
show("round(w.item(), 4)")

# %%
# exercise: training.train_step

# %% [markdown]
# ## Overfit one batch
# The test that finds most bugs: train on **one** batch until the network knows it by heart. It takes seconds. If the loss
# stays where it began, look at the step; if it falls and stops, at the loss; if it jumps, at the learning rate.

# %% tags=["measured"]
seed_everything(0)
model = reference_network().to(run_device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = [train_epoch(model, [(ready, labels)], optimizer).loss for _ in range(one_batch_steps)]
draw_lines({"one batch of 64 images": losses}, x="step", y="cross-entropy", title="Overfitting one batch")
claim("loss of the batch at the end", losses[-1], stated="towards 0", high=0.5)

# %%
# exercise: training.overfit_one_batch

# %% [markdown]
# > **Predict.** A plane is fitted with 100 steps of SGD, once with the rate 1e-7, once with 10. What becomes of the loss?

# %%
points, fitted = torch.randn(64, 2, generator=torch.Generator().manual_seed(0)), {}
for lr in (0.0, 1e-7, 0.1, 10.0):
    weights = torch.zeros(2, requires_grad=True)
    descent = torch.optim.SGD([weights], lr=lr)
    for _ in range(100):
        descent.zero_grad()
        loss = F.mse_loss(points @ weights, points @ torch.tensor([2.0, -1.0]))
        loss.backward()
        descent.step()
    fitted[lr] = loss.item()
with pitfall("learning-rate-too-low") as p:
    p.shows(seen=f"{fitted[0.0]:.2f} -> {fitted[1e-7]:.2f}", wanted=f"{fitted[0.0]:.2f} -> {fitted[0.1]:.2f}")
with pitfall("learning-rate-too-high") as p:
    p.shows(seen=f"finite: {math.isfinite(fitted[10.0])}", wanted="finite: True")

# %% [markdown]
# **Explain.** Both loops ran to their end without a word. A rate that is too low looks like a bug of the network: raise it
# tenfold until one batch is learned fast, and stay well below the rate at which the loss jumps.
#
# ## Modes, and metrics that count every image
# `model.eval()` changes what layers do: dropout passes everything on, BatchNorm uses its running statistics.
# `torch.no_grad()` stops the recording of a graph. Neither does the other's work.
# > **Predict.** One image goes five times through a network with dropout, under `no_grad()`. How many different answers?

# %%
torch.manual_seed(0)
small = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Dropout(0.5), nn.Linear(32, 3))
sixteen = torch.randn(16, 8)
with pitfall("eval-mode-missing") as p, torch.no_grad():
    p.shows(seen=len({small(sixteen)[0, 0].item() for _ in range(5)}), wanted=1)
with pitfall("train-mode-not-restored") as p:
    modes = []
    for _ in range(3):
        modes.append(small.training)  # an epoch of training would stand here
        small.eval()  # and here an evaluation that does not put the mode back
    p.shows(seen=modes, wanted=[True, True, True])
small.train()
evaluate(small, [(sixteen, torch.zeros(16, dtype=torch.int64))])
show("small.training")

# %% [markdown]
# Try a metric on numbers that you can check by hand.
# > **Predict.** 64 images are all right, then one is wrong. What is the mean of the batch accuracies, and what the accuracy?

# %%
by_hand, zeros = torch.tensor([[5.0, 1.0, 0.0], [4.0, 0.0, 1.0], [6.0, 1.0, 2.0]]), torch.tensor([0, 0, 0])
with pitfall("argmax-wrong-axis") as p:
    p.shows(seen=round((by_hand.argmax(0) == zeros).float().mean().item(), 2), wanted=1.0)
with pitfall("mean-of-batch-means") as p:
    p.shows(seen=(64 / 64 + 0 / 1) / 2, wanted=round(64 / 65, 3))
show("(by_hand.argmax(1) == zeros).float().mean()")

# %%
# exercise: training.accuracy

# %%
# exercise: training.epoch_mean

# %%
# exercise: training.evaluate

# %% [markdown]
# ## The loop, and its curves
# The helpers of the course hold what you have just met, and nothing else; take them home. `fit` calls them in turn and notes a
# row an epoch. First a run **without augmentation**; the picture is drawn anew after each epoch.
# > **Predict.** Sketch four curves: loss and accuracy, on training and on validation images. Which turns round first?

# %%
print(inspect.getsource(train_epoch), inspect.getsource(predict), inspect.getsource(evaluate), sep="\n")


# %% [markdown]
# A full run takes half an hour. Let the environment variable COURSE_CHECKPOINTS name a folder, and `fit` saves the run there after
# each epoch (lesson 07 shows how). When it is killed, run the lesson again: it goes on after the last epoch that was saved.


# %% tags=["measured"]
def checkpoints(name: str) -> CheckpointManager | None:
    """Where a full run keeps one of its trainings: a folder for each training, device and set of images."""
    folder = os.environ.get("COURSE_CHECKPOINTS") if profile == "full" else None
    of = f"{'CIFAR-10' if real else 'stand-in'} on {run_device.type}"
    return CheckpointManager(Path(folder, "lesson 05", of, name)) if folder else None


def run(name: str, seed: int, padding: int | None) -> tuple[nn.Module, History, BestWeights, float]:
    """Train the reference network, with crops and flips unless padding is None; the last item is its test accuracy in %."""
    generator, best = seed_everything(seed), BestWeights()
    crops = None if padding is None else partial(random_crop_flip, padding=padding, generator=generator)
    batches = train.batches(64, True, generator, transform=lambda x: prepare(x if crops is None else crops(x)))
    network, live = reference_network().to(run_device), LiveCurves(name, title=f"The reference loop, seed {seed}")
    adam, held_out = torch.optim.Adam(network.parameters(), lr=1e-3), validation.batches(500, transform=prepare)
    keep = {"checkpoints": checkpoints(f"{name}, seed {seed}"), "generators": [generator]}
    history = fit(network, batches, held_out, adam, epochs, best=best, after_epoch=live, **keep)
    return network, history, best, 100 * evaluate(network, test.batches(500, transform=prepare)).accuracy


plain_model, plain, best, plain_accuracy = run("no augmentation", seed=0, padding=None)
gap = 100 * (plain["accuracy"][-1] - plain["held_out_accuracy"][-1])
claim("training accuracy above validation accuracy", gap, stated="over-fitting", low=10, unit="points")
rise = plain["held_out_loss"][-1] - min(plain["held_out_loss"])
claim("last validation loss above the lowest", rise, stated="it turns round", low=0.02)
plain

# %% [markdown]
# **Explain.** Training loss falls on: the network has 60,000 numbers to learn images by heart with. Validation loss falls,
# stops and rises, while accuracy hardly suffers: the network becomes *surer*, also where it is wrong. Dashed curves are means
# over an epoch in which the weights moved, solid ones belong to its end; so validation may look better at first.
#
# | training loss | validation loss | means | try |
# | --- | --- | --- | --- |
# | stays near ln 10 | stays | nothing is learned | overfit one batch, then the order of the step |
# | falls slowly | falls with it | under-fitting | a higher rate, more epochs, a larger network |
# | falls | falls, then rises | over-fitting | augmentation, smoothing, weight decay, an early stop |
# | jumps, or NaN | jumps | the rate is too high | a tenth of it, warm-up, clipping |
# | falls | far below training loss | leakage; or dropout and augmentation, in training only | look at the split |

# %%
# exercise: training.early_stopping

# %% [markdown]
# ## Over-fitting and its cures
# The best cure is more data. **Augmentation** makes more of what you have, as long as the label stays true: a mirrored ship is
# a ship, a mirrored 5 is no 5. **Label smoothing** gives the right class a little less than 1 and the others the rest, so that
# certainty no longer pays. **Weight decay** pulls weights towards 0; **dropout** hides features.
# > **Predict.** The same loop with flip and crop: is its training accuracy higher or lower at the end?

# %% tags=["measured"]
_, augmented, _, augmented_accuracy = run("flip and crop", seed=0, padding=4)
draw_curves({"no augmentation": plain, "flip and crop": augmented}, title="With and without augmentation")

# %% [markdown]
# **Explain.** No image comes twice, so learning by heart does not pay: the gap closes from above. The price is time. With few
# images or few epochs the augmented run has learned *less* so far; its curve still rises where the other has turned.
#
# **Saying: "65 % without, 75 % with flip and crop after 10 epochs".** Two seeds, test images, the weights of the last epoch.

# %% tags=["measured"]
more = (1,) if profile == "full" else ()
without = [plain_accuracy, *(run("no augmentation", seed, padding=None)[-1] for seed in more)]
with_crops = [augmented_accuracy, *(run("flip and crop", seed, padding=4)[-1] for seed in more)]
for name, scores in (("without", without), ("with flip and crop", with_crops)):
    print(f"test accuracy {name}:", ", ".join(f"{score:.1f} %" for score in scores))
full_run = real and profile == "full"
why = "needs the full run on the real images: course run 05 --full --param data=FOLDER"
share = sum(without) / len(without) if full_run else None
claim("10 epochs without augmentation", share, stated="65 %", low=63, high=67, unit="%", reason=why)
share = sum(with_crops) / len(with_crops) if full_run else None
claim("10 epochs with flip and crop", share, stated="75 %", low=73, high=77, unit="%", reason=why)

# %% [markdown]
# Augmentation belongs to training: a validation set that goes through it is another set each time. And smoothing changes what
# a loss means: with 0.1 and ten classes the right one is to get 0.91, and no network can reach the loss 0.

# %%
crops = partial(random_crop_flip, generator=torch.Generator().manual_seed(0))
with pitfall("augmented-validation") as p:
    some = validation.batches(64, transform=lambda x: prepare(crops(x[:64])))
    p.shows(seen=len({evaluate(model, some).loss for _ in range(3)}), wanted=1)
show("len({evaluate(model, validation.batches(500, transform=prepare)).loss for _ in range(3)})")
ideal = torch.full((1, 10), 0.01).index_fill(1, torch.tensor([0]), 0.91).log()
smoothed = F.cross_entropy(ideal, torch.tensor([0]), label_smoothing=0.1).item()
claim("least loss with smoothing 0.1", round(smoothed, 3), equals=0.5)

# %% [markdown]
# ## Schedules, and where they step
# Large steps at first, to get near; small ones at the end, to get in. A scheduler changes the rate of its optimizer each time
# its `step()` is called. It counts calls, and nothing else.
# > **Predict.** Sketch the four curves before you run the cell.

# %%
schedules = {
    "StepLR": learning_rates(lambda o: lr_scheduler.StepLR(o, step_size=20, gamma=0.1), 60),
    "CosineAnnealingLR": learning_rates(lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=60), 60),
    "OneCycleLR": learning_rates(lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=60), 60),
    "warm restarts": learning_rates(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=20), 60),
}
draw_lines(schedules, x="step", y="learning rate", title="Four schedules")

# %% [markdown]
# **Explain.** `StepLR` is mostly counted in epochs, `OneCycleLR` in batches: `total_steps` says so. `OneCycleLR` also moves the
# momentum, against the rate. `CosineAnnealingWarmRestarts` leaves a valley to look for a wider one; the best weights are those
# just before a restart. A cosine has to know the end: a run that stops early never had its small steps.
# > **Predict.** `StepLR(step_size=2)` was meant for epochs, and is stepped for each of 20 batches. The rate after an epoch?

# %%
with pitfall("scheduler-per-batch") as p:
    rates = learning_rates(lambda o: lr_scheduler.StepLR(o, step_size=2, gamma=0.1), 21)
    p.shows(seen=f"{rates[20]:.0e}", wanted=f"{rates[0]:.0e}")
scheduler = lr_scheduler.StepLR(optimizer, step_size=2)
with pitfall("scheduler-before-optimizer", UserWarning):
    scheduler.step()
    optimizer.step()

# %%
# exercise: training.where_to_step

# %%
# exercise: training.warmup_cosine

# %% [markdown]
# ## Clip, in its place
# `clip_grad_norm_` measures the norm of all gradients together and, if it is above the limit, scales them down; the direction
# stays. It returns the norm *before* clipping.
# > **Predict.** The gradient is 1000, the limit 1, the rate 1. Where is w after a step that clips too late?

# %%
w = nn.Parameter(torch.tensor(0.0))
optimizer = torch.optim.SGD([w], lr=1.0)
with pitfall("clip-after-step") as p:
    (1000 * w).backward()
    optimizer.step()
    nn.utils.clip_grad_norm_([w], max_norm=1.0)
    p.shows(seen=round(w.item()), wanted=-1)

# %% [markdown]
# **Saying: "clip at 1.0 to be safe".** Safe means that it acts in an emergency, and otherwise does nothing. In how many steps of
# a quiet epoch does the limit act? And what does a shorter gradient do to Adam, which divides it by its own size?

# %% tags=["measured"]
seed_everything(0)
model, norms = reference_network().to(run_device), []
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for x, y in list(train.batches(64, transform=prepare))[: 2 if profile == "smoke" else 16]:
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm=math.inf).item())
    optimizer.step()
acts = 100 * sum(norm > 1.0 for norm in norms) / len(norms)
claim("quiet steps in which a limit of 1.0 acts", acts, stated="only in an emergency", high=5, unit="%")
draw_lines({"norm of all gradients": norms, "limit": [1.0] * len(norms)}, x="step", y="norm", title="To be safe?")
w = nn.Parameter(torch.zeros(2))
w.grad = torch.tensor([1.0, 0.01])
torch.optim.Adam([w], lr=0.1).step()
claim("Adam's first step, with a gradient a hundred times smaller", round(w[1].item(), 4), equals=round(w[0].item(), 4))

# %% [markdown]
# **Explain.** No limit is safe for every network: norms depend on its size, its loss and the batch. Draw them, and put the limit
# above the usual ones. A limit that always acts is a hidden learning rate for SGD, and nearly nothing for Adam.
#
# ## Accumulate micro-batches
# If a batch of 256 does not fit, four of 64 give the same gradient: `backward()` adds up, and the optimizer steps once.
# The usual loop steps when `(i + 1) % k == 0`. A `continue` above that line, for a batch that is broken, jumps over the step as
# well, and two groups become one: count the micro-batches that were *used*.
# > **Predict.** Each of four micro-batches brings the gradient of its own mean. How long is their sum?

# %%
linear, x, y, gradient = nn.Linear(8, 3), torch.randn(64, 8), torch.arange(64) % 3, {}
for parts, divisor in ((1, 1), (4, 1), (4, 4)):
    linear.zero_grad()
    for inputs, targets in zip(x.chunk(parts), y.chunk(parts), strict=True):
        (F.cross_entropy(linear(inputs), targets) / divisor).backward()
    gradient[parts, divisor] = linear.weight.grad.clone()
with pitfall("accumulation-not-scaled") as p:
    times = (gradient[4, 1].norm() / gradient[1, 1].norm()).item()
    p.shows(seen=f"{times:.2f} times as long", wanted="1.00 times as long")
claim("four, each divided by 4", torch.allclose(gradient[4, 4], gradient[1, 1], atol=1e-6), equals=True)

# %%
# exercise: training.accumulation

# %% [markdown]
# ## Keep the best weights, and a log
# The last epoch is rarely the best. Keep the weights of the best **validation** score, and look at the test images once.
# > **Predict.** `best = model.state_dict()` is kept after epoch 3. What does it hold after epoch 10?

# %%
shared = small.state_dict()["0.weight"].data_ptr() == small[0].weight.data_ptr()
claim("state_dict() holds the model's own memory", shared, equals=True)

# %%
# exercise: training.best_weights

# %% tags=["measured"]
best.restore(plain_model)
kept_accuracy = 100 * evaluate(plain_model, test.batches(500, transform=prepare)).accuracy
print(
    f"test accuracy without augmentation: last epoch {plain_accuracy:.1f} %, epoch {best.epoch} (kept) {kept_accuracy:.1f} %"
)

# %% [markdown]
# **Explain.** The weights of epoch 10: `state_dict()` copies nothing.
#
# A log outlives the notebook and the crash. `History(path)` appends each epoch at once, a line of JSON, which pandas reads.
# TensorBoard draws such numbers live (`torch.utils.tensorboard`); it needs a package that this course does not install.

# %%
with tempfile.TemporaryDirectory() as folder:
    history = History(f"{folder}/run.jsonl")
    for loss in (2.25, 1.5):
        history.append(loss=loss, held_out_accuracy=0.5 / loss)
    print(history.path.read_text(), History.read(history.path), sep="\n")

# %% [markdown]
# ## Past 75 %
# What passes 75 % on the real images, fast? Five changes, each a few lines of `course/training/networks.py`: a first convolution
# that is **computed**, not trained, and makes its outputs uncorrelated; three blocks of two convolutions with BatchNorm; **label
# smoothing**; SGD with **Nesterov** momentum at a high rate; a **triangular** schedule, up for a quarter of the run and down to
# 0. The curves are drawn on test images, to see when it passes; nothing is chosen by them.

# %% tags=["measured"]
outputs = whitening_convolution(prepare(train.images[:1000]).cpu())(prepare(train.images[:1000]).cpu())[:, :12]
correlated = (outputs.movedim(1, 0).flatten(1).corrcoef() - torch.eye(12)).abs().max().item()
claim("largest correlation of two outputs of the first layer", correlated, stated="uncorrelated", high=0.1)
fast_epochs, batch_size = {"smoke": 1, "quick": 4, "full": 3}[profile], 256 if profile == "full" else 64
generator = seed_everything(0)
crops = partial(random_crop_flip, padding=2, generator=generator)
batches = train.batches(batch_size, True, generator, transform=lambda x: crops(prepare(x)))  # no black borders
fast = fast_network(prepare(train.images[:5000]).cpu()).to(run_device)
optimizer, rate, loss_fn = fast_recipe(fast, steps=fast_epochs * len(batches))
held_out, live = test.batches(500, transform=prepare), LiveCurves("fast network", title="Five changes")
keep = {"checkpoints": checkpoints("fast network"), "generators": [generator]}
recipe = {"loss_fn": loss_fn, "batch_scheduler": rate}
fast_run = fit(fast, batches, held_out, optimizer, fast_epochs, **recipe, after_epoch=live, **keep)
passed = fast_run.first("held_out_accuracy", at_least=0.75) if full_run else None
seconds = passed and sum(row["seconds"] for row in fast_run if row["epoch"] <= passed["epoch"])
final = 100 * fast_run["held_out_accuracy"][-1] if full_run else None
claim("test accuracy of the fast network", final, stated="passes 75 %", low=75, unit="%", reason=why)
why = "it did not pass 75 %" if full_run else why
claim("epochs until 75 %", passed and passed["epoch"], stated="very few", high=3, unit="epochs", reason=why)
claim("seconds of training until 75 %", seconds, stated="minutes", high=900, unit="s", reason=why)
fast_run

# %% [markdown]
# ## What is taken for what
# One number, here of the fast network, hides which classes are hard. Rows are right classes, columns predictions. Look at the
# images beside the diagonal before you change the network.

# %% tags=["measured"]
logits, targets = predict(fast, test.batches(500, transform=prepare))
matrix = confusion_matrix(logits.argmax(1), targets, len(classes))
draw_confusion(matrix, classes, title="Test images")
recognised = per_class_accuracy(matrix).nan_to_num()
spread = 100 * (recognised.max() - recognised.min()).item()
claim("easiest above hardest class", spread, stated="the mean hides it", low=20, unit="points")

# %%
# exercise: training.confusion_matrix

# %% [markdown]
# ## Build it: the optimizer
# Two optimizers train most networks; each is four lines.

# %%
# exercise: training.sgd_momentum

# %%
# exercise: training.adam

# %% [markdown]
# ## From symptom to understanding
# | what you see | fault | why | fix |
# | --- | --- | --- | --- |
# | loss constant to the last digit | zero-grad-before-step | `step()` finds no gradient | clear before `backward()` |
# | first loss far above ln C | unnormalised-inputs | certain and wrong | normalise |
# | loss stops at 1.46 (ten classes), 0.31 (two) | double-softmax, double-sigmoid | probabilities as logits | give logits |
# | loss below 0 | nll-without-log | minus a number, no logarithm | `cross_entropy` |
# | "should be between 0 and 1" | bce-fed-logits | logits as probabilities | `..._with_logits` |
# | "expected target dtype to be Long", "result type Float" | class-target-dtype, bce-target-dtype | indices / floats | `long()` / `float()` |
# | "multi-target not supported", "Expected target size" | class-target-shape, class-axis-misplaced | (N,) wanted; classes in axis 1 | `squeeze(1)`; `movedim(-1, 1)` |
# | "Target 3 is out of bounds" | class-index-out-of-range | classes are 0 to C - 1 | map the labels |
# | accuracy at chance while the loss falls | argmax-wrong-axis | argmax over the batch | `argmax(dim=1)` |
# | loss restless, then growing | missing-zero-grad | gradients add up | `zero_grad()` |
# | another result at each evaluation | eval-mode-missing, augmented-validation | dropout, crops | `eval()`, no augmentation |
# | worse after the first evaluation | train-mode-not-restored | `eval()` stays | `train()` each epoch |
# | accuracy depends on the batch size | mean-of-batch-means | the last batch is short | weight by size |
# | one class after the other | unshuffled-classes | sorted data | `shuffle=True` |
# | plateau after a few batches; a warning | scheduler-per-batch, scheduler-before-optimizer | it counts calls | `optimizer.step()` first |
# | NaN; or a loss that moves below the printed digits | learning-rate-too-high, -too-low | overshoots; creeps | divide or multiply by ten |
# | clipping without effect | clip-after-step | the step is done | between `backward()` and `step()` |
# | rate seems k times too high | accumulation-not-scaled | sum, not mean | divide by k |
#
# ## A table to keep
# | step | line | undone by |
# | --- | --- | --- |
# | mode, clear, loss | `model.train()`, `optimizer.zero_grad()`, `loss = F.cross_entropy(model(x), y)` | a stale `eval()`; clearing after `backward()`; a softmax |
# | gradient, limit | `loss.backward()`, `clip_grad_norm_(model.parameters(), c)` | `no_grad()`; clipping after `step()` |
# | move, rate | `optimizer.step()`, `scheduler.step()` | the wrong unit: batch or epoch |
# | judge | `eval()` and `no_grad()`, every image once | test images that choose |
#
# **Read on:** [optimizers and schedulers](https://docs.pytorch.org/docs/stable/optim.html), [CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html),
# [clip_grad_norm_](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html),
# [training with PyTorch](https://docs.pytorch.org/tutorials/beginner/introyt/trainingyt.html).
