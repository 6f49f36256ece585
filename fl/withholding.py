"""The withholding slot: what a UE holds back that was asked and has accepted, decided on the
device.
"""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.availability import HOMES
from fl.notice import Prepared, notice
from fl.types import Local, RoundContext, State
from netsim.columns import frozen, no_ints, number_row, replace_values
from netsim.geometry import compute_ways, measure_lengths
from netsim.notice import Notices
from netsim.part import Amount, Count, Named, OneOf, Positive, Probability
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class RequestedData:
    """A request, as devices see it.

    local: the rows (n,) of the UEs that were asked, N samples that they would learn from, earlier
    ones that they hold included; measured: all measurements of the round, held-out ones too, of
    whichever UE; home_m (n_ue, 2): NaN for a UE without a home; position_m (n_ue, 2), serving
    (n_ue,): where each UE is now, NaN for one that is absent, and by which cell it is served, -1
    for none.
    """

    local: Local
    measured: Local
    facts: RoundContext
    home_m: FloatArray
    position_m: FloatArray
    serving: IntArray


class Withholding(Named):
    """A rule by which devices hold samples or whole updates back.

    Several rules stand beside each other: each of them decides from the request alone, what one of
    them holds back is held back, and their order has no effect. A UE that sends nothing says so at
    once and gives no reason, as one whose query policy refuses: the server does not wait for it.
    The server sees who is silent.
    """

    role: ClassVar = "withholding"
    kind: str = ""
    gives_away: ClassVar[str]
    """what the silence itself reveals, in words"""
    by_place: ClassVar = False
    """whether what is held back depends on positions of the UE"""
    by_history: ClassVar = False
    """whether silence depends on earlier updates: then a coin of the server amplifies no noise, and
    a record that decides whether its UE sends decides about later rounds too"""

    def notices(self, prepared: Prepared) -> Notices:
        yield notice("silence-tells", self.label, what=self.gives_away)

    waits_for_a_cell: ClassVar = False
    """whether it depends on the cell that serves a UE when it is asked"""

    def start(self, n_ue: int) -> State:
        """The first state; None for a rule without memory."""
        return None

    def note_places(self, requested: RequestedData, state: State, rng: Rng) -> State:
        """The next state after devices have seen where they are, before any of them answers the
        request.
        """
        return state

    @abstractmethod
    def keep(self, requested: RequestedData, state: State, rng: Rng) -> BoolArray:
        """Which samples (N,) of `asked.local` may be learnt from; a UE with none of them sends
        nothing.

        rng : one stream for the whole run, the same at every call; a draw of each round has the
        round as `item`.
        """

    def note_sent(self, ue: IntArray, facts: RoundContext, state: State, rng: Rng) -> State:
        """The next state after these UEs (n,), each once, have learnt from something and send an
        update.
        """
        return state


def select_speakers(speaks: BoolArray, local: Local) -> BoolArray:
    """The samples (N,) of UEs that speak (n_ue,)."""
    return np.repeat(speaks[local.ue], local.count)


class HomeZone(Withholding, kind="home-zone"):
    """Samples measured near the UE's own home are never learnt from, also not in a later round from
    what devices keep.

    With `drops: update` a UE moreover sends nothing of a round in which it measured anything within
    its zone, held-out measurements included. What it measured elsewhere in that round stays on the
    device; where devices keep records (data `memory`), a later round learns from it.

    The centre of the zone is the home (`exact`), or a place drawn once for each UE, uniform on the
    circle of radius_m around the home (`shifted`): the home is still within, and anywhere in it. A
    UE without a home has no zone. Homes are those of the mobility model; for a replayed trace they
    are the places where UEs were at night.

    An update leaves through the cell that serves the UE, also near home, and so tells roughly where
    that is (see the attack `fused`). With `defer_upload` a UE notes which cells serve it within its
    zone, at each request of the server, and answers only outside of the zone and through another
    cell. What it measured meanwhile is learnt from later, among the earlier records that devices
    keep.

    What the silence gives away: an exact zone is a hole with the home in its middle, which an
    attacker that collects the places around it can find; a shifted one leaves a side open on which
    places close to home are learnt from. Updates that lack the night, and UEs that send nothing at
    night (`drops: update`, `defer_upload`), say that the UE is at home then; cells through which a
    UE never sends may be those of its home.
    """

    radius_m: Positive
    """radius of the zone, m"""
    drops: Literal["samples", "update"] = "samples"
    """what is held back: the samples measured in the zone, or the whole update of a round with any
    of them"""
    centre: Literal["exact", "shifted"] = "shifted"
    """centre of the zone: the home, or a random place from which the home is within the zone"""

    defer_upload: bool = False
    """whether a UE sends only outside of its zone, and while it is served by a cell that has not
    served it within"""

    reference = (
        "Hassan et al., Analysis of Privacy Protections in Fitness Tracking Social Networks, "
        "USENIX Security 2018: privacy zones around an endpoint, and their shift"
    )
    example = {"kind": "home-zone", "radius_m": 200}
    by_place = True
    needs = {
        "positions": "it holds back by place; these data have none",
        HOMES: "without them no UE would have a zone",
    }
    gives_away = (
        "a hole in the places that a UE learns from lies around its home, in the middle if the "
        "centre is exact; who is silent at night is at home"
    )

    @property
    def waits_for_a_cell(self) -> bool:  # type: ignore[override]
        return self.defer_upload

    def start(self, n_ue: int) -> IntArray:
        return no_ints()

    def note_places(self, requested: RequestedData, state: IntArray, rng: Rng) -> IntArray:
        """state: pairs of UE and cell that were seen within the zone, as of `number_row`."""
        seen = np.flatnonzero(self._is_within(requested, rng) & (requested.serving >= 0))
        return np.union1d(state, number_row(seen, requested.serving[seen]))

    def keep(self, requested: RequestedData, state: IntArray, rng: Rng) -> BoolArray:
        kept = ~self.is_inside(requested.local, requested, rng)
        if self.drops == "update":
            speaks = np.ones(len(requested.home_m), bool)
            measured = requested.measured
            ue = np.repeat(measured.ue, measured.count)
            speaks[ue[self.is_inside(measured, requested, rng)]] = False
            kept &= select_speakers(speaks, requested.local)
        if self.defer_upload:
            link = number_row(np.arange(len(requested.serving)), requested.serving)
            speaks = ~self._is_within(requested, rng) & ~np.isin(link, state)
            kept &= select_speakers(speaks, requested.local)
        return kept

    def _is_within(self, requested: RequestedData, rng: Rng) -> BoolArray:
        """Whether UEs (n_ue,) are in their zones now."""
        away_m = requested.position_m - self.draw_centre_m(requested.home_m, rng)
        return measure_lengths(away_m) <= self.radius_m

    def is_inside(self, samples: Local, requested: RequestedData, rng: Rng) -> BoolArray:
        """Which samples (N,) were measured in the zone of their UE; the same whenever it is
        asked.
        """
        ue = np.repeat(samples.ue, samples.count)
        away_m = samples.x - self.draw_centre_m(requested.home_m, rng)[ue]
        return measure_lengths(away_m) <= self.radius_m

    def draw_centre_m(self, home_m: FloatArray, rng: Rng) -> FloatArray:
        """Centres (n_ue, 2) of the zones; NaN for a UE without a home."""
        if self.centre == "exact":
            return home_m
        u = rng.uniform("shift", np.arange(len(home_m)), (2,))
        r_m = self.radius_m * np.sqrt(u[:, 0])
        angle = 2 * np.pi * u[:, 1]
        return home_m + r_m[:, None] * compute_ways(angle)


_ROUNDING = 1e-12  # relative: a pause of whole rounds ends with one of them


class Cooldown(Withholding, kind="cooldown"):
    """A UE that has sent an update does not send another for `rounds` rounds, or for `time_s`.

    With jitter j each pause is longer by a share drawn each time, uniform between 0 and j; rounds
    are rounded to whole ones. Without rounds of the server, windows of round_s count. An update
    counts when it is sent, also if it is lost.

    What the silence gives away: that the UE sent not long ago, which an attacker that linked it
    knows already; a fixed pause also says when it will come back, and a UE that answers after
    exactly that time is likely the same one, also under another pseudonym. Jitter blurs this.
    Places have no effect. What is measured during a pause is not lost where devices keep records
    (data `memory`): it is learnt from after the pause.
    """

    rounds: Count | None = None
    """rounds after an update in which a UE does not send"""
    time_s: Amount | None = None
    """time after an update for which a UE does not send, s, instead of rounds"""
    jitter: float = Field(0.0, ge=0, le=100)
    """largest share by which a pause is longer at random; 0: all pauses are alike"""

    reference = (
        "Gruteser and Grunwald, Anonymous Usage of Location-Based Services Through Spatial and "
        "Temporal Cloaking, MobiSys 2003: less often in time; the pause on the device is assumed"
    )
    example = {"kind": "cooldown", "rounds": 2}
    gives_away = (
        "a UE that is silent has sent not long ago, and a fixed pause says when it comes back"
    )
    by_history = True

    def start(self, n_ue: int) -> FloatArray:
        """When, or in which round, each UE (n_ue,) may send again."""
        return np.zeros(n_ue)

    def keep(self, requested: RequestedData, state: FloatArray, rng: Rng) -> BoolArray:
        if self.rounds is None:
            now_or_round = requested.facts.time_s
        else:
            now_or_round = requested.facts.round
        return select_speakers(state * (1 - _ROUNDING) <= now_or_round, requested.local)

    def note_sent(
        self, ue: IntArray, facts: RoundContext, state: FloatArray, rng: Rng
    ) -> FloatArray:
        longer = 1 + self.jitter * rng.uniform("pause", ue, item=facts.round)
        until = facts.time_s + (self.time_s or 0.0) * longer
        if self.rounds is not None:
            until = facts.round + 1 + np.rint(self.rounds * longer)
        return replace_values(state, ue, until)


@frozen
class SentToday:
    """day: number of the local day; updates (n_ue,): how many each UE has sent of it."""

    day: int
    updates: IntArray


class DailyLimit(Withholding, kind="daily-limit"):
    """A UE sends at most `updates` updates per local day, the first ones that it is asked for.

    A day is that of the wall clock in which the window of data ends; one that ends at midnight
    belongs to the day before. An update counts when it is sent, also if it is lost, and once for
    all models and phases of a round.

    What the silence gives away: that the UE has sent that often today; later hours reveal less than
    early ones, so what a server learns is who is where in the morning. Take `participation` or
    `random-silence` beside it to spread updates over the day.
    """

    updates: Count
    """largest number of updates of a UE and a local day"""

    reference = (
        "a bound on contributions by user and day, as in Wilson et al., Differentially Private "
        "SQL with Bounded User Contribution, PoPETs 2020, Section 3"
    )
    example = {"kind": "daily-limit", "updates": 2}
    gives_away = "a UE that is silent has sent its updates of the day already"
    by_history = True

    def start(self, n_ue: int) -> SentToday:
        return SentToday(0, np.zeros(n_ue, int))

    def keep(self, requested: RequestedData, state: SentToday, rng: Rng) -> BoolArray:
        return select_speakers(
            self._start_day(requested.facts.day, state).updates < self.updates, requested.local
        )

    def note_sent(self, ue: IntArray, facts: RoundContext, state: SentToday, rng: Rng) -> SentToday:
        today = self._start_day(facts.day, state)
        return SentToday(today.day, replace_values(today.updates, ue, today.updates[ue] + 1))

    def _start_day(self, day: int, state: SentToday) -> SentToday:
        """The state on that day: no UE has sent on a new one."""
        if state.day == day:
            return state
        return SentToday(day, np.zeros_like(state.updates))


class RandomSilence(Withholding, kind="random-silence"):
    """A UE that is asked sends nothing with a given probability, by a coin of its own for each
    round.

    What the silence gives away: nothing about places or times. It also hides: with other rules
    beside it, an attacker that is silent need not be so for their reasons. It costs as many updates
    as a smaller `participation`, which the server decides; here the device does.
    """

    probability: Probability
    """probability with which a UE that is asked sends nothing"""

    reference = (
        "Huang et al., Enhancing Wireless Location Privacy Using Silent Period, IEEE WCNC 2005: "
        "silence at random; a coin a round is assumed"
    )
    example = {"kind": "random-silence", "probability": 0.5}
    gives_away = "its silence tells nothing but that a coin fell so"

    def keep(self, requested: RequestedData, state: State, rng: Rng) -> BoolArray:
        coin = rng.uniform("silence", np.arange(len(requested.home_m)), item=requested.facts.round)
        return select_speakers(coin >= self.probability, requested.local)


WITHHOLDINGS = OneOf("withholding", Cooldown, DailyLimit, HomeZone, RandomSilence)
