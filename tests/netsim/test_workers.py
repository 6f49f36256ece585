"""Threads of work: as many as are asked for, and the same results in the same order."""

import os
import threading
import time

from pytest import mark, raises

from netsim.errors import BadInput
from netsim.workers import VARIABLE, count_workers, map_in_threads, use_workers


@mark.parametrize("count", (1, 2, 3))
def test_work_takes_as_many_threads_and_keeps_its_order(count):
    """Threads wait for each other, so that none can do the work of two."""
    barrier = threading.Barrier(count, timeout=30)

    def square(x):
        barrier.wait()
        return x * x, threading.get_ident()

    with use_workers(count):
        values, threads = zip(*map_in_threads(square, range(count)), strict=True)
    assert values == tuple(x * x for x in range(count))
    assert len(set(threads)) == count


def test_the_first_item_that_fails_is_the_one_that_is_told():
    def fail(x):
        time.sleep(0.05 * (x == 1))
        raise ValueError(x)

    with use_workers(2), raises(ValueError, match="1"):
        map_in_threads(fail, (1, 2))


def test_the_setting_is_one_for_processes_too_and_ends(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert count_workers() == 1
    with use_workers(3):
        assert count_workers() == 3
        assert os.environ[VARIABLE] == "3"
    assert count_workers() == 1


@mark.parametrize("text", ("0", "-1", "two", "1.5", "x" * 500))
def test_a_wrong_number_is_one_clear_line(text, monkeypatch):
    monkeypatch.setenv(VARIABLE, text)
    with raises(BadInput, match=r"NETSIM_WORKERS .* whole number above 0") as caught:
        count_workers()
    assert len(str(caught.value)) < 120
