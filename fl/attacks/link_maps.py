r"""Linking of names by score maps: an update under a new name goes to the track whose map it looks
like.
"""

from dataclasses import replace
from typing import Annotated, Literal, cast

import numpy as np
from pydantic import Field

from fl.attacks import ATTACKS
from fl.attacks.base import Attack, ByKey, RevisedEstimates, View
from fl.attacks.place_maps import PlaceMaps, unit_rows
from fl.attacks.span import Span
from fl.tracking.linking import NameLinks
from fl.tracking.place_grid import PlaceGrid
from fl.types import Estimates, RoundContext
from netsim.columns import Columns, frozen, no_ints
from netsim.rng import Rng
from netsim.units import AnyFloats, BoolArray, FloatArray, IntArray

_NEVER = 1e6  # cost of a track that another name holds in the same round
_EMPTY = 1e-3  # length of a track's map that is rounding
_MOST_PASSES = 20
_STARTS = 4  # in hindsight
_PAST = 10.0  # updates for which the mean map of earlier rounds stands


@frozen
class NamesSoFar(Columns):
    """All names (N,) so far in the order in which they came: the track that each was given in its
    round, the rounds in which it was heard first and last, and when it was heard first.
    """

    name: IntArray
    track: IntArray
    since: IntArray
    last: IntArray
    time_s: FloatArray

    def rows(self, name: IntArray) -> IntArray:
        """Rows of the known names (n,)."""
        order = np.argsort(self.name)
        return order[np.searchsorted(self.name[order], name)]


@frozen
class MapTracks:
    """score (K, G) : sum of the maps of each track; kept (n, G) : of each of the latest of the
    names; mean : mean map (G,) of each model.
    """

    names: NamesSoFar
    score: AnyFloats
    kept: AnyFloats
    mean: ByKey

    @classmethod
    def none(cls) -> "MapTracks":
        """Before the first round."""
        no = no_ints()
        empty = np.zeros((0, 0), dtype=np.float32)
        return cls(NamesSoFar(no, no, no, no, np.zeros(0)), empty, empty, ByKey.none(1))

    def heard(
        self, name: IntArray, score: AnyFloats, facts: RoundContext, least: int, most: int
    ) -> "MapTracks":
        """After names (n,) with maps (n, G) in a round; at least `least` tracks, the maps of at
        most `most` names.
        """
        new = np.setdiff1d(name, self.names.name)
        now = np.full(len(new), facts.round)
        begun = NamesSoFar(new, np.full(len(new), -1), now, now, np.full(len(new), facts.time_s))
        names = NamesSoFar.join([self.names, begun])
        row = names.rows(name)
        places = score.shape[1]
        names.last[row] = facts.round
        kept = np.concatenate(
            [self.kept.reshape(len(self.kept), places), np.zeros((len(new), places), np.float32)]
        )
        first = len(names.name) - len(kept)
        kept[row[row >= first] - first] += score[row >= first]
        in_use = (names.last == facts.round).sum()
        total = np.zeros((max(least, in_use, len(self.score)), places), dtype=np.float32)
        total[: len(self.score)] = self.score.reshape(len(self.score), places)
        fresh = names.track[row] < 0
        np.add.at(total, names.track[row[~fresh]], score[~fresh])
        after = replace(self, names=names, score=total, kept=kept[max(len(kept) - most, 0) :])
        names.track[row[fresh]] = _assigned(
            score[fresh], total, after._held(row[fresh], names.track)
        )
        total[names.track[row[fresh]]] += score[fresh]
        return after

    def relinked(self, starts: int, rng: Rng) -> tuple[IntArray, AnyFloats]:
        """The track (N,) of each name and the maps (K, G) of all tracks in hindsight: the best of
        `starts` starts.
        """
        latest = slice(len(self.names.name) - len(self.kept), None)
        rounds = np.unique(self.names.since[latest])
        settled = self.score.copy()
        np.subtract.at(settled, self.names.track[latest], self.kept)

        def linked(start: int) -> tuple[IntArray, AnyFloats]:
            order = rounds
            track = self.names.track.copy()
            total = self.score.copy()
            if start:
                order = rounds[np.argsort(rng.uniform("start", rounds, item=start), kind="stable")]
                track[latest] = -1
                total = settled.copy()
            passes = 0
            while self._moved(order, track, total) and passes < _MOST_PASSES:
                passes += 1
            return track, total

        return max(
            map(linked, range(starts)),
            key=lambda found: float(np.linalg.norm(found[1], axis=1).sum()),
        )

    def links_of(self, track: IntArray) -> list[tuple[float, NameLinks]]:
        """Time of each round, and the links of its names, if they have tracks (N,)."""
        born = np.zeros(len(track), dtype=bool)
        rounds = []
        born[np.unique(track, return_index=True)[1]] = True
        for number in np.unique(self.names.since).tolist():
            mine = np.flatnonzero(self.names.since == number)
            links = NameLinks(
                number, self.names.name[mine], track[mine], born[mine], np.full(len(mine), np.nan)
            )
            rounds.append((float(self.names.time_s[mine[0]]), links))
        return rounds

    def _moved(self, order: IntArray, track: IntArray, total: AnyFloats) -> bool:
        """Whether any name moved as those that came in each round were linked again, in place;
        track -1 : none yet.
        """
        first = len(self.names.name) - len(self.kept)
        moved = False
        for number in order.tolist():
            mine = first + np.flatnonzero(self.names.since[first:] == number)
            score = self.kept[mine - first]
            before = track[mine]
            linked = before >= 0
            np.subtract.at(total, before[linked], score[linked])
            track[mine] = -1
            track[mine] = _assigned(score, total, self._held(mine, track))
            total[track[mine]] += score
            moved |= bool((track[mine] != before).any())
        return moved

    def _held(self, mine: IntArray, track: IntArray) -> BoolArray:
        """Which tracks (n, K) are those of other names that are in use in the same rounds as names
        (n,).
        """
        names = self.names
        together = (
            (names.since <= names.last[mine, None])
            & (names.last >= names.since[mine, None])
            & (track >= 0)
        )
        held = np.zeros((len(mine), len(self.score)), dtype=bool)
        row, other = np.nonzero(together)
        held[row, track[other]] = True
        return held


def _assigned(score: AnyFloats, total: AnyFloats, taken: BoolArray) -> IntArray:
    """The track (n,) of maps (n, G), one to one, of largest sum of <x_i, T_k / |T_k|>; taken (n, K)
    ones come last.
    """
    from scipy.optimize import linear_sum_assignment

    length = np.linalg.norm(total, axis=1)
    similar = (
        score
        @ (total * np.where(length > _EMPTY, 1.0 / np.maximum(length, _EMPTY), 0.0)[:, None]).T
    )
    return linear_sum_assignment(np.where(taken, _NEVER, -similar))[1]


class LinkMaps(Attack):
    r"""Follows UEs through changes of their names by the score maps of their updates, and names
    places of each track.

    With s_i(x) the score of place x by update i (`of`), less its mean and divided by its deviation
    over the area,

        x_i = (s_i - m) / |s_i - m|,     m: mean of the round's maps, in which the past counts as
        ten more

    (0 of a first map alone), and T_k the sum of the x_i that are linked to track k, the names of a
    round are given to tracks one to one,

        pi = argmax sum_i <x_i, T_pi(i) / |T_pi(i)|>,     then T_pi(i) += x_i,

    which is the link of the round (Hungarian algorithm; a track without updates counts 0). In
    hindsight all names of the last `hindsight_names` are linked again, round by round, each time
    without their own x_i, until none moves or 20 passes are over: once from the links of the
    rounds, and from three random orders of the rounds. The links of largest sum_k |T_k| are taken.
    A name that was seen before stays with its track, and two names that are in use in the same
    rounds never share one. Older names keep the links of their rounds.

    Answers: the highest place of T_k, then the highest at least `apart_m` from those before (as
    `of` has it). In rounds in which leakage is measured they, and at the end all links, are those
    of hindsight. Only updates, names and rounds are read: no times, cells nor counts.
    """

    kind: Literal["link-maps"] = "link-maps"
    of: Annotated[Attack, ATTACKS.only("span")] = Span(add="scores")
    """the attack whose score maps are compared"""
    tracks: int | None = Field(None, ge=1, le=100_000)
    """number of UEs among which names are linked; none: the most that sent in one round. Give it
    where few send in each round, as to a server without rounds"""
    hindsight_names: int = Field(5_000, ge=0, le=1_000_000)
    """number of latest names whose links change in hindsight; each holds 4 bytes a place. 0: links
    stay as they were made in their round"""

    reference = "Kuhn 1955: assignment; Lloyd 1982: alternating with means; score maps: netsim"
    space = {
        "of": tuple(
            {"kind": "span", "layer": 1, "rank": rank, "add": "scores"} for rank in (8, 4, 20)
        ),
    }

    @property
    def needs(self) -> dict[str, str]:  # type: ignore[override]
        """Single updates, and what `of` needs."""
        return {
            "updates": "links single updates by their maps; set threat.observes: updates",
            **self.of.needs,
        }

    @property
    def _span(self) -> Span:
        return cast(Span, self.of)

    def start(self) -> MapTracks:
        return MapTracks.none()

    def run(
        self, view: View, facts: RoundContext, state: MapTracks, rng: Rng
    ) -> tuple[Estimates, MapTracks]:
        grid = self._grid(facts, len(state.score))
        name, score, mean = self._maps(view, grid, state.mean, rng)
        state = replace(
            state.heard(name, score, facts, self.tracks or 0, self.hindsight_names), mean=mean
        )
        maps = PlaceMaps(name, state.score[state.names.track[state.names.rows(name)]])
        return self._span.answered(view, maps, grid), state

    def revised(self, state: MapTracks, facts: RoundContext, rng: Rng) -> RevisedEstimates | None:
        if not len(state.names.name):
            return None
        track, score = state.relinked(_STARTS, rng)
        named_m = self._span.best(score, self._grid(facts, len(score)), self._span.answers)
        return RevisedEstimates(state.names.name, track, _answers(named_m), state.links_of(track))

    def _grid(self, facts: RoundContext, tracks: int) -> PlaceGrid:
        return PlaceGrid.over(
            facts.public.area, self._span.cell_m, self.hindsight_names + tracks, self.label
        )

    def _maps(
        self, view: View, grid: PlaceGrid, past: ByKey, rng: Rng
    ) -> tuple[IntArray, AnyFloats, ByKey]:
        """Names (n,) ascending, x of each (n, G), all its models together, and the mean map of each
        model.
        """
        score = self._span.scores(view, grid, rng).astype(float)
        score = unit_rows(score - score.mean(axis=1, keepdims=True))
        good = np.flatnonzero(score.any(axis=1))
        model, of_row = np.unique(view.source_model[good], return_inverse=True)
        total = np.zeros((len(model), len(grid)))
        known = past.of(model)
        np.add.at(total, of_row, score[good])
        weight = np.where(np.isfinite(known[:, :1]), _PAST, 0.0)
        count = np.bincount(of_row)[:, None] + weight
        mean = (total + weight * np.nan_to_num(known)) / count
        score[good] -= np.where(count > 1, mean, 0.0)[
            of_row
        ]  # of a first map alone nothing would be left
        name, of_target = np.unique(view.ue, return_inverse=True)
        own = np.zeros((len(name), len(grid)), dtype=np.float32)
        np.add.at(own, of_target, unit_rows(score)[view.source])
        return name, own, past.plus(model, mean)


def _answers(named_m: FloatArray) -> Estimates:
    """Places (K, count, 2) of tracks, best first, as answers."""
    row, rank = np.nonzero(np.isfinite(named_m).all(axis=2))
    weight = (named_m.shape[1] - rank).astype(float)
    return Estimates.of(row, np.zeros_like(row), "answer", named_m[row, rank], weight)
