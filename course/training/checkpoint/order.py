"""Batches whose order and augmentation depend on (seed, epoch, index) alone, and whose position can be saved."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from course.training.checkpoint.files import CheckpointError

ORDER, LOADER = -1, -2  # in the place of an index: for what is drawn once an epoch


def sample_seed(seed: int, epoch: int, index: int) -> int:
    """A seed in 0 .. 2**64 - 1 that depends on the three numbers alone, on every machine."""
    digest = hashlib.blake2b(f"{seed} {epoch} {index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class ResumableBatches:
    """Batches of a map-style dataset (or of a tuple of tensors of equal length), to iterate over once an epoch.

    transform(sample, generator): makes one sample of another; generator is a torch.Generator seeded by
        (seed, epoch, index). Use it for all that is random: ``torch.rand(1, generator=generator)``.
    seed_globals: for datasets and transforms that draw from the global generators (torchvision's do): Python's, NumPy's
        and torch's CPU generator are seeded by (seed, epoch, index) around each sample, and set back afterwards.
    Other keywords (num_workers, pin_memory, collate_fn, ...) go to ``torch.utils.data.DataLoader``.

    A batch counts as done when it is handed out, so save in the loop's body after the step, or after the loop.
    Iterating again goes on where the last one stopped; after the last batch the next epoch begins. The batches are
    equal bit for bit for every num_workers, resumed or not, on the same torch. Iterating draws nothing from the global
    generators.

    Not restored: what a dataset or transform draws from global generators without seed_globals (workers have their
    own, seeded anew at each start), and any state that a dataset keeps.

    epoch: of the next batch, from 0. position: batches done in it. Raises TypeError for a dataset without length or
    items, ValueError for a batch_size below 1 or tensors of different lengths.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        *,
        seed: int,
        shuffle: bool = True,
        drop_last: bool = False,
        transform: Callable[[Any, torch.Generator], Any] | None = None,
        seed_globals: bool = False,
        **loader: Any,
    ) -> None:
        if isinstance(dataset, (tuple, list)) and dataset and all(isinstance(part, Tensor) for part in dataset):
            lengths = [len(part) for part in dataset]
            if len(set(lengths)) > 1:
                raise ValueError(f"the tensors should be of equal length; they have {lengths} items")
            dataset = TensorDataset(*dataset)
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise TypeError(f"a dataset should have a length and items by number; {type(dataset).__name__} has not")
        if batch_size < 1:
            raise ValueError(f"batch_size should be at least 1, not {batch_size}")
        if own := sorted({"sampler", "batch_sampler", "generator"} & loader.keys()):
            raise TypeError(f"{', '.join(own)} cannot be given: the order comes from seed and epoch")
        self.dataset, self.transform, self.seed_globals, self.loader = dataset, transform, seed_globals, loader
        self.batch_size, self.seed, self.shuffle, self.drop_last = batch_size, seed, shuffle, drop_last
        self.epoch = 0
        self.position = 0

    def __len__(self) -> int:
        """Batches in a whole epoch."""
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        """The batches of this epoch that are not done yet."""
        left = [part.tolist() for part in self.indices(self.epoch).split(self.batch_size)][self.position : len(self)]
        if left:
            samples = _Samples(self.dataset, self.transform, self.seed, self.epoch, self.seed_globals)
            # Without a generator the loader would draw the seed of its workers from the global one.
            generator = torch.Generator().manual_seed(sample_seed(self.seed, self.epoch, LOADER))
            for batch in DataLoader(samples, batch_sampler=left, generator=generator, **self.loader):
                self.position += 1
                yield batch
        self.epoch, self.position = self.epoch + 1, 0

    def indices(self, epoch: int) -> Tensor:
        """The order of the samples in an epoch, int64 (N,)."""
        if not self.shuffle:
            return torch.arange(len(self.dataset))
        generator = torch.Generator().manual_seed(sample_seed(self.seed, epoch, ORDER))
        return torch.randperm(len(self.dataset), generator=generator)

    def state_dict(self) -> dict[str, int | bool]:
        """epoch, position, and what the order depends on: seed, length, batch_size, shuffle, drop_last."""
        return {"epoch": self.epoch, "position": self.position, **self._depends_on()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a saved position. Raises CheckpointError when the order would be another; says what differs."""
        here = self._depends_on()
        differing = [
            f"{name} {state.get(name)} in the file, {value} here"
            for name, value in here.items()
            if state.get(name) != value
        ]
        if differing:
            raise CheckpointError(
                f"the data come in another order than in the run that was saved: {'; '.join(differing)}"
            )
        self.epoch, self.position = state["epoch"], state["position"]

    def _depends_on(self) -> dict[str, int | bool]:
        return {
            "seed": self.seed,
            "length": len(self.dataset),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
        }


class _Samples(Dataset):  # type: ignore[type-arg]
    """The samples of one epoch; at module level, so that workers can be started by spawn."""

    def __init__(self, dataset: Any, transform: Any, seed: int, epoch: int, seed_globals: bool) -> None:
        self.dataset, self.transform = dataset, transform
        self.seed, self.epoch, self.seed_globals = seed, epoch, seed_globals

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        seed = sample_seed(self.seed, self.epoch, index)
        with seeded_globals(seed) if self.seed_globals else contextlib.nullcontext():
            sample = self.dataset[index]
            if self.transform is not None:
                sample = self.transform(sample, torch.Generator().manual_seed(seed))
        return sample


@contextlib.contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Python's, NumPy's and torch's CPU generator seeded inside, and as before outside. Accelerators are left alone."""
    before = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed the accelerators as well
    try:
        yield
    finally:
        random.setstate(before[0])
        numpy.random.set_state(before[1])
        torch.set_rng_state(before[2])
