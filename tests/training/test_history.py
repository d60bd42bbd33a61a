from __future__ import annotations

import json

import pytest

from course.training.history import History


def two_epochs(path=None):
    history = History(path)
    history.append(loss=2.25, held_out_accuracy=0.125)
    history.append(loss=1.5, held_out_accuracy=0.5)
    return history


def test_rows_and_columns():
    history = two_epochs()
    assert len(history) == 2
    assert history["epoch"] == [1, 2]
    assert history["loss"] == [2.25, 1.5]
    assert [row["held_out_accuracy"] for row in history] == [0.125, 0.5]
    with pytest.raises(KeyError, match="no column 'los'; the columns are epoch, loss"):
        history["los"]


def test_first_row_that_reaches_a_value():
    history = two_epochs()
    assert history.first("held_out_accuracy", at_least=0.3)["epoch"] == 2
    assert history.first("held_out_accuracy", at_least=0.6) is None


def test_reads_as_a_table():
    assert str(two_epochs()).splitlines() == [
        "epoch  loss  held_out_accuracy",
        "    1  2.25             12.5 %",
        "    2   1.5             50.0 %",
    ]
    assert two_epochs()._repr_html_().count("<tr>") == 3
    assert str(History()) == "epoch"


def test_a_log_is_written_row_by_row_and_read_again(tmp_path):
    path = tmp_path / "runs" / "first.jsonl"
    history = History(path)
    history.append(loss=1)
    assert json.loads(path.read_text()) == {"epoch": 1, "loss": 1.0}
    history.append(loss=0.5)
    assert History.read(path)["loss"] == [1.0, 0.5]


def test_a_log_that_was_cut_short_keeps_what_it_had(tmp_path):
    path = tmp_path / "run.jsonl"
    two_epochs(path)
    path.write_text(path.read_text()[:-7])
    assert History.read(path)["epoch"] == [1]


def test_a_second_run_continues_the_file(tmp_path):
    path = tmp_path / "run.jsonl"
    two_epochs(path)
    two_epochs(path)
    assert len(History.read(path)) == 4


def log(path):
    return [(row["epoch"], row["loss"]) for row in map(json.loads, path.read_text().splitlines())]


def grow(history, *losses):
    for loss in losses:
        history.append(loss=loss)
    return history


def test_rows_are_saved_with_the_run():
    history = grow(History(), 3, 2)
    state = history.state_dict()
    grow(history, 1)
    other = History()
    other.load_state_dict(state)
    assert other["loss"] == [3, 2]
    grow(other, 9)
    assert (len(state["rows"]), len(history)) == (2, 3)


@pytest.mark.parametrize("cut", ["", '{"epoch": 4, "lo'])
def test_a_resumed_run_takes_what_comes_again_out_of_its_log(tmp_path, cut):
    path = tmp_path / "run.jsonl"
    history = grow(History(path), 3, 2)
    state = history.state_dict()
    grow(history, 1)
    path.write_text(path.read_text() + cut)
    other = History(path)
    other.load_state_dict(state)
    assert log(path) == [(1, 3), (2, 2)]
    grow(other, 1.5)
    assert log(path) == [(1, 3), (2, 2), (3, 1.5)]
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.jsonl"]


def test_earlier_runs_in_the_log_stay(tmp_path):
    path = tmp_path / "run.jsonl"
    grow(History(path), 7, 6)
    history = grow(History(path), 3, 2, float("nan"))
    state = history.state_dict()
    grow(history, 1)
    History(path).load_state_dict(state)
    assert [epoch for epoch, _ in log(path)] == [1, 2, 1, 2, 3]
    other = History(path)
    other.load_state_dict(grow(History(), 5).state_dict())
    assert [epoch for epoch, _ in log(path)] == [1, 2, 1, 2, 3, 1]
    other.load_state_dict({"rows": []})
    assert len(log(path)) == 6


def test_a_run_that_died_with_one_epoch_logged_and_none_saved_logs_it_once(tmp_path):
    path = tmp_path / "run.jsonl"
    grow(History(path), 7, 6)
    history = History(path)
    state = history.state_dict()
    grow(history, 3)
    resumed = History(path)
    resumed.load_state_dict(state)
    grow(resumed, 3)
    assert log(path) == [(1, 7), (2, 6), (1, 3)]
    grow(resumed, 2)
    assert log(path) == [(1, 7), (2, 6), (1, 3), (2, 2)]
    other = History(path)
    other.load_state_dict(state)
    grow(other, 4, 3)
    assert log(path) == [(1, 7), (2, 6), (1, 3), (2, 2), (1, 4), (2, 3)], "lines of another run stay"


def test_a_lost_log_is_written_again(tmp_path):
    path = tmp_path / "runs" / "run.jsonl"
    History(path).load_state_dict(grow(History(), 3, 2).state_dict())
    assert log(path) == [(1, 3), (2, 2)]
