"""Notices of learning, and what its parts know before a run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fl.types import Public, RoundContext
from netsim.notice import Catalogue

notice = Catalogue(__file__)


@dataclass(frozen=True)
class Prepared:
    """What parts of learning can say something about before the first round.

    curation, defenses : all of them, in order. public : facts of the world. rounds : gives the
    times of its rounds in order, of two weeks at most.
    """

    curation: Sequence[Any]
    defenses: Sequence[Any]
    public: Public
    rounds: Callable[[], Iterator[RoundContext]]

    @property
    def has_epsilon(self) -> bool:
        """Whether a part draws noise that the ledger counts."""
        return any(
            {"spend", "location spend"} & part.offers for part in (*self.curation, *self.defenses)
        )
