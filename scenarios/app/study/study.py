"""A study: a scenario file, read, checked and built; every part frozen, every unmet need refused."""

from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from fl.data.measured import Measured
from fl.learning import Learning
from netsim.errors import BadInput
from netsim.part import OneOf, Part, Section
from netsim.radio import POWERS as WITHOUT_LEARNING
from netsim.radio.downlink import Downlink
from netsim.radio.fading import NoFading
from netsim.radio.power import Full, Power
from netsim.radio.uplink import Ideal
from netsim.setting import WorldSetting
from scenarios.app.study.error_messages import nearest
from scenarios.app.study.vary import Seed

if TYPE_CHECKING:
    from rl.settings import Train
    from scenarios.app.study.plan import Plan
    from scenarios.app.study.vary import Vary
else:
    Train = Plan = Vary = Any


POWERS = OneOf(
    "power",
    places={
        **WITHOUT_LEARNING,
        "ddpg": "rl.ddpg_power:Ddpg",
        "shared": "rl.shared_power:Shared",
        "rule": "rl.rule_power:Rule",
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
    """what is learnt and by whom it is attacked; none: a radio study, whose result is coverage, SINR and handovers"""
    plan: Annotated[Plan, Section("scenarios.app.study.plan:Plan")] | None = None
    """powers, switch and noise that a reference run finds beforehand; power is then that of the reference"""
    vary: Annotated[Vary, Section("scenarios.app.study.vary:Vary")] | None = None
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
    def _used(self) -> Self:
        """Refuse what would change nothing: parts of learning in a radio study, and the other way round."""
        radio = self.world.radio
        if self.learning is not None:
            of_radio_studies = Downlink(noise_figure_db=radio.downlink.noise_figure_db)
            if radio.downlink != of_radio_studies:
                raise ValueError(
                    "world.radio.downlink: rates of the downlink are recorded without `learning:` only; here give "
                    "noise_figure_db alone"
                )
            return self
        idle: tuple[tuple[str, bool, str], ...] = (
            ("plan", self.plan is not None, "there are no updates whose powers could be planned"),
            ("train", self.train is not None, "there is nothing that an agent could be trained on"),
            ("power", self.power != Full(), "no update is sent"),
            ("world.radio.uplink", radio.uplink != Ideal(), "no update is sent"),
            ("world.radio.air", radio.air is not None, "no update is sent"),
            ("world.radio.fading", radio.fading != NoFading(), "it is the fading of uplinks, and no update is sent"),
            ("world.radio.measurement_noise_db", radio.measurement_noise_db > 0, "RSRP is recorded without error"),
            ("world.radio.rsrp_report", radio.rsrp_report != "exact", "RSRP is recorded without error"),
            ("world.ues.compute_spread", self.world.ues.compute_spread is not None, "nobody trains"),
            ("world.ues.measure", self.world.ues.measure != "serving", "the serving cell is recorded"),
        )
        for place, stated, why in idle:
            if stated:
                raise ValueError(f"{place}: without a `learning:` section {why}; leave it out, or add learning")
        return self

    @model_validator(mode="after")
    def _cells(self) -> Self:
        if self.learning is None:
            return self
        cell, names = self.learning.data.named_cell, [b.name for b in self.world.listed_stations]
        if cell is not None and names and cell not in names:
            raise ValueError(
                f"learning.data.cell: no base station is called {cell!r}{nearest(cell, names) or ';'} "
                f"there are: {', '.join(names[:10])}"
            )
        return self

    @model_validator(mode="after")
    def _plannable(self) -> Self:
        if self.learning is None:
            return self
        waiting = [d for d in self.learning.defenses if d.waits]
        learnt = self.power.kind_name() == "ddpg" or (self.train is not None and self.train.task.kind == "allocation")
        if waiting and self.plan is None and not learnt:
            raise ValueError(
                f"learning.defenses: {waiting[0].label} with mode: planned has no round; give until_round, or a plan: "
                "section that finds it"
            )
        if waiting and self.plan is not None and self.plan.criterion == "top-up":
            raise ValueError(
                "plan.criterion: with top-up nothing switches; take per-device or aggregate, or mode: top-up"
            )
        if self.plan is not None:
            self.plan.check(self.world.radio.uplink)
        return self

    @model_validator(mode="after")
    def _on_the_air(self) -> Self:
        """Refuse what only transmissions as events can do without them, and what they cannot do with them."""
        learning, air = self.learning, self.world.radio.air
        if learning is None:
            return self
        if air is None and not learning.server.in_rounds:
            raise ValueError(
                f"learning.server: {learning.server.kind_name()} merges updates as they come, which planned "
                "transmissions do not tell; set world.radio.air, {} for its defaults"
            )
        counting = [d.label for d in learning.defenses if d.needs_plan]
        if air is not None and counting:
            raise ValueError(
                f"learning.defenses: {counting[0]} counts on the channel's noise before an update is sent, and with "
                "world.radio.air nobody knows it then; leave air out"
            )
        waiting = [rule.label for rule in learning.withholding if rule.waits_for_a_cell]
        if air is not None and waiting:
            raise ValueError(
                f"learning.withholding: {waiting[0]} with defer_upload decides by the cell at the request, and with "
                "world.radio.air an upload may end in another one; leave air out, or defer_upload"
            )
        if learning.hides_who_came:
            _fits_noise_at_server(learning, self.world)
        if air is not None and self.plan is not None:
            raise ValueError("plan: powers are planned for planned transmissions; leave world.radio.air out")
        if self.train is not None and self.train.task.kind == "online" and not learning.server.in_rounds:
            raise ValueError(
                f"train.task: an agent decides once a round, and server {learning.server.kind_name()} has none; take "
                "server: {kind: synchronous}"
            )
        return self

    @model_validator(mode="after")
    def _powered(self) -> Self:
        """Refuse powers whose files cannot be read, or that are for another number of UEs or another uplink."""
        if self.learning is None:
            return self
        self.power.check_files()
        if self.world.ues.mobility.kind_name() != "replay":  # a trace says how many only once it is read
            self.power.check(self.world.ues.count)
        if self.power.needs_channel_noise and not self.world.radio.uplink.adds_noise:
            raise ValueError(
                "power: a policy weighs channel noise against artificial noise; set world.radio.uplink to noma or oma "
                "with decoding: noisy"
            )
        return self

    @model_validator(mode="after")
    def _in_sessions(self) -> Self:
        """Refuse sessions of UEs that measure all the time: each has one, and is held out or not as a whole."""
        every_s, learning = self.world.ues.measure_every_s, self.learning
        data = None if learning is None else learning.data
        if every_s is not None and isinstance(data, Measured) and "session" in data.held_out_by:
            raise ValueError(
                f"learning.data.hold_out_by: UEs that measure every {every_s:g} s without a pause have no sessions; "
                "hold out by day or block, or replay a trace"
            )
        return self

    @model_validator(mode="after")
    def _sendable(self) -> Self:
        if self.learning is None:
            return self
        uplink, defenses = self.world.radio.uplink, self.learning.defenses
        promised = any("bound" in d.offers for d in defenses)
        if uplink.needs_bound and not promised:
            raise ValueError(
                f"world.radio.uplink: {uplink.kind_name()} with noisy decoding scales updates by the bound of their "
                "norm: put a clip among learning.defenses, give norm_bound, or set decoding: error-free"
            )
        if uplink.kind_name() == "ideal" and self.learning.threat.viewpoint == "eavesdropper":
            raise ValueError(
                "learning.threat: with an ideal uplink nothing is on the air for an eavesdropper to hear; take "
                "world.radio.uplink noma or oma"
            )
        if uplink.kind_name() != "ideal" and self.world.base_stations == ():
            raise ValueError(
                f"world.radio.uplink: {uplink.kind_name()} needs base stations; list them, or take a layout such as "
                "base_stations: {kind: hexagonal, inter_site_m: 500}"
            )
        return self


def _fits_noise_at_server(learning: Learning, world: WorldSetting) -> None:
    """ValueError where the time that one UE takes decides whose updates others' noise at the server adds up."""
    if world.radio.air is not None:
        raise ValueError(
            "world.radio.air: how long a UE sends decides when others send and how many rounds there are, and noise at "
            "the server hides one update only; leave air out"
        )
    if len(learning.learner.phases) > 1 and world.ues.compute_s_per_sample > 0:
        raise ValueError(
            "world.ues.compute_s_per_sample: the slowest UE of a phase decides how much time all have for the next, "
            f"and noise at the server hides one of them only; make it 0 for learner {learning.learner.kind_name()}"
        )
