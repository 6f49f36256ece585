r"""Homes and workplaces from all channels together, weighed as made-up towns teach it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import inf
from typing import Any, Self

import numpy as np
from pydantic import Field, PrivateAttr
from scipy.special import log_softmax, logsumexp

from fl.attacks.base import Attack, Attacked, MadeUpTown, View
from fl.attacks.columns import COLUMNS
from fl.attacks.columns.base import PlaceColumn, Scene, Tally, build_scene
from fl.attacks.place_maps import find_highest_places
from fl.attacks.threat import PARTICIPANTS
from fl.tracking.place_grid import PlaceGrid, compute_disc_masses
from fl.types import Estimates, Public, RoundContext
from netsim.columns import frozen
from netsim.fit import read_toml
from netsim.part import Positive
from netsim.record import TableRows
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, Floats, IntArray

KINDS = ("home", "work")
_MOST_TAUGHT = 40  # UEs of a town
_MOST_NUMBERS = 20_000_000  # of a lesson: 80 MB


@frozen
class Tallies:
    """What all columns remember, by their first names, and the UEs (k,) that were seen."""

    tally: Any  # a dict[str, Tally] with the entries that a checkpoint has
    ue: IntArray


class Fused(Attack, kind="fused"):
    r"""Names homes and workplaces by all that its view grants, as made-up towns teach it.

    With f_u(x) the columns of a UE at the places x, cells of the grid with buildings (see
    `fl.attacks.columns`), the home of UE u is at x with the probability

        P_u(x) = softmax_x(w . f_u(x)).

    Before the run the attacker plays `towns` whole runs of the same setting with seeds of its own,
    in which it knows who lives where, and takes the w that maximises

        sum_u log sum_{|x - h_u| <= hit_radius_m} P_u(x) - |w|^2 / 2

    over all their UEs, with true homes h_u; workplaces have weights of their own. A column whose
    grant is missing is 0 and weighs nothing. Nothing of the real town is learnt but by the columns.
    With `towns: 0` it takes weights that were learnt on the scenario `city`, and worlds that no
    seed draws anew can be attacked.

    Answers: the disc of disc_m with most of P, then that at least `apart_m` from it, of homes
    (`home 1`, `home 2`) and of workplaces.
    """

    towns: int = Field(4, ge=0, le=64)
    """number of made-up towns that weights are learnt on, one run each; 0: weights that come with
    it"""
    cell_m: float = Field(25.0, ge=0.1, le=1e6)
    """largest distance between the places that are compared, m"""
    answers: int = Field(2, ge=1, le=2)
    """number of homes, and of workplaces, that are named of each UE"""
    apart_m: float = Field(200.0, ge=0, le=1e6)
    """smallest distance between two answers of a kind, m"""
    disc_m: Positive = 90.0
    """radius of the disc that holds most probability, m"""
    hit_radius_m: Positive = 100.0
    """distance within which a place counts as right in made-up towns, m"""

    _weights: dict[str, Floats] | None = PrivateAttr(None)

    reference = (
        "A log-linear model over places, learnt on made-up towns; among its columns the ridge "
        "regression of Hoerl and Kennard 1970 on who took part, where Lam et al. 2021 (gradient "
        "disaggregation) solve for raw updates, and the filter of Scharf and Friedlander 1994"
    )
    example = {"kind": "fused", "towns": 0}
    space = {"towns": (4, 0)}
    needs = {
        "positions": "says where UEs live, and these data have no places to compare that with",
        PARTICIPANTS: (
            "asks of each UE what it was in; of published models the threat must say so: add "
            "participants to threat.knowledge; under names that change no UE returns: take "
            "pseudonyms: {kind: permanent}"
        ),
    }

    reads_sums = True
    reads_times = True
    reads_the_city = True

    @property
    def n_towns(self) -> int:  # type: ignore[override]
        return self.towns

    @property
    def is_in_town(self) -> bool:
        """Whether it plays a made-up town, in which it gathers and says nothing."""
        return self.towns > 0 and self._weights is None

    def start(self) -> Tallies:
        return Tallies({}, np.zeros(0, dtype=int))

    def self_test(self, view: View, facts: RoundContext, rng: Rng) -> None:
        """Return None: it reads more than an update."""
        return

    def check(self, public: Public, n_ue: int) -> None:
        # all columns of all UEs are computed at once
        PlaceGrid.from_area(public.area, self.cell_m, n_ue * len(list_column_names()), self.label)

    def run(self, view: View, facts: RoundContext, state: Tallies, rng: Rng) -> Attacked:
        scene = build_scene(facts.public, self.cell_m, self.label)
        tally = {
            column.names[0]: column.observe(view, facts, scene, before, rng)
            for column, before in _list_tallies(state)
        }
        state = Tallies(tally, np.union1d(state.ue, view.ue))
        if self.is_in_town:
            return Estimates.none(), state
        return self._answer(view.ue, view.model, state, scene), state

    def conclude(self, state: Tallies, facts: RoundContext, rng: Rng) -> Estimates | None:
        """Answers about all UEs that were ever seen; None in a made-up town."""
        if self.is_in_town:
            return None
        scene = build_scene(facts.public, self.cell_m, self.label)
        return self._answer(state.ue, np.zeros_like(state.ue), state, scene)

    def compute_columns(self, state: Tallies, scene: Scene, ue: IntArray) -> FloatArray:
        """f_u(x) (k, n, G) of UEs (n,), in the order of `list_column_names`."""
        maps = [column.compute(tally, scene, ue) for column, tally in _list_tallies(state)]
        return np.concatenate(maps, dtype="float32")

    def _answer(self, ue: IntArray, model: IntArray, state: Tallies, scene: Scene) -> Estimates:
        """Homes and workplaces (status) of targets (n,), weighed by the probability of their discs:
        those of a UE, whatever the model.
        """
        names, of_target = np.unique(ue, return_inverse=True)
        columns = self.compute_columns(state, scene, names)
        weights = self._weights or read_general_weights()
        estimates = []
        for kind in KINDS:
            weight_of_column = np.array(weights[kind], dtype=np.float32)
            law = log_softmax(np.tensordot(weight_of_column, columns, axes=1), axis=1)
            probability = np.zeros((len(law), len(scene.grid)), dtype=np.float32)
            probability[:, scene.place] = np.exp(law)
            mass: Any = compute_disc_masses(probability, scene.grid, self.disc_m)
            named_m = find_highest_places(mass, scene.grid.place_m, self.apart_m, self.answers)
            target, rank = np.nonzero(np.isfinite(named_m[of_target, :, 0]))
            row = of_target[target]
            place_m = named_m[row, rank]
            weight = mass[row, scene.grid.find_cells(place_m)].astype(float)
            status = [f"{kind} {k + 1}" for k in rank.tolist()]
            estimates.append(
                Estimates.from_places(ue[target], model[target], "answer", place_m, weight, status)
            )
        return Estimates.join(estimates)

    def take_lesson(self, state: Tallies, town: MadeUpTown, rng: Rng) -> dict[str, Any]:
        """Columns (k, n, G) of the UEs (n,) of a made-up town, 40 at most, fewer of many places,
        the places (G, 2), and where the UEs live and work, (n, 2).
        """
        scene = build_scene(town.facts.public, self.cell_m, self.label)
        most = _MOST_NUMBERS // (len(list_column_names()) * len(scene.place))
        taught = np.flatnonzero(np.isin(town.ue, state.ue))[: max(min(most, _MOST_TAUGHT), 1)]
        return {
            "columns": self.compute_columns(state, scene, town.ue[taught]),
            "place_m": scene.place_m,
            "home": town.home_m[taught],
            "work": town.work_m[taught],
        }

    def learn(self, lessons: Sequence[Any]) -> Self:
        learnt = self.model_copy()
        learnt._weights = {kind: self._fit_weights(lessons, kind) for kind in KINDS}
        return learnt

    def _fit_weights(self, lessons: Sequence[Any], kind: str) -> Floats:
        """w (k,) of most likelihood, by L-BFGS from 0; 0 where no UE has such a place."""
        from scipy.optimize import minimize  # here, so that checking a scenario does not pay for it

        towns = []
        for lesson in lessons:
            away_m = np.linalg.norm(lesson[kind][:, None] - lesson["place_m"], axis=2)
            is_near = away_m <= self.hit_radius_m
            row = np.flatnonzero(is_near.any(axis=1))
            towns.append((lesson["columns"][:, row].astype(float), is_near[row]))
        n = len(list_column_names())
        found = minimize(_compute_loss, np.zeros(n), (towns,), jac=True, method="L-BFGS-B")
        return tuple(found.x.tolist())

    def tabulate_learnt(self) -> TableRows:
        if self.is_in_town:
            return []
        weights = self._weights or read_general_weights()
        return [
            {"kind": kind, "column": name, "weight": weight}
            for kind in KINDS
            for name, weight in zip(list_column_names(), weights[kind], strict=True)
        ]


def _compute_loss(
    weight: FloatArray, towns: Sequence[tuple[FloatArray, BoolArray]]
) -> tuple[float, FloatArray]:
    """The negative of what w (k,) maximises, and its slope (k,), over towns of columns (k, n, G)
    and places near the truth (n, G).
    """
    loss = float(0.5 * weight @ weight)
    slope = weight.copy()
    for columns, is_near in towns:
        score = np.tensordot(weight, columns, axes=1)
        near = np.where(is_near, score, -inf)
        of_all = logsumexp(score, axis=1, keepdims=True)
        of_near = logsumexp(near, axis=1, keepdims=True)
        loss += float((of_all - of_near).sum())
        slope += np.tensordot(columns, np.exp(score - of_all) - np.exp(near - of_near), axes=2)
    return loss, slope


def _list_tallies(state: Tallies) -> list[tuple[PlaceColumn, Tally]]:
    """All columns, and what each remembers."""
    return [(column, state.tally.get(column.names[0], {})) for column in COLUMNS]


def list_column_names() -> list[str]:
    """Names of all numbers of all columns, in order."""
    return [name for column in COLUMNS for name in column.names]


@cache
def read_general_weights() -> dict[str, Floats]:
    """Weights (k,) of each kind that come with it, 0 of a column that it was not learnt with."""
    table = read_toml(__package__, "fused.toml")
    return {
        kind: tuple(table[kind].get(name, 0.0) for name in list_column_names()) for kind in KINDS
    }
