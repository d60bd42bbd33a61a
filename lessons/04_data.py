# %% [markdown]
# # 04 Datasets, DataLoader and padding collate
#
# A `DataLoader` is a loop: choose indices, fetch samples, make a batch of them. Worker processes run the middle of
# that loop in copies of your dataset. Nearly every fault of this lesson comes from one of the two sentences.
#
# **Goals.** You can write map-style and iterable datasets; batch sequences of different length with mask and lengths,
# keep padding out of means, attention, losses and recurrent states, and bucket by length; use worker processes without
# doubled data, doubled randomness or shared files; and find the number of workers by measuring.
#
# **Prerequisites.** Lesson 01. **Time.** About 150 minutes, most of them for exercises. **What it measures.** The padding
# that bucketing saves, and five sayings: "half the cores is a good num_workers", "start at 4 workers", "pin_memory makes
# it faster", "CIFAR-10's std is (0.2023, 0.1994, 0.2010)", "normalisation speeds up training".

# %%
import itertools
import math
import multiprocessing
import os
import pickle
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils import data as loading
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, Subset, get_worker_info, random_split
from torchvision.transforms import v2

from course import begin, check, claim, draw_padded_batch, draw_padding_waste, hint, pitfall, solution
from course.data import channel_statistics, cifar10, normalise, workers
from course.data.bucketing import BucketBatchSampler, padding_share
from course.data.padding import length_mask, pad_collate
from course.data.processes import printed_by_script, unpickled_elsewhere
from course.data.sequences import FeatureSequences, TokenSequences
from course.data.splits import Transformed
from course.training.device import choose_device
from course.training.timing import compare_times

begin("04")

# %% tags=["parameters"]
device = "auto"  # "auto", "cpu", "cuda" or "mps"; only the claim about pinned memory uses it
profile = "quick"  # how much is measured: "smoke", "quick" or "full" (a few minutes more)
data = ""  # folder that holds CIFAR-10; "" looks in the usual places and else takes drawn images

# %% tags=["measured"]
run_device = choose_device(device)
cifar = cifar10("train", root=data or None)


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<70} {eval(expression, globals())!s}")


# %% [markdown]
# ## Two kinds of dataset
#
# A **map-style** dataset has `__len__` and `__getitem__`: sample `i` for an index `i`, in any order. A list is one. An
# **iterable** dataset has `__iter__` only: samples come as they come. The loader can shuffle and divide the first kind,
# because it chooses the indices. With the second, that is the dataset's own business.
#
# `__getitem__` should be **stateless**: sample `i` depends on `i` alone. This dataset keeps its rows in memory.
# > **Predict.** Sample 0 is read three times. What comes out?


# %%
class Centred(Dataset):
    def __init__(self, in_place: bool) -> None:
        self.rows, self.in_place = torch.tensor([[4.0, 6.0], [1.0, 3.0]]), in_place

    def __getitem__(self, index: int) -> Tensor:
        row = self.rows[index]
        return row.sub_(5) if self.in_place else row - 5


rows = Centred(in_place=True)
with pitfall("dataset-mutates-cache") as p:
    p.shows(seen=[rows[0].tolist() for _ in range(3)], wanted=[[-1.0, 1.0]] * 3)
rows = Centred(in_place=False)
show("[rows[0].tolist() for _ in range(3)]", "list(DataLoader([3, 1, 4], batch_size=2))")

# %% [markdown]
# **Explain.** `self.rows[index]` is a view, and `sub_`, like `-=`, writes into it. The data drift with each epoch, and
# no shape or dtype tells. Test a dataset by reading a sample twice.

# %%
# exercise: data.window_dataset

# %% [markdown]
# ## Indices, samples, batches
#
# What `DataLoader(dataset, batch_size=4)` puts together can be put together by hand. A **sampler** gives indices, a
# **batch sampler** groups them, and a **collate function** turns a list of samples into a batch.

# %%
letters = ["a", "b", "c", "d", "e", "f"]
sampler = loading.SequentialSampler(letters)  # with shuffle=True a RandomSampler
batches = list(loading.BatchSampler(sampler, batch_size=4, drop_last=False))
by_hand = [loading.default_collate([letters[i] for i in batch]) for batch in batches]
claim("by hand as by DataLoader", by_hand == list(DataLoader(letters, batch_size=4)), equals=True)
same = [list(DataLoader(letters, shuffle=True, generator=torch.Generator().manual_seed(7))) for _ in range(2)]
claim("the same generator seed gives the same order", same[0] == same[1], equals=True)
show("list(sampler)", "batches", "by_hand")

# %% [markdown]
# `shuffle=False` is the default, also for training data that are sorted by class. And the rest makes a smaller batch.
# > **Predict.** 9 samples, batches of 4. What does a network with a BatchNorm layer say to the last batch?

# %%
classes, nine = torch.arange(3).repeat_interleave(8), torch.ones(9, 3)
with pitfall("unshuffled-classes") as p:
    p.shows(seen=[b.unique().tolist() for b in DataLoader(classes, batch_size=8)], wanted="all classes in each batch")
torch.manual_seed(0)
show("[b.unique().tolist() for b in DataLoader(classes, 8, shuffle=True)]")
network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
with pitfall("batchnorm-single-sample", ValueError):
    for batch in DataLoader(nine, batch_size=4):
        network(batch)
show("[len(network(b)) for b in DataLoader(nine, batch_size=4, drop_last=True)]")

# %% [markdown]
# **Explain.** One value for each channel has no deviation. `drop_last=True` belongs in the *training* loader, where
# shuffling leaves another sample out each time. In validation it would lose data.
#
# **What `default_collate` does** depends on the type of the first sample: it stacks tensors and arrays, makes tensors
# of numbers, and goes into tuples, lists and dicts position by position. Strings it leaves alone.
# > **Predict** type and dtype of the first three lines. What becomes of lists of tokens?

# %%
default_collate = loading.default_collate
show("default_collate([(torch.tensor([1, 2]), 3), (torch.tensor([4, 5]), 6)])", "default_collate([True, False])")
show("default_collate([{'x': 1.5, 'name': 'a'}, {'x': 2.5, 'name': 'b'}])")
tokens = [[5, 8, 2], [7, 1, 4]]
with pitfall("list-sample-transposed") as p:
    p.shows(seen=[column.tolist() for column in default_collate(tokens)], wanted=tokens)
ragged = [torch.arange(3), torch.arange(5), torch.arange(2)]
with pitfall("ragged-batch", RuntimeError):
    default_collate(ragged)
broken = [None, torch.tensor(1.0), torch.tensor(3.0)]  # the first file could not be read
with pitfall("none-sample", TypeError):
    default_collate(broken)
show("default_collate([torch.tensor(sample) for sample in tokens])", "pad_sequence(ragged, batch_first=True).tolist()")
show("default_collate([sample for sample in broken if sample is not None])")

# %% [markdown]
# **Explain.** A list is a container: its first elements make one tensor, its second elements the next. Python floats
# become `float64`. Find bad files when you list them; if you must skip, count what the collate function skips.

# %%
# exercise: data.collated_list

# %%
# exercise: data.mini_loader

# %% [markdown]
# ## Transforms and scales
#
# `torchvision.transforms.v2` works on PIL images, arrays and tensors. `v2.ToTensor()` is deprecated, and the first
# line below takes its place. `scale=True` goes by the *dtype*: `uint8` runs to 255, floating point to 1.
# > **Predict.** One pipeline reads `uint8` images, another the same numbers as `float32`. What are their maxima?

# %%
to_float = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
pixels = np.full((2, 2, 3), 204, dtype=np.uint8)
with pitfall("input-scale-mismatch") as p:
    p.shows(seen=to_float(pixels.astype(np.float32)).max().item(), wanted=to_float(pixels).max().item())
show("round(to_float(pixels.astype(np.float32) / 255).max().item(), 3)", "'DEPRECATED' in v2.ToTensor.__doc__")

# %% [markdown]
# **Explain.** A float image is taken to be scaled already, so two pipelines differ by a factor of 255, and a network
# that is good on one fails on the other. Assert the range in both.
# > **Predict.** A random flip is applied to a batch of 8 images. How many of them are flipped?

# %%
torch.manual_seed(0)
flip, images = v2.RandomHorizontalFlip(p=0.5), torch.arange(8 * 4).reshape(8, 1, 1, 4)
in_batches = {int((flip(images) != images).flatten(1).any(1).sum()) for _ in range(20)}
one_by_one = sum(bool((flip(image) != image).any()) for image in images)
claim("images flipped together, in 20 tries", sorted(in_batches), equals=[0, 8])
claim("one by one, neither none nor all", 0 < one_by_one < 8, equals=True)

# %% [markdown]
# **Explain.** A v2 transform draws once a call, so that an image, its mask and its boxes move alike. A batch is one
# call. Transform samples one by one, or draw for each image, as `course.data.random_crop_flip` does.
#
# **Saying: "CIFAR-10's std is (0.2023, 0.1994, 0.2010)".** Two formulas come into question: the deviation of all
# pixels of a channel, or the mean of the deviations of single images.
# > **Predict.** Which of the two is larger? Images differ in brightness.

# %%
images = torch.from_numpy(cifar.data).permute(0, 3, 1, 2)
mean, std = channel_statistics(images)
of_images = torch.cat([part.float().div(255).std((2, 3)) for part in images.split(500)]).mean(0)
claim("the mean of the images' deviations is the smaller one", bool((of_images < std).all()), equals=True)

# %% tags=["measured"]
for channel, (colour, value) in enumerate({"red": 0.2023, "green": 0.1994, "blue": 0.2010}.items()):
    stated = {"stated": f"{value:.4f}", "low": value - 0.002, "high": value + 0.002}
    claim(f"deviation over all pixels, {colour}", std[channel].item(), **stated)
    claim(f"mean of the images' deviations, {colour}", of_images[channel].item(), **stated)

# %% [markdown]
# **Explain.** The variance of all pixels has two parts, within images and between them; the mean over images leaves the
# second out. Drawn images have figures of their own. On CIFAR-10 ("recorded") you see which formula gives the saying.

# %%
# exercise: data.channel_statistics

# %% [markdown]
# **Saying: "normalisation speeds up training".** The same small network and the same steps, with two kinds of input.

# %% tags=["measured"]
chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))[:256]  # files may come class by class
scaled, labels = images[chosen].float() / 255, torch.tensor(cifar.targets)[chosen]
steps, seeds = {"smoke": (2, 1), "quick": (40, 2), "full": (200, 5)}[profile]
losses = {"from 0 to 1": torch.zeros(steps), "normalised": torch.zeros(steps)}
for seed, (kind, curve) in itertools.product(range(seeds), losses.items()):
    torch.manual_seed(seed)
    inputs = scaled if kind == "from 0 to 1" else normalise(scaled, mean, std)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for step in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        curve[step] += loss.item() / seeds
print({kind: f"loss {curve[-1]:.3f} after {steps} steps" for kind, curve in losses.items()})
needed = int((losses["normalised"] > losses["from 0 to 1"][-1]).sum()) + 1  # steps to the other's last loss
claim("steps to the same loss, 0 to 1 over normalised", steps / needed, stated="speeds up training", low=1.5, unit="x")
with pitfall("pretrained-normalisation") as p:  # the last model was trained on normalised inputs
    outputs = (model(x) for x in (scaled, normalise(scaled, mean, std)))
    wrong, right = (F.cross_entropy(output, labels).item() for output in outputs)
    p.shows(seen=f"loss {wrong:.3f} for its own training images, from 0 to 1", wanted=f"loss {right:.3f}, normalised")

# %% [markdown]
# **Explain.** Pixels from 0 to 1 are all positive, so they push all weights of a unit in the first layer the same way.
# How much it costs depends on the learning rate and the network; here is one of each. What a model was trained with it
# needs for ever after: pretrained weights come with a mean and a deviation (lesson 03), and belong to these.
#
# ## Parts with transforms of their own
# > **Predict.** A dataset flips at random; `random_split` makes a validation part of it. One sample of that is read
# > twenty times. How many different images come out?

# %%
pictures = [(torch.arange(4).reshape(1, 1, 4), label) for label in range(10)]
torch.manual_seed(0)
train, validation = random_split(Transformed(pictures, flip), [8, 2])
with pitfall("augmented-validation") as p:
    p.shows(seen=len({tuple(validation[0][0].flatten().tolist()) for _ in range(20)}), wanted=1)
train, validation = random_split(pictures, [8, 2], generator=torch.Generator().manual_seed(0))
train, validation = Transformed(train, flip), Transformed(validation, None)
show("len({tuple(validation[0][0].flatten().tolist()) for _ in range(20)})")

# %% [markdown]
# **Explain.** Both parts look at one dataset object, and that has one transform. Split raw data, then wrap each part.
#
# Parts must share no *sources* either. Copies of a photo, or sentences of one speaker, carry the test into the training.
# > **Predict.** 100 rows of noise with random labels, each stored twice. Of 200, 160 are for training, 40 held out. How
# > many of the 40 does their nearest neighbour label rightly?

# %%
torch.manual_seed(0)
noise, coins, order = torch.randn(100, 20).repeat(2, 1), torch.randint(2, (100,)).repeat(2), torch.randperm(200)


def rightly(known: Tensor, held_out: Tensor) -> str:
    """Return the share of held-out rows that have the label of their nearest known row."""
    nearest = known[torch.cdist(noise[held_out], noise[known]).argmin(1)]
    return f"{(coins[nearest] == coins[held_out]).float().mean():.0%}"


sources = torch.randperm(100)  # split what was copied, then take all copies
apart = [torch.cat([part, part + 100]) for part in (sources[:80], sources[80:])]
with pitfall("split-leakage") as p:
    p.shows(seen=rightly(order[:160], order[160:]), wanted=rightly(*apart))

# %%
# exercise: data.split_with_transforms

# %% [markdown]
# ## Sequences of different length
#
# A batch is a rectangle. Short sequences are **padded** to the longest, and the **lengths**, or a **mask** made from
# them, say what is real. The numbers cannot tell: a real 0 looks like padding. With **images of different sizes** it is
# the same in two axes: resize or crop in the transform, or pad and keep the sizes.

# %%
sequences = TokenSequences(4, shortest=2, longest=8, seed=14)
batch = next(iter(DataLoader(sequences, batch_size=4, collate_fn=pad_collate)))
draw_padded_batch(batch.padded, batch.mask, title="Four sequences in one batch")
claim("the mask is made from the lengths", torch.equal(batch.mask, length_mask(batch.lengths)), equals=True)
photos = [torch.ones(3, 4, 6), torch.ones(3, 5, 2)]
with pitfall("ragged-batch", RuntimeError):
    default_collate(photos)
padded = [F.pad(photo, (0, 6 - photo.shape[2], 0, 5 - photo.shape[1])) for photo in photos]
show("default_collate([v2.Resize((4, 4))(photo) for photo in photos]).shape", "default_collate(padded).shape")

# %%
# exercise: data.collate_sequences

# %% [markdown]
# ## Where padding leaks
#
# Pooling, attention, recurrent states, losses: whatever adds up over time must know where a sequence ends.
# > **Predict.** The embeddings 2 and 4 share a batch with a sequence of length 4. What is their mean?

# %%
batch = pad_collate([(torch.tensor([2.0, 4.0]), 0), (torch.tensor([1.0, 2.0, 3.0, 6.0]), 1)])
with pitfall("padding-leaks") as p:
    p.shows(seen=batch.padded.mean(1).tolist(), wanted=[3.0, 3.0])
show("((batch.padded * batch.mask).sum(1) / batch.lengths).tolist()")

# %%
# exercise: data.mean_over_time

# %% [markdown]
# **Attention.** Softmax gives every key some weight, a padded one too: its score of 0 counts as e⁰ = 1.

# %%
short, long = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.ones(5, 2)
x, mask = pad_collate([(short, 0), (long, 1)])[:2]
alone = F.scaled_dot_product_attention(short[None], short[None], short[None])[0]
with pitfall("padding-leaks") as p:
    leaked = F.scaled_dot_product_attention(x, x, x)[0, 0]
    p.shows(seen=[round(v, 2) for v in leaked.tolist()], wanted=[round(v, 2) for v in alone[0].tolist()])
masked = F.scaled_dot_product_attention(x, x, x, attn_mask=mask[:, None])[0, :2]  # (B, 1, T): for every query
claim("with the mask, as if it were alone", torch.allclose(masked, alone), equals=True)
attention = nn.MultiheadAttention(2, 1, batch_first=True).eval()
inside, outside = attention(x, x, x, key_padding_mask=~mask)[0][0, :2], attention(short, short, short)[0]
claim("key_padding_mask is the opposite mask", torch.allclose(inside, outside, atol=1e-6), equals=True)

# %% [markdown]
# **Explain.** Two conventions meet. In `scaled_dot_product_attention`, True means "take part". In `key_padding_mask`,
# True means "ignore". A query at a padded position still gets an output; drop it later.
#
# **Recurrent networks** read on over the padding, and the last state is that of the padding. **Packing** leaves the
# padding out: `pack_padded_sequence` interleaves the sequences; `enforce_sorted=False` lets them keep their order.

# %%
torch.manual_seed(0)
gru, features = nn.GRU(4, 3, batch_first=True), FeatureSequences(4, longest=9)
batch = pad_collate([features[i] for i in range(4)])
alone = torch.cat([gru(features[i][0][None])[1][0] for i in range(4)])
with pitfall("padding-leaks") as p:
    p.shows(seen=torch.isclose(gru(batch.padded)[1][0], alone).all(1).tolist(), wanted=[True] * 4)
packed = pack_padded_sequence(batch.padded, batch.lengths, batch_first=True, enforce_sorted=False)
outputs, state = gru(packed)
claim("packed, each state is as if it were alone", torch.allclose(state[0], alone, atol=1e-6), equals=True)
show("batch.lengths.tolist()", "packed.batch_sizes.tolist()", "pad_packed_sequence(outputs, batch_first=True)[0].shape")

# %% [markdown]
# **Losses.** This model is sure and right at the padding, and knows nothing about the rest.
# > **Predict.** Two of the six positions are real. What loss should come out, and what comes out?

# %%
targets, lengths, logits = torch.tensor([[1, 0, 0], [1, 0, 0]]), torch.tensor([1, 1]), torch.zeros(2, 3, 2)
logits[:, 1:, 0] = 20.0  # sure of class 0 at the padded positions
with pitfall("padding-leaks") as p:
    everywhere = F.cross_entropy(logits.transpose(1, 2), targets).item()  # the classes belong in axis 1
    p.shows(seen=round(everywhere, 3), wanted=round(math.log(2), 3))
marked = targets.masked_fill(~length_mask(lengths, 3), -100)
show("marked.tolist()", "round(F.cross_entropy(logits.transpose(1, 2), marked).item(), 3)")

# %% [markdown]
# **Explain.** `ignore_index` is -100 by default, and the mean is then over the other positions. Pad targets with -100,
# as `pad_collate` does where a target is a sequence, not with a number that is a class.

# %%
# exercise: data.token_loss

# %% [markdown]
# ## Bucketing by length
#
# Padding is computed on like data. How much there is depends on who shares a batch.

# %%
# exercise: data.padding_cells

# %%
sequences = TokenSequences(96, longest=40, seed=1)
torch.manual_seed(0)
in_order = list(loading.BatchSampler(range(96), 8, drop_last=False))
bucketed = list(BucketBatchSampler(sequences.lengths, batch_size=8, pool=6))
draw_padding_waste(sequences.lengths, {"as they come": in_order, "bucketed by length": bucketed})
loader = DataLoader(sequences, batch_sampler=bucketed, collate_fn=pad_collate)
claim("samples in a bucketed epoch", sum(len(batch.lengths) for batch in loader), equals=96)

# %% [markdown]
# **Explain.** `batch_sampler=` takes the place of `batch_size`, `shuffle`, `sampler` and `drop_last`. Shuffle, sort
# within pools, shuffle the batches: sorting everything would give the same batches each epoch, short ones first.

# %% tags=["measured"]
sequences, gru = FeatureSequences(256, longest=80, features=32), nn.GRU(32, 64, batch_first=True).requires_grad_(False)
come, bucketed = loading.BatchSampler(range(256), 16, False), BucketBatchSampler(sequences.lengths, 16)
ways = {"as they come": come, "bucketed": bucketed}
epochs = {name: [pad_collate([sequences[i] for i in batch]).padded for batch in way] for name, way in ways.items()}
shares = {name: padding_share(sequences.lengths, way) for name, way in ways.items()}
cases = {name: lambda epoch=epoch: [gru(x) for x in epoch] for name, epoch in epochs.items()}
times = compare_times(cases, rounds={"smoke": 1, "quick": 3, "full": 9}[profile], min_run_time=0.001)
claim("padding in batches as they come", 100 * shares["as they come"], low=40, unit="%")
claim("padding in bucketed batches", 100 * shares["bucketed"], high=20, unit="%")
claim("a GRU's time, as they come over bucketed", times.ratio("as they come", "bucketed"), low=1.3, unit="x")
times

# %%
# exercise: data.bucket_batches

# %% [markdown]
# ## Worker processes
#
# With `num_workers=2` the main process hands lists of indices to two processes. Each holds a **copy** of the dataset,
# fetches, collates, and sends batches back, which the main process puts in order. **fork** (Linux, before Python 3.14)
# copies the whole process: memory, open files and generators as they are. **spawn** (Windows, macOS) and **forkserver**
# (Linux, from 3.14 on) start a new Python and send a pickle; so the datasets below come from a module.
# > **Predict.** Each sample is the id of the process that read it, and the dataset counts its calls. How many ids are
# > there, and what does the count say afterwards in the main process?

# %%
ids = workers.WorkerIds(8)
seen = {int(i) for batch in DataLoader(ids, batch_size=2, num_workers=2) for i in batch}
claim("processes that read samples", len(seen), equals=2)
claim("the main process is one of them", os.getpid() in seen, equals=False)
claim("calls counted in the main process", ids.calls, equals=0)
restarted = DataLoader(workers.WorkerIds(2), num_workers=1)
with pitfall("workers-restarted") as p:
    p.shows(seen=len({int(i) for _ in range(3) for i in restarted}), wanted=1)
kept = DataLoader(workers.WorkerIds(2), num_workers=1, persistent_workers=True)
claim("processes in three epochs, persistent_workers=True", len({int(i) for _ in range(3) for i in kept}), equals=1)
del kept  # ends its worker

# %% [markdown]
# **Explain.** What a worker writes to `self` stays in the worker: counters are lost, caches fill up once in each. By
# default workers end with the epoch, and the next one starts new ones.
# > **Predict.** One worker, and `prefetch_factor` is 2, the default. How many batches has the loader asked for before
# > you take the first? And what do two workers make of a *stream* that yields 0, 1, 2?

# %%
asked = []
sampler = (asked.append(i) or i for i in range(8))
batches = iter(DataLoader(workers.WorkerIds(8), sampler=sampler, num_workers=1))
claim("batches asked for at once", len(asked), equals=2)
next(batches)
claim("batches asked for when the first was taken", len(asked), equals=3)
del batches  # an iterator that is not at its end keeps its workers
with pitfall("iterable-not-sharded") as p:
    p.shows(seen=sorted(DataLoader(workers.WholeStream(3), batch_size=None, num_workers=2)), wanted=[0, 1, 2])

# %% [markdown]
# **Explain.** The loader keeps `num_workers * prefetch_factor` batches in the making; each takes memory. They even out
# samples of uneven cost, and do not make a slow dataset fast. And no sampler divides a stream: each copy yields all of
# it. `get_worker_info()` tells a copy which of how many it is.

# %%
# exercise: data.sharded_stream

# %% [markdown]
# ## Random numbers in workers
#
# A worker seeds the global generators of torch, Python and NumPy from its number and a base seed, another in each epoch
# and the same again after `torch.manual_seed`. (Older advice warns of NumPy's global generator. That used to be true.)
# > **Predict.** This dataset draws from a generator of its own, made in `__init__`. What do two workers draw?

# %%
(own, by_numpy), (own_again, by_numpy_again) = DataLoader(workers.StoredGenerator(4), batch_size=2, num_workers=2)
with pitfall("worker-rng-duplicated") as p:
    p.shows(seen=f"{own.tolist()} and {own_again.tolist()}", wanted="two different pairs")
claim("NumPy's global generator repeats itself", torch.equal(by_numpy, by_numpy_again), equals=False)
runs = []
for num_workers in (2, 2, 1):
    torch.manual_seed(0)
    loader = DataLoader(workers.GlobalGenerator(4), batch_size=2, num_workers=num_workers)
    runs.append([numbers.tolist() for numbers, _ in loader])
claim("from the global generator, pairs repeat", runs[0][0] == runs[0][1], equals=False)
claim("the same seed and workers draw the same", runs[0] == runs[1], equals=True)
claim("another number of workers draws the same", runs[0] == runs[2], equals=False)

# %% [markdown]
# **Explain.** What is drawn depends on the number of workers. Where it must not, seed a generator in `__getitem__` from
# (seed, epoch, index), as `TokenSequences` does. `worker_init_fn` can seed other libraries, from `torch.initial_seed()`.

# %%
# exercise: data.randomly_flipped

# %% [markdown]
# ## Files, databases and pickles
#
# An open file has one **position**. A fork copies the handle, not the position: both processes move the same one.
# `os.dup` makes such a pair of handles in one process, so that we can say who moves when. The claim uses real workers.

# %%
folder = tempfile.TemporaryDirectory()
path = Path(folder.name, "records.bin")
path.write_bytes(bytes(range(100)))
with (
    open(path, "rb", 0) as parent,
    open(os.dup(parent.fileno()), "rb", 0) as worker,
    pitfall("shared-file-handle") as p,
):
    parent.seek(20)
    worker.seek(70)  # meanwhile, in the other process
    p.shows(seen=parent.read(1)[0], wanted=20)

# %% tags=["measured"]
wrong, shared = None, workers.SharedHandle(path)
if "fork" in multiprocessing.get_all_start_methods():
    loader = DataLoader(shared, batch_size=5, num_workers=2, multiprocessing_context="fork")
    wrong = sum(int(record != i) for i, record in enumerate(itertools.chain.from_iterable(loader)))
claim("wrong records of 100, two forked workers", wrong, stated="some", low=1, reason="this system has no fork")

# %% [markdown]
# **Explain.** No error, no warning. Keep the *path* on the dataset, and open in the worker: at the first sample, and
# anew where the process is another one. The same goes for archives, locks and **database connections**. Nor can spawn
# pickle them:

# %%
with pitfall("unpicklable-worker-object", TypeError):
    pickle.dumps(shared)
shared.close()
rows = workers.SqliteRows.create(Path(folder.name, "samples.db"), "abcdef")
with pitfall("unpicklable-worker-object", TypeError):
    pickle.dumps(rows.connection())
print(rows[3], pickle.loads(pickle.dumps(rows))[4])
print([text for _, texts in DataLoader(rows, batch_size=2, num_workers=2) for text in texts])
rows.close()
folder.cleanup()

# %% [markdown]
# `SqliteRows` keeps one connection for each process id and leaves them out of its pickle (`__getstate__`).
# **A dataset from a cell** can be pickled, and that is the trap: a class travels *by name*, and the new Python has a
# `__main__` that never ran your cells. A *script* is imported by each spawned process, and starts workers again.

# %%
with pitfall("unpicklable-worker-object") as p:
    p.shows(seen=unpickled_elsewhere(Centred(in_place=False)), wanted="Centred")
start = "worker = m.get_context('spawn').Process(target=print, args=('a worker ran',)); worker.start(); worker.join()"
with pitfall("missing-main-guard") as p:
    p.shows(seen=printed_by_script(f"import multiprocessing as m\nif True: {start}"), wanted="a worker ran")
print(printed_by_script(f"import multiprocessing as m\nif __name__ == '__main__': {start}"))

# %%
# exercise: data.record_file

# %% [markdown]
# ## How many workers
#
# **Sayings: "half the cores is a good num_workers" and "start at 4 workers".** Images are augmented one by one, and
# nothing else goes on. The second epoch counts.
# > **Predict** the best number for the machine this runs on.

# %% tags=["measured"]
augment = v2.Compose([flip, v2.RandomCrop(32, padding=4), to_float, v2.Normalize(mean.tolist(), std.tolist())])
count = {"smoke": 16, "quick": 256, "full": 8000}[profile]
some_images = Subset(cifar10("train", root=data or None, transform=augment), range(count))
cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
half, seconds = min(16, max(1, cores // 2)), {}
warnings.filterwarnings("ignore", "This DataLoader will create")  # of more workers than there are cores
for number in sorted({0, 1, 2, 4, half}):
    loader = DataLoader(some_images, batch_size=16, num_workers=number, persistent_workers=number > 0)
    list(loader)  # starts the workers
    start = time.perf_counter()
    list(loader)
    seconds[number] = time.perf_counter() - start
    del loader
best = min(seconds.values())
print(f"{cores} cores;", ", ".join(f"{n} workers: {count / s:,.0f} images/s" for n, s in seconds.items()))
claim("half the cores, time over the best", seconds[half] / best, stated="a good number", high=1.1, unit="x")
claim("4 workers, time over the best", seconds[4] / best, stated="start at 4", high=1.1, unit="x")

# %% [markdown]
# **Explain.** No rule knows what a sample costs, or what else the cores do, such as training. Measure your own loop
# (lesson 10). The loader itself warns of more workers than cores. Data that fit into memory need none.
#
# **Saying: "pin_memory makes it faster".** An accelerator can copy from pinned memory while it computes.

# %% tags=["measured"]
faster = None
if run_device.type == "cuda":
    on_cpu = loading.TensorDataset(scaled.repeat(32, 1, 1, 1))
    loaders = {pin: DataLoader(on_cpu, batch_size=512, pin_memory=pin) for pin in (False, True)}
    cases = {str(pin): lambda pin=pin: [x.to(run_device, non_blocking=pin) for (x,) in loaders[pin]] for pin in loaders}
    faster = compare_times(cases).ratio("False", "True")
claim("time without pin_memory over with it", faster, stated="faster", low=1.1, unit="x", reason="no CUDA device here")
claim("worker processes that are left", len(multiprocessing.active_children()), equals=0)

# %% [markdown]
# ## From error to understanding
#
# | fault | how it looks | why | fix |
# | --- | --- | --- | --- |
# | `ragged-batch` | stack expects each tensor to be equal size | a batch is a rectangle | pad in a collate function |
# | `list-sample-transposed` | a list of columns in place of a batch | a list is a container | return tensors |
# | `none-sample` | found <class 'NoneType'> | `__getitem__` returned nothing | filter when listing the files |
# | `batchnorm-single-sample` | Expected more than 1 value per channel | a last batch of one | `drop_last=True` in training |
# | `unshuffled-classes` | low loss, accuracy of chance | batches of one class | `shuffle=True` |
# | `dataset-mutates-cache` | data drift from epoch to epoch | in-place work on a view | copy in `__getitem__` |
# | `input-scale-mismatch` | good in training, chance in test | `scale=True` goes by dtype | one pipeline; assert the range |
# | `pretrained-normalisation` | poor accuracy of good weights | other mean and deviation | those of the weights |
# | `augmented-validation` | scores that jump and are too low | both parts share a transform | split first, then wrap |
# | `split-leakage` | good on test, poor in use | copies or statistics cross the split | split by source, first |
# | `padding-leaks` | results depend on neighbours in the batch | padding is computed like data | lengths, mask, -100 |
# | `worker-rng-duplicated` | less variety than you think | a stored generator is copied | draw from the global one |
# | `iterable-not-sharded` | an epoch is `num_workers` times as long | each copy yields all | `get_worker_info()` |
# | `shared-file-handle` | wrong records with two workers | one file position for all | open in each process |
# | `unpicklable-worker-object` | cannot pickle; Can't get attribute | spawn sends pickles | keep the path, import the class |
# | `missing-main-guard` | ... finished its bootstrapping phase | the script is imported again | the main guard |
# | `workers-restarted` | a pause before each epoch | workers end with the epoch | `persistent_workers=True` |
#
# ## A table to keep
#
# | question | answer |
# | --- | --- |
# | who chooses indices? | `sampler`, grouped by `batch_sampler`; in the main process |
# | who fetches and collates? | the worker, in its own copy of the dataset |
# | who shuffles a stream, who divides it? | the dataset itself |
# | how many batches are in the making? | `num_workers * prefetch_factor` |
# | what seeds a worker? | the epoch's base seed and its number: torch, `random` and NumPy's global generator |
# | what does True mean in a mask? | `attn_mask`: take part; `key_padding_mask`: ignore |
# | when do workers end? | with the iterator; where they persist, with the loader |
# | what belongs to training only? | `shuffle`, `drop_last`, random transforms |
#
# ## Read on
#
# - [torch.utils.data](https://docs.pytorch.org/docs/stable/data.html): all options of the loader, and notes on workers
# - [Transforms v2](https://docs.pytorch.org/vision/stable/transforms.html)
# - [pack_padded_sequence](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html)
# - [MultiheadAttention](https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html): its masks
# - [Multiprocessing best practices](https://docs.pytorch.org/docs/stable/notes/multiprocessing.html)
# - [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html): seeds of workers
