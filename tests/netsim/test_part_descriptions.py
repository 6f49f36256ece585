"""What the texts below fields say, read from sources when somebody asks."""

from typing import ClassVar

from pydantic import Field

from netsim.part import Named, Part, descriptions


class Lower(Named):
    """A part with a field of its own, and a plain value."""

    speed_m_s: float = 1.0
    """of walking,
    in the plane"""
    word: ClassVar[str] = "no field"
    """not a field"""
    unsaid: int = Field(default=1, ge=0)
    count: int = 2
    """of people"""


class Upper(Lower):
    """A part that says one thing anew."""

    count: int = 3
    """of cars"""


def test_the_nearest_class_counts():
    assert descriptions(Lower) == {
        "name": "name in records, when one kind stands twice",
        "speed_m_s": "of walking,\nin the plane",
        "count": "of people",
    }
    assert descriptions(Upper) == descriptions(Lower) | {"count": "of cars"}


def test_a_class_without_source_says_nothing_of_its_own():
    made = type("Made", (Lower,), {"__annotations__": {"count": int}, "count": 4, "__module__": __name__})
    assert descriptions(made) == descriptions(Lower) and issubclass(made, Part)
