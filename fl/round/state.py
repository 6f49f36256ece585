"""What a round is made of, what it gives, and what goes from one round to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from fl.attacks.base import View
from fl.data.base import Taken
from fl.defenses.base import Standing
from fl.leakage import leakage
from fl.learning import Learning
from fl.privacy.ledger import Ledger
from fl.round.baselines import Reference
from fl.types import (
    AnySpend,
    Curated,
    Estimates,
    Facts,
    HeldOut,
    Local,
    Model,
    Public,
    Received,
    Spend,
    State,
    Updates,
)
from netsim.radio.power import Power
from netsim.radio.uplink import Channel, Uplink
from netsim.record import Recorder
from netsim.rng import Streams
from netsim.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Setup:
    """What a run of rounds is made of; none of it changes."""

    learning: Learning
    power: Power
    uplink: Uplink
    public: Public
    models: tuple[str, ...]
    model_of_cell: IntArray
    streams: Streams
    recorder: Recorder


@dataclass(frozen=True)
class PartStates:
    """What the parts of a round remember; those of which a study may hold several by their label.

    That of the server optimiser stands by the phase of the learner.
    """

    data: State
    query: State
    curation: dict[str, State]
    aggregation: State
    power: State
    defenses: dict[str, State]
    attacks: dict[str, State]
    server_optimiser: dict[str, State] = field(default_factory=dict)

    @classmethod
    def start(cls, setup: Setup, n_ue: int) -> PartStates:
        """Before the first round."""
        learning = setup.learning
        return cls(
            data=learning.data.start(n_ue, setup.streams.at("data")),
            query=learning.query.start(n_ue),
            curation={step.label: step.start(n_ue) for step in learning.curation},
            aggregation=learning.aggregation.start(),
            power=setup.power.start(n_ue),
            defenses={defense.label: defense.start(n_ue) for defense in learning.defenses},
            attacks={attack.label: attack.start() for attack in learning.attacks},
            server_optimiser={phase: learning.server_optimiser.start() for phase in learning.learner.phases},
        )

    def standings(self, learning: Learning) -> list[Standing]:
        """Where the budgets of all defenses that have one stand."""
        standings = (defense.standing(self.defenses[defense.label]) for defense in learning.defenses)
        return [standing for standing in standings if standing is not None]

    def norm_bound(self, learning: Learning) -> float | None:
        """The bound of an update's norm that the last defense with one promises for the next round."""
        promises = [defense.promise(self.defenses[defense.label]) for defense in learning.defenses]
        return next((p for p in reversed(promises) if p is not None), None)


@dataclass(frozen=True)
class RoundState:
    """Everything that goes from one round to the next, as values; stopped: the next one would exceed the budget."""

    round: int
    played: int
    model: Model
    held_out: HeldOut
    reference: Reference
    parts: PartStates
    ledger: Ledger
    leakage: leakage.Tracks
    stopped: bool = False


@dataclass(frozen=True)
class Eavesdropped:
    """An eavesdropper's side of the uplink: its channel, one entry a row; distance_m and los, one a UE."""

    channel: Channel
    distance_m: FloatArray
    los: BoolArray


@dataclass(frozen=True)
class PhaseOutcome:
    """One phase of a round, as it came out.

    requested_s: when the server asked; arrived_s (n,): when each row's last bit came, NaN where it never does;
    merged_s: when the last row that counts had come, and the server merged, published, and (if it is the attacker)
    attacked; attacked_s: when the attack was made.
    """

    name: str
    requested_s: float
    arrived_s: FloatArray
    merged_s: float
    attacked_s: float
    made: Updates
    received: Received
    channel: Channel
    spends: list[Spend]
    weights: FloatArray
    model: Model
    estimates: dict[str, Estimates]
    self_tests: dict[str, float | None]
    eavesdropped: Eavesdropped | None
    non_finite: int
    view: View


@dataclass(frozen=True)
class CurationStep:
    """One step of curation: its label, what went in, and what came out."""

    label: str
    before: Local
    after: Curated


@dataclass(frozen=True)
class RoundOutcome:
    """A round that was played: what its records are made of.

    before: the model that it started from; state: what the next round starts from; taken and local: the data of the
    round and what was learnt from; refused: UEs whose query policy refused; leaks, audits: rows of the tables
    `leakage` and `membership`, without round and time.
    """

    facts: Facts
    before: Model
    state: RoundState
    taken: Taken
    local: Local
    refused: int
    curation: list[CurationStep]
    phases: list[PhaseOutcome]
    spends: list[AnySpend]
    leaks: list[dict[str, object]]
    audits: list[dict[str, object]]


def begin(setup: Setup, n_ue: int) -> RoundState:
    """Before the first round."""
    return RoundState(
        round=0,
        played=0,
        model=setup.learning.learner.init(setup.public, setup.streams.at("learner.init")),
        held_out=HeldOut.none(),
        reference=Reference.empty(),
        parts=PartStates.start(setup, n_ue),
        ledger=Ledger.empty(n_ue),
        leakage={},
    )
