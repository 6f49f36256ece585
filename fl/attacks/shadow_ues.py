r"""UEs that an attacker makes up: where they are, and what they measure there.

Nothing here is known of a real UE. A made-up one has a home, and with probability 0.7 a workplace, drawn from the
population that the attacker assumes. On a weekday it leaves home at 8 h and work at 17 h (standard deviations 1 and
1.5 h), on two evenings of five it spends two hours at a third place; on a day without work it goes out with probability
0.7. One UE in five roams instead: it drives between random places all the time. Travel is straight, at 8 m/s.

RSRP follows the path loss of a macro cell, 128.1 + 37.6 log10(d / km) dB, with 8 dB of shadowing in squares of 50 m,
the same in all rounds, so that a UE at rest errs alike in each of them, and 2 dB of noise; scaled to the public mean
and deviation where a learner has them. The published model has learnt the real map and not this one, so that it would
err far more about made-up UEs, and their updates would stand out of any noise. Therefore RSRP is drawn towards what the
model says, until it errs by half of the public deviation: a good map errs by half as much as a constant.
[3GPP TR 36.942, Section 4.5.2, for the path loss; the times are round figures of working days.]
"""

from __future__ import annotations

import numpy as np

from fl.attacks.base import View
from fl.learners.rsrp_net import RsrpNet
from fl.tracking.place_grid import PlaceGrid
from fl.types import Local, RoundContext
from netsim.clock import DAY_S, WEEK_S
from netsim.columns import frozen
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_WORKERS, _EVENINGS, _OUTINGS = 0.7, 0.4, 0.7
ROAMING, SPEED_MPS, _HOUR_S = 0.2, 8.0, 3600.0
STILL_M = 50.0
"""a UE that has moved less between two rounds, m, is at rest"""
_WALK_MPS = 1.4  # at least, from home to work
_MEAN_WAY = 0.52  # between two random places of a square, of its side
_SHADOWING_DB, _DECORRELATION_M, _NOISE_DB, _SAMPLES = 8.0, 50.0, 2.0, 64
_UNLEARNT = 0.5  # of the public deviation is what a good map errs by
_MOST_SAMPLES = 256  # of a UE in a round: more do not change the mean that attacks find


@frozen
class Population:
    """Distribution of people that the attacker assumes: probability (G,) of each place of the grid; which share of them
    roams, and how fast they travel; match_roaming, match_speed : whether that is only where learning begins.
    """

    grid: PlaceGrid
    probability: FloatArray
    roaming: float = ROAMING
    speed_mps: float = SPEED_MPS
    match_roaming: bool = True
    match_speed: bool = True

    @classmethod
    def uniform(cls, grid: PlaceGrid, roaming: float = ROAMING, speed_mps: float = SPEED_MPS) -> Population:
        """Equally everywhere."""
        return cls(grid, np.full(len(grid), 1.0 / len(grid)), roaming, speed_mps)

    def sample(self, unit: FloatArray) -> FloatArray:
        """Places (n, 2) of uniform numbers (n, 3): a cell, and a point in it."""
        share = np.cumsum(self.probability)
        cell = np.minimum(np.searchsorted(share / share[-1], unit[:, 0], side="right"), len(share) - 1)
        return self.grid.place_m[cell] + (unit[:, 1:] - 0.5) * self.grid.cell_m


def positions_m(ue: IntArray, time_s: FloatArray, population: Population, rng: Rng) -> FloatArray:
    """Positions of UEs (n,) at times (n,), seconds since a Monday's midnight: (n, 2)."""
    day = np.floor(time_s / DAY_S).astype(np.int64)
    home, work = (population.sample(rng.uniform(what, ue, (3,))) for what in ("home", "work"))
    third, out = (population.sample(rng.uniform(what, ue, (3,), item=day)) for what in ("third", "out"))
    lot, hours = rng.uniform("lot", ue, (2,)), rng.normal("hours", ue, (4,), item=day)
    chance = rng.uniform("chance", ue, (2,), item=day)
    works = (lot[:, 0] < _WORKERS) & (day % 7 < 5)
    goes = works | (chance[:, 0] < _OUTINGS)
    evening = chance[:, 1] < _EVENINGS
    leaves = np.where(works, 8.0 + hours[:, 0], 13.0 + 2.0 * hours[:, 0])
    returns = np.where(works, 17.0 + 1.5 * hours[:, 1], leaves + 2.0 + np.abs(hours[:, 1]))
    goes_out = np.maximum(returns, leaves + 0.5) + 1.0
    stops = [  # from when on a UE is on its way to where
        (np.where(goes, leaves, np.inf), np.where(works[:, None], work, third)),
        (np.where(goes, np.maximum(returns, leaves + 0.5), np.inf), home),
        (np.where(evening, np.maximum(goes_out, 18.0), np.inf), out),
        (np.where(evening, np.maximum(goes_out, 18.0) + 2.0, np.inf), home),
    ]
    at, now_h = home.copy(), (time_s - day * DAY_S) / _HOUR_S
    for since_h, to in stops:
        gone = np.clip((now_h - since_h) * _HOUR_S * max(population.speed_mps, _WALK_MPS), 0.0, None)
        at = _towards(at, to, np.where(np.isfinite(since_h), gone, 0.0))
    return np.where((lot[:, 1] < population.roaming)[:, None], _roaming(ue, time_s, population, rng), at)


def _towards(at: FloatArray, to: FloatArray, way_m: FloatArray) -> FloatArray:
    """Places (n, 2) on the straight way after way_m (n,), at most at its end."""
    length = np.hypot(*(to - at).T)
    share = np.minimum(np.divide(way_m, length, out=np.ones_like(length), where=length > way_m), 1.0)
    return at + np.where(way_m > 0, share, 0.0)[:, None] * (to - at)


def _roaming(ue: IntArray, time_s: FloatArray, population: Population, rng: Rng) -> FloatArray:
    """Straight ways of equal time, one after the other."""
    leg_s = _MEAN_WAY * float(np.sqrt(np.prod(population.grid.area.side_m))) / population.speed_mps
    leg = np.floor(time_s / leg_s).astype(np.int64)
    a, b = (population.sample(rng.uniform("leg", ue, (3,), item=leg + k)) for k in (0, 1))
    return a + (time_s / leg_s - leg)[:, None] * (b - a)


def made_up(n_ue: int, view: View, facts: RoundContext, population: Population, rng: Rng) -> Local:
    """Measurements of UEs 0 ... n_ue - 1 in the window that has just ended, in rows like those of real ones.

    Each has the models, and the numbers of samples, of one real UE of the view, drawn at random; there must be one.
    """
    likes = np.unique(view.ue)
    pick = likes[(rng.uniform("like", np.arange(n_ue)) * len(likes)).astype(np.int64)]
    by_model = np.argsort(view.model, kind="stable")
    ue, like = np.nonzero(pick[:, None] == view.ue[by_model])
    row = by_model[like]
    model = view.model[row]
    count = np.full(len(ue), _SAMPLES)
    if view.count is not None:
        count = np.clip(view.count[view.source[row]].astype(np.int64), 1, _MOST_SAMPLES)
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    of_sample = np.repeat(np.arange(len(ue)), count)
    number = np.arange(ptr[-1]) - ptr[of_sample]
    ends_s = facts.week_s if np.isfinite(facts.week_s) else facts.time_s % WEEK_S
    window_s = facts.round_s if np.isfinite(facts.round_s) else _HOUR_S
    week_s = ends_s + WEEK_S * (1 + np.floor((facts.time_s + window_s) / WEEK_S)) - window_s
    when_s = week_s + window_s * (number + 0.5) / count[of_sample]
    habits = Rng(rng.seed, rng.purpose)  # the same in all rounds
    x = positions_m(ue[of_sample], when_s, population, habits)
    cell = _cells(x, model[of_sample], facts)
    y = _rsrp_dbm(x, cell, model[of_sample], view, facts, rng)
    return Local(ue, model, ptr, x, y, np.full(len(x), facts.time_s), cell)


def _cells(x: FloatArray, model: IntArray, facts: RoundContext) -> IntArray:
    """The nearest base station's cell (N,) of those that each sample's model learns."""
    antennas, model_of_cell = facts.public.antennas, facts.public.model_of_cell
    if antennas is None or model_of_cell is None:
        return np.zeros(len(x), dtype=np.int64)
    away = np.linalg.norm(x[:, None] - antennas.at_m[:, :2], axis=2)
    own = model_of_cell == model[:, None]
    return np.where(own.any(axis=1), np.where(own, away, np.inf).argmin(axis=1), 0)


def _rsrp_dbm(x: FloatArray, cell: IntArray, model: IntArray, view: View, facts: RoundContext, rng: Rng) -> FloatArray:
    """RSRP (N,) of the samples."""
    antennas, constants = facts.public.antennas, view.model_before.constants
    row, column = np.floor(x / _DECORRELATION_M).astype(np.int64).T
    lasting = Rng(rng.seed, rng.purpose)  # the same in all rounds
    dbm = _SHADOWING_DB * lasting.normal("shadowing", row * 2**20 + column, item=cell)
    dbm = dbm + _NOISE_DB * rng.normal("noise", np.arange(len(x)))
    if antennas is not None:
        away_km = np.maximum(np.linalg.norm(x - antennas.at_m[cell, :2], axis=1), 10.0) / 1000.0
        dbm = dbm + antennas.power_dbm[cell] - 128.1 - 37.6 * np.log10(away_km)
    if not {"rsrp_mean_dbm", "rsrp_std_db"} <= set(constants):
        return dbm
    spread, std_db = float(dbm.std()) or 1.0, constants["rsrp_std_db"][model]
    dbm = constants["rsrp_mean_dbm"][model] + std_db * (dbm - dbm.mean()) / spread
    if not isinstance(view.learner, RsrpNet):
        return np.asarray(dbm)
    expected = view.learner.predict_dbm(view.model_before, model, x)
    with np.errstate(all="ignore"):  # a model that has diverged
        off = float(np.sqrt((((dbm - expected) / std_db) ** 2).mean()))
        nearer = expected + min(_UNLEARNT / off, 1.0) * (dbm - expected)
    return np.asarray(np.where(np.isfinite(nearer), nearer, dbm))
