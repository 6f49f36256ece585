"""Homes told by the cells of uploads at night: the law by hand, planted homes, nulls, hours, grants, and resuming."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_arrival_times import AREA, LEARNER, PAIR_M, RNG, public_of, view_of

from fl.attacks.arrival_times import levels_db
from fl.attacks.home_cells import HomeCells, log_law
from fl.attacks.threat import CELLS, Threat
from fl.tracking.place_grid import PlaceGrid
from fl.types import DenseUpdates, Model, Received, RoundContext, Timing
from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.clock import DAY_S

HOUR_S = 3600.0


def attack_of(**more):
    return HomeCells.model_validate_json(json.dumps({"kind": "home-cells", **more}), strict=True)


def town(n_cell=7, seed=0):
    """Cells at random places, and buildings of which some have far more floors."""
    rng = np.random.default_rng(seed)
    at_m = np.column_stack([AREA.sample(rng.uniform(size=(n_cell, 2))), np.full(n_cell, 25.0)])
    house_m = AREA.sample(rng.uniform(size=(30, 2)))
    area_m2 = 10 ** rng.uniform(2, 4, size=30)
    public = replace(public_of(at_m), n_cell=n_cell, floor_area=np.column_stack([house_m, area_m2]))
    return public, house_m, area_m2 / area_m2.sum()


def played(attack, public, rounds, state=None):
    """rounds: (hour of the day of the request, cell of each UE), -1 for one that sends nothing."""
    state, found = attack.start() if state is None else state, None
    for number, (hour, cell) in enumerate(rounds, 1):
        cell = np.asarray(cell)
        ue = np.flatnonzero(cell >= 0)
        time_s = 7 * DAY_S + hour * HOUR_S
        view = view_of(ue, cell[ue], np.ones(len(ue)), requested_s=time_s)
        found, state = attack.run(view, RoundContext(number, time_s, public, week_s=time_s % (7 * DAY_S)), state, RNG)
    return found, state


def best(found, n):
    first = {}
    for ue, place, weight in zip(found.ue.tolist(), found.position_m, found.weight, strict=True):
        if ue not in first or weight > first[ue][0]:
            first[ue] = weight, place
    return np.array([first[u][1] for u in range(n)])


def test_the_law_of_cells_is_a_softmax_of_levels_with_a_floor():
    public, _, _ = town()
    place_m = np.array([[100.0, 200.0], [1500.0, 900.0], PAIR_M[0, :2]])
    slow = np.zeros((7, 3))
    for g, (x, y) in enumerate(place_m):
        away = [max(np.sqrt((x - ax) ** 2 + (y - ay) ** 2 + 23.5**2), 10.0) for ax, ay, _ in public.antennas.at_m]
        odds = [np.exp(-35 * np.log10(d) / 5.0) for d in away]
        slow[:, g] = np.log(np.maximum(np.array(odds) / sum(odds), 0.02))
    assert_allclose(log_law(place_m, public), slow, rtol=1e-12)


def test_the_answer_is_the_disc_with_most_of_prior_times_law():
    """By loops: prior of buildings, geometric mean of the law to the power of four uploads at most."""
    public, _, _ = town()
    attack, cells = attack_of(answers=1), [3, 3, 5, 3, 3, 5]
    found, _ = played(attack, public, [(0, [b]) for b in cells])
    grid = PlaceGrid.over(AREA, 25.0, 1, "")
    law = log_law(grid.place_m, public)
    log_p = np.log(attack.population.probability(grid, public)) + 4 * np.mean([law[b] for b in cells], axis=0)
    p = np.exp(log_p - log_p.max())
    held = [p[np.hypot(*(grid.place_m - c).T) <= 100].sum() for c in grid.place_m]
    at = np.hypot(*(grid.place_m - found.position_m[0]).T).argmin()
    assert held[at] > 0.97 * max(held)  # cells on the rim count by their share here, and wholly there


def test_planted_homes_are_found_and_those_of_others_are_not():
    public, house_m, share = town(n_cell=15)
    rng = np.random.default_rng(4)
    home_m = house_m[rng.choice(len(house_m), size=300, p=share)]
    level = np.array(list(levels_db(home_m, public.antennas, 1.5)))
    rounds = [(hour, (level + 3 * rng.normal(size=level.shape)).argmax(axis=0)) for hour in (0, 6) * 4]
    found, _ = played(attack_of(), public, rounds)
    named_m = best(found, 300)
    away_m = np.hypot(*(named_m - home_m).T)
    others_m = np.hypot(*(named_m - home_m[rng.permutation(300)]).T)
    most = np.hypot(*(house_m[share.argmax()] - home_m).T)  # whoever names the largest house of all
    hits = [(some <= 100).mean() for some in (away_m, others_m, most)]
    assert hits[0] > 0.6 > 3 * hits[1] and hits[0] > 2 * hits[2]


@pytest.mark.parametrize(("hours", "hour", "told"), [
    ([0, 6], 0, True), ([0, 6], 6, True), ([0, 6], 7, False), ([0, 6], 18, False),
    ([22, 6], 23, True), ([22, 6], 24, True), ([22, 6], 12, False),
])  # fmt: skip
def test_only_uploads_of_the_home_hours_count(hours, hour, told):
    public, _, _ = town()
    found, state = played(attack_of(home_hours=hours), public, [(hour, [2, 4])])
    assert state.score.sum() == 2 * told and np.isfinite(found.position_m).all() == told
    assert set(found.status) == {"ok" if told else "no gradient"}


def test_what_is_remembered_survives_a_checkpoint(tmp_path):
    public, _, _ = town()
    attack, rounds = attack_of(), [(0, [1, 2, 3]), (6, [1, -1, 3]), (0, [4, 2, -1]), (6, [1, 2, 3])]
    whole, _ = played(attack, public, rounds)
    _, half = played(attack, public, rounds[:2])
    save_tree(tmp_path / "state", to_tree(half))
    again, _ = played(attack, public, rounds[2:], from_tree(load_tree(tmp_path / "state"), attack.start()))
    assert_array_equal(again.position_m, whole.position_m)


class TestCellsHidden:
    """`threat.cells: false`: names and times stay, and cells are in no view."""

    @pytest.mark.parametrize("observes", ["updates", "aggregate"])
    @pytest.mark.parametrize("cells", [True, False])
    def test_a_view_has_cells_only_where_they_are_granted(self, observes, cells):
        threat, n = Threat(observes=observes, cells=cells), 3
        made = DenseUpdates(np.arange(n), np.zeros(n, int), np.ones(n), np.ones((n, 3)))
        timing = Timing(np.zeros(n), np.ones(n), np.array([2, 0, 1]), np.ones(n), np.zeros(n, int))
        every, model = np.ones(n, dtype=bool), Model(np.zeros((1, 3)))
        view = threat.view(LEARNER, "all", Received(made, every), np.ones(n), every, (model, model), RNG, timing)
        assert view.timing.base_station.tolist() == ([2, 0, 1] if cells else [-1, -1, -1])
        assert view.timing.arrived_s.tolist() == [1, 1, 1] and view.ue.tolist() == [0, 1, 2]
        assert (CELLS in threat.offers) == cells
