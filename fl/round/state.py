"""what a round is made of, and what goes from one to the next"""

from __future__ import annotations

from dataclasses import dataclass

from fl.attacks.base import View
from fl.leakage import leakage
from fl.learning import Learning
from fl.privacy import ledger
from fl.round.baselines import Reference
from fl.types import (
    Estimates,
    HeldOut,
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
class Carry:
    """Everything that goes from one round to the next, as values; stopped: the next one would exceed the budget."""

    round: int
    played: int
    model: Model
    held_out: HeldOut
    reference: State
    parts: dict[str, State]
    ledger: State
    leakage: State
    stopped: bool = False


@dataclass(frozen=True)
class Overheard:
    """An eavesdropper's side of the uplink: its channel, one entry a row; distance_m and los, one a UE."""

    channel: Channel
    distance_m: FloatArray
    los: BoolArray


@dataclass(frozen=True)
class Phase:
    """One phase of a round, as it came out.

    asked_s: when the server asked; arrived_s (n,): when each row's last bit came, NaN where it never does; merged_s:
    when the last row that counts had come, and the server merged, published, and (if it is the attacker) attacked;
    attacked_s: when the attack was made.
    """

    name: str
    asked_s: float
    arrived_s: FloatArray
    merged_s: float
    attacked_s: float
    made: Updates
    received: Received
    channel: Channel
    spends: list[Spend]
    weights: FloatArray
    estimates: dict[str, Estimates]
    self_tests: dict[str, float | None]
    overheard: Overheard | None
    non_finite: int
    view: View


def begin(setup: Setup, n_ue: int) -> Carry:
    """Before the first round."""
    learning = setup.learning
    parts: dict[str, State] = {"power": {}, "query": learning.query.start(n_ue)}
    parts |= {f"defense.{d.label}": d.start(n_ue) for d in learning.defenses}
    parts |= {f"curation.{c.label}": {} for c in learning.curation}
    parts |= {f"attack.{a.label}": {} for a in learning.attacks}
    parts["aggregation"] = learning.aggregation.start()
    parts["data"] = learning.data.start(n_ue, setup.streams.at("data"))
    return Carry(
        round=0,
        played=0,
        model=learning.learner.init(setup.public, setup.streams.at("learner.init")),
        held_out=HeldOut.none(),
        reference=Reference.empty(),
        parts=parts,
        ledger=ledger.empty(n_ue),
        leakage=leakage.empty(),
    )
