"""Measurements of moving UEs, and one campaign cut among clients: what is held out, remembered, and
who takes part."""

from itertools import pairwise

import numpy as np
import pytest
from noticed import lines

from fl.data.hold_out import Sessions, held_out_days, in_new_blocks
from fl.data.measured import Measured, Segments
from fl.data.samples import Signals
from fl.types import NEW_PLACE
from netsim.columns import row_id
from netsim.rng import Streams
from netsim.trace_files.read import read_trace
from netsim.ues import Observations
from scenarios.app.result import run
from scenarios.app.results.folder import read_table

DAY_S = 86_400.0
CELLS = np.array([0, 1, -1])


def observed(n=4000, days=40, ues=5, seed=0):
    """Measurements of UEs that wake for a few bouts a day, in order of nothing."""
    draw = np.random.default_rng(seed)
    bout_s = np.floor(draw.uniform(0, days * 24, n // 20)) * 3600.0
    time_s = np.repeat(bout_s, 20) + draw.uniform(0, 600, n // 20 * 20)
    ue = np.repeat(draw.integers(0, ues, n // 20), 20)
    return Observations(
        ue,
        time_s,
        draw.uniform(-900, 900, (len(ue), 2)),
        draw.integers(0, 3, len(ue)),
        draw.normal(-90, 8, len(ue)),
    )


def taken_by(part, every, round_s):
    """What each of all rounds of a part took."""
    state = part.start(5, None)
    out = []
    for k in range(int(np.ceil((every.time_s.max() + 1) / round_s))):
        window = every.select((every.time_s >= k * round_s) & (every.time_s < (k + 1) * round_s))
        taken, state = part.take(window, CELLS, state, Streams(3).at("data", k + 1))
        out.append(taken)
    return out


def held_out(part, every, round_s):
    """Sorted (ue, time) of what is held out, and of what is learnt from."""
    rounds = taken_by(part, every, round_s)
    held = {
        (int(u), float(x))
        for t in rounds
        for u, x in zip(t.held_out.ue, t.held_out.x[:, 0], strict=True)
    }
    fresh = [(t.fresh.ue[t.fresh.row_of_sample], t.fresh.x[:, 0]) for t in rounds]
    return held, {(int(u), float(x)) for ue, at in fresh for u, x in zip(ue, at, strict=True)}


BY = [
    {"hold_out_by": "session"},
    {"hold_out_by": "day"},
    {"hold_out_by": "block"},
    {"hold_out_by": ("day", "block")},
    {"hold_out_by": ("session", "block"), "block_m": 50.0},
]


class TestHoldOut:
    @pytest.mark.parametrize("by", BY)
    @pytest.mark.parametrize("share", [0.2, 0.7])
    def test_fate_depends_neither_on_the_length_of_a_round_nor_on_other_ues(self, by, share):
        every = observed()
        part = Measured(hold_out=share, **by)
        held, fresh = held_out(part, every, DAY_S)
        assert not held & fresh
        assert len(held) + len(fresh) == (every.cell < 2).sum()
        for round_s in (3000.0, 10 * DAY_S):
            assert held_out(part, every, round_s) == (held, fresh)
        alone, _ = held_out(part, every.select(every.ue == 3), DAY_S)
        assert alone == {key for key in held if key[0] == 3}

    def test_days_are_held_out_whole_one_in_each_stretch_and_alike_for_all(self):
        n = 200
        every = Observations(
            np.tile([0, 1], n),
            np.repeat(np.arange(n), 2) * DAY_S + 5.0,
            np.tile(np.arange(2.0 * n)[:, None], 2),
            np.zeros(2 * n, dtype=np.int64),
            np.full(2 * n, -90.0),
        )
        (taken,) = taken_by(Measured(hold_out=0.2, hold_out_by="day"), every, 201 * DAY_S)
        day = taken.held_out.x[:, 0].astype(int) // 2
        first, second = (day[taken.held_out.ue == ue] for ue in (0, 1))
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(first // 5, np.arange(n // 5))
        assert len(set(first % 5)) == 5

    @pytest.mark.parametrize("seed", range(5))
    def test_of_days_with_data_one_is_held_out_and_one_is_not(self, seed):
        """Wherever they lie: twelve on a hundred days, three, two, with a large share; a single day
        is learnt from."""
        lots = Streams(seed).at("data", 1)
        for days, share in (
            (np.arange(12) * 9, 0.2),
            (np.array([3, 50, 51]), 0.2),
            (np.array([2, 7]), 0.9),
            (np.arange(3), 0.2),
        ):
            time_s = np.repeat(days, 2) * DAY_S + 5.0
            out = held_out_days(time_s, days, share, lots)
            assert 0 < out.sum() < len(out)
            assert (out[::2] == out[1::2]).all()
            by_calendar = held_out_days(time_s, np.zeros(0, dtype=np.int64), share, lots)
            if 0 < by_calendar.sum() < len(out):
                np.testing.assert_array_equal(out, by_calendar)
        assert not held_out_days(np.array([4.5 * DAY_S]), np.array([4]), 0.2, lots).any()

    @pytest.mark.parametrize("share", [0.25, 0.6, 0.9])
    def test_every_day_with_data_is_held_out_as_often_as_asked(self, share):
        days = np.array([1, 2, 3, 8, 11, 12, 30, 31, 33, 34, 50, 71])
        out = [
            held_out_days(days * DAY_S, days, share, Streams(seed).at("data", 1))
            for seed in range(2000)
        ]
        np.testing.assert_allclose(np.mean(out, axis=0), share, atol=0.05)

    def test_sessions_match_a_loop_over_measurements(self):
        every = observed(1000)
        last = {}
        number = {}
        expected = {}
        for i in np.argsort(every.time_s, kind="stable"):
            u = int(every.ue[i])
            t = every.time_s[i]
            number[u] = number.get(u, -1) + (t - last.get(u, -np.inf) > 900.0)
            last[u] = t
            expected[int(i)] = number[u]
        _, session = Sessions.none(5).plus(every.ue, every.time_s, 900.0)
        np.testing.assert_array_equal(session, [expected[i] for i in range(len(every))])

    def test_a_session_shares_its_fate_and_a_shorter_gap_cuts_it(self):
        every = observed()
        part = Measured(hold_out_by="session", cell="all")
        held, _ = held_out(part, every, DAY_S)
        _, session = Sessions.none(5).plus(every.ue, every.time_s, 900.0)
        key = session * 10 + every.ue
        mine = np.array(
            [
                (int(u), float(x)) in held
                for u, x in zip(every.ue, every.position_m[:, 0], strict=True)
            ]
        )
        for one in np.unique(key):
            fates = mine[(key == one) & (every.cell < 2)]
            assert fates.all() or not fates.any()
        assert held_out(part.model_copy(update={"session_gap_s": 1.0}), every, DAY_S)[0] != held

    def test_blocks_are_squares_of_ground_for_all_ues_and_cells(self):
        every = observed(8000)
        (taken,) = taken_by(Measured(hold_out_by="block", block_m=300.0), every, 41 * DAY_S)
        out = {tuple(b) for b in np.floor(taken.held_out.x / 300.0).astype(int)}
        kept = {tuple(b) for b in np.floor(taken.train.x / 300.0).astype(int)}
        assert out
        assert kept
        assert not out & kept
        assert len(out) + len(kept) == 36

    def test_new_blocks_are_those_in_which_no_sample_of_the_model_lies(self):
        draw = np.random.default_rng(2)
        # of the third none is known
        of = draw.integers(0, 3, 400)
        theirs = draw.integers(0, 2, 300)
        at_m = draw.uniform(-400, 400, (400, 2))
        known_m = draw.uniform(-400, 400, (300, 2))
        trained = {(m, *np.floor(place / 70)) for m, place in zip(theirs, known_m, strict=True)}
        expected = [
            (m, *np.floor(place / 70)) not in trained for m, place in zip(of, at_m, strict=True)
        ]
        assert in_new_blocks(of, at_m, theirs, known_m, 70.0).tolist() == expected
        assert 0 < np.mean(expected) < 1

    @pytest.mark.parametrize("first", ["sample", "session", "day"])
    def test_of_two_rules_each_holds_out_its_own_and_training_has_neither(self, first):
        every = observed(8000)
        one = Measured(hold_out_by=first)
        both, block = (
            Measured(hold_out_by=by, block_m=300.0) for by in ((first, "block"), "block")
        )
        held = {}
        by_place = {}
        by_first = {}
        for part, found in ((both, held), (block, by_place), (one, by_first)):
            rounds = taken_by(part, every, DAY_S)
            for t in rounds:
                found |= {
                    float(x): int(g)
                    for x, g in zip(t.held_out.x[:, 0], t.held_out.group, strict=True)
                }
        kept = {float(x) for t in taken_by(both, every, DAY_S) for x in t.train.x[:, 0]}
        assert {x for x, g in held.items() if g == NEW_PLACE} == set(by_place)
        assert {x for x, g in held.items() if g != NEW_PLACE} == set(by_first) - set(by_place)
        assert not kept & set(held)
        assert len(kept) + len(held) == (every.cell < 2).sum()
        assert set(by_place.values()) == set(by_first.values()) == {0}


def pairs(local):
    return list(zip(local.ue.tolist(), local.model.tolist(), strict=True))


class TestMemory:
    @pytest.mark.parametrize("participants", ["measuring", "holding"])
    def test_all_is_everything_so_far_of_whoever_takes_part(self, participants):
        every = observed()
        fresh = []
        rounds = taken_by(Measured(memory="all", participants=participants), every, 3 * 3600.0)
        for taken in rounds[:60]:
            fresh.append(taken.fresh)
            before = Signals.none()
            for local in fresh:
                before = before.plus(Signals.of(local))
            rows = row_id(taken.train.ue, taken.train.model)
            mine = before.select(np.isin(before.row, rows))
            np.testing.assert_array_equal(taken.train.x, mine.x)
            np.testing.assert_array_equal(rows[taken.train.row_of_sample], mine.row)
            if participants == "holding":
                np.testing.assert_array_equal(rows, np.unique(before.row))
            else:
                assert pairs(taken.train) == pairs(taken.measured)

    @pytest.mark.parametrize("participants", ["measuring", "holding"])
    def test_a_number_recalls_as_many_old_samples_anew_in_each_round(self, participants):
        every = observed()
        whole = taken_by(Measured(memory="all", participants=participants), every, DAY_S)
        some = taken_by(Measured(memory=7, participants=participants), every, DAY_S)
        for a, b in zip(whole, some, strict=True):
            assert pairs(a.train) == pairs(b.train)
            now = {pair: int(n) for pair, n in zip(pairs(b.fresh), b.fresh.count, strict=True)}
            expected = [
                now.get(p, 0) + min(7, int(n) - now.get(p, 0))
                for p, n in zip(pairs(a.train), a.train.count, strict=True)
            ]
            np.testing.assert_array_equal(b.train.count, expected)
            assert set(map(tuple, b.train.x)) <= set(map(tuple, a.train.x))
            assert set(map(tuple, b.fresh.x)) <= set(map(tuple, b.train.x))
        quiet = [t for t in some if not len(t.fresh.x)]
        if participants == "holding" and len(quiet) > 1:
            assert not np.array_equal(quiet[0].train.x, quiet[1].train.x)


def test_whoever_holds_records_takes_part_to_the_end(tiny, tmp_path):
    """Six days, in which p0 measures on day 0 only, p1 on days 0 to 2, and nobody later."""
    rows = [
        f"p{u},{DAY_S * day + 30000 + 10 * i},{50 * i + 200 * u},{30 * i + 100 * day},a,{-80 - i - 3 * u}\n"
        for u, days in ((0, (0,)), (1, (0, 1, 2)))
        for day in days
        for i in range(10)
    ]
    (tmp_path / "drives.csv").write_text("user,time_s,x_m,y_m,cell,rsrp_dbm\n" + "".join(rows))
    study = tiny(
        {
            "world": {
                "duration_s": 6 * DAY_S,
                "tick_s": 3600,
                "city": {"kind": "open-field"},
                "ues": {
                    "mobility": {
                        "kind": "replay",
                        "trace": str(tmp_path / "drives.csv"),
                        "users": "id",
                    }
                },
            },
            "learning.round_s": DAY_S,
            "learning.data": {"kind": "measured", "memory": "all", "participants": "holding"},
        }
    )
    summary = run(study, tmp_path / "run")
    updates, leakage = (read_table(tmp_path / "run", name) for name in ("updates", "leakage"))
    assert summary["rounds.played"] == 6
    assert summary["samples.count"] == 40
    np.testing.assert_array_equal(updates["ue"], [0, 1] * 6)
    quiet = updates["samples"] == 0
    np.testing.assert_array_equal(quiet, [False] * 2 + [True, False] * 2 + [True] * 6)
    for axis in ("x_m", "y_m"):
        np.testing.assert_array_equal(updates[axis][quiet], updates[f"selected_{axis}"][quiet])
    assert (updates["selected"][quiet] > 0).all()
    assert len(leakage["ue"]) == 12
    assert (leakage["error_m"] == leakage["selected_error_m"])[
        quiet & leakage["heard"].astype(bool)
    ].all()


class TestSegments:
    """One campaign cut among clients, and learnt from in every round."""

    def test_nothing_is_learnt_before_the_campaign_ends_and_the_same_for_ever_after(self):
        part = Segments(campaign_rounds=3)
        state = part.start(0, None)
        rounds = []
        for k in range(6):
            taken, state = part.take(
                observed(40, ues=3, seed=k), ONE_MODEL, state, Streams(3).at("data", k)
            )
            rounds.append(taken)
        for taken in rounds[:2]:
            assert len(taken.measured.ue) == len(taken.train.ue) == len(taken.held_out) == 0
        first = rounds[2]
        assert len(first.measured.x) == 120
        assert first.fresh is None
        for taken in rounds[3:]:
            for name in ("ue", "model", "ptr", "x", "y", "time_s"):
                np.testing.assert_array_equal(
                    getattr(taken.train, name), getattr(first.train, name)
                )
                np.testing.assert_array_equal(
                    getattr(taken.measured, name), getattr(first.measured, name)
                )
            assert len(taken.held_out) == 0
            assert len(taken.fresh.x) == 0

    def test_every_sample_is_learnt_from_or_held_out_and_exactly_a_fifth_is(self):
        part = Segments()
        whole = observed(200, ues=3)
        taken, _ = part.take(whole, ONE_MODEL, part.start(0, None), Streams(3).at("data", 1))
        found = {tuple(x) for x in taken.train.x} | {tuple(x) for x in taken.held_out.x}
        assert found == {tuple(x) for x in whole.position_m}
        assert len(taken.train.x) + len(taken.held_out) == 200
        for i, ue in enumerate(taken.measured.ue):
            n = taken.measured.count[i]
            assert n == (whole.ue == ue).sum()
            assert (taken.held_out.ue == ue).sum() == round(0.2 * n)
            mine = taken.measured.time_s[taken.measured.ptr[i] : taken.measured.ptr[i + 1]]
            assert (np.diff(mine) > 0).all()

    @pytest.mark.parametrize("segments", [1, 3, 7, 50])
    def test_of_a_trace_are_consecutive_equal_parts_in_order_of_time(self, tmp_path, segments):
        """A drive of 50 rows whose two phones wrote one after the other into the file, not in order
        of time."""
        rows = [f"p{i % 2},{10 * i},{3 * i},5,{'ab'[i % 2]},{-80 - i % 17}\n" for i in range(50)]
        path = tmp_path / "drive.csv"
        path.write_text("user,time_s,x_m,y_m,cell,rsrp_dbm\n" + "".join(rows[1::2] + rows[::2]))
        trace = read_trace(
            path, cell="all", users="segments", segments=segments, outlier_sigmas=None
        )
        sizes = np.bincount(trace.user, minlength=segments)
        assert len(trace.users) == segments
        assert sizes.sum() == 50
        assert sizes.max() - sizes.min() <= 1
        ends = [
            (trace.time_s[trace.user == k].min(), trace.time_s[trace.user == k].max())
            for k in range(segments)
        ]
        assert all(a[1] < b[0] for a, b in pairwise(ends))
        assert trace.users[0] == "segment1"
        assert any("cut into" in n for n in lines(trace.notices))


ONE_MODEL = np.zeros(3, dtype=np.int64)
TWO = Observations(
    np.array([0, 0, 0, 1]), np.array([1.0, 1.0, 2.0, 1.0]), np.arange(8.0).reshape(4, 2),
    np.array([0, 1, 1, 0]), np.array([-90.0, -80.0, -100.0, -70.0]),
)  # fmt: skip


@pytest.mark.parametrize("kind", [Segments, Measured])
def test_which_cells_get_a_model_and_the_strongest_signal_of_a_moment(kind):
    def taken(cell, models):
        part = kind(cell=cell, hold_out=0.0)
        rng = Streams(3).at("data", 1)
        assert part.models(("a", "b"), np.array([1, 4])) == models
        of_cell = part.model_of_cell(("a", "b"), models)
        train = part.take(TWO, of_cell, part.start(2, rng), rng)[0].train
        return of_cell.tolist(), train.y.tolist(), train.model.tolist(), part.named_cell

    assert taken("strongest", ("strongest",)) == ([0, 0], [-80.0, -100.0, -70.0], [0, 0], None)
    assert taken("all", ("a", "b")) == ([0, 1], [-90.0, -80.0, -100.0, -70.0], [0, 1, 0], None)
    for cell, name in (("b", "b"), ("busiest", None)):
        assert taken(cell, ("b",)) == ([-1, 0], [-80.0, -100.0], [0], name)
