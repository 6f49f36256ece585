"""Values as trees: what comes back has the expected types to the bit, and what does not fit is one line."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

from netsim.checkpoint import load_tree, save_tree
from netsim.tree import REBUILT, from_tree, from_tree_as, to_tree
from netsim.units import FloatArray


@dataclass(frozen=True)
class Key:
    unit: str
    delta: float


@dataclass(frozen=True)
class Inner:
    x: FloatArray
    word: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    inner: Inner | None
    sums: dict[Key, Inner]
    pairs: dict[tuple[int, int], float]
    parts: dict[str, Any]
    history: tuple[Inner, ...] = ()
    steps: list[float] = field(default_factory=list)
    rows: FloatArray = field(default_factory=lambda: np.ones(3), metadata=REBUILT)


def example():
    inner = Inner(np.array([0.1, np.nan]), "b")
    parts = {"typed": inner, "nothing": None, "plain": {"x": np.arange(3), "n": [1, 2]}}
    return Outer(inner, {Key("user", 1e-5): inner}, {(3, 1): 0.1, (0, 2): np.inf}, parts, (inner, inner), [1.0, 2.5])


def test_a_file_gives_back_types_and_bits(tmp_path):
    value = example()
    save_tree(tmp_path / "t.npz", to_tree(value))
    start = Outer(None, {}, {}, {"typed": Inner(np.zeros(0)), "nothing": None, "plain": {}}, rows=np.zeros(2))
    back = from_tree(load_tree(tmp_path / "t.npz"), start)
    np.testing.assert_equal(to_tree(back), to_tree(value))
    assert type(back.history) is tuple and type(back.inner) is Inner and list(back.pairs) == [(3, 1), (0, 2)]
    assert list(back.sums) == [Key("user", 1e-5)] and type(back.parts["typed"]) is Inner
    assert back.rows is start.rows  # made anew, and in no file


def test_an_empty_dictionary_with_other_keys_comes_back():
    value = Outer(None, {}, {}, {})
    assert from_tree(to_tree(value), value).sums == {}


def test_a_dataclass_of_plain_fields_needs_no_example():
    back = from_tree_as(to_tree(Inner(np.arange(2.0))), Inner)
    assert type(back) is Inner and back.x.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"inner": {"x": np.zeros(1)}}, r"^inner is not the fields \['word', 'x'\]$"),
        ({"inner": {"x": [1.0], "word": "a"}}, r"^inner\.x is not ndarray$"),
        ({"inner": {"x": np.zeros(1), "word": "c"}}, r"^inner\.word is not one of \['a', 'b'\]$"),
        ({"steps": [True]}, r"^steps\[0\] is not int or float$"),
        ({"steps": {}}, r"^steps is not list$"),
        ({"pairs": [[[1], 2.0]]}, r"^pairs is not 2 entries$"),
        ({"parts": {"typed": None}}, r"^parts is not the entries \['typed', 'nothing', 'plain'\]$"),
        ({"more": 1}, r"^the tree is not the fields"),
    ],
)
def test_what_does_not_fit_is_named_in_one_line(change, says):
    with pytest.raises(ValueError, match=says):
        from_tree({**to_tree(example()), **change}, example())


def test_no_name_of_a_class_is_in_a_tree():
    assert "Inner" not in repr(to_tree(example())) and "Key" not in repr(to_tree(example()))


@pytest.mark.parametrize(
    "memory", [lambda a: a, lambda a: a[::2], np.asfortranarray, lambda a: a[::2, ::-1], lambda a: a.T]
)
def test_small_arrays_share_a_member_however_they_lie_in_memory(tmp_path, memory):
    rows = [memory(np.arange(12.0).reshape(4, 3) + k) for k in range(300)]
    save_tree(tmp_path / "t.npz", {"rows": rows, "whole": [np.arange(k) for k in range(50)]})
    assert len(np.load(tmp_path / "t.npz").files) == 4  # floats, whole numbers, the tree and the digest
    back = load_tree(tmp_path / "t.npz")["rows"]
    np.testing.assert_array_equal(back, rows)
    columns = rows[0].flags.f_contiguous and not rows[0].flags.c_contiguous
    assert all(one.flags.f_contiguous == columns for one in back)  # sums keep their order, and so their bits
