"""Lesson 04: a dataset that opens its file in every process."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from torch.utils.data import Dataset, get_worker_info

from course.checking import Exercise
from course.exercises.data._workers import OpenedFiles, as_worker, forked

exercise = Exercise(
    "data.record_file",
    title="One open file for each process",
    task="""
        `RecordFile(path, size)` is a map-style dataset over a binary file of records, each `size` bytes long. Sample
        `i` is record `i`, as `bytes`; an index outside raises `IndexError`.

        - Records can be read in any order, and reading one does not depend on what was read before.
        - The file may be larger than memory: read single records.
        - A process opens the file at its first sample and keeps it open; it does not open it again for every sample.
        - With forked workers each process has a file of its own, also when the main process has read a sample before.
          (A fork copies the dataset, but both copies of an open file share one position.)
        - With spawned workers the dataset must be picklable, before and after its first sample.
        """,
    hints=(
        "Keep the path. In __getitem__, how can you tell whether the file that you find on self was opened by this "
        "process? os.getpid() names the process.",
        "Store the open file together with the id of the process that opened it, and open anew where they differ. "
        "__getstate__ says what is pickled: everything but the file.",
    ),
)


@exercise.stub
class RecordFile(Dataset):
    """The records of `size` bytes in the binary file at `path`; a sample is one record as bytes."""

    def __init__(self, path: str | Path, size: int):
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, index: int) -> bytes:
        raise NotImplementedError


@exercise.reference
class OpenedByProcess(Dataset):
    def __init__(self, path, size):
        self.path, self.size, self.files = path, size, {}

    def __len__(self):
        return os.path.getsize(self.path) // self.size

    def __getitem__(self, index):
        if index not in range(len(self)):
            raise IndexError(f"there is no record {index}")
        if os.getpid() not in self.files:
            self.files[os.getpid()] = open(self.path, "rb")
        file = self.files[os.getpid()]
        file.seek(index * self.size)
        return file.read(self.size)

    def __getstate__(self):
        return {**self.__dict__, "files": {}}


@exercise.alternative
class OpenedByWorker(Dataset):
    def __init__(self, path, size):
        self.path, self.size = Path(path), size
        self.count = self.path.stat().st_size // size
        self.file, self.owner = None, "nobody"

    def __reduce__(self):
        return type(self), (self.path, self.size)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        worker = get_worker_info()
        owner = None if worker is None else worker.id
        if self.file is None or owner != self.owner:
            self.file, self.owner = self.path.open("rb"), owner
        self.file.seek(self.size * index)
        return self.file.read(self.size)


@exercise.wrong(
    "The file is opened in __init__. Spawned workers cannot get it (an open file cannot be pickled), and forked ones "
    "share its position: one worker moves it while another is about to read, and records get mixed up.",
    fault="shared-file-handle",
)
class OpenedAtOnce(Dataset):
    def __init__(self, path, size):
        self.size, self.count = size, os.path.getsize(path) // size
        self.file = open(path, "rb")

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError("outside")
        self.file.seek(index * self.size)
        return self.file.read(self.size)


@exercise.wrong(
    "The file is opened at the first sample, which is right until somebody looks at a sample before the workers start. "
    "Then it is open already: it cannot be pickled any more, and forked workers share its position.",
    fault="shared-file-handle",
)
class OpenedAtFirstUse(Dataset):
    def __init__(self, path, size):
        self.path, self.size, self.file = path, size, None

    def __len__(self):
        return os.path.getsize(self.path) // self.size

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        if self.file is None:
            self.file = open(self.path, "rb")
        self.file.seek(index * self.size)
        return self.file.read(self.size)


@exercise.wrong(
    "Leaving the file out of the pickle helps spawned workers. Forked ones are not pickled: after a first sample in "
    "the main process they find its file open and share its position. Ask which process opened it.",
    fault="shared-file-handle",
)
class PicklableButShared(Dataset):
    def __init__(self, path, size):
        self.path, self.size, self.file = path, size, None

    def __len__(self):
        return os.path.getsize(self.path) // self.size

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        if self.file is None:
            self.file = open(self.path, "rb")
        self.file.seek(index * self.size)
        return self.file.read(self.size)

    def __getstate__(self):
        return {**self.__dict__, "file": None}


@exercise.wrong(
    "Every process has a file of its own, but the dataset cannot be pickled once the file is open, so spawned workers "
    "fail as soon as somebody has looked at a sample.",
    fault="unpicklable-worker-object",
)
class NotPicklable(Dataset):
    def __init__(self, path, size):
        self.path, self.size, self.file, self.process = path, size, None, None

    def __len__(self):
        return os.path.getsize(self.path) // self.size

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        if self.process != os.getpid():
            self.file, self.process = open(self.path, "rb"), os.getpid()
        self.file.seek(index * self.size)
        return self.file.read(self.size)


@exercise.wrong(
    "The file is opened and closed again for every sample. That is safe, and on a network drive or for a large archive "
    "opening costs far more than reading. Open once in each process."
)
class OpenedForEverySample(Dataset):
    def __init__(self, path, size):
        self.path, self.size = path, size

    def __len__(self):
        return os.path.getsize(self.path) // self.size

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        with open(self.path, "rb") as file:
            file.seek(index * self.size)
            return file.read(self.size)


@exercise.wrong(
    "The whole file is read into memory. With spawned workers it is also sent to each of them. The task says that it "
    "may be larger than memory."
)
class ReadIntoMemory(Dataset):
    def __init__(self, path, size):
        self.data, self.size = Path(path).read_bytes(), size

    def __len__(self):
        return len(self.data) // self.size

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        return self.data[index * self.size : (index + 1) * self.size]


@exercise.wrong(
    "The index is not used to find the record: each access reads on from where the file stands. A shuffling sampler "
    "then gets records in file order under other numbers, and the end of the file comes early. Go to the record "
    "first."
)
class ReadsOn(Dataset):
    def __init__(self, path, size):
        self.path, self.size, self.files = path, size, {}

    def __len__(self):
        return os.path.getsize(self.path) // self.size

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        process = os.getpid()
        if process not in self.files:
            self.files[process] = open(self.path, "rb")
        return self.files[process].read(self.size)

    def __getstate__(self):
        return {**self.__dict__, "files": {}}


@exercise.wrong("seek() counts bytes, not records. Record i starts at byte i * size.")
class SeeksByRecord(Dataset):
    def __init__(self, path, size):
        self.path, self.size, self.files = path, size, {}

    def __len__(self):
        return os.path.getsize(self.path) // self.size

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        process = os.getpid()
        if process not in self.files:
            self.files[process] = open(self.path, "rb")
        self.files[process].seek(index)
        return self.files[process].read(self.size)

    def __getstate__(self):
        return {**self.__dict__, "files": {}}


@exercise.wrong(
    "The file is opened in __init__, in the process that makes the dataset, though perhaps only workers will read. The "
    "task says that a process opens it at its first sample."
)
class OpenedBeforeItIsNeeded(OpenedByProcess):
    def __init__(self, path, size):
        super().__init__(path, size)
        self.files[os.getpid()] = open(path, "rb")


@exercise.wrong(
    "The files are kept by the worker's number, and the main process takes number 0. Worker 0 then finds the file that "
    "the main process opened, and both share its position. The main process needs a name that no worker has.",
    fault="shared-file-handle",
)
class MainProcessAsWorkerZero(OpenedByProcess):
    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        worker = get_worker_info()
        number = worker.id if worker else 0
        if number not in self.files:
            self.files[number] = open(self.path, "rb")
        self.files[number].seek(index * self.size)
        return self.files[number].read(self.size)


@exercise.wrong(
    "The position is remembered, and the seek left out where the next record follows. But a worker has a new file, "
    "which stands at its start, while what was remembered came along from the main process. Go to the record every "
    "time; it costs nothing."
)
class SeeksWhenNeeded(OpenedByProcess):
    follows = 0

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        if os.getpid() not in self.files:
            self.files[os.getpid()] = open(self.path, "rb")
        file = self.files[os.getpid()]
        if index != self.follows:
            file.seek(index * self.size)
        self.follows = index + 1
        return file.read(self.size)


@exercise.wrong(
    "Each sample reads the file from its start, up to the record or to the end, and throws the rest away. The file may "
    "be larger than memory: go to the record and read its bytes only."
)
class ReadsMoreThanTheRecord(OpenedByProcess):
    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        if os.getpid() not in self.files:
            self.files[os.getpid()] = open(self.path, "rb")
        file = self.files[os.getpid()]
        file.seek(0)
        return file.read()[index * self.size : (index + 1) * self.size]


@contextmanager
def _file(records: int = 6, size: int = 3) -> Iterator[str]:
    """A file of records like b"aaa", b"bbb", ...; nobody minds that a dataset still has it open at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = os.path.join(folder, "records.bin")
        Path(path).write_bytes(b"".join(bytes([97 + i % 26]) * size for i in range(records)))
        yield path


@exercise.probe
def records_in_any_order(answer):
    with _file() as path:
        dataset = answer(path, 3)
        return len(dataset), [dataset[i] for i in (4, 0, 5, 5, 2)]


@exercise.probe
def longer_records(answer):
    with _file(4, 7) as path:
        dataset = answer(Path(path), 7)
        return len(dataset), dataset[1], dataset[3]


@exercise.probe
def indices_outside(answer):
    with _file() as path:
        dataset, names = answer(path, 3), []
        for index in (6, -1, 60):
            try:
                names.append(dataset[index])
            except Exception as error:
                names.append(type(error).__name__)
        return names


@exercise.probe
def opened_once(answer):
    with _file() as path, OpenedFiles(path).watched() as files:
        dataset = answer(path, 3)
        first = dataset[0]
        opened = files.count
        for i in (3, 1, 2):
            dataset[i]
        return first, files.count == opened


@exercise.probe
def pickled_before_and_after(answer):
    with _file() as path:
        dataset = answer(path, 3)
        before = pickle.loads(_pickled(dataset))
        return dataset[1], before[2], pickle.loads(_pickled(dataset))[3], dataset[4]


@exercise.probe
def pickles_are_small(answer):
    with _file(2000, 16) as path:
        dataset = answer(path, 16)
        dataset[7]
        return len(_pickled(dataset)) < 4000


def _pickled(dataset: Any) -> bytes:
    """Classes of a notebook or a test may not be found by name, so the class stays out of the pickle."""
    made, arguments, *state = dataset.__reduce_ex__(2)
    if made is type(dataset) or arguments[:1] == (type(dataset),):
        return pickle.dumps(_Rebuilt(type(dataset), made is type(dataset), arguments, state))
    return pickle.dumps(dataset)


class _Rebuilt:
    """Stands in for a dataset in a pickle: what it would pickle, without looking its class up by name."""

    classes: ClassVar[dict[int, type]] = {}

    def __init__(self, kind: type, called: bool, arguments: tuple[Any, ...], state: list[Any]) -> None:
        self.classes[id(kind)] = kind
        self.parts = id(kind), called, arguments[0 if called else 1 :], (state or [None])[0]

    def __reduce__(self) -> Any:
        return _rebuild, self.parts


def _rebuild(kind_id: int, called: bool, arguments: tuple[Any, ...], state: Any) -> Any:
    kind = _Rebuilt.classes[kind_id]
    if called:
        return kind(*arguments)
    made = object.__new__(kind)
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
    else:
        made.__dict__.update(state or {})
    return made


def _interleaved(answer: Any, *, after_a_look: bool) -> tuple[bytes, bytes, bytes]:
    """Two forked workers read; the second one reads whenever the first has just moved its position."""
    with _file() as path, OpenedFiles(path).watched() as files:
        dataset = answer(path, 3)
        look = dataset[5] if after_a_look else b""
        first, second = forked(dataset), forked(dataset)
        with as_worker(first, 0):
            first[0]
        with as_worker(second, 1):
            second[1]
        stolen: list[bytes] = []

        def other_worker() -> None:
            with as_worker(second, 1):
                stolen.append(second[4])

        files.after_seek = other_worker
        with as_worker(first, 0):
            record = first[2]
        if not stolen:  # the answer needs no position that could be moved
            other_worker()
        return look, record, stolen[0]


@exercise.probe
def two_forked_workers(answer):
    return _interleaved(answer, after_a_look=False)


@exercise.probe
def two_forked_workers_after_a_look(answer):
    return _interleaved(answer, after_a_look=True)


@exercise.probe
def opened_at_the_first_sample(answer):
    with _file() as path, OpenedFiles(path).watched() as files:
        dataset = answer(path, 3)
        return files.still_open(), dataset[2]


@exercise.probe
def no_more_than_the_record_is_read(answer):
    with _file(200) as path, OpenedFiles(path).watched() as files:
        record = answer(path, 3)[150]
        return record, files.bytes_read < 30


@exercise.probe
def bytes_of_any_value(answer):
    with _file() as path:
        Path(path).write_bytes(b" \r\n\x00\xff\x1a\n\n\n\xc3\x28 ")
        dataset = answer(path, 3)
        return [dataset[i] for i in range(4)]


@exercise.probe
def a_worker_goes_on_where_the_main_process_stopped(answer):
    with _file() as path:
        dataset = answer(path, 3)
        dataset[1]
        mine = forked(dataset)
        with as_worker(mine, 0):
            records = [mine[2], mine[3]]
        return records, pickle.loads(_pickled(dataset))[2]


@exercise.probe
def the_main_process_reads_while_a_worker_does(answer):
    with _file() as path, OpenedFiles(path).watched() as files:
        dataset = answer(path, 3)
        dataset[5]
        mine, taken = forked(dataset), []

        def worker() -> None:
            with as_worker(mine, 0):
                taken.append(mine[2])

        files.after_seek = worker
        record = dataset[4]
        if not taken:  # the answer needs no position that could be moved
            worker()
        return record, taken[0]
