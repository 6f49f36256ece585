"""The names of a round's random streams: no two parts, and no two phases of a round, share a draw."""

from __future__ import annotations

from dataclasses import dataclass, replace

from netsim.rng import Rng, Streams


@dataclass(frozen=True)
class RoundStreams:
    """The streams of one round; of a phase after the learner's first, names end in that of the phase."""

    streams: Streams
    round: int
    phase: str = ""

    def at(self, purpose: str) -> Rng:
        """The stream of what a round has once (or a phase, where `of_phase` made this)."""
        return self.streams.at(f"{purpose}.{self.phase}" if self.phase else purpose, self.round)

    def of_phase(self, name: str, first: bool) -> RoundStreams:
        """The streams of a phase of the learner; the first has the names of the round."""
        return replace(self, phase="" if first else name)

    def learner(self, phase: str) -> Rng:
        """Stream of local training; it always has the name of its phase."""
        return self.streams.at(f"learner.{phase}", self.round)

    def withholding(self, label: str) -> Rng:
        """Stream of a rule of withholding, for all rounds."""
        return self.streams.at(f"withholding.{label}")

    def curation(self, label: str) -> Rng:
        """Stream of a step of curation."""
        return self.at(f"curation.{label}")

    def defense(self, label: str) -> Rng:
        """Stream of the UE half of a defense."""
        return self.at(f"defense.{label}")

    def defense_at_server(self, label: str) -> Rng:
        """Stream of its server half."""
        return self.at(f"defense.{label}.server")

    def attack(self, label: str) -> Rng:
        """Stream of an attack; its self-test derives from the same."""
        return self.at(f"attack.{label}")
