"""A study: a scenario file, read, checked and built; every part frozen, every unmet need
refused.
"""

import json
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fl.power.bound import Convergence, Criterion
from fl.power.search import Limits
from fl.round.learning import Learning
from netsim.errors import BadInput, suggest_nearest
from netsim.fit import refuse_broken
from netsim.part import Count, FileName, OneOf, Part, Section
from netsim.radio import POWERS as WITHOUT_LEARNING
from netsim.radio.power import Full, Power
from netsim.rng import Streams
from netsim.world.setting import WorldSetting
from scenarios.app.study import SCHEMA_VERSION, Fields, Value
from scenarios.app.study.yaml_document import Place, dump_yaml, parse_place

if TYPE_CHECKING:
    from netsim.world.world import World
    from rl.settings import Train
else:
    Train = Any


Seed = Annotated[int, Field(ge=0, lt=2**63)]
Values = Annotated[tuple[Value, ...], Field(min_length=1)]
_LARGEST = 2.0**53  # whole numbers above it have gaps as floats


class Variant(Part):
    """One named variant of a sweep: values that replace those of the scenario, by dotted path."""

    label: str = Field(min_length=1, max_length=60)
    """what tables and figures call it"""
    curve: str | None = Field(None, min_length=1, max_length=40)
    """the line it belongs to where privacy is set against utility (a mechanism's name); none:
    undefended"""
    strength: float | None = None
    """its place on that line, which runs in the order of strength"""
    set: Fields = Field(default_factory=dict)
    """dotted path: value"""

    @property
    def mechanism(self) -> str:
        """The curve; empty for an undefended variant."""
        if self.curve in (None, "none"):
            return ""
        return str(self.curve)


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
    def _check_bounds(self) -> Self:
        bounds = (self.low or 0.0, self.high or 0.0)
        if self.integer and not all(
            bound.is_integer() and abs(bound) <= _LARGEST for bound in bounds
        ):
            raise ValueError(
                "low: with integer: true both bounds are whole numbers within -2**53 and 2**53"
            )
        return self


class Draws(Part):
    """Random points of a space, each key independent of the others."""

    draws: int = Field(20, ge=1, le=100_000)
    """how many a sweep plays; `netsim tune` has its own number of trials"""
    space: dict[str, Distribution] = Field(min_length=1)
    """dotted path: {low, high, log, integer} or {choices}"""


class Vary(Part):
    """What `netsim sweep` compares: every combination of variants, value lists, random points and
    seeds.
    """

    seed: tuple[Seed, ...] | None = Field(None, min_length=1)
    """seeds; none: the scenario's own"""
    values: dict[str, Values] = Field(default_factory=dict)
    """dotted path: list of values, crossed with each other (a grid)"""
    zip: dict[str, Values] = Field(default_factory=dict)
    """dotted path: list of values, all lists of one length: the first of each together, then the
    second of each, ..."""
    random: Draws | None = None
    """points drawn at random; the first draws are the same however many there are"""
    variants: tuple[Variant, ...] | None = Field(None, min_length=1)
    """named variants, crossed with everything else; none: the scenario as written"""

    @model_validator(mode="after")
    def _check_repeats(self) -> Self:
        if not (self.seed or self.values or self.zip or self.random or self.variants):
            raise ValueError(
                "nothing varies: give seed, values, zip, random or variants, or leave vary out"
            )
        once = {"seed": self.seed or (), "variants": [v.label for v in self.variants or ()]}
        for section, values in once.items():
            for value, times in Counter[Value](values).items():
                if times > 1:
                    raise ValueError(f"{section}: {value!r} stands {times} times; keep one")
        lengths = {key: len(values) for key, values in self.zip.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"zip: lists go together and have one length; they have {lengths}")
        return self

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        """Refuse a key that two sections set, and keys that are decided elsewhere."""
        owner = dict[Place, str]()
        for section, keys in (("values", self.values), ("zip", self.zip), ("random", self.drawn)):
            for key in keys:
                if key.split(".")[0] in ("seed", "vary"):
                    raise ValueError(
                        f"{section}: {key} cannot be varied here; seeds stand in vary.seed"
                    )
                if (place := parse_place(key)) in owner:
                    raise ValueError(
                        f"{section}: {key} stands in {owner[place]} too; leave one of them out"
                    )
                owner[place] = section
        return self

    @property
    def drawn(self) -> dict[str, Distribution]:
        """The space of `random`; empty without one."""
        if self.random is None:
            return {}
        return self.random.space


_STEPS = 3000  # of an agent that plans, as resolved studies repeat them


class Plan(Part):
    """How powers are found, on the bound of a reference run."""

    power: Literal["average", "full", "plateaus", "evolution", "ddpg"] = "plateaus"
    """equal split of the middle or the most of the allowed total, SLSQP on each plateau,
    differential evolution, or the best powers that an agent of DDPG tries, which learns them from
    scratch in `steps` steps"""
    steps: Count = _STEPS
    """steps of the agent, with power: ddpg"""
    limits: Limits = Limits()
    """what powers may be"""
    criterion: Criterion = "per-device"
    """when the channel's noise is enough: for each device, their sum, or (top-up) filled up by
    artificial noise"""
    bound: Convergence = Convergence()
    """constants of the bound"""
    switch_share: float | None = Field(None, gt=0, lt=1)
    """sets the receiver's noise so that, at the study's own power, it is enough after this share of
    the reference"""

    reference = (
        "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 23-28"
    )


POWERS = OneOf(
    "power",
    places={
        **WITHOUT_LEARNING,
        "ddpg": "rl.powers:Ddpg",
        "shared": "rl.powers:Shared",
        "rule": "rl.powers:Rule",
    },
)
"""parts of power control, which live on two floors"""


class Study(Part):
    """A whole scenario."""

    title: str = Field(min_length=1, max_length=300)
    """what it shows, in a sentence"""
    paper: str | None = None
    """the publication whose setting this is"""
    seed: Seed = 0
    """all randomness comes from it"""
    world: WorldSetting
    """where we are"""
    power: Annotated[Power, POWERS] = Full()
    """who sends with how much"""
    learning: Learning | None = None
    """what is learnt and by whom it is attacked; none: a radio study, whose result is coverage,
    SINR and handovers"""
    measured: FileName | None = None
    """path of a CSV of measurements beside which a radio study sets its distributions: columns
    rsrp_dbm and sinr_db of samples, or one of them and cdf, the share of samples up to it"""
    plan: Plan | None = None
    """powers, switch and noise that a reference run finds beforehand; power is then that of the
    reference"""
    vary: Vary | None = None
    """what a sweep compares"""
    train: Annotated[Train, Section("rl.settings:Train")] | None = None
    """what `netsim train` learns"""

    @property
    def learned(self) -> Learning:
        """The section `learning:`. BadInput where there is none."""
        if self.learning is None:
            raise BadInput(
                "learning: this needs a `learning:` section, and the scenario has none; "
                "add one, see campus"
            )
        return self.learning

    def build_world(self) -> "World":
        """Return its world at time 0; BadInput where there is no such world."""
        from netsim.world.build import build_world  # here, since it loads for long

        return build_world(self.world, Streams(self.seed), self.round_s)

    def change_learning(self, **changes: object) -> Self:
        """Return the study with other values of keys of its learning, which are not checked."""
        return self.change("learning", self.learned.model_copy(update=changes))

    @property
    def unknown_cell(self) -> str:
        """The name of the learnt cell, where no base station has it, and those that there are; else
        empty.
        """
        cell = None if self.learning is None else self.learning.data.named_cell
        names = [station.name for station in self.world.listed_stations]
        if cell is None or not names or cell in names:
            return ""
        return f"{cell!r}{suggest_nearest(cell, names) or ';'} there are: {', '.join(names[:10])}"

    @property
    def round_s(self) -> float:
        """Length of a round; without learning a tick: then a trace's ids are its users if one is
        seen in two ticks.
        """
        if self.learning is None:
            return self.world.tick_s
        return self.learning.round_s

    @model_validator(mode="after")
    def _check_fit(self) -> Self:
        """Refuse powers and a plan that the world cannot have."""
        if self.learning is not None:
            if self.plan is not None:
                refuse_broken(self, "reference run")
            self.power.check_files()
            if (
                self.world.ues.mobility.kind_name() != "replay"
            ):  # a trace says how many only once it is read
                self.power.check(self.world.ues.count)
        return self


def to_study_yaml(study: Study) -> str:
    """Return YAML of the resolved study, with every default; loading it gives the same study."""
    text = _dump_values(json.dumps(study.model_dump(mode="json", warnings=False) | {"seed": 0}))
    return f"# resolved study, schema {SCHEMA_VERSION}\n{text}".replace(
        "\nseed: 0\n", f"\nseed: {study.seed}\n", 1
    )


@lru_cache(maxsize=4096)
def _dump_values(values: str) -> str:
    """Return YAML of values that are given as JSON: a sweep asks for it with every seed of a
    setting, several times.
    """
    return dump_yaml(json.loads(values))
