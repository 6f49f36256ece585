"""Checkpoints of trainings: what is gone on with, what is begun anew, what is refused."""

import numpy as np
import pytest

from netsim.checkpoint import save_tree
from netsim.errors import BadInput
from rl.resumed import resumed


def whole(path, **changes):
    save_tree(path, {"text": "this", "training": {"w": np.arange(3.0)}, "steps": 7} | changes)
    return path


def steps_of(tree):
    return tree["steps"]


def test_it_goes_on_with_its_own_checkpoint_alone(tmp_path):
    assert resumed(tmp_path / "none.npz", "this", steps_of) is None
    assert resumed(whole(tmp_path / "c.npz"), "this", steps_of) == 7
    assert resumed(tmp_path / "c.npz", "another", steps_of) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"training": {"w": np.array([0.0, np.nan])}}, "not finite"),
        ({"training": [{"w": np.array([[np.inf]])}]}, "not finite"),
    ],
)
def test_numbers_that_are_not_finite_are_refused(changes, said, tmp_path):
    with pytest.raises(BadInput, match=rf"c\.npz: cannot be gone on with .*{said}.*; delete it to start again"):
        resumed(whole(tmp_path / "c.npz", **changes), "this", steps_of)


def test_damage_is_one_line(tmp_path):
    path = whole(tmp_path / "c.npz")
    with pytest.raises(BadInput, match=r"cannot be gone on with \('nothing'\); delete it"):
        resumed(path, "this", lambda tree: tree["nothing"])
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(BadInput, match="cannot be gone on with"):
        resumed(path, "this", steps_of)
