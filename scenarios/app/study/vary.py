"""What a sweep compares: named variants, value lists that are crossed or go together, random draws, seeds."""

from collections import Counter
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from netsim.part import Part
from scenarios.app.study import Fields
from scenarios.app.study.yaml_document import Place, place_of

Seed = Annotated[int, Field(ge=0, lt=2**63)]
Values = Annotated[tuple[Any, ...], Field(min_length=1)]
_LARGEST = 2.0**53  # whole numbers above it have gaps as floats


class Variant(Part):
    """One named variant of a sweep: values that replace those of the scenario, by dotted path."""

    label: str = Field(min_length=1, max_length=60)
    """what tables and figures call it"""
    curve: str | None = Field(default=None, min_length=1, max_length=40)
    """the line it belongs to where privacy is set against utility (a mechanism's name); none: undefended"""
    strength: float | None = None
    """its place on that line, which runs in the order of strength"""
    set: Fields = Field(default_factory=dict)
    """dotted path: value"""

    @model_validator(mode="after")
    def _on_a_curve(self) -> Self:
        if self.strength is not None and not self.mechanism:
            raise ValueError(f"strength: {self.strength:g} stands on no curve; name the curve, or leave strength out")
        if self.strength is None and self.mechanism:
            raise ValueError(f"curve: {self.curve!r} runs in the order of strength; give a strength: NUMBER")
        return self

    @property
    def mechanism(self) -> str:
        """The curve; empty for an undefended variant."""
        return "" if self.curve in (None, "none") else str(self.curve)


class Distribution(Part):
    """Where the values of a key are drawn from: a range of numbers, or a list of choices."""

    low: float | None = None
    """smallest value"""
    high: float | None = None
    """largest value"""
    log: bool = False
    """whether the logarithm of the value is uniform, instead of the value"""
    integer: bool = False
    """whole numbers only, low and high among them"""
    choices: Values | None = None
    """values, each as likely as the others; then there is no range"""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        low, high = self.low, self.high
        if self.choices is not None:
            if low is not None or high is not None or self.log or self.integer:
                raise ValueError("choices: they have no range; leave low, high, log and integer out")
            return self
        if low is None or high is None:
            raise ValueError("a distribution has low and high, or choices")
        if low >= high:
            raise ValueError(f"high: must be above low, {low:g}, got {high:g}")
        if self.log and low <= 0:
            raise ValueError(f"low: must be above 0 with log: true, got {low:g}")
        if self.integer and not (low.is_integer() and high.is_integer() and max(-low, high) <= _LARGEST):
            raise ValueError("low: with integer: true both bounds are whole numbers within -2**53 and 2**53")
        return self


class Draws(Part):
    """Random points of a space, each key independent of the others."""

    draws: int = Field(default=20, ge=1, le=100_000)
    """how many a sweep plays; `netsim tune` has its own number of trials"""
    space: dict[str, Distribution] = Field(min_length=1)
    """dotted path: {low, high, log, integer} or {choices}"""


class Vary(Part):
    """What `netsim sweep` compares: every combination of variants, value lists, random points and seeds."""

    seed: tuple[Seed, ...] | None = Field(default=None, min_length=1)
    """seeds; none: the scenario's own"""
    values: dict[str, Values] = Field(default_factory=dict)
    """dotted path: list of values, crossed with each other (a grid)"""
    zip: dict[str, Values] = Field(default_factory=dict)
    """dotted path: list of values, all lists of one length: the first of each together, then the second of each, ..."""
    random: Draws | None = None
    """points drawn at random; the first draws are the same however many there are"""
    variants: tuple[Variant, ...] | None = Field(default=None, min_length=1)
    """named variants, crossed with everything else; none: the scenario as written"""

    @property
    def together(self) -> int:
        """Length of the lists of `zip`; 1 where there are none."""
        return len(next(iter(self.zip.values()), (None,)))

    @model_validator(mode="after")
    def _once(self) -> Self:
        if not (self.seed or self.values or self.zip or self.random or self.variants):
            raise ValueError("nothing varies: give seed, values, zip, random or variants, or leave vary out")
        once = {"seed": self.seed or (), "variants": [v.label for v in self.variants or ()]}
        for section, values in once.items():
            for value, times in Counter[Any](values).items():
                if times > 1:
                    raise ValueError(f"{section}: {value!r} stands {times} times; keep one")
        lengths = {key: len(values) for key, values in self.zip.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"zip: lists go together and have one length; they have {lengths}")
        return self

    @model_validator(mode="after")
    def _apart(self) -> Self:
        """Refuse a key that two sections set, and keys that are decided elsewhere."""
        owner = dict[Place, str]()
        for section, keys in (("values", self.values), ("zip", self.zip), ("random", self.drawn)):
            for key in keys:
                if key.split(".")[0] in ("seed", "vary"):
                    raise ValueError(f"{section}: {key} cannot be varied here; seeds stand in vary.seed")
                if (place := place_of(key)) in owner:
                    raise ValueError(f"{section}: {key} stands in {owner[place]} too; leave one of them out")
                owner[place] = section
        return self

    @property
    def drawn(self) -> dict[str, Distribution]:
        """The space of `random`; empty without one."""
        return {} if self.random is None else self.random.space
