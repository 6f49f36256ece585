"""What a round begins with, what comes of it, and what goes on to the next."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from fl.attacks.base import View
from fl.data import TakenData
from fl.defenses import Standing
from fl.leakage.linking import Linking
from fl.leakage.tracks import Tracks, Whereabouts
from fl.privacy.ledger import Ledger
from fl.references import Baselines, Reference
from fl.round.learning import Learning
from fl.round.setup import RoundStreams, Setup
from fl.round.tables import Tables
from fl.round.uploads import Flight, Uploads
from fl.tracking.belief import Belief
from fl.tracking.pseudonyms import Names, Permanent
from fl.types import AnySpend, Curated, Estimates, HeldOut, Local, Model, RoundContext, State
from netsim.checkpoint import REBUILT
from netsim.columns import frozen, look_up_or_nan, number_row
from netsim.radio.air import AirMemory
from netsim.radio.transmissions import Transmissions
from netsim.record import TableRows
from netsim.units import BoolArray, FloatArray, IntArray

States = dict[str, State]
"""What the parts of a round remember, by the words that also name their random streams:
`defense.clip`, `power`.

That of the server optimiser has the phase of the learner; `links` (4, n_ue) are those of the last
uploads (see `fl.availability.Conditions`); `names` are those under which the
attacker sees UEs.
"""


def start_parts(setup: Setup, n_ue: int) -> States:
    """Before the first round."""
    learning = setup.learning
    data = learning.data.start(n_ue, setup.streams.derive_rng("data"))
    pseudonyms = learning.threat.pseudonyms if learning.threat.renames else Permanent()
    states = {
        "data": learning.data.with_days(data, setup.days),
        "learner": setup.trainer.start_ues(n_ue),
        "query": learning.request_policy.start(n_ue),
        "aggregation": learning.aggregation.start(),
        "power": setup.power.start(n_ue),
        "availability": learning.availability.start(n_ue),
        "links": np.full((4, n_ue), np.nan),
        "names": Names.start(pseudonyms, n_ue),
        "membership": {} if learning.membership is None else learning.membership.start(),
    }
    states |= {rule.word: rule.start(n_ue) for rule in learning.withholding}
    states |= {step.word: step.start(n_ue) for step in learning.curation}
    states |= {defense.word: defense.start(n_ue) for defense in learning.defenses}
    for attack in learning.attacks:
        states[attack.word] = attack.start()
    if learning.malicious is not None:
        rng = setup.streams.derive_rng("malicious")
        states["malicious"] = learning.malicious.choose_ues(n_ue, rng)
    if learning.audit is not None:
        states["audit"] = np.zeros((0, 5 + 2 * learning.audit.canaries))
    for phase in learning.learner.phases:
        states[f"server_optimiser.{phase}"] = learning.server_optimiser.start()
    return states


def note_links(uploads: Uploads, states: States) -> None:
    """Remember links of uploads (n,) that have ended, as `Conditions` has them; states: changed in
    place.
    """
    channel = uploads.channel
    states["links"] = links = states["links"].copy()
    links[:, uploads.ue] = uploads.rsrp_dbm, channel.sinr, channel.rate_bps, ~channel.decoded


def collect_standings(learning: Learning, states: States) -> list[Standing]:
    """Standings of all defenses that have a budget."""
    standings = [defense.get_standing(states[defense.word]) for defense in learning.defenses]
    return [standing for standing in standings if standing is not None]


def find_norm_bound(learning: Learning, states: States) -> float | None:
    """The bound of an update's norm that the last defense with one promises for the next round."""
    promises = [defense.promise_norm(states[defense.word]) for defense in learning.defenses]
    return next((p for p in reversed(promises) if p is not None), None)


@dataclass
class RoundState:
    """Everything that goes from one round to the next. A round works on a copy, and leaves what was
    before as it was.

    whereabouts: truths that beliefs are compared with after the run, nothing without an attack that
    has beliefs. stopped: the next one would exceed the budget; ended_s: when the last one had
    ended; air: what is on the air, None where transmissions are planned; flight: updates under way
    to a server without rounds; concluded: whether attacks have looked at the whole run once more.
    """

    round: int
    played: int
    model: Model
    held_out: HeldOut
    reference: Reference
    parts: States
    ledger: Ledger
    leakage: Tracks
    whereabouts: Whereabouts
    linking: Linking
    baselines: Baselines = field(default_factory=Baselines)
    stopped: bool = False
    ended_s: float = 0.0
    air: AirMemory | None = None
    flight: Flight = field(default_factory=Flight)
    concluded: bool = False

    def copy(self) -> RoundState:
        """A copy to work on."""
        return replace(self, parts=dict(self.parts))


@dataclass(frozen=True)
class Phase:
    """One phase of the learner, from a published model to the next: the context of learning,
    sending and merging.

    model, version : the model now, and the number of merges before it; asked_s : when the server
    asked; limit_s : seconds after which it discards updates, whatever the uplink's deadline; bases
    : version -> the model that updates began from; n_ue : UEs of the world; streams : of the draws.
    """

    setup: Setup
    facts: RoundContext
    name: str
    model: Model
    version: int
    asked_s: float
    limit_s: float
    bases: dict[int, Model]
    n_ue: int
    streams: RoundStreams

    @property
    def learning(self) -> Learning:
        """The study's section."""
        return self.setup.learning


@frozen
class Merge:
    """The merge that ends a phase: all its uploads, the model published, and the spends of the
    server's noise.

    merged_s: when the last row that counts had come, and the server merged, published, and (if it
    is the attacker) attacked; attacked_s: when the attack was made. at_arrival: whether a single
    update is attacked when it arrives; of: the phase that it ends.

    Of step k: view of the attacker, estimates and beliefs of each attack, all with UEs for names;
    self_tests: errors in metres, by attack.
    """

    phase: str
    uploads: Uploads
    model: Model
    spends: list[AnySpend]
    merged_s: float
    attacked_s: float
    at_arrival: bool
    view: View | None = None
    estimates: dict[str, Estimates] = field(default_factory=dict)
    beliefs: dict[str, Belief] = field(default_factory=dict)
    self_tests: dict[str, float | None] = field(default_factory=dict)
    of: Any = field(default=None, metadata=REBUILT)

    def find_known_s(self, ue: IntArray, model: IntArray) -> FloatArray:
        """Time of the attacker's estimates of rows (k,): the attack, or the arrival of each
        update.
        """
        if not self.at_arrival:
            return np.full(len(ue), self.attacked_s)
        came_s = look_up_or_nan(self.uploads.row, self.uploads.arrived_s, number_row(ue, model))
        return np.where(np.isfinite(came_s), came_s, self.attacked_s)


@frozen
class Collected:
    """Samples that UEs learn from in a round: those taken, and those left after sampling, queries,
    withholding and curation.

    refused: UEs whose query policy refused; withheld: label of each rule, what UEs had, and the
    samples (N,) that it kept; curation: label of each step, what went in, and what came out.
    """

    taken: TakenData
    local: Local
    refused: int = 0
    withheld: list[tuple[str, Local, BoolArray]] = field(default_factory=list)
    curation: list[tuple[str, Local, Curated]] = field(default_factory=list)

    @property
    def spends(self) -> list[AnySpend]:
        """Noise that was drawn in curation."""
        return [spend for _, _, done in self.curation for spend in done.spends]


@dataclass(frozen=True)
class RoundOutcome:
    """A round that was played: what its records are made of.

    before: the model that it started from; state: what the next round starts from; collected: data
    that its n rows learnt from; merges: one of each phase of the learner; leakage, membership: rows
    of the tables of these names, without round and time; tables: columns of others that compare
    truth with estimates.
    """

    facts: RoundContext
    before: Model
    state: RoundState
    collected: Collected
    merges: list[Merge]
    spends: list[AnySpend]
    leakage: TableRows
    tables: Tables
    membership: TableRows


def start_state(setup: Setup, n_ue: int) -> RoundState:
    """Before the first round."""
    air = None
    if setup.air is not None:
        air = AirMemory(Transmissions.none(), 0, inf, setup.air.scheduler.start(n_ue))
    return RoundState(
        round=0,
        played=0,
        model=setup.trainer.init(setup.public, setup.streams.derive_rng("learner.init")),
        held_out=HeldOut.none(),
        reference=Reference.empty(),
        parts=start_parts(setup, n_ue),
        ledger=Ledger(n_ue),
        leakage={},
        whereabouts=Whereabouts.empty(),
        linking=Linking(),
        air=air,
    )
