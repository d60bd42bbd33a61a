from __future__ import annotations

import math
import os
import shutil
import threading
import time
import warnings

import pytest
import torch
from torch import nn

from course.training.checkpoint import CheckpointError, CheckpointManager, CheckpointWarning, RunState, atomic, load
from course.training.checkpoint import manager as manager_module


def make(seed=0, width=3):
    torch.manual_seed(seed)
    model = nn.Linear(2, width)
    return RunState(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


def weight(run, value):
    with torch.no_grad():
        run.model.weight.fill_(value)
    return run


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs" / "first"


def steps(manager):
    return [int(path.name[5:13]) for path in manager.files()]


def fill(manager, scores, start=1):
    run = make()
    for step, score in enumerate(scores, start):
        manager.save(weight(run, step), step=step, score=score)
    return run


def damage(path, how="cut"):
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    else:
        place = data.find(make().model.weight.detach().fill_(0).numpy().tobytes()) if how == "flip" else 0
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


def test_names_carry_step_and_score(folder):
    manager = CheckpointManager(str(folder))
    assert manager.save(make(), step=0, score=0.8125).name == "step=00000000,score=0.8125.pt"
    assert manager.save(make(), step=120, score=-1e-07).name == "step=00000120,score=-1e-07.pt"
    path = manager.save(make(), step=123_456_789_012)
    assert path.name == "step=123456789012.pt"
    assert path == manager.latest() == manager.files()[-1]
    state = load(path)
    assert (state["step"], state["score"]) == (123_456_789_012, None)
    assert set(state["model"]) == {"weight", "bias"}


def test_the_last_and_the_best_are_kept(folder):
    manager = CheckpointManager(folder, keep_last=2, keep_best=1)
    fill(manager, [0.1, 0.9, 0.3, 0.2, 0.5])
    assert steps(manager) == [2, 4, 5]
    assert manager.best().name.startswith("step=00000002")
    assert manager.latest().name.startswith("step=00000005")


@pytest.mark.parametrize(
    ("options", "scores", "kept", "best"),
    [
        ({"keep_last": 1, "keep_best": 2}, [3, 2, 5, 1], [1, 3, 4], 3),
        ({"keep_last": 1, "keep_best": 0}, [3, 2, 5, 1], [4], 4),
        ({"keep_last": 1, "higher_is_better": False}, [3, 0.5, 5, 1], [2, 4], 2),
        ({"keep_last": 1, "higher_is_better": False}, [3, -0.5, 0.0, 1], [2, 4], 2),
        ({"keep_last": 1}, [math.nan, 0.1, math.nan], [2, 3], 2),
        ({"keep_last": 1, "higher_is_better": False}, [-math.inf, 0.1, math.nan], [2, 3], 2),
        ({"keep_last": 1}, [math.inf, 0.1, -math.inf], [2, 3], 2),
        ({"keep_last": 1}, [0.5, 0.5, 0.1], [2, 3], 2),
        ({"keep_last": 1}, [-3.0, -2.5, -10.0], [2, 3], 2),
        ({"keep_last": 1}, [1e-9, 1e9, 2], [2, 3], 2),
        ({"keep_last": 2}, [None, None, None], [2, 3], None),
        ({"keep_last": 5}, [9, 10, 1], [1, 2, 3], 2),
    ],
)
def test_what_is_kept(folder, options, scores, kept, best):
    manager = CheckpointManager(folder, **options)
    fill(manager, scores)
    assert steps(manager) == kept
    assert (None if best is None else f"step={best:08d}") == (manager.best() and manager.best().name[:13])


def test_scores_may_be_tensors_and_steps_other_integers(folder):
    path = CheckpointManager(folder).save(make(), step=torch.tensor(3), score=torch.tensor(0.5))
    assert path.name == "step=00000003,score=0.5.pt"
    assert load(path)["score"] == 0.5


def test_resume_takes_the_newest(folder):
    manager = CheckpointManager(folder)
    assert manager.resume(make()) is None
    assert (manager.files(), manager.latest(), manager.best(), folder.exists()) == ([], None, None, False)
    fill(manager, [0.3, 0.2, 0.1])
    run = make(seed=1)
    assert CheckpointManager(folder).resume(run) == 3
    assert run.model.weight.unique().item() == 3


def test_order_is_by_step_whatever_the_clock_says(folder):
    manager = CheckpointManager(folder, keep_last=3)
    fill(manager, [0.1, 0.2, 0.3])
    for number, path in enumerate(manager.files()):
        os.utime(path, (1_000_000 - number, 1_000_000 - number))
    assert CheckpointManager(folder).resume(make()) == 3
    manager.save(make(), step=4)
    assert steps(manager) == [2, 3, 4]


@pytest.mark.parametrize("how", ["cut", "empty", "first byte"])
def test_unreadable_files_are_passed_over_and_stay(folder, how):
    fill(CheckpointManager(folder, keep_last=3), [0.1, 0.2, 0.9])
    manager, run = CheckpointManager(folder, keep_last=3), make(seed=1)
    newest = manager.files()[-1]
    damage(newest, how)
    damaged = newest.read_bytes()
    with pytest.warns(CheckpointWarning, match=r"^passed over step=00000003,score=0.9.pt: is") as seen:
        assert manager.resume(run) == 2
    assert len(seen) == 1
    assert "\n" not in str(seen[0].message)
    assert str(folder) not in str(seen[0].message)
    assert seen[0].filename == __file__
    assert run.model.weight.unique().item() == 2
    assert newest.read_bytes() == damaged
    with pytest.warns(CheckpointWarning, match="passed over step=00000003"):
        assert manager.best().name.startswith("step=00000002")
    with pytest.warns(CheckpointWarning, match="passed over step=00000003"):
        assert manager.latest().name.startswith("step=00000002")


def test_a_flipped_bit_in_a_weight_is_found(folder):
    manager = CheckpointManager(folder)
    manager.save(weight(make(), 1), step=1)
    path = manager.save(weight(make(), 0), step=2)
    damage(path, "flip")
    with pytest.warns(CheckpointWarning, match="do not fit their checksum"):
        assert CheckpointManager(folder).resume(make()) == 1


def test_all_unreadable(folder):
    fill(CheckpointManager(folder), [0.1, 0.2])
    manager = CheckpointManager(folder)
    for path in manager.files():
        damage(path)
    with pytest.warns(CheckpointWarning) as seen:
        assert manager.resume(make()) is None
    assert len(seen) == 2
    assert len(manager.files()) == 2
    manager.save(weight(make(), 7), step=1)
    assert sorted(path.name[:13] for path in manager.files()) == ["step=00000001", "step=00000001", "step=00000002"]
    run = make()
    with pytest.warns(CheckpointWarning):
        assert CheckpointManager(folder).resume(run) == 1
    assert run.model.weight.unique().item() == 7


def test_damaged_files_are_no_reason_to_delete_readable_ones(folder):
    """They count neither as last nor as best, and the one just written always stays."""
    fill(CheckpointManager(folder, keep_last=3), [0.1, 0.2, 0.9])
    manager = CheckpointManager(folder, keep_last=2)
    damage(manager.files()[-1])
    run = make()
    with pytest.warns(CheckpointWarning):
        assert manager.resume(run) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it has been told once
        for step in (3, 4):
            manager.save(run, step=step, score=0.15)
    with pytest.warns(CheckpointWarning, match="passed over step=00000003"):
        assert manager.best().name.startswith("step=00000002")
    assert steps(manager) == [2, 3, 3, 4]
    fresh = CheckpointManager(folder, keep_last=1, keep_best=0)
    path = fresh.save(run, step=5)
    assert path in fresh.files()
    load(path)


def test_a_file_that_may_not_be_read_is_passed_over(folder, monkeypatch):
    manager = CheckpointManager(folder)
    fill(manager, [0.1, 0.2])
    import course.training.checkpoint.manager as module

    def forbidden(path, **options):
        if path.name.startswith("step=00000002"):
            raise PermissionError(13, "Permission denied", str(path))
        return load(path, **options)

    monkeypatch.setattr(module, "load", forbidden)
    with pytest.warns(CheckpointWarning, match="Permission denied"):
        assert manager.resume(make()) == 1


def test_nothing_unsafe_is_unpickled(folder, tmp_path):
    fill(CheckpointManager(folder), [0.1])

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    torch.save({"model": Trap()}, folder / "step=00000009.pt")
    with pytest.warns(CheckpointWarning, match="mkdir, which was not unpickled"):
        assert CheckpointManager(folder).resume(make()) == 1
    assert not (tmp_path / "sprung").exists()


def test_a_run_of_another_model_is_an_error_and_not_passed_over(folder):
    fill(CheckpointManager(folder), [0.1, 0.2])
    run = make(width=4)
    before = run.model.weight.clone()
    with pytest.raises(CheckpointError, match="saved with another model"):
        CheckpointManager(folder).resume(run)
    assert torch.equal(run.model.weight, before)


def test_a_step_saved_again_replaces_its_file(folder):
    manager = CheckpointManager(folder)
    fill(manager, [0.1, 0.9])
    manager.save(weight(make(), 22), step=2, score=0.5)
    assert [path.name for path in manager.files()] == ["step=00000001,score=0.1.pt", "step=00000002,score=0.5.pt"]
    manager.save(weight(make(), 23), step=2, score=0.5)
    assert len(manager.files()) == 2
    run = make()
    manager.resume(run)
    assert run.model.weight.unique().item() == 23


def test_a_second_run_in_the_folder_of_a_first_is_refused_before_it_deletes_anything(folder):
    fill(CheckpointManager(folder), [0.1, 0.2, 0.3])
    names = sorted(os.listdir(folder))
    with pytest.raises(
        CheckpointError, match=r"step 1 is to be saved, and .* holds step=00000003,score=0.3.pt already"
    ):
        CheckpointManager(folder).save(make(), step=1)
    assert sorted(os.listdir(folder)) == names


def test_other_files_are_left_alone(folder):
    manager = CheckpointManager(folder, keep_last=1, keep_best=0)
    folder.mkdir(parents=True)
    others = [
        "notes.txt",
        "step=1.txt",
        "model.pt",
        "step=x.pt",
        ".step=00000001.pt",
        "step=00000001.pt.bak",
        "xstep=1.pt",
    ]
    for name in others:
        (folder / name).write_text("x")
    (folder / "step=00000005.pt").mkdir()
    fill(manager, [0.1, 0.2, 0.3])
    assert set(others) < set(os.listdir(folder))
    assert steps(manager) == [3]


def test_a_score_in_a_name_that_is_no_number_is_never_best(folder):
    manager = CheckpointManager(folder)
    path = manager.save(make(), step=1)
    shutil.copy(path, folder / "step=00000002,score=good.pt")
    assert manager.best() is None
    assert manager.latest().name == "step=00000002,score=good.pt"


def test_orphans_of_killed_writers_are_deleted_at_the_next_save(folder):
    manager = CheckpointManager(folder)
    fill(manager, [0.1])
    orphan = folder / ".step=00000002,score=0.5.pt.0123abcd.tmp"
    orphan.write_bytes(b"half")
    assert manager.resume(make()) == 1
    manager.save(make(), step=2)
    assert not orphan.exists()


def test_a_failed_save_deletes_nothing(folder, monkeypatch):
    import course.training.checkpoint.manager as module

    manager = CheckpointManager(folder, keep_last=1)
    fill(manager, [0.1])

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "save_atomically", full)
    with pytest.raises(OSError, match="No space left"):
        manager.save(make(), step=2)
    assert steps(manager) == [1]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f: CheckpointManager(f, keep_last=0), ValueError, "at least 1"),
        (lambda f: CheckpointManager(f, keep_best=-1), ValueError, "keep_best 0"),
        (lambda f: CheckpointManager(f).save(make(), step=-1), ValueError, "0 or more, not -1"),
        (lambda f: CheckpointManager(f).save(make(), step=1.5), TypeError, "integer"),
        (lambda f: CheckpointManager(f).save({"step": 3}, step=3), ValueError, "key 'step' of its own"),
        (lambda f: CheckpointManager(f).save({"model": nn.Linear(1, 1)}, step=3), CheckpointError, "Linear"),
    ],
)
def test_wrong_arguments(folder, call, error, message):
    with pytest.raises(error, match=message):
        call(folder)
    assert not folder.exists() or os.listdir(folder) == []


def test_a_plain_dict_may_be_saved(folder):
    path = CheckpointManager(folder).save({"model": make().model.state_dict()}, step=1, score=2)
    assert set(load(path)) == {"model", "step", "score"}


def test_a_linked_folder_with_a_difficult_name(tmp_path):
    real = tmp_path / "echter Ordner [1] * 検"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real, target_is_directory=True)
    for folder in (link, real):
        manager = CheckpointManager(folder)
        fill(manager, [0.1, 0.2, 0.3], start=1 + 3 * (folder == real))
        assert manager.resume(make()) == 3 + 3 * (folder == real)
    assert link.is_symlink()


@pytest.mark.filterwarnings("error")
def test_a_file_that_another_process_pruned_meanwhile_is_no_damage(folder, monkeypatch):
    manager, run = CheckpointManager(folder, keep_last=2), make()
    manager.save(run, step=1)
    gone = manager.save(run, step=2)
    listed = manager.files()
    gone.unlink()
    monkeypatch.setattr(manager, "files", lambda: listed)
    assert manager.latest() == listed[0]
    assert manager.resume(run) == 1


def test_two_managers_do_not_prune_the_last_file_of_each_other(folder, monkeypatch):
    """Each saves the same step with a score of its own, and is to prune when both files are there."""
    first, second = CheckpointManager(folder), CheckpointManager(folder)
    write = manager_module.save_atomically

    def write_and_be_overtaken(content, path):
        write(content, path)
        monkeypatch.setattr(manager_module, "save_atomically", write)
        second.save(make(), step=1, score=0.5)

    monkeypatch.setattr(manager_module, "save_atomically", write_and_be_overtaken)
    first.save(make(), step=1, score=0.25)
    assert [path.name for path in first.files()] == ["step=00000001,score=0.5.pt"]


@pytest.mark.skipif(atomic.fcntl is None, reason="this system has no file locks")
def test_pruning_waits_for_another_that_prunes(folder):
    folder.mkdir(parents=True)
    inside, most, meet = 0, 0, threading.Barrier(4)

    def work():
        nonlocal inside, most
        meet.wait()
        for _ in range(20):
            with atomic.one_at_a_time(folder):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


@pytest.mark.filterwarnings("error")
def test_two_managers_that_write_at_once_do_no_damage(folder):
    """Files may be pruned by either; every file that is left is whole, and none of the errors is another one."""
    errors = []

    def work(number):
        manager, run = CheckpointManager(folder, keep_last=2), make(seed=number)
        for step in range(1, 26):
            try:
                manager.save(run, step=step, score=(number + 1) * 0.01 * step)
            except CheckpointError as error:
                if "holds step=" not in str(error):
                    errors.append(error)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    manager = CheckpointManager(folder)
    assert 1 <= len(manager.files()) <= 6
    for path in manager.files():
        load(path)
    assert [name for name in os.listdir(folder) if name.endswith(".tmp")] == []
