r"""Which track an update under a new name belongs to: costs, the best assignment, and how sure it
is.

A track is what an attacker believes of one UE: where it was last, as a Gaussian N(m_j, P_j I), and
when. Motion in one round is a mixture of K Gaussians of variance q_k and weights w_k, the first of
which stays; after g rounds, g q_k. With an estimate z_i of the error model of
`fl.tracking.error_model`, and a fingerprint x_i, update i costs track j

    C_ji = - log[p_seen ((1 - outlier) sum_kr w_k s_r N(z_i; m_j, (P_j + g q_k + sigma_r^2) I) +
    outlier / A)]
           - log[f(x_i | track j) / f(x_i)],

a new track - log(lambda / A), a track that nothing belongs to - log(1 - p_seen). The assignment of
least total cost is sought; a pair that costs more than a birth and a miss together is never linked.
[Reid 1979, for the costs; Kuhn 1955, for the assignment.]

With known homes, a sender j with p_j(h) from its nights, the probability of a home in each of G
cells of an area (see `fl.tracking.dwelling`), is person u of n with

    P(u | j) ~ (1 - outside) / n  G p_j(h_u),        P(none | j) ~ outside:

beforehand each person is as likely as any other, and a sender that is not in the directory lives
anywhere. G p is the likelihood of the nights given a home at h_u, relative to that of a home
anywhere. Senders that cannot be one person are given to people so that the product of these is
largest, each person to one sender at most.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan, pi
from typing import Self

import numpy as np

from fl.tracking.error_model import ErrorModel, Truths
from fl.tracking.fingerprint import Clues, KeptTracks, Prints
from fl.tracking.place_grid import PlaceGrid
from fl.types import RoundContext
from netsim.clock import compute_rounding_s
from netsim.columns import Columns, find_last_rows, frozen, no_floats, no_ints, split_blocks
from netsim.units import ArrayPair, BoolArray, Float32Array, FloatArray, IntArray, IntArrayPair

# of motion in one round, per axis; the first stays
_STD_M = np.array([0.0, 150.0, 400.0, 1000.0, 2500.0])
_STAYS = 10.0
_MOVES = 2.5  # what first guesses of their weights count, in links
_SEEN = 0.7
_ROUNDS = 5.0  # share of tracks that go on, and what this guess counts, in tracks
_LEAST = 0.01
_MOST = 0.95
_LEAST_S = 3600.0
_LEAST_ROUNDS = 6.0  # after which a track that nothing belonged to is given up
_NUMBERS = 5_000_000  # of one block of densities
_LEAST_RATIO = 1e-12  # of likelihoods, and share of people outside

NO_PERSON = -1
UNKNOWN = -2
"""persons: none of the directory; nothing is said"""


@frozen
class _RoundStatements(Columns):
    """Statements about the names (k,) of one round."""

    round: int
    name: IntArray

    def join_part(self, part: Self) -> Self:
        """With those of another part of the round about further names; of another round nothing is
        left.
        """
        if self.round != part.round:
            return self
        return self.join([self, part.select(~np.isin(part.name, self.name))])


@frozen
class NameLinks(_RoundStatements):
    """Tracks that an attack gives the names (k,) of one round.

    born (k,) : whether the track is new; entropy_bits (k,) : of p_i ~ exp(-C_ji) over the new names
    i that track j could have gone on as; 0 for a name that it had seen before, NaN for a new track,
    and where it does not say.
    """

    track: IntArray
    born: BoolArray
    entropy_bits: FloatArray

    @classmethod
    def empty(cls) -> NameLinks:
        """Before the first round."""
        no = no_ints()
        return cls(0, no, no, np.zeros(0, bool), no_floats())

    def add_part(self, part: NameLinks) -> NameLinks:
        """With those of another part of the round; of a round before nothing is left."""
        if self.round == part.round:
            return self.join_part(part)
        return part


@frozen
class Identities(_RoundStatements):
    """Persons of the directory, by index, that an attack gives the names (k,) of one round.

    probability (k,) : of that, as the attack states it; entropy_bits (k,) : over people and no
    person; NaN where nothing is said.
    """

    person: IntArray
    probability: FloatArray
    entropy_bits: FloatArray

    @classmethod
    def unknown(cls, round_: int, name: IntArray) -> Identities:
        """No statement about names (k,)."""
        nothing = np.full(len(name), nan)
        return cls(round_, name, np.full(len(name), UNKNOWN), nothing, nothing)


@frozen
class Predicted:
    """Where tracks (m,) are before an update, mixtures of K Gaussians: mean_m (m, 2), var_m2 (m, K)
    per axis, and weight (K,), which sums to 1.
    """

    mean_m: FloatArray
    var_m2: FloatArray
    weight: FloatArray


def _compute_components(predicted: Predicted, truths: Truths) -> ArrayPair:
    """Displacements (..., R, 2) to the places that estimates mean, and weighted densities (..., R,
    K) of pairs (...,) of tracks and estimates.
    """
    away = truths.place_m - predicted.mean_m[..., None, :]
    var = predicted.var_m2[..., None, :] + truths.sigma_m[..., None] ** 2
    square = np.nan_to_num((away**2).sum(axis=-1))[..., None]
    kernel = np.exp(-square / (2 * var))
    density = kernel / (2 * pi * var)
    share = truths.share / truths.gain**2
    return away, share[..., None] * predicted.weight * density


def compute_densities(
    predicted: Predicted, z_m: FloatArray, error: ErrorModel, area_m2: float
) -> FloatArray:
    """p(z_i | track j) in 1 / m^2 of tracks (m,) and estimates z_m (k, R, 2): (m, k).

    Relative to what a UE anywhere would be named, times 1 / A; so 1 / A where nothing was named.
    """
    truths = error.infer_truths(z_m)
    size = max(1, _NUMBERS // max(truths.share.size * len(predicted.weight), 1))
    summed = np.zeros((len(predicted.mean_m), len(z_m)))
    for rows in split_blocks(len(summed), size):
        pairs = Predicted(
            predicted.mean_m[rows, None], predicted.var_m2[rows, None], predicted.weight
        )
        summed[rows] = _compute_components(pairs, truths)[1].sum(axis=(2, 3))
    named = truths.share.any(axis=1)
    share = truths.share / truths.gain**2
    anywhere = (1.0 - error.outlier) * share.sum(axis=1) + error.outlier
    mixed = (1.0 - error.outlier) * summed + error.outlier / area_m2
    return np.where(named, mixed / np.where(named, anywhere, 1.0), 1.0 / area_m2)


def update_tracks(
    predicted: Predicted, z_m: FloatArray, error: ErrorModel, area_m2: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean (n, 2) and variance (n,) of tracks (n,) after estimates z_m (n, R, 2) of theirs, and the
    share (n, K) of each component of the motion.

    The posterior is a mixture; a Gaussian of its mean and variance stands for it.
    """
    truths = error.infer_truths(z_m)
    away, density = _compute_components(predicted, truths)
    before = predicted.var_m2[:, None]
    n, ranks, k = density.shape
    density = (1.0 - error.outlier) * density
    has_density = density.any(axis=(1, 2))
    outlier = np.where(has_density, error.outlier / area_m2, 1.0)
    false = outlier[:, None] * predicted.weight
    # (n, R + 1, K), the last of a false estimate
    weight = np.concatenate([density, false[:, None]], axis=1)
    weight /= weight.sum(axis=(1, 2), keepdims=True)
    gain = np.zeros((n, ranks + 1, k))
    total_m2 = before + truths.sigma_m[..., None] ** 2
    gain[:, :ranks] = before / total_m2
    shift = np.zeros((n, ranks + 1, k, 2))
    innovation = np.nan_to_num(away)[:, :, None]
    shift[:, :ranks] = gain[:, :ranks, :, None] * innovation
    mean = (weight[..., None] * shift).sum(axis=(1, 2))
    square = ((shift - mean[:, None, None]) ** 2).sum(axis=3)
    spread = (1 - gain) * before + square / 2
    var_m2 = (weight * spread).sum(axis=(1, 2))
    return predicted.mean_m + mean, var_m2, weight.sum(axis=1)


def assign_tracks_to_names(cost: FloatArray, birth: float, miss: float) -> IntArray:
    """The track (k,) of each name in the assignment of least cost, -1 for a new one; cost (m,
    k).
    """
    from scipy.optimize import linear_sum_assignment

    gain = np.minimum(cost - birth - miss, 0.0)  # against leaving both alone
    track = np.full(cost.shape[1], -1)
    row, column = linear_sum_assignment(gain)
    linked = gain[row, column] < 0
    track[column[linked]] = row[linked]
    return track


def compute_entropies_bits(p: FloatArray) -> FloatArray:
    """-sum_i p_i log2 p_i of each row (m, k)."""
    log_p = np.log2(np.where(p > 0, p, 1.0))
    return -(p * log_p).sum(axis=1)


def compute_link_probabilities(cost: FloatArray, birth: float) -> FloatArray:
    """The probability (m, k) with which each name goes on as each track, other names left out of
    account.
    """
    best = np.minimum(cost.min(axis=0, initial=inf), birth)
    weight = np.exp(best - cost)
    return weight / (weight.sum(axis=0) + np.exp(best - birth))


def compute_log_odds(
    home: Float32Array, home_m: FloatArray, grid: PlaceGrid, outside: float
) -> FloatArray:
    """log P(u | j) / P(none | j) (m, n) of senders with home posteriors (m, G), and people with
    homes (n, 2).
    """
    ratio = np.full((len(home), len(home_m)), _LEAST_RATIO)
    inside = grid.area.contains(home_m)
    density = home[:, grid.find_cells(home_m[inside])].astype(float) * len(grid)
    ratio[:, inside] = np.maximum(density, _LEAST_RATIO)
    share = max(outside, _LEAST_RATIO)
    prior = (1.0 - share) / (share * max(len(home_m), 1))
    return np.log(ratio) + np.log(prior)


def identify_senders(odds: FloatArray, order: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Person (m,), its probability (m,) and entropies in bits (m,) of senders, each another, with
    log odds (m, n).

    order (n,) : in which people are looked at; it decides between people who are equally likely.
    """
    chosen = assign_tracks_to_names(-odds[:, order].T, 0.0, 0.0)
    person = np.where(chosen >= 0, np.append(order, NO_PERSON)[chosen], NO_PERSON)
    p = _apply_softmax(np.column_stack([odds, np.zeros(len(odds))]))  # no person is last
    return person, p[np.arange(len(p)), person], compute_entropies_bits(p)


def _apply_softmax(log_p: FloatArray) -> FloatArray:
    """Probabilities (m, k) of logarithms up to a constant per row."""
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True, initial=-inf))
    return p / p.sum(axis=1, keepdims=True)


@frozen
class Rates:
    """motion (K,) : links by component; seen, tracks : how many tracks went on, of how many; born,
    rounds : new tracks, and in how many rounds after the first.
    """

    motion: FloatArray
    seen: float = _SEEN * _ROUNDS
    tracks: float = _ROUNDS
    born: float = 1.0
    rounds: float = 1.0

    @classmethod
    def start(cls) -> Rates:
        """First guesses."""
        return cls(np.where(_STD_M == 0, _STAYS, _MOVES))


@frozen
class KnownNames(Columns):
    """All names (N,) so far, ascending, the track of each, and the round in which it came first."""

    name: IntArray
    track: IntArray
    since: IntArray


@frozen
class Book:
    """tracks : those that are kept; names : all so far; prints, rates : what is known of all
    fingerprints, and of how tracks go on; born : number of tracks so far, which is that of the next
    one.
    """

    tracks: KeptTracks
    names: KnownNames
    prints: Prints
    rates: Rates
    born: int = 0

    @classmethod
    def empty(cls, numbers: int) -> Book:
        """Before the first round."""
        no = no_ints()
        return cls(
            KeptTracks.from_numbers(no, numbers),
            KnownNames(no, no, no),
            Prints.empty(numbers),
            Rates.start(),
        )

    def find_tracks(self, name: IntArray) -> IntArray:
        """The track (k,) of names (k,), -1 for one that it does not know."""
        return np.append(self.names.track, -1)[find_last_rows(self.names.name, name)]

    def find_rows(self, track: IntArray) -> IntArray:
        """Row of tracks (n,) among those that are kept; -1 for one that is not."""
        return find_last_rows(self.tracks.number, track)

    def drop_old_tracks(self, now_s: float, round_s: float) -> Book:
        """Without tracks that nothing has belonged to for an hour, and for six rounds at least."""
        most_s = max(_LEAST_S, _LEAST_ROUNDS * round_s)
        old = now_s - self.tracks.seen_s > most_s + compute_rounding_s(most_s, now_s)
        return replace(self, tracks=self.tracks.select(~old))

    def add_tracks(self, number: IntArray) -> Book:
        """With tracks (n,) that are not kept yet, of which nothing is known so far."""
        new = KeptTracks.from_numbers(number, self.tracks.x.shape[1])
        tracks = KeptTracks.join([self.tracks, new])
        return replace(self, tracks=tracks, born=max(self.born, number.max(initial=-1) + 1))

    def list_names(self, round_: int) -> IntArrayPair:
        """The latest name (t,) of each track (t,), ascending, by a round."""
        names = self.names.select(self.names.since <= round_)
        names = names.select(np.lexsort((names.name, names.since, names.track)))
        last = names.select(np.flatnonzero(np.diff(names.track, append=-1)))
        return last.track, last.name


class Linker:
    """Links the names of one round: error of places, facts, the largest speed of UEs, and whether
    names ever change.
    """

    def __init__(
        self, error: ErrorModel, facts: RoundContext, speed_mps: float, renames: bool = True
    ) -> None:
        self.error = error
        self.facts = facts
        self.renames = renames
        area = facts.public.area
        self.area_m2 = float(np.prod(area.side_m))
        self.centre_m = area.low_m + area.side_m / 2
        self.round_s = facts.round_s if np.isfinite(facts.round_s) else 0.0
        widest_m = speed_mps * self.round_s / 2 if self.round_s else inf
        self.var_m2 = np.minimum(_STD_M, widest_m) ** 2

    def link_names(self, name: IntArray, clues: Clues, book: Book) -> tuple[Book, NameLinks]:
        """Names (k,), ascending, of senders with these clues: the book and links afterwards."""
        book = book.drop_old_tracks(self.facts.time_s, self.round_s)
        track = book.find_tracks(name)
        dropped = np.setdiff1d(track[track >= 0], book.tracks.number)
        book = book.add_tracks(dropped)  # whose names came back
        row = book.find_rows(track)  # of each name; names that it knows are certain
        unheard = np.append(book.tracks.round, -1)[row] != self.facts.round
        book = replace(book, prints=book.prints.count_updates(clues.select(unheard)))
        new = np.flatnonzero(row < 0)
        known_rows = np.flatnonzero(row >= 0)
        is_open = (book.tracks.round != self.facts.round) & self.renames
        open_ = np.setdiff1d(np.flatnonzero(is_open), row[known_rows])
        cost, birth, miss = self._compute_costs(book, open_, clues.select(new))
        chosen = assign_tracks_to_names(cost, birth, miss)
        got = chosen >= 0
        entropy = np.where(row < 0, nan, 0.0)
        entropy[new[got]] = compute_entropies_bits(_apply_softmax(-cost))[chosen[got]]
        together = np.zeros((len(book.tracks.number), len(name)))
        together[row[known_rows], known_rows] = 1.0
        together[np.ix_(open_, new)] = compute_link_probabilities(cost, birth)
        row[new[got]] = open_[chosen[got]]
        born = book.born + np.arange((~got).sum())
        row[new[~got]] = len(book.tracks.number) + np.arange(len(born))
        book = self._learn_round(book, born, row, clues, together, unheard)
        track = book.tracks.number[row]
        since = np.full(len(new), self.facts.round)
        names = KnownNames.join([book.names, KnownNames(name[new], track[new], since)])
        book = replace(book, names=names.select(np.argsort(names.name)))
        return book, NameLinks(self.facts.round, name, track, np.isin(track, born), entropy)

    def _predict_tracks(self, tracks: KeptTracks, rates: Rates) -> Predicted:
        """Where tracks (n,) are now; anywhere before their first update."""
        begun = tracks.round < 0
        gap = np.maximum(self.facts.round - tracks.round, 0).astype(float)
        if self.round_s:
            gap = np.maximum((self.facts.time_s - tracks.seen_s) / self.round_s, 0.0)
        mean_m = np.where(begun[:, None], self.centre_m, tracks.mean_m)
        var_m2 = np.where(begun, self.area_m2 / 12.0, tracks.var_m2)[:, None]
        var_m2 = var_m2 + np.where(begun, 0.0, gap)[:, None] * self.var_m2
        return Predicted(mean_m, var_m2, rates.motion / rates.motion.sum())

    def _compute_costs(
        self, book: Book, rows: IntArray, clues: Clues
    ) -> tuple[FloatArray, float, float]:
        """C (m, k) of tracks at rows (m,) that may go on as new names (k,), and what a birth and a
        miss cost.
        """
        rates = book.rates
        tracks = book.tracks.select(rows)
        seen = np.clip(rates.seen / rates.tracks, _LEAST, _MOST)
        density = compute_densities(
            self._predict_tracks(tracks, rates), clues.z_m, self.error, self.area_m2
        )
        ratio = book.prints.compute_log_ratios(tracks, clues)
        cost = -np.log(seen * np.maximum(density, 1e-300)) - ratio
        birth = -np.log(rates.born / rates.rounds / self.area_m2)
        return cost, birth, -np.log(1.0 - seen)

    def _learn_round(
        self,
        book: Book,
        born: IntArray,
        row: IntArray,
        clues: Clues,
        together: FloatArray,
        unheard: BoolArray,
    ) -> Book:
        """Learn from a round: names (k,) are given to the tracks at rows (k,), to which they belong
        with probabilities (m, k); born : numbers of those that are new. What was heard before in
        this round does not count again.
        """
        facts = self.facts
        rows = row[unheard]
        heard = clues.select(unheard)
        prints = book.prints.learn_pairs(book.tracks, heard, together[:, unheard])
        begun = book.add_tracks(born)
        tracks = begun.tracks.select(rows)
        again = tracks.round >= 0
        rates = book.rates
        predicted = self._predict_tracks(tracks, rates)
        mean_m, var_m2, share = update_tracks(predicted, heard.z_m, self.error, self.area_m2)
        if book.born:
            named = np.any(np.isfinite(heard.z_m[again]).all(axis=2), axis=1)
            sure = together[rows[again], np.flatnonzero(unheard)[again]] * named
            waiting = (book.tracks.round != facts.round) & (book.tracks.round >= 0)
            rates = Rates(
                rates.motion + sure @ share[again],
                rates.seen + again.sum(),
                rates.tracks + waiting.sum(),
                rates.born + len(born),
                rates.rounds + 1.0,
            )
        seen_s = np.full(len(rows), facts.time_s)
        number = np.full(len(rows), facts.round)
        updated = replace(
            tracks.add_updates(heard), mean_m=mean_m, var_m2=var_m2, seen_s=seen_s, round=number
        )
        return replace(
            begun, tracks=begun.tracks.replace_rows(rows, updated), prints=prints, rates=rates
        )
