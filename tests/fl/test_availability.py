"""Who may be asked and when: homes, nights on a charger, the time of day, batteries."""

from datetime import date, datetime
from pathlib import Path
from typing import ClassVar, Literal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from fl_values import read_changes
from numpy.testing import assert_allclose, assert_array_equal

from fl.availability import AVAILABILITIES, Always, AtHome, Battery, Charge, Charging, Conditions
from netsim.clock import DAY_S
from netsim.errors import BadInput
from netsim.rng import Streams
from netsim.traces.trace import build_wall_clock, find_midnight
from scenarios.app.result import run
from scenarios.app.run.setup import prepare_run

HOUR_S = 3600.0
RNG = Streams(5).derive_rng("availability")
KINDS = sorted(AVAILABILITIES.parts)


def built(kind):
    part = AVAILABILITIES.parts[kind]
    return part.model_validate(part.example)


def build_conditions(time_s, n=3, wall_s=None, position_m=None, home_m=None):
    """n UEs at home, the wall clock as the time unless it says otherwise."""
    if home_m is None:
        home_m = np.zeros((n, 2))
    else:
        home_m = np.array(home_m, dtype=float)
    position_m = home_m if position_m is None else np.array(position_m, dtype=float)
    wall_s = time_s if wall_s is None else wall_s
    return Conditions(time_s, wall_s, position_m, home_m, *np.full((4, len(home_m)), np.nan))


def find_there(part, time_s, n=3, wall_s=None, rng=RNG):
    """Who is available, of a rule without memory."""
    return part.find_available(build_conditions(time_s, n, wall_s), part.start(n), rng)[0]


# --- every rule
# ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_adding_a_ue_changes_nothing_for_the_others(kind):
    part = built(kind)
    few = part.start(20)
    many = part.start(41)
    for time_s in (0.0, 7 * HOUR_S, 30 * HOUR_S):
        few_ready, few = part.find_available(build_conditions(time_s, 20), few, RNG)
        many_ready, many = part.find_available(build_conditions(time_s, 41), many, RNG)
        assert few_ready.dtype == many_ready.dtype == np.bool_
        assert few_ready.tolist() == many_ready[:20].tolist()


def test_draws_hang_on_seed_ue_and_time_alone():
    part = built("charging")
    time_s = 22.5 * HOUR_S
    assert find_there(part, time_s, 200).tolist() == find_there(part, time_s, 200).tolist()
    another = find_there(part, time_s, 200, rng=Streams(6).derive_rng("availability"))
    assert (find_there(part, time_s, 200) != another).sum() > 20


# --- at home
# ----------------------------------------------------------------------------------------


def test_a_ue_is_available_up_to_the_radius_around_its_own_home():
    home_m = [[0, 0], [1000, 0], [1000, 0], [np.nan, np.nan], [0, 0]]
    position_m = [[30, 40], [0, 0], [1000, 50.01], [0, 0], [np.nan, np.nan]]
    conditions = build_conditions(0.0, position_m=position_m, home_m=home_m)
    assert AtHome(radius_m=50).find_available(conditions, None, RNG)[0].tolist() == [
        True,
        False,
        False,
        False,
        False,
    ]


def test_at_home_is_refused_where_nobody_has_a_home(tiny):
    study = tiny({"learning.availability": {"kind": "at-home"}})
    with pytest.raises(
        BadInput,
        match=r"learning\.availability: at-home needs homes: .* random-waypoint gives none",
    ):
        prepare_run(study, Path())
    commuters = {"world.ues.mobility": {"kind": "commuter"}, "world.ues.measurement_period_s": None}
    prepare_run(tiny({"learning.availability": {"kind": "at-home"}, **commuters}), Path())


# --- on the charger at night
# ----------------------------------------------------------------------------------------

PUNCTUAL = Charging(from_spread_hours=0, length_spread_hours=0)  # from 22 to 6 h


def test_each_night_is_one_stretch_around_midnight_of_the_length_that_is_drawn():
    n = 500
    nights = 12
    step_s = 600.0
    part = Charging(hours=7, length_spread_hours=1.0, from_spread_hours=0.75)
    times_s = np.arange(12 * HOUR_S, 12 * HOUR_S + nights * DAY_S, step_s)
    # (night, instant, ue)
    plugged = np.array([find_there(part, t, n) for t in times_s]).reshape(nights, -1, n)
    begins = (np.diff(plugged.astype(int), axis=1) == 1).sum(axis=1)
    assert not plugged[:, 0].any()
    assert not plugged[:, -1].any()
    assert (begins == 1).all()
    length_h = plugged.sum(axis=1) * step_s / HOUR_S
    middle_h = (
        12
        + (plugged * np.arange(plugged.shape[1])[None, :, None]).sum(axis=1)
        / plugged.sum(axis=1)
        / 6
    )
    bound = 5 / np.sqrt(n * nights)
    assert abs(length_h.mean() - 7) < bound
    assert abs(length_h.std() - 1) < 0.05
    assert abs(middle_h.mean() - (22 + 3.5)) < 0.1
    assert abs(np.corrcoef(plugged.argmax(axis=1).ravel(), length_h.ravel())[0, 1]) < 0.07
    own_h = length_h.mean(axis=0)  # nights are independent: means over nights vary as much less
    assert own_h.std() == pytest.approx(1 / np.sqrt(nights), rel=0.2)


@pytest.mark.parametrize(("day", "night_hours"), [(date(2026, 10, 24), 9), (date(2026, 3, 28), 7)])
def test_nights_follow_the_wall_clock_when_it_changes(day, night_hours):
    zone = ZoneInfo("Europe/Berlin")
    first, midnight_s = find_midnight(
        datetime(day.year, day.month, day.day, 12, tzinfo=zone).timestamp(), zone
    )
    clock = build_wall_clock(first, midnight_s, zone, 4 * DAY_S)
    times_s = np.arange(12 * HOUR_S, 60 * HOUR_S, 60.0)
    wall_s = clock.wall_s(times_s)
    seen = np.array(
        [find_there(PUNCTUAL, t, 1, w)[0] for t, w in zip(times_s, wall_s, strict=True)]
    )
    assert seen[: 26 * 60].sum() == night_hours * 60
    assert seen[26 * 60 :].sum() == 8 * 60
    first_night = wall_s[: 26 * 60][seen[: 26 * 60]] % DAY_S // HOUR_S
    expected = {22, 23, 0, 1, 3, 4, 5} | ({2} if night_hours == 9 else set())
    assert set(first_night.astype(int)) == expected


# --- batteries
# ----------------------------------------------------------------------------------------


def test_what_a_battery_holds_is_what_it_began_with_plus_charged_minus_spent_up_to_its_capacity():
    part = Battery(capacity_j=1e5, start_share=0.5, charge_w=2.0, min_charge_share=0)
    rng = np.random.default_rng(1)
    n = 30
    state = part.start(30)
    expected_j = np.full(n, 5e4)
    last_s = 0.0
    for time_s in np.cumsum(rng.uniform(0, 20 * HOUR_S, 40)):
        _, state = part.find_available(build_conditions(time_s, n), state, RNG)
        plugged_s = Charging().measure_charging_s(n, last_s, time_s, RNG)
        expected_j = np.minimum(expected_j + 2.0 * plugged_s, 1e5)
        last_s = time_s
        np.testing.assert_allclose(state.charge_j, expected_j, rtol=1e-9)
        ue = np.sort(rng.choice(n, 12, replace=False))
        energy_j = part.get_max_energy_j(state)[ue] * rng.uniform(0, 1, 12)
        state = part.spend_energy(ue, energy_j, state)
        expected_j[ue] -= energy_j
        assert (state.charge_j >= 0).all()
    assert state.charge_j.max() <= 1e5


def test_a_ue_is_asked_from_its_least_share_on_and_never_with_nothing():
    part = Battery(capacity_j=100.0, charge_w=0, min_charge_share=0.2)
    state = Charge(np.array([19.9, 20.0, 0.0]), 0.0)
    assert part.find_available(build_conditions(5.0), state, RNG)[0].tolist() == [
        False,
        True,
        False,
    ]
    part = part.model_copy(update={"min_charge_share": 0.0})
    assert part.find_available(build_conditions(5.0), state, RNG)[0].tolist() == [True, True, False]


@pytest.mark.parametrize("shift_h", [-1, 24])
def test_a_wall_clock_that_jumps_adds_no_energy(shift_h):
    """A night without end: only elapsed time charges, whatever the wall clock does."""
    nights = Charging(hours=24, from_spread_hours=0, length_spread_hours=0)
    part = Battery(capacity_j=1e9, start_share=0, charge_w=1.0, charging=nights)
    _, state = part.find_available(build_conditions(HOUR_S), part.start(3), RNG)
    _, state = part.find_available(
        build_conditions(1.5 * HOUR_S, wall_s=(1.5 + shift_h) * HOUR_S), state, RNG
    )
    np.testing.assert_allclose(state.charge_j, 1.5 * HOUR_S, rtol=1e-12)


# --- in a run
# ----------------------------------------------------------------------------------------

DRAINED = read_changes("""
world.duration_s: 300
world.ues.training_s_per_sample: 0.1
world.ues.compute_j_per_sample: 1.0
world.radio.uplink: {kind: noma, norm_bound: 1.0}
world.radio.dynamic_uplink: {}
learning.availability:
  kind: battery
  capacity_j: 25
  min_charge_share: 0.2
  charge_w: 0.05
  charging: null
""")


def test_in_a_run_batteries_empty_updates_are_lost_and_ues_are_asked_again_when_charged(
    tiny, tmp_path
):
    run(tiny(DRAINED), tmp_path)
    links, sent = (
        pd.read_csv(tmp_path / f"{k}.csv", index_col=["round", "ue"])
        for k in ("links", "transmissions")
    )
    assert (sent.fate == "exhausted").sum() >= 2
    assert (sent.fate == "arrived").sum() >= 4
    for ue in range(4):
        charge_j = 25.0
        for number in range(1, 6):
            charge_j = min(25.0, charge_j + 0.05 * 60.0)
            assert ((number, ue) in sent.index) == (charge_j >= 5.0)
            if (number, ue) in sent.index:
                spent_j = links.energy_j[number, ue]
                assert spent_j <= charge_j * (1 + 1e-6)
                expected = spent_j == pytest.approx(charge_j, rel=1e-6)
                assert (sent.fate[number, ue] == "exhausted") == (expected)
                charge_j -= spent_j


# --- the last link
# ----------------------------------------------------------------------------------------


class StrongestHalf(Always):
    """The half of the UEs with the strongest last links, and those that have sent nothing yet."""

    kind: Literal["strongest-half"] = "strongest-half"
    by_place = by_history = True
    seen: ClassVar[list[Conditions]] = []

    def find_available(self, conditions, state, rng):
        type(self).seen.append(conditions)
        known = np.nan_to_num(conditions.rsrp_dbm, nan=np.inf)
        return known >= np.median(known), state


LOSSY = {
    "world.radio.uplink": {"kind": "oma", "decoding": "error-free", "deadline_s": 1.2e-4},
    "world.duration_s": 600,
}
ON_AIR = {
    "learning.server": {"kind": "fedbuff", "buffer": 2},
    "world.radio.dynamic_uplink": {},
}


@pytest.mark.filterwarnings("ignore:Pydantic serializer")  # a rule that no slot has
@pytest.mark.parametrize("changes", [{}, ON_AIR], ids=["rounds", "air"])
def test_a_rule_may_ask_the_ues_with_the_strongest_last_links(
    tiny, tmp_path, monkeypatch, check_resumed, changes
):
    monkeypatch.setattr(StrongestHalf, "seen", [])
    study = tiny(LOSSY | changes)
    learning = study.learning.model_copy(update={"availability": StrongestHalf()})
    study = study.model_copy(update={"learning": learning})
    run(study, tmp_path)
    links = pd.read_csv(tmp_path / "links.csv")
    seen = list(StrongestHalf.seen)
    for conditions in seen:
        last = links[links.time_s < conditions.time_s].groupby("ue").last()
        assert_array_equal(np.flatnonzero(np.isfinite(conditions.rsrp_dbm)), last.index)
        assert_array_equal(conditions.lost[last.index], 1 - last.decoded)
        assert_allclose(conditions.rsrp_dbm[last.index], last.rsrp_dbm, atol=1e-3)
        assert_allclose(conditions.rate_bps[last.index], last.rate_bps, rtol=1e-4)
    assert {0.0, 1.0} <= {lost for conditions in seen for lost in conditions.lost.tolist()}
    assert links[links.time_s > 60].groupby("time_s").ue.nunique().max() == 2
    check_resumed(study, 4)
