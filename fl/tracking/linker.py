"""One round of linking: names come in, tracks go on, end or begin, and what was linked is learnt from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.tracking import linking
from fl.tracking.book import Book, Clues
from fl.tracking.error_model import ErrorModel
from fl.tracking.linking import Displacement, LastSeen, NameLinks
from fl.types import RoundContext
from netsim.columns import frozen
from netsim.units import BoolArray, FloatArray, IntArray

_STD_M = np.array([0.0, 150.0, 400.0, 1000.0, 2500.0])  # of motion in one round, a axis; the first stays
_STAYS, _MOVES = 10.0, 2.5  # what first guesses of their weights count, in links
_SEEN, _ROUNDS = 0.7, 5.0  # share of tracks that go on, and what this guess counts, in tracks
_LEAST, _MOST = 0.01, 0.95


@frozen
class Rates:
    """motion (K,) : links by component; seen, tracks : how many tracks went on, of how many; born, rounds : new tracks,
    and in how many rounds after the first.
    """

    motion: FloatArray
    seen: float
    tracks: float
    born: float
    rounds: float

    @classmethod
    def start(cls) -> Rates:
        """First guesses."""
        motion = np.where(_STD_M == 0, _STAYS, _MOVES)
        return cls(motion, _SEEN * _ROUNDS, _ROUNDS, 1.0, 1.0)


class Linker:
    """Links the names of one round: error of places, facts, the largest speed of UEs, and whether names ever change."""

    def __init__(self, error: ErrorModel, facts: RoundContext, speed_mps: float, renames: bool = True) -> None:
        self.error, self.facts, self.renames = error, facts, renames
        area = facts.public.area
        self.area_m2, self.centre_m = float(np.prod(area.side_m)), area.low_m + area.side_m / 2
        self.round_s = facts.round_s if np.isfinite(facts.round_s) else 0.0
        widest_m = speed_mps * self.round_s / 2 if self.round_s else np.inf
        self.var_m2 = np.minimum(_STD_M, widest_m) ** 2

    def linked(self, name: IntArray, clues: Clues, book: Book, rates: Rates) -> tuple[Book, Rates, NameLinks]:
        """Names (k,), ascending, of senders with these clues: the book, rates and links afterwards."""
        facts, first = self.facts, not book.born
        book = book.kept(facts.time_s, self.round_s)
        track = book.track_of(name)
        book = book.with_tracks(np.setdiff1d(track[track >= 0], book.track))  # a name whose track was given up
        row = book.index(track)  # of each name; names that it knows are certain
        heard = (row >= 0) & (book.round[row] == facts.round) if len(book.round) else np.zeros(len(row), dtype=np.bool_)
        book = replace(book, prints=book.prints.heard(clues.select(np.flatnonzero(~heard))))
        new = np.flatnonzero(row < 0)
        cost, open_, birth, miss = self._costs(book, row[row >= 0], clues.select(new), rates)
        chosen = linking.assigned(cost, birth, miss)
        got = chosen >= 0
        entropy = np.where(row < 0, np.nan, 0.0)
        entropy[new[got]] = linking.entropies_bits(cost)[chosen[got]]
        together = np.zeros((len(book.track), len(name)))
        together[row[row >= 0], np.flatnonzero(row >= 0)] = 1.0
        together[np.ix_(open_, new)] = linking.shares(cost, birth)
        row[new[got]] = open_[chosen[got]]
        born = book.born + np.arange(int((~got).sum()))
        row[new[~got]] = len(book.track) + np.arange(len(born))
        book, rates = self._learnt(book, rates, clues, together, row, ~heard, 0 if first else len(born))
        book = self._moved(book.with_tracks(born), row, clues, ~heard, rates)
        book = book.with_names(name[new], book.track[row[new]], facts.round)
        links = NameLinks(facts.round, name, book.track[row], np.isin(book.track[row], born), entropy)
        return book, rates, links

    def _gaps(self, book: Book, rows: IntArray) -> FloatArray:
        """Rounds (n,) since tracks at rows (n,) were seen."""
        if self.round_s:
            return np.maximum((self.facts.time_s - book.seen_s[rows]) / self.round_s, 0.0)
        return np.maximum(self.facts.round - book.round[rows], 0).astype(np.float64)

    def _motion(self, rates: Rates) -> Displacement:
        return Displacement(rates.motion / rates.motion.sum(), self.var_m2)

    def _costs(
        self, book: Book, taken: IntArray, clues: Clues, rates: Rates
    ) -> tuple[FloatArray, IntArray, float, float]:
        """C (m, k) of tracks that may go on as new names (k,), their rows (m,), and what a birth and a miss cost."""
        seen = float(np.clip(rates.seen / rates.tracks, _LEAST, _MOST))
        rows = np.setdiff1d(np.flatnonzero((book.round != self.facts.round) & self.renames), taken)
        at = LastSeen(book.at.mean_m[rows], book.at.var_m2[rows])
        density = linking.densities(
            at, self._gaps(book, rows), clues.z_m, self.error, self._motion(rates), self.area_m2
        )
        cost = -np.log(seen * np.maximum(density, 1e-300)) - book.prints.log_ratios(clues)[rows]
        return cost, rows, float(-np.log(rates.born / rates.rounds / self.area_m2)), float(-np.log(1.0 - seen))

    def _learnt(
        self, book: Book, rates: Rates, clues: Clues, together: FloatArray, row: IntArray, unheard: BoolArray, born: int
    ) -> tuple[Book, Rates]:
        """Learn from a round: names (k,) belong to the tracks of the book with probabilities (m, k)."""
        fresh = np.flatnonzero(unheard)
        prints = book.prints.learnt(clues.select(fresh), together[:, fresh])
        again = self._going_on(book, row, unheard)
        if not book.born:
            return replace(book, prints=prints), rates
        waiting = (book.round != self.facts.round) & (book.round >= 0)
        _, share = self._steps(book, row[again], clues.select(again), rates)
        named = np.asarray(np.isfinite(clues.z_m[again]).all(axis=2)).any(axis=1)
        sure = together[row[again], again] * named
        return replace(book, prints=prints), Rates(
            rates.motion + (sure[:, None] * share).sum(axis=0), rates.seen + len(again),
            rates.tracks + int(waiting.sum()), rates.born + born, rates.rounds + 1.0,
        )  # fmt: skip

    def _going_on(self, book: Book, row: IntArray, unheard: BoolArray) -> IntArray:
        """Whether names (n,) continue a known track, and have not sent in this round."""
        rounds = np.append(book.round, -1)
        return np.flatnonzero(unheard & (rounds[np.minimum(row, len(book.round))] >= 0))

    def _steps(self, book: Book, rows: IntArray, clues: Clues, rates: Rates) -> tuple[LastSeen, FloatArray]:
        """Tracks at rows (n,) after estimates of theirs, and the share (n, K) of each component of the motion."""
        at = LastSeen(book.at.mean_m[rows], book.at.var_m2[rows])
        motion, gap = self._motion(rates), self._gaps(book, rows)
        return linking.moved(at, gap, clues.z_m, self.error, motion, self.area_m2)

    def _moved(self, book: Book, row: IntArray, clues: Clues, unheard: BoolArray, rates: Rates) -> Book:
        """The book after all updates of this round that had not been heard."""
        facts, again = self.facts, self._going_on(book, row, unheard)
        begun = np.setdiff1d(np.flatnonzero(unheard), again)
        at, _ = self._steps(book, row[again], clues.select(again), rates)
        book = book.seen(row[again], at, clues.select(again), facts.time_s, facts.round)
        at = linking.placed(clues.z_m[begun], self.error, self.centre_m, self.area_m2)
        return book.seen(row[begun], at, clues.select(begun), facts.time_s, facts.round)
