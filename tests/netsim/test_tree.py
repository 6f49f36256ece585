"""Values as trees: what comes back has the expected types to the bit, and what does not fit is one
line."""

import importlib
import pkgutil
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy.typing as npt
from numpy import (
    arange,
    array,
    bool_,
    dtype,
    float64,
    floating,
    generic,
    inf,
    int64,
    nan,
    ndarray,
    ones,
    zeros,
)
from numpy.testing import assert_equal
from pytest import mark, raises
from rows import read_yaml
from typing_extensions import TypeAliasType

import fl
import netsim
from netsim.checkpoint import (
    REBUILT,
    _read_value,
    from_tree,
    from_tree_as,
    load_tree,
    resolve_alias,
    save_tree,
    to_tree,
)
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
    rows: FloatArray = field(default_factory=lambda: ones(3), metadata=REBUILT)


def example():
    inner = Inner(array([0.1, nan]), "b")
    parts = {"typed": inner, "nothing": None, "plain": {"x": arange(3), "n": [1, 2]}}
    return Outer(
        inner,
        {Key("user", 1e-5): inner},
        {(3, 1): 0.1, (0, 2): inf},
        parts,
        (inner, inner),
        [1.0, 2.5],
    )


def test_a_file_gives_back_types_and_bits(tmp_path):
    value = example()
    save_tree(tmp_path / "t.npz", to_tree(value))
    start = Outer(
        None, {}, {}, {"typed": Inner(zeros(0)), "nothing": None, "plain": {}}, rows=zeros(2)
    )
    back = from_tree(load_tree(tmp_path / "t.npz"), start)
    assert_equal(to_tree(back), to_tree(value))
    assert type(back.history) is tuple
    assert type(back.inner) is Inner
    assert list(back.pairs) == [(3, 1), (0, 2)]
    assert list(back.sums) == [Key("user", 1e-5)]
    assert type(back.parts["typed"]) is Inner
    assert back.rows is start.rows  # made anew, and in no file


@mark.parametrize(
    "change, says",
    [
        ({"inner": {"x": zeros(1)}}, r"^inner is not the fields \['word', 'x'\]$"),
        (read_yaml("inner: {x: [1.0], word: a}"), r"^inner\.x is not ndarray$"),
        ({"inner": {"x": zeros(2), "word": "c"}}, r"^inner\.word is not one of \['a', 'b'\]$"),
        (
            {"history": [{"x": zeros(5, complex), "word": "a"}]},
            r"^history\[0\]\.x is not an array of floating$",
        ),
        ({"steps": [True]}, r"^steps\[0\] is not int or float$"),
        (read_yaml("pairs: [[[1], 2.0]]"), r"^pairs is not 2 entries$"),
        ({"parts": {"typed": None}}, r"^parts is not the entries \['typed', 'nothing', 'plain'\]$"),
        ({"more": 1}, r"^the tree is not the fields"),
    ],
)
def test_what_does_not_fit_is_named_in_one_line(change, says):
    with raises(ValueError, match=says):
        from_tree({**to_tree(example()), **change}, example())


@dataclass(frozen=True)
class Bounded:
    bounds: ClassVar[dict] = {"x": (0.0, 1.0), "y": (0.0, 1.0), "z": (0.0, 1.0)}
    x: npt.NDArray[floating[Any]]
    y: float
    z: dict[str, npt.NDArray[floating[Any]]] = field(default_factory=dict)


def test_bounds_that_a_class_states_are_looked_at():
    """Both ends are allowed, a number that is none is not; of a dictionary all values are looked
    at."""
    actual = from_tree_as({"x": array([0.0, 1.0]), "y": 1.0, "z": {"a": array([0.0])}}, Bounded).y
    assert actual == 1.0
    for x, y, z, name in (
        ([0.5, 1.1], 0.0, 0.0, "x"),
        ([nan], 0.0, 0.0, "x"),
        ([-1e300], 0.0, 0.0, "x"),
        ([], inf, 0.0, "y"),
        ([], 0.0, 1e300, "z"),
    ):
        with raises(ValueError, match=rf"^{name} is not numbers from 0 to 1$"):
            from_tree_as(
                {"x": array(x), "y": y, "z": {"a": array([0.5]), "b": array([z])}}, Bounded
            )


def annotations():
    """Every annotation of a field of a dataclass of the program."""
    for package in (netsim, fl):
        for result in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for kind in vars(importlib.import_module(result.name)).values():
                if isinstance(kind, type) and is_dataclass(kind):
                    with suppress(
                        TypeError, NameError
                    ):  # array.array cannot be evaluated, nor what only mypy imports
                        yield from get_type_hints(kind).values()


def test_every_annotated_array_can_be_read():
    """Whatever numbers it is annotated with."""
    interval = (
        resolve_alias(single) for hint in annotations() for single in (hint, *get_args(hint))
    )
    arrays = [single for single in interval if get_origin(single) is ndarray]
    assert len(arrays) > 100
    for single in arrays:
        number = get_args(get_args(single)[1])[0]
        boolean = isinstance(number, type) and issubclass(number, bool_)
        assert _read_value(zeros(1, bool if boolean else int), single, None, "").shape == (1,)


def test_arrays_may_be_annotated_by_an_alias_of_a_later_python():
    """As `numpy.typing.NDArray` is from numpy 2.5 on."""
    number = TypeVar("number", bound=generic)
    rows = TypeAliasType("rows", ndarray[tuple[Any, ...], dtype[number]], type_params=(number,))
    assert _read_value(zeros(2), rows[float64], None, "").shape == (2,)
    with raises(ValueError, match="an array of integer"):
        _read_value(zeros(2), rows[int64], None, "")


def test_no_name_of_a_class_is_in_a_tree():
    assert "Inner" not in repr(to_tree(example()))
    assert "Key" not in repr(to_tree(example()))
