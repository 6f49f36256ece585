"""A study: a scenario file, read, checked and built; every part frozen, every unmet need refused."""

import json
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fl.data.measured import Measured
from fl.power.bound import Convergence, Criterion
from fl.power.search import Limits
from fl.round.learning import Learning
from netsim.errors import BadInput
from netsim.part import FILE_NAME, OneOf, Part, Section
from netsim.radio import POWERS as WITHOUT_LEARNING
from netsim.radio.downlink import Downlink
from netsim.radio.fading import NoFading
from netsim.radio.power import Full, Power
from netsim.radio.uplink import Ideal, Uplink
from netsim.world.setting import WorldSetting
from scenarios.app.study import SCHEMA_VERSION, Fields, Value
from scenarios.app.study.describe import nearest
from scenarios.app.study.yaml_document import Place, as_yaml, place_of

if TYPE_CHECKING:
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
        low = self.low
        high = self.high
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

    draws: int = Field(20, ge=1, le=100_000)
    """how many a sweep plays; `netsim tune` has its own number of trials"""
    space: dict[str, Distribution] = Field(min_length=1)
    """dotted path: {low, high, log, integer} or {choices}"""


class Vary(Part):
    """What `netsim sweep` compares: every combination of variants, value lists, random points and seeds."""

    seed: tuple[Seed, ...] | None = Field(None, min_length=1)
    """seeds; none: the scenario's own"""
    values: dict[str, Values] = Field(default_factory=dict)
    """dotted path: list of values, crossed with each other (a grid)"""
    zip: dict[str, Values] = Field(default_factory=dict)
    """dotted path: list of values, all lists of one length: the first of each together, then the second of each, ..."""
    random: Draws | None = None
    """points drawn at random; the first draws are the same however many there are"""
    variants: tuple[Variant, ...] | None = Field(None, min_length=1)
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
            for value, times in Counter[Value](values).items():
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


_STEPS = 3000  # of an agent that plans, as resolved studies repeat them


class Plan(Part):
    """How powers are found, on the bound of a reference run."""

    power: Literal["average", "full", "plateaus", "evolution", "ddpg"] = "plateaus"
    """equal split of the middle or the most of the allowed total, SLSQP on each plateau, differential evolution, or the
    best powers that an agent of DDPG tries, which learns them from scratch in `steps` steps"""
    steps: int = Field(_STEPS, ge=1, le=1_000_000)
    """steps of the agent, with power: ddpg"""
    limits: Limits = Limits()
    """what powers may be"""
    criterion: Criterion = "per-device"
    """when the channel's noise is enough: for each device, their sum, or (top-up) filled up by artificial noise"""
    bound: Convergence = Convergence()
    """constants of the bound"""
    switch_share: float | None = Field(None, gt=0, lt=1)
    """sets the receiver's noise so that, at the study's own power, it is enough after this share of the reference"""

    reference = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 23-28"

    @model_validator(mode="after")
    def _learns(self) -> Self:
        if self.steps != _STEPS and self.power != "ddpg":
            raise ValueError(f"steps: power {self.power} learns nothing; leave steps out, or take power: ddpg")
        return self

    @model_validator(mode="after")
    def _has_plateaus(self) -> Self:
        if self.criterion == "top-up" and (self.power == "plateaus" or self.switch_share is not None):
            raise ValueError(
                "criterion: top-up has no switch, so no plateaus and no switch_share; take power: evolution, or "
                "criterion: per-device"
            )
        return self

    @staticmethod
    def check(uplink: Uplink) -> None:
        """Raise ValueError for an uplink whose noise does not fall with each UE's own power alone.

        Without interference what the model suffers and what may count as privacy are the same noise, so one trajectory
        serves both parts of the bound.
        """
        if not (uplink.adds_noise and uplink.isolates_ues):
            raise ValueError(
                "world.radio.uplink: the bound takes noise that falls with each UE's own power; set kind: noma with "
                "interference: none, decoding: noisy and no interference_over_thermal_db"
            )


POWERS = OneOf(
    "power",
    places={**WITHOUT_LEARNING, "ddpg": "rl.powers:Ddpg", "shared": "rl.powers:Shared", "rule": "rl.powers:Rule"},
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
    """what is learnt and by whom it is attacked; none: a radio study, whose result is coverage, SINR and handovers"""
    measured: Annotated[str, FILE_NAME] | None = Field(None, min_length=1)
    """path of a CSV of measurements beside which a radio study sets its distributions: columns rsrp_dbm and sinr_db of
    samples, or one of them and cdf, the share of samples up to it"""
    plan: Plan | None = None
    """powers, switch and noise that a reference run finds beforehand; power is then that of the reference"""
    vary: Vary | None = None
    """what a sweep compares"""
    train: Annotated[Train, Section("rl.settings:Train")] | None = None
    """what `netsim train` learns"""

    @property
    def learned(self) -> Learning:
        """The section `learning:`. BadInput where there is none."""
        if self.learning is None:
            raise BadInput("learning: this needs a `learning:` section, and the scenario has none; add one, see campus")
        return self.learning

    @property
    def round_s(self) -> float:
        """Length of a round; without learning a tick: then a trace's ids are its users if one is seen in two ticks."""
        return self.world.tick_s if self.learning is None else self.learning.round_s

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse what would change nothing, and parts that do not fit together: the first rule that is broken."""
        rules = _of_radio_studies(self) if self.learning is None else _of_learning(self, self.learning)
        for is_broken, message in rules:
            if is_broken:
                raise ValueError(message)
        if self.learning is not None:
            if self.plan is not None:
                self.plan.check(self.world.radio.uplink)
            self.power.check_files()
            if self.world.ues.mobility.kind_name() != "replay":  # a trace says how many only once it is read
                self.power.check(self.world.ues.count)
        return self


Rules = Iterable[tuple[bool, str]]
"""whether a study breaks a rule, and the message"""


def _of_radio_studies(study: Study) -> Rules:
    """Without `learning:` no key may stand that only learning reads."""
    radio = study.world.radio
    ues = study.world.ues
    unused = (
        ("plan", study.plan is not None, "there are no updates whose powers could be planned"),
        ("train", study.train is not None, "there is nothing that an agent could be trained on"),
        ("power", study.power != Full(), "no update is sent"),
        ("world.radio.uplink", radio.uplink != Ideal(), "no update is sent"),
        ("world.radio.dynamic_uplink", radio.dynamic_uplink is not None, "no update is sent"),
        ("world.radio.fading", radio.fading != NoFading(), "it is the fading of uplinks, and no update is sent"),
        ("world.radio.measurement_noise_db", radio.measurement_noise_db > 0, "RSRP is recorded without error"),
        ("world.radio.rsrp_report", radio.rsrp_report != "exact", "RSRP is recorded without error"),
        ("world.ues.compute_heterogeneity", ues.compute_heterogeneity is not None, "no UE trains"),
        ("world.ues.position_error_m", ues.position_error_m != 0, "no UE reports where it is"),
        ("world.ues.measure", ues.measure != "serving", "the serving cell is recorded"),
    )
    for place, stated, why in unused:
        yield stated, f"{place}: without a `learning:` section {why}; leave it out, or add learning"


def _of_learning(study: Study, learning: Learning) -> Rules:
    """What data, power, uplink, plan and training ask of each other."""
    radio = study.world.radio
    ues = study.world.ues
    power = study.power
    plan = study.plan
    train = study.train
    air = radio.dynamic_uplink
    uplink = radio.uplink
    server, threat = learning.server, learning.threat
    defenses = learning.defenses
    cell = learning.data.named_cell
    names = [b.name for b in study.world.listed_stations]
    switching = ", ".join(d.label for d in defenses if d.waits)
    counting = ", ".join(d.label for d in defenses if d.needs_plan)
    deferring = ", ".join(rule.label for rule in learning.withholding if rule.waits_for_a_cell)
    sets_switch = power.kind_name() == "ddpg" or (train is not None and train.task.kind == "allocation")
    by_session = isinstance(learning.data, Measured) and "session" in learning.data.held_out_by
    is_ideal = uplink.kind_name() == "ideal"
    return (
        (
            ues.position_error_m != 0 and "real labels" not in learning.data.offers,
            f"world.ues.position_error_m: is for signals at positions, and data of kind {learning.data.kind_name()} "
            "has none; take measured or segments, or leave it out",
        ),
        (study.measured is not None, "measured: stands beside a radio study; leave it out, or learning"),
        (
            radio.downlink != Downlink(noise_figure_db=radio.downlink.noise_figure_db),
            "world.radio.downlink: rates of the downlink are recorded without `learning:` only; here give "
            "noise_figure_db alone",
        ),
        (
            cell is not None and names != [] and cell not in names,
            f"learning.data.cell: no base station is called {cell!r}{nearest(cell or '', names) or ';'} "
            f"there are: {', '.join(names[:10])}",
        ),
        (
            switching != "" and plan is None and not sets_switch,
            f"learning.defenses: {switching} with mode: planned has no round; give until_round, or a plan: section "
            "that finds it",
        ),
        (
            switching != "" and plan is not None and plan.criterion == "top-up",
            "plan.criterion: with top-up nothing switches; take per-device or aggregate, or mode: top-up",
        ),
        (
            uplink.adds_noise and any("whole numbers" in d.offers for d in defenses),
            "world.radio.uplink: numbers of a ring are sums of whole numbers, and a noisy decoder adds to them; set "
            "decoding: error-free",
        ),
        (
            uplink.adds_noise and learning.hides_presence,
            "world.radio.uplink: the noise of a decoder on each update shows in the variance of the sum who sent, and "
            "noise at the server is to hide that; set decoding: error-free",
        ),
        (
            air is None and not server.in_rounds,
            f"learning.server: {server.kind_name()} merges updates as they come, which planned transmissions do not "
            "tell; set world.radio.dynamic_uplink, {} for its defaults",
        ),
        (
            air is not None and counting != "",
            f"learning.defenses: {counting} counts on the channel's noise before an update is sent, and with "
            "world.radio.dynamic_uplink it is not known then; leave dynamic_uplink out",
        ),
        (
            air is not None and deferring != "",
            f"learning.withholding: {deferring} with defer_upload decides by the cell at the request, and with "
            "world.radio.dynamic_uplink an upload may end in another one; leave dynamic_uplink out, or defer_upload",
        ),
        (
            air is not None and learning.hides_who_came,
            "world.radio.dynamic_uplink: how long a UE sends decides when others send and how many rounds there are, "
            "and noise "
            "at the server hides one update only; leave dynamic_uplink out",
        ),
        (
            learning.hides_who_came and len(learning.learner.phases) > 1 and ues.training_s_per_sample > 0,
            "world.ues.training_s_per_sample: the slowest UE of a phase decides how much time all have for the next, "
            f"and noise at the server hides one of them only; make it 0 for learner {learning.learner.kind_name()}",
        ),
        (
            air is not None and plan is not None,
            "plan: powers are planned for planned transmissions; leave world.radio.dynamic_uplink out",
        ),
        (
            train is not None and train.task.kind == "online" and not server.in_rounds,
            f"train.task: an agent decides once a round, and server {server.kind_name()} has none; take "
            "server: {kind: synchronous}",
        ),
        (
            power.needs_channel_noise and not uplink.adds_noise,
            "power: a policy weighs channel noise against artificial noise; set world.radio.uplink to noma or oma "
            "with decoding: noisy",
        ),
        (
            ues.measurement_period_s is not None and by_session,
            "learning.data.hold_out_by: UEs that measure all the time have no sessions; hold out by day or block, or "
            "replay a trace",
        ),
        (
            uplink.needs_bound and not any("bound" in d.offers for d in defenses),
            f"world.radio.uplink: {uplink.kind_name()} with noisy decoding scales updates by the bound of their norm: "
            "put a clip among learning.defenses, give norm_bound, or set decoding: error-free",
        ),
        (
            is_ideal and threat.receiver is not None,
            "learning.threat: with an ideal uplink nothing is on the air for an eavesdropper to hear; take "
            "world.radio.uplink noma or oma",
        ),
        (
            radio.path_loss.has_obstacles and threat.receiver is not None and threat.transmitter is None,
            f"learning.threat: path loss {radio.path_loss.kind_name()} is known for base stations only, not for an "
            "eavesdropper's antenna; name a transmitter of its file (transmitter), take another path loss, or another "
            "viewpoint",
        ),
        (
            threat.transmitter is not None and not radio.path_loss.has_obstacles,
            f"learning.threat.transmitter: path loss {radio.path_loss.kind_name()} has no file of transmitters; give "
            "position_m alone, or take path_loss: {kind: map}",
        ),
        (
            not is_ideal and study.world.base_stations == (),
            f"world.radio.uplink: {uplink.kind_name()} needs base stations; list them, or take a layout such as "
            "base_stations: {kind: hexagonal, inter_site_m: 500}",
        ),
    )


def study_yaml(study: Study) -> str:
    """YAML of the resolved study, with every default; loading it gives the same study."""
    text = _of_any_seed(json.dumps(study.model_dump(mode="json") | {"seed": 0}))
    return f"# resolved study, schema {SCHEMA_VERSION}\n{text}".replace("\nseed: 0\n", f"\nseed: {study.seed}\n", 1)


@lru_cache(maxsize=4096)
def _of_any_seed(values: str) -> str:
    """YAML of values that are given as JSON: a sweep asks for it with every seed of a setting, several times."""
    return as_yaml(json.loads(values))
