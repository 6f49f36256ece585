r"""Linking of names by score maps: an update under a new name goes to the track whose map it looks
like.
"""

from dataclasses import replace
from typing import Annotated, cast

import numpy as np
from pydantic import Field

from fl.attacks import ATTACKS
from fl.attacks.base import Attack, Attacked, RevisedEstimates, View
from fl.attacks.place_maps import PlaceMaps, normalise_rows
from fl.attacks.span import Span
from fl.tracking.linking import NameLinks
from fl.tracking.place_grid import PlaceGrid
from fl.types import Estimates, RoundContext
from netsim.columns import ByKey, Columns, find_last_rows, frozen, no_ints
from netsim.part import Needs
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

    def find_rows(self, name: IntArray) -> IntArray:
        """Rows of the known names (n,)."""
        return find_last_rows(self.name, name)


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
    def empty(cls) -> "MapTracks":
        """Before the first round."""
        no = no_ints()
        empty = np.zeros((0, 0), dtype=np.float32)
        return cls(NamesSoFar(no, no, no, no, np.zeros(0)), empty, empty, ByKey.empty(1))

    def add_round(
        self, name: IntArray, score: AnyFloats, facts: RoundContext, min_tracks: int, max_names: int
    ) -> "MapTracks":
        """After names (n,) with maps (n, G) in a round; at least min_tracks tracks, the maps of at
        most max_names names.
        """
        new = np.setdiff1d(name, self.names.name)
        n_new = len(new)
        round_ = np.full(n_new, facts.round)
        begun = NamesSoFar(new, np.full(n_new, -1), round_, round_, np.full(n_new, facts.time_s))
        names = NamesSoFar.join([self.names, begun])
        row = names.find_rows(name)
        n_places = score.shape[1]
        names.last[row] = facts.round
        before = self.kept.reshape(len(self.kept), n_places)
        kept = np.concatenate([before, np.zeros((n_new, n_places), np.float32)])
        first = len(names.name) - len(kept)
        is_kept = row >= first
        kept[row[is_kept] - first] += score[is_kept]
        n_tracks = len(self.score)
        in_use = (names.last == facts.round).sum()
        total = np.zeros((max(min_tracks, in_use, n_tracks), n_places), dtype=np.float32)
        total[:n_tracks] = self.score.reshape(n_tracks, n_places)
        is_fresh = names.track[row] < 0
        np.add.at(total, names.track[row[~is_fresh]], score[~is_fresh])
        after = replace(self, names=names, score=total, kept=kept[max(len(kept) - max_names, 0) :])
        fresh = row[is_fresh]
        track = _assign_tracks(score[is_fresh], total, after._find_held_tracks(fresh, names.track))
        names.track[fresh] = track
        total[track] += score[is_fresh]
        return after

    def relink(self, starts: int, rng: Rng) -> tuple[IntArray, AnyFloats]:
        """The track (N,) of each name and the maps (K, G) of all tracks in hindsight: the best of
        `starts` starts.
        """
        latest = slice(len(self.names.name) - len(self.kept), None)
        rounds = np.unique(self.names.since[latest])
        settled = self.score.copy()
        np.subtract.at(settled, self.names.track[latest], self.kept)

        def link_from(start: int) -> tuple[IntArray, AnyFloats]:
            order = rounds
            track = self.names.track.copy()
            total = self.score.copy()
            if start:
                order = rounds[np.argsort(rng.uniform("start", rounds, item=start), kind="stable")]
                track[latest] = -1
                total = settled.copy()
            passes = 0
            while self._relink_rounds(order, track, total) and passes < _MOST_PASSES:
                passes += 1
            return track, total

        links = map(link_from, range(starts))
        return max(links, key=lambda link: np.linalg.norm(link[1], axis=1).sum())

    def list_links(self, track: IntArray) -> list[tuple[float, NameLinks]]:
        """Time of each round, and the links of its names, if they have tracks (N,)."""
        names = self.names
        _, first = np.unique(track, return_index=True)
        born = np.zeros(len(track), dtype=bool)
        born[first] = True
        rounds = []
        for number in np.unique(names.since).tolist():
            rows = np.flatnonzero(names.since == number)
            unknown = np.full(len(rows), np.nan)
            links = NameLinks(number, names.name[rows], track[rows], born[rows], unknown)
            rounds.append((float(names.time_s[rows[0]]), links))
        return rounds

    def _relink_rounds(self, order: IntArray, track: IntArray, total: AnyFloats) -> bool:
        """Whether any name moved as those that came in each round were linked again, in place;
        track -1 : none yet.
        """
        first = len(self.names.name) - len(self.kept)
        moved = False
        for number in order.tolist():
            rows = first + np.flatnonzero(self.names.since[first:] == number)
            score = self.kept[rows - first]
            before = track[rows]
            linked = before >= 0
            np.subtract.at(total, before[linked], score[linked])
            track[rows] = -1
            track[rows] = _assign_tracks(score, total, self._find_held_tracks(rows, track))
            total[track[rows]] += score
            moved |= bool((track[rows] != before).any())
        return moved

    def _find_held_tracks(self, rows: IntArray, track: IntArray) -> BoolArray:
        """Which tracks (n, K) are those of other names that are in use in the same rounds as names
        (n,).
        """
        names = self.names
        begun = names.since <= names.last[rows, None]
        ended = names.last < names.since[rows, None]
        held = np.zeros((len(rows), len(self.score)), dtype=bool)
        row, rival = np.nonzero(begun & ~ended & (track >= 0))
        held[row, track[rival]] = True
        return held


def _assign_tracks(score: AnyFloats, total: AnyFloats, taken: BoolArray) -> IntArray:
    """The track (n,) of maps (n, G), one to one, of largest sum of <x_i, T_k / |T_k|>; taken (n, K)
    ones come last.
    """
    from scipy.optimize import linear_sum_assignment

    length = np.linalg.norm(total, axis=1)
    scale = np.where(length > _EMPTY, 1.0 / np.maximum(length, _EMPTY), 0.0)
    similar = score @ (total * scale[:, None]).T
    _, track = linear_sum_assignment(np.where(taken, _NEVER, -similar))
    return track


class LinkMaps(Attack, kind="link-maps"):
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

    of: Annotated[Attack, ATTACKS.restrict("span")] = Span(add="scores")
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
    def needs(self) -> Needs:  # type: ignore[override]
        """Single updates, and what `of` needs."""
        return {
            "updates": "links single updates by their maps; set threat.observes: updates",
            **self.of.needs,
        }

    @property
    def _span(self) -> Span:
        return cast(Span, self.of)

    def start(self) -> MapTracks:
        return MapTracks.empty()

    def run(self, view: View, facts: RoundContext, state: MapTracks, rng: Rng) -> Attacked:
        grid = self._build_grid(facts, len(state.score))
        name, score, mean = self._compute_maps(view, grid, state.mean, rng)
        state = state.add_round(name, score, facts, self.tracks or 0, self.hindsight_names)
        state = replace(state, mean=mean)
        track = state.names.track[state.names.find_rows(name)]
        return self._span.answer_targets(view, PlaceMaps(name, state.score[track]), grid), state

    def revise(self, state: MapTracks, facts: RoundContext, rng: Rng) -> RevisedEstimates | None:
        if not len(state.names.name):
            return None
        track, score = state.relink(_STARTS, rng)
        named_m = self._span.find_best(
            score, self._build_grid(facts, len(score)), self._span.answers
        )
        return RevisedEstimates(
            state.names.name, track, _build_answers(named_m), state.list_links(track)
        )

    def _build_grid(self, facts: RoundContext, tracks: int) -> PlaceGrid:
        return PlaceGrid.from_area(
            facts.public.area, self._span.cell_m, self.hindsight_names + tracks, self.label
        )

    def _compute_maps(
        self, view: View, grid: PlaceGrid, past: ByKey, rng: Rng
    ) -> tuple[IntArray, AnyFloats, ByKey]:
        """Names (n,) ascending, x of each (n, G), all its models together, and the mean map of each
        model.
        """
        score = self._span.compute_scores(view, grid, rng).astype(float)
        score = normalise_rows(score - score.mean(axis=1, keepdims=True))
        good = np.flatnonzero(score.any(axis=1))
        model, index = np.unique(view.source_model[good], return_inverse=True)
        total = np.zeros((len(model), len(grid)))
        np.add.at(total, index, score[good])
        past_mean = past.look_up(model)
        weight = np.where(np.isfinite(past_mean[:, :1]), _PAST, 0.0)
        count = np.bincount(index)[:, None] + weight
        mean = (total + weight * np.nan_to_num(past_mean)) / count
        common = np.where(count > 1, mean, 0.0)  # of a first map alone nothing would be left
        score[good] -= common[index]
        name, row = np.unique(view.ue, return_inverse=True)
        maps = np.zeros((len(name), len(grid)), dtype=np.float32)
        np.add.at(maps, row, normalise_rows(score)[view.source])
        return name, maps, past.overwrite_values(model, mean)


def _build_answers(named_m: FloatArray) -> Estimates:
    """Places (K, count, 2) of tracks, best first, as answers."""
    row, rank = np.nonzero(np.isfinite(named_m).all(axis=2))
    weight = (named_m.shape[1] - rank).astype(float)
    return Estimates.from_places(row, np.zeros_like(row), "answer", named_m[row, rank], weight)
