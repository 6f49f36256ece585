"""A run sets how often Python looks for garbage, and leaves that to whoever calls it as it was."""

import gc

import pytest

from netsim.errors import BadInput
from scenarios import run
from scenarios.app.run.how import seldom_collected


@pytest.fixture
def threshold():
    """One that nobody else sets."""
    before = gc.get_threshold()
    gc.set_threshold(901, 11, 12)
    yield gc.get_threshold()
    gc.set_threshold(*before)


def test_the_threshold_is_that_of_before_after_an_error_too(threshold):
    with pytest.raises(ZeroDivisionError), seldom_collected():
        assert gc.get_threshold()[0] > threshold[0]
        raise ZeroDivisionError
    assert gc.get_threshold() == threshold


def test_a_run_from_python_leaves_the_threshold(threshold, tiny, tmp_path):
    seen = []
    run(tiny({}), tmp_path / "out", watch=lambda *_: seen.append(gc.get_threshold()))
    assert seen and threshold not in seen
    assert gc.get_threshold() == threshold
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput):
        run(tiny({}), tmp_path / "file" / "out")
    assert gc.get_threshold() == threshold
