"""Inputs of a run of rounds, and the names of its random streams."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from fl.learners import Learner
from fl.round.learning import Learning
from fl.round.probe import SILENT, Probe
from fl.types import Public
from netsim.columns import frozen, no_ints
from netsim.radio.power import Power
from netsim.radio.schedulers import AirInterface
from netsim.radio.uplink import Uplink
from netsim.record import Recorder
from netsim.rng import Rng, Streams
from netsim.units import IntArray, Texts


@frozen
class Setup:
    """Inputs of a run of rounds; none of them changes.

    days (n,) : on which UEs may measure (see `Data.with_days`). self_tests : whether attacks are
    tested on made updates. learns : whether UEs train; else they send zeros. probe : what an audit
    sees. views : folder in which what the attacker receives is kept; None: they are not. trainer :
    what makes the first models and the updates.
    """

    learning: Learning
    trainer: Learner
    power: Power
    uplink: Uplink
    air: AirInterface | None
    public: Public
    models: Texts
    model_of_cell: IntArray
    streams: Streams
    recorder: Recorder
    days: IntArray = field(default_factory=no_ints)
    self_tests: bool = True
    learns: bool = True
    probe: Probe = SILENT
    views: Path | None = None


@dataclass(frozen=True)
class RoundStreams:
    """The streams of one round: no two parts, and no two phases, share a draw.

    Of a phase after the learner's first, names end in that of the phase.
    """

    streams: Streams
    round: int
    phase: str = ""

    def derive_rng(self, purpose: str) -> Rng:
        """The stream of what a round has once (or a phase, where `derive_phase` made this)."""
        return self.streams.derive_rng(
            f"{purpose}.{self.phase}" if self.phase else purpose, self.round
        )

    def derive_phase(self, name: str, first: bool) -> RoundStreams:
        """The streams of a phase of the learner; the first has the names of the round."""
        return replace(self, phase="" if first else name)

    def derive_learner_rng(self, phase: str) -> Rng:
        """Stream of local training; it always has the name of its phase."""
        return self.streams.derive_rng(f"learner.{phase}", self.round)


@dataclass(frozen=True)
class PhaseDraws:
    """Streams of an attacker that plays a round by itself: those of the parts derive from one of
    its own.
    """

    rng: Rng

    def derive_rng(self, purpose: str) -> Rng:
        """The stream of a part of the round."""
        return replace(self.rng, purpose=f"{self.rng.purpose}.{purpose}")
