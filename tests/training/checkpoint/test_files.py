from __future__ import annotations

import errno
import os
import pathlib
import random
import stat
import subprocess
import sys
import textwrap
import warnings
import zipfile
from collections import Counter, OrderedDict
from fractions import Fraction

import numpy
import pytest
import torch
from torch import nn

from course.training.checkpoint import (
    CheckpointError,
    CheckpointWarning,
    atomic,
    files,
    load,
    read_header,
    save_atomically,
)

STATE = {
    "weights": torch.arange(300, dtype=torch.float32),
    "bits": torch.tensor([1, 2], dtype=torch.uint8),
    "values": [1, 2.5, 1 << 120, True, None, 1j, b"abc", bytearray(b"x"), "text", (1,), {1, 2}],
    "types": [torch.float16, torch.device("cpu"), torch.Size([2])],
    "containers": [OrderedDict(x=1), Counter("aab"), {3: 4, (1, 2): 3}],
}


def same(ours, theirs=STATE):
    tensors = ("weights", "bits")
    return ours.keys() == theirs.keys() and all(
        torch.equal(ours[key], theirs[key]) if key in tensors else ours[key] == theirs[key] for key in theirs
    )


@pytest.fixture
def path(tmp_path):
    return save_atomically(STATE, tmp_path / "a.pt")


def only(folder, *names):
    return sorted(entry.name for entry in folder.iterdir()) == sorted(names)


def test_what_was_saved_is_loaded_without_unpickling_objects(path, tmp_path):
    assert same(load(path))
    assert only(tmp_path, "a.pt")
    assert torch.load(path, weights_only=True)["course checkpoint"]["format"] == 1


def test_a_file_tells_where_it_comes_from(path):
    header = read_header(path)
    assert header["torch"] == torch.__version__
    assert header["python"] == sys.version.split()[0]
    assert header["format"] == 1
    assert header["time"].endswith("+00:00")


def test_a_plain_file_of_torch_save_loads_too(tmp_path):
    torch.save(STATE, tmp_path / "plain.pt")
    assert same(load(tmp_path / "plain.pt"))
    assert read_header(tmp_path / "plain.pt") == {}


def test_paths_may_be_text_with_spaces_and_any_letters(tmp_path):
    folder = tmp_path / "ein Ordner für Prüfpunkte 検"
    folder.mkdir()
    assert save_atomically(STATE, f"{folder}/a b ü.pt") == folder / "a b ü.pt"
    assert same(load(f"{folder}/a b ü.pt"))


def test_a_link_stays_a_link(path, tmp_path):
    link = tmp_path / "latest.pt"
    link.symlink_to(path)
    save_atomically({"a": 1}, link)
    assert link.is_symlink()
    assert load(path) == {"a": 1}


def test_files_get_the_usual_permissions(path, tmp_path):
    (tmp_path / "usual").write_text("")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)


def test_shared_memory_stays_shared(tmp_path):
    weight = torch.randn(4, 4)
    loaded = load(save_atomically({"a": weight, "b": weight, "row": weight[0]}, tmp_path / "a.pt"))
    assert loaded["a"].data_ptr() == loaded["b"].data_ptr() == loaded["row"].data_ptr()


def test_where_tensors_go(path):
    assert load(path, map_location="meta")["weights"].is_meta
    assert load(path, map_location=lambda storage, _: storage)["weights"].device.type == "cpu"
    if not torch.cuda.is_available():
        with pytest.raises(CheckpointError, match="CUDA"):
            load(path, map_location="cuda")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": {"p": pathlib.Path("x")}}, r"state\['a'\]\['p'\] is a pathlib"),
        ({"a": [1, numpy.float64(1)]}, r"state\['a'\]\[1\] is a numpy.float64"),
        ({"a": numpy.zeros(2)}, "from_numpy"),
        ({"model": nn.Linear(1, 1)}, "torch.nn.modules.linear.Linear"),
        ({pathlib.Path("x"): 1}, "key PosixPath|key WindowsPath"),
        ([1], "should be a dict, not a list"),
    ],
)
def test_what_would_not_load_again_is_not_saved(tmp_path, value, place):
    with pytest.raises(CheckpointError, match=place):
        save_atomically(value, tmp_path / "a.pt")
    assert only(tmp_path)


# Files that cannot be used


def refused(path):
    with pytest.raises(CheckpointError) as info:
        load(path)
    assert str(path) in str(info.value)
    with pytest.raises(CheckpointError):
        read_header(path)
    return str(info.value)


def test_cut_short_anywhere(path):
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as records:
        starts = [record.header_offset for record in records.infolist()]
        middles = [
            record.header_offset + (len(whole) if after is None else after.header_offset - record.header_offset) // 2
            for record, after in zip(records.infolist(), [*records.infolist()[1:], None], strict=True)
        ]
        directory = records.start_dir
    lengths = {1, 3, 4, 30, *starts, *middles, directory - 1, directory, directory + 10, len(whole) - 1} - {0}
    lengths |= set(random.Random(0).sample(range(1, len(whole)), 60))
    for length in sorted(number for number in lengths if number < len(whole)):
        path.write_bytes(whole[:length])
        assert "cut short or damaged" in refused(path), length
    path.write_bytes(b"")
    assert "is empty (0 bytes)" in refused(path)


def test_a_flipped_bit_never_passes_for_a_value(path):
    """Each byte that counts is covered; those that do not (padding, times) may change, and change nothing."""
    whole, seen = path.read_bytes(), Counter()
    draw = random.Random(0)
    start = whole.find(STATE["weights"].numpy().tobytes())
    inside = range(start, start + 1200)
    for place in [*draw.sample(inside, 40), *(n for n in range(len(whole)) if n not in inside)]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            assert same(load(path)), place
            seen["same"] += 1
            assert place not in inside
        except CheckpointError:
            seen["refused"] += 1
    assert seen["refused"] > 1000
    assert seen["same"] > 100


def test_torch_itself_does_not_notice_a_flipped_bit(path):
    """The reason for checking. When this fails, torch has learned to check, and this module may do less."""
    damaged = bytearray(path.read_bytes())
    damaged[damaged.find(STATE["weights"].numpy().tobytes()) + 400] ^= 64
    path.write_bytes(damaged)
    assert not torch.equal(torch.load(path, weights_only=True)["content"]["weights"], STATE["weights"])
    assert "do not fit their checksum" in refused(path)


def test_checksums_are_written_even_where_they_are_switched_off(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        assert same(load(save_atomically(STATE, tmp_path / "a.pt")))
        assert torch.serialization.get_crc32_options() is False
    finally:
        torch.serialization.set_crc32_options(True)


class OfMine:
    pass


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        ({"a": [Fraction(1, 2)]}, "fractions.Fraction"),
        ({"a": os.system}, "system"),
        ({"a": numpy.zeros(2)}, "numpy"),
        ({"a": OfMine()}, "OfMine"),
    ],
    ids=["module", "fraction", "system", "numpy", "own class"],
)
def test_other_objects_are_named_and_not_unpickled(tmp_path, thing, name):
    torch.save(thing, tmp_path / "m.pt")
    message = refused(tmp_path / "m.pt")
    assert name in message
    assert "not unpickled" in message
    assert "\x1b" not in message


def test_not_a_checkpoint(tmp_path):
    path = tmp_path / "x.pt"
    path.write_text("hello, world\n")
    assert "begins with b'hell'" in refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "x")
    assert "no data.pkl" in refused(path)
    torch.save(torch.zeros(2), path)
    assert "holds a torch.Tensor, not a dict" in refused(path)
    torch.save({"a": 1}, path, _use_new_zipfile_serialization=False)
    assert "before 1.6" in refused(path)
    assert "is a folder" in refused(tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.pt")


def test_a_newer_format_is_refused(path, monkeypatch):
    monkeypatch.setattr(files, "FORMAT", 2)
    save_atomically({"a": 1}, path)
    monkeypatch.undo()
    message = refused(path)
    assert "has format 2, and this code reads up to 1" in message


def test_another_torch_is_loaded_with_one_warning(path, monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.99.0+cu999")
    with pytest.warns(CheckpointWarning, match=r"a.pt was saved with torch 2\.\d+\.\d+, this is 2\.99\.0") as seen:
        assert same(load(path))
    assert len(seen) == 1
    assert seen[0].filename == __file__


def test_another_build_of_the_same_torch_is_no_news(path, monkeypatch):
    monkeypatch.setattr(torch, "__version__", torch.__version__.partition("+")[0] + "+other")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(path)


# Writing that fails


@pytest.mark.parametrize("room", [0, 10, 600, 3000, 4500])
def test_a_full_disk_leaves_the_old_file(path, tmp_path, monkeypatch, room):
    class Full(atomic.FileIO):
        def write(self, data):
            left = room - self.tell()
            if left <= 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data[:left])

    before = path.read_bytes()
    monkeypatch.setattr(atomic, "FileIO", Full)
    with pytest.raises(OSError, match=f"No space left on device after {room:,} bytes; the file that was there") as info:
        save_atomically({"a": torch.zeros(5000)}, path)
    assert info.value.errno == errno.ENOSPC
    assert info.value.filename == str(path)
    assert path.read_bytes() == before
    assert only(tmp_path, "a.pt")
    with pytest.raises(OSError, match="there was no file before"):
        save_atomically({"a": torch.zeros(5000)}, tmp_path / "new.pt")
    assert only(tmp_path, "a.pt")


IN_A_SMALL_FILE_SYSTEM = """
    mount -t tmpfs -o size=200k none {folder} || exit 77
    exec {python} -c '
    import torch, os, errno
    from course.training.checkpoint import load, save_atomically
    os.chdir("{folder}")
    save_atomically({{"a": torch.ones(10_000)}}, "a.pt")
    for _ in range(2):
        try:
            save_atomically({{"a": torch.zeros(60_000)}}, "a.pt")
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            print(error)
        assert os.listdir() == ["a.pt"], os.listdir()
    assert load("a.pt")["a"].sum() == 10_000
    save_atomically({{"a": torch.zeros(10_000)}}, "a.pt")
    assert load("a.pt")["a"].sum() == 0
    assert os.system("mount -o remount,ro .") == 0
    try:
        save_atomically({{"a": 1}}, "a.pt")
    except OSError as error:
        assert error.errno == errno.EROFS, error
        print(error)
    '
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system in a user namespace")
def test_a_disk_that_is_really_full(tmp_path):
    script = textwrap.dedent(IN_A_SMALL_FILE_SYSTEM).format(folder=tmp_path, python=sys.executable)
    try:
        done = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no mount without root here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("No space left on device after") == 2
    assert "Read-only file system after 0 bytes; the file that was there is untouched" in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits a child")
def test_a_limit_of_the_file_size(path, tmp_path):
    resource = pytest.importorskip("resource")
    before = path.read_bytes()
    child = os.fork()
    if not child:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
            save_atomically({"a": torch.zeros(50_000)}, path)
        except OSError as error:
            code = 0 if error.errno == errno.EFBIG and "after 20,000 bytes" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert path.read_bytes() == before
    assert only(tmp_path, "a.pt")


@pytest.mark.parametrize("moment", ["write", "fsync", "replace"])
def test_an_interrupt_leaves_no_trace(path, tmp_path, monkeypatch, moment):
    def interrupt(*_):
        raise KeyboardInterrupt

    class Interrupted(atomic.FileIO):
        def write(self, data):
            return interrupt() if self.tell() else super().write(data)

    before = path.read_bytes()
    monkeypatch.setattr(*((atomic, "FileIO", Interrupted) if moment == "write" else (os, moment, interrupt)))
    with pytest.raises(KeyboardInterrupt):
        save_atomically({"a": 1}, path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert only(tmp_path, "a.pt")


def test_the_order_of_writing_is_bytes_disk_name_folder(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda n: (done.append("folder" if os.path.isdir(f"/dev/fd/{n}") else "file"), fsync(n))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("replace"), replace(a, b)))
    save_atomically(STATE, tmp_path / "a.pt")
    assert done == ["file", "replace", "folder"]


def test_a_folder_that_is_not_there_or_read_only(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"make the folder .*nowhere first"):
        save_atomically(STATE, tmp_path / "nowhere" / "a.pt")
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    if os.access(locked, os.W_OK):
        pytest.skip("root may write anywhere")
    with pytest.raises(PermissionError, match="can be written to"):
        save_atomically(STATE, locked / "a.pt")


def test_orphans_go_and_files_in_the_making_stay(tmp_path):
    orphan, foreign = tmp_path / ".a.pt.0123abcd.tmp", tmp_path / ".b.pt.0123abcd.tmp"
    orphan.write_bytes(b"half")
    foreign.write_bytes(b"half")
    sink = atomic.Sink(tmp_path / "a.pt")
    sink.open()
    atomic.remove_orphans(tmp_path, "a.pt")
    assert only(tmp_path, foreign.name, sink.path.name)
    sink.write(b"x")
    sink.finish()
    assert only(tmp_path, foreign.name, "a.pt")


def test_a_file_deleted_between_making_and_locking_is_made_again(tmp_path, monkeypatch):
    made, lock = [], atomic.lock

    def slow(file, **options):
        made.append(file.name)
        if len(made) == 1:
            os.unlink(file.name)
        return lock(file, **options)

    monkeypatch.setattr(atomic, "lock", slow)
    assert same(load(save_atomically(STATE, tmp_path / "a.pt")))
    assert len(set(made)) == 2
