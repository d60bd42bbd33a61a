from __future__ import annotations

from course.training.made_up import MadeUpDevice, made_up_steps


def test_a_call_returns_before_the_work_is_done():
    device = MadeUpDevice()
    device.launch(0)
    start = device.now
    device.launch(800)
    assert device.now - start == 10
    device.synchronise()
    assert device.now - start == 810


def test_the_first_launch_takes_longer():
    device = MadeUpDevice()
    device.launch(800)
    device.synchronise()
    assert device.now == 5810


def test_work_waits_in_the_queue():
    device = MadeUpDevice()
    for _ in range(3):
        device.launch(100)
    assert (device.now, device.done_at, device.busy) == (5030, 5310, 300)


def test_waiting_for_each_step_costs_what_python_could_have_done_meanwhile():
    assert made_up_steps(4, python=300, work=500, waits=True)[0] == 4 * (300 + 10 + 500)
    assert made_up_steps(4, python=300, work=500)[0] == 300 + 10 + 4 * 500


def test_a_share_of_the_time_is_work():
    time, share = made_up_steps(10, python=90, work=50)
    assert time == 10 * 100 + 50
    assert share == 500 / 1050
