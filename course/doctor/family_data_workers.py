"""What workers of a DataLoader share, repeat or cannot be given. Looked at before any sample is read."""

from __future__ import annotations

import copy
import io
import itertools
import multiprocessing
import pickle
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, _utils

from course.doctor import datasets
from course.doctor.code_names import names_in
from course.doctor.report import Finding

if TYPE_CHECKING:
    from course.doctor.setup import Setup

_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)
# Classes that read through one open file, by module and name, as they may not be installed.
_FILES = {("h5py._hl.files", "File"), ("zipfile", "ZipFile"), ("tarfile", "TarFile")}


def examine(setup: Setup) -> Iterator[Finding]:
    """Open files, generators, streams and pickles of loaders with workers."""
    for name, loader in (("loader", setup.loader), ("val_loader", setup.val_loader)):
        if not isinstance(loader, DataLoader) or loader.num_workers < 1:
            continue
        method = _start_method(loader)
        if method != "fork":
            yield from _pickles(name, loader, method)
        if loader.num_workers > 1:
            with setup.scratch():
                if isinstance(loader.dataset, IterableDataset):
                    yield from _stream(name, loader)
                else:
                    if method == "fork":
                        yield from _open_files(name, loader)
                    yield from _generators(name, loader)
        if not loader.persistent_workers and name == "loader" and _few_batches(loader):
            yield Finding(
                "workers-restarted",
                f"`loader` starts {loader.num_workers} worker process{'es' * (loader.num_workers > 1)} in every epoch, "
                f"and an epoch has {len(loader)} batches.",
                severity="note",
            )


def _few_batches(loader: DataLoader) -> bool:
    try:
        return len(loader) <= 50
    except TypeError:
        return False


def _start_method(loader: DataLoader) -> str:
    context = loader.multiprocessing_context or multiprocessing
    method = getattr(context, "get_start_method", lambda: "fork")()
    return str(method)


# --- pickles ------------------------------------------------------------------------------------------------------


class _Nowhere(io.RawIOBase):
    def write(self, data: Any) -> int:
        return len(data)


class _Probe(pickle.Pickler):
    """Pickles everything but the numbers in tensors and arrays, which always can be."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, (Tensor, np.ndarray, torch.UntypedStorage)):
            return int, ()
        return NotImplemented


def _pickles(name: str, loader: DataLoader, method: str) -> Iterator[Finding]:
    for what in ("dataset", "collate_fn", "worker_init_fn"):
        thing = getattr(loader, what, None)
        if thing is None:
            continue
        try:
            _Probe(_Nowhere(), protocol=pickle.HIGHEST_PROTOCOL).dump(thing)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            yield Finding(
                "unpicklable-worker-object",
                f"`{name}` has {loader.num_workers} workers started by {method}, which get `{what}` as a pickle. "
                "Pickling "
                f"it gives {type(error).__name__}: {error}.",
            )
            return
        except Exception:  # what only a real start of a process can pickle, such as locks
            continue


# --- files --------------------------------------------------------------------------------------------------------


def _open_files(name: str, loader: DataLoader) -> Iterator[Finding]:
    if _mentions(loader.worker_init_fn, {"dataset"}) or _mentions(
        _reader(loader.dataset), {"getpid", "get_worker_info"}
    ):
        return
    for path, thing in datasets.held(loader.dataset, object):
        kind = type(thing)
        is_file = isinstance(thing, io.IOBase) and not isinstance(thing, (io.BytesIO, io.StringIO))
        if is_file:
            if thing.closed or not thing.readable() or not thing.seekable():
                continue
            before = thing.tell()
            if not datasets.read(loader.dataset, [0, min(1, len(loader.dataset) - 1)], lambda: True):
                return
            if thing.closed or thing.tell() == before:
                continue
            how = f"reading a sample moves its position from {before} to {thing.tell()}"
        elif (kind.__module__, kind.__name__) in _FILES:
            how = "its reads move the position of one file"
        else:
            continue
        yield Finding(
            "shared-file-handle",
            f"`{path}` of `{name}` is an open {kind.__name__}, and {how}. {loader.num_workers} forked workers share "
            "that "
            "position.",
        )
        return


def _mentions(function: Any, words: set[str]) -> bool:
    return function is not None and bool(names_in(function) & words)


def _reader(dataset: Any) -> Any:
    inner = datasets.base_of(dataset)
    return getattr(inner, "__getitem__", None)


# --- generators ---------------------------------------------------------------------------------------------------


def _generators(name: str, loader: DataLoader) -> Iterator[Finding]:
    generators = datasets.held(loader.dataset, _GENERATORS)
    if not generators or _mentions(loader.worker_init_fn, {"dataset"}):
        return
    if _mentions(_reader(loader.dataset), {"get_worker_info", "initial_seed"}):
        return
    before = [_state(generator) for _, generator in generators]
    first: list[Tensor] | None = None
    differ = False
    for _ in range(6):
        with datasets.seeded(0):
            samples = datasets.read(loader.dataset, [0], lambda: True)
        if not samples:
            return
        now = datasets.copied(samples[0])
        differ = differ or (first is not None and not datasets.same(first, now))
        first = first or now
    used = [path for (path, generator), state in zip(generators, before, strict=True) if _state(generator) != state]
    if used and differ:
        yield Finding(
            "worker-rng-duplicated",
            f"Samples of `{name}` are drawn with the generator `{used[0]}`: reading index 0 six times gives different "
            f"samples and moves it on. Each of the {loader.num_workers} workers gets a copy in the same state, so all "
            "draw the same numbers.",
        )


def _state(generator: Any) -> str:
    if isinstance(generator, torch.Generator):
        return str(generator.get_state().sum().item()) + str(generator.get_state()[:64].tolist())
    if isinstance(generator, random.Random):
        return str(hash(generator.getstate()))
    if isinstance(generator, np.random.RandomState):
        state = generator.get_state()
        return f"{state[2]} {state[1].sum()}"
    return str(generator.bit_generator.state)


# --- streams ------------------------------------------------------------------------------------------------------


def _stream(name: str, loader: DataLoader) -> Iterator[Finding]:
    first = [_as_worker(loader, number) for number in (0, 1)]
    one, other = first
    if one is None or other is None or len(one) < 2 or len(one) != len(other):
        return
    if not all(datasets.same(a, b) for a, b in zip(one, other, strict=True)) or not one[0]:
        return
    if all(datasets.same(one[0], item) for item in one[1:]):
        return
    generators = datasets.held(loader.dataset, _GENERATORS)
    fault = "worker-rng-duplicated" if generators else "iterable-not-sharded"
    more = f" It draws them with `{generators[0][0]}`." if generators else ""
    yield Finding(
        fault,
        f"The dataset of `{name}` was asked for its samples as worker 0 and as worker 1 of {loader.num_workers}: both "
        f"begin with the same {len(one)} samples, so each sample comes {loader.num_workers} times.{more}",
    )


def _as_worker(loader: DataLoader, number: int) -> list[list[Tensor]] | None:
    """The first samples of an iterable dataset, as the worker of this number would see them."""
    dataset = copy.copy(loader.dataset)
    before = _utils.worker._worker_info
    try:
        with datasets.seeded(1000 + number):
            _utils.worker._worker_info = _utils.worker.WorkerInfo(
                id=number, num_workers=loader.num_workers, seed=1000 + number, dataset=dataset
            )
            if loader.worker_init_fn is not None:
                loader.worker_init_fn(number)
            states = [(generator, copy.deepcopy(generator)) for _, generator in datasets.held(dataset, _GENERATORS[:3])]
            samples = [datasets.copied(sample) for sample in itertools.islice(iter(dataset), 6)]
            for generator, kept in states:
                _put_back(generator, kept)
            return samples
    except Exception:
        return None
    finally:
        _utils.worker._worker_info = before


def _put_back(generator: Any, kept: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(kept.getstate())
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(kept.get_state())
    else:
        generator.bit_generator.state = kept.bit_generator.state
