"""Notices of learning, and what its parts know before a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fl.types import Public, RoundContext
from netsim.notice import Catalogue

if TYPE_CHECKING:
    from fl.round.learning import Learning

notice = Catalogue(__file__)


@dataclass(frozen=True)
class Prepared:
    """What parts of learning can say something about before the first round.

    learning : all parts. public : facts of the world. rounds : gives the times of its rounds in order, of two weeks at
    most.
    """

    learning: Learning
    public: Public
    rounds: Callable[[], Iterator[RoundContext]]

    @property
    def has_epsilon(self) -> bool:
        """Whether a part draws noise that the ledger counts."""
        learning = self.learning
        return any({"spend", "location spend"} & part.offers for part in (*learning.curation, *learning.defenses))
