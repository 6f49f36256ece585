"""Measurements of moving UEs, and one campaign cut among clients: what is held out, remembered, and
who takes part."""

from itertools import product

import numpy as np
from noticed import lines
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, mark

from fl.data.hold_out import Sessions, hold_out_days, is_in_new_block
from fl.data.measured import Measured, Segments
from fl.data.samples import Signals
from fl.types import NEW_PLACE
from netsim.columns import number_row
from netsim.rng import Streams
from netsim.trace_files.read import read_trace
from netsim.ues import Observations
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table

DAY_S = 86_400.0
CELLS = np.array([0, 1, -1])


def observe(n=4000, days=40, ues=5, seed=0):
    """Measurements of UEs that wake for a few bouts a day, in order of nothing."""
    draw = default_rng(seed)
    bout_s = np.floor(draw.uniform(0, days * 24, n // 20)) * 3600.0
    time_s = np.repeat(bout_s, 20) + draw.uniform(0, 600, n // 20 * 20)
    ue = np.repeat(draw.integers(0, ues, n // 20), 20)
    position_m = draw.uniform(-900, 900, (n, 2))
    cell = draw.integers(0, 3, n)
    return Observations(ue, time_s, position_m, cell, draw.normal(-90, 8, n))


def take_rounds(part, observed, round_s, seed=3):
    """What each of all rounds of a part took."""
    state = part.start(5, None)
    rounds = []
    for k in range(int(observed.time_s.max() // round_s) + 1):
        window = observed.select(observed.time_s // round_s == k)
        taken, state = part.take(window, CELLS, state, Streams(seed).derive_rng("data", k + 1))
        rounds.append(taken)
    return rounds


def list_samples(ue, x):
    """Samples by the only numbers that tell them: UE and place."""
    return set(zip(ue.tolist(), x[:, 0].tolist(), strict=True))


def split_samples(part, observed, round_s):
    """What is held out, and what is learnt from."""
    held = set()
    fresh = set()
    for taken in take_rounds(part, observed, round_s):
        held |= list_samples(taken.held_out.ue, taken.held_out.x)
        fresh |= list_samples(taken.fresh.ue[taken.fresh.row_of_sample], taken.fresh.x)
    return held, fresh


BY = [
    {"hold_out_by": "session"},
    {"hold_out_by": "day"},
    {"hold_out_by": "block"},
    {"hold_out_by": ("day", "block")},
    {"hold_out_by": ("session", "block"), "block_m": 50.0},
]


class TestHoldOut:
    @mark.parametrize("by", BY)
    @mark.parametrize("share", [0.2, 0.7])
    def test_fate_depends_neither_on_the_length_of_a_round_nor_on_other_ues(self, by, share):
        observed = observe()
        part = Measured(hold_out=share, **by)
        held, fresh = split_samples(part, observed, DAY_S)
        assert not held & fresh
        assert len(held) + len(fresh) == (observed.cell < 2).sum()
        for round_s in (3000.0, 10 * DAY_S):
            assert split_samples(part, observed, round_s) == (held, fresh)
        alone, _ = split_samples(part, observed.select(observed.ue == 3), DAY_S)
        assert alone == {key for key in held if key[0] == 3}

    def test_days_are_held_out_whole_one_in_each_stretch_and_alike_for_all(self):
        n = 200
        day = np.repeat(np.arange(n), 2)
        x = np.tile(np.arange(2.0 * n)[:, None], 2)
        cell = np.zeros(2 * n, int)
        observed = Observations(np.tile([0, 1], n), day * DAY_S + 5.0, x, cell, cell - 90.0)
        (taken,) = take_rounds(Measured(hold_out_by="day"), observed, 201 * DAY_S)
        day = taken.held_out.x[:, 0].astype(int) // 2
        first, second = (day[taken.held_out.ue == ue] for ue in (0, 1))
        assert_array_equal(first, second)
        assert_array_equal(first // 5, np.arange(n // 5))
        assert len(set(first % 5)) == 5

    @mark.parametrize("seed", range(5))
    def test_of_days_with_data_one_is_held_out_and_one_is_not(self, seed):
        """Wherever they lie: twelve on a hundred days, three, two, with a large share; a single day
        is learnt from."""
        lots = Streams(seed).derive_rng("data", 1)
        for days, share in (
            (np.arange(12) * 9, 0.2),
            (np.array([3, 50, 51]), 0.2),
            (np.array([2, 7]), 0.9),
            (np.arange(3), 0.2),
        ):
            time_s = np.repeat(days, 2) * DAY_S + 5.0
            out = hold_out_days(time_s, days, share, lots)
            assert 0 < out.sum() < len(out)
            assert_array_equal(out[::2], out[1::2])
            by_calendar = hold_out_days(time_s, np.zeros(0, int), share, lots)
            if 0 < by_calendar.sum() < len(out):
                assert_array_equal(out, by_calendar)
        assert not hold_out_days(np.array([4.5 * DAY_S]), np.array([4]), 0.2, lots).any()

    @mark.parametrize("share", [0.25, 0.6, 0.9])
    def test_every_day_with_data_is_held_out_as_often_as_asked(self, share):
        days = np.array([1, 2, 3, 8, 11, 12, 30, 31, 33, 34, 50, 71])
        lots = [Streams(seed).derive_rng("data", 1) for seed in range(2000)]
        out = [hold_out_days(days * DAY_S, days, share, lot) for lot in lots]
        assert_allclose(np.mean(out, axis=0), share, atol=0.05)

    def test_sessions_match_a_loop_over_measurements(self):
        observed = observe(1000)
        last = {}
        number = {}
        expected = np.zeros(1000, int)
        for i in np.argsort(observed.time_s, kind="stable"):
            u = observed.ue[i]
            t = observed.time_s[i]
            number[u] = number.get(u, -1) + (t - last.get(u, -np.inf) > 900.0)
            last[u] = t
            expected[i] = number[u]
        _, session = Sessions.empty(5).add_measurements(observed.ue, observed.time_s, 900.0)
        assert_array_equal(session, expected)

    def test_a_session_shares_its_fate_and_a_shorter_gap_cuts_it(self):
        observed = observe()
        part = Measured(hold_out_by="session", cell="all")
        held, _ = split_samples(part, observed, DAY_S)
        _, session = Sessions.empty(5).add_measurements(observed.ue, observed.time_s, 900.0)
        fates = {}
        for i in np.flatnonzero(observed.cell < 2):
            sample = (observed.ue[i], observed.position_m[i, 0])
            fates.setdefault((session[i], observed.ue[i]), set()).add(sample in held)
        assert {len(fate) for fate in fates.values()} == {1}
        shorter = part.model_copy(update={"session_gap_s": 1.0})
        assert split_samples(shorter, observed, DAY_S)[0] != held

    def test_blocks_are_squares_of_ground_for_all_ues_and_cells(self):
        part = Measured(hold_out_by="block", block_m=300.0)
        (taken,) = take_rounds(part, observe(8000), 41 * DAY_S)
        out, kept = (set(map(tuple, x // 300)) for x in (taken.held_out.x, taken.train.x))
        assert out
        assert kept
        assert not out & kept
        assert len(out) + len(kept) == 36

    def test_no_sample_that_scores_lies_within_the_margin_of_one_that_trains(self):
        """Blocks are drawn with the share, anew for each seed; without a margin theirs are
        neighbours of training samples."""
        part = Measured(hold_out_by="block", block_m=50.0, guard=0.3)

        def take(data, seed):
            (taken,) = take_rounds(data, observe(8000), 41 * DAY_S, seed)
            return taken

        few, same, other = (take(part, seed) for seed in (3, 3, 4))
        whole = take(part.model_copy(update={"guard": 0.0}), 3)
        apart_m, near_m = (
            min(np.abs(taken.train.x - x).max(axis=1).min() for x in taken.held_out.x)
            for taken in (few, whole)
        )
        assert apart_m > 0.3 * 50.0 > 3.0 > near_m
        assert_array_equal(few.held_out.x, whole.held_out.x)
        assert_array_equal(few.train.x, same.train.x)
        assert len(few.held_out.x) / len(few.measured.x) == approx(
            0.2, abs=4 * (0.16 / 36**2) ** 0.5
        )
        assert set(few.held_out.x[:, 0]) != set(other.held_out.x[:, 0])
        assert set(few.train.x[:, 0]) < set(whole.train.x[:, 0])

    def test_new_blocks_are_those_in_which_no_sample_of_the_model_lies(self):
        """Of the third model none is known."""
        draw = default_rng(2)
        model = draw.integers(0, 3, 400)
        known = draw.integers(0, 2, 300)
        place_m = draw.uniform(-400, 400, (400, 2))
        known_m = draw.uniform(-400, 400, (300, 2))
        trained = set(map(tuple, np.column_stack([known, known_m // 70])))
        blocks = map(tuple, np.column_stack([model, place_m // 70]))
        expected = [block not in trained for block in blocks]
        assert is_in_new_block(model, place_m, known, known_m, 70.0).tolist() == expected
        assert 0 < np.mean(expected) < 1

    @mark.parametrize("first", ["sample", "session", "day"])
    def test_of_two_rules_each_holds_out_its_own_and_training_has_neither(self, first):
        observed = observe(8000)

        def collect(by):
            """Group of each sample that is held out, and samples that are learnt from."""
            part = Measured(hold_out_by=by, block_m=300.0 if "block" in by else None)
            groups = {}
            kept = set()
            for taken in take_rounds(part, observed, DAY_S):
                held = taken.held_out
                groups |= zip(held.x[:, 0].tolist(), held.group.tolist(), strict=True)
                kept |= set(taken.train.x[:, 0].tolist())
            return groups, kept

        held, kept = collect((first, "block"))
        by_place, _ = collect("block")
        by_first, _ = collect(first)
        new = {x for x, group in held.items() if group == NEW_PLACE}
        assert new == set(by_place)
        assert set(held) - new == set(by_first) - set(by_place)
        assert not kept & set(held)
        assert len(kept) + len(held) == (observed.cell < 2).sum()
        assert set(by_place.values()) == set(by_first.values()) == {0}


def list_rows(local):
    return list(zip(local.ue.tolist(), local.model.tolist(), strict=True))


class TestMemory:
    @mark.parametrize("participants", ["measuring", "holding"])
    def test_all_is_everything_so_far_of_whoever_takes_part(self, participants):
        part = Measured(memory="all", participants=participants)
        before = Signals.empty()
        for taken in take_rounds(part, observe(), 3 * 3600.0)[:60]:
            before = before.add(Signals.from_local(taken.fresh))
            rows = number_row(taken.train.ue, taken.train.model)
            expected = before.select(np.isin(before.row, rows))
            assert_array_equal(taken.train.x, expected.x)
            assert_array_equal(rows[taken.train.row_of_sample], expected.row)
            if participants == "holding":
                assert_array_equal(rows, np.unique(before.row))
            else:
                assert list_rows(taken.train) == list_rows(taken.measured)

    @mark.parametrize("participants", ["measuring", "holding"])
    def test_a_number_recalls_as_many_old_samples_anew_in_each_round(self, participants):
        observed = observe()
        whole, few = (
            take_rounds(Measured(memory=memory, participants=participants), observed, DAY_S)
            for memory in ("all", 7)
        )
        for a, b in zip(whole, few, strict=True):
            assert list_rows(a.train) == list_rows(b.train)
            fresh = dict(zip(list_rows(b.fresh), b.fresh.count.tolist(), strict=True))
            new = np.array([fresh.get(row, 0) for row in list_rows(a.train)], int)
            assert_array_equal(b.train.count, new + np.minimum(7, a.train.count - new))
            samples = [set(map(tuple, x)) for x in (b.fresh.x, b.train.x, a.train.x)]
            assert samples[0] <= samples[1] <= samples[2]
        quiet = [t for t in few if not len(t.fresh.x)]
        if participants == "holding" and len(quiet) > 1:
            assert not np.array_equal(quiet[0].train.x, quiet[1].train.x)


def test_whoever_holds_records_takes_part_to_the_end(tiny, tmp_path):
    """Six days, in which p0 measures on day 0 only, p1 on days 0 to 2, and nobody later."""
    trace = tmp_path / "drives.csv"
    rows = ["user,time_s,x_m,y_m,cell,rsrp_dbm\n"]
    for (u, day), i in product(((0, 0), (1, 0), (1, 1), (1, 2)), range(10)):
        time_s = DAY_S * day + 30000 + 10 * i
        rows.append(f"p{u},{time_s},{50 * i + 200 * u},{30 * i + 100 * day},a,{-80 - i - 3 * u}\n")
    trace.write_text("".join(rows))
    world = {
        "duration_s": 6 * DAY_S,
        "tick_s": 3600,
        "city": {"kind": "open-field"},
        "ues": {"mobility": {"kind": "replay", "trace": str(trace), "users": "id"}},
    }
    data = {"kind": "measured", "memory": "all", "participants": "holding"}
    study = tiny({"world": world, "learning.round_s": DAY_S, "learning.data": data})
    summary = run(study, tmp_path / "run")
    updates, leakage = (
        read_record_table(tmp_path / "run", name) for name in ("updates", "leakage")
    )
    assert summary["rounds.played"] == 6
    assert summary["samples.count"] == 40
    assert_array_equal(updates["ue"], [0, 1] * 6)
    quiet = updates["samples"] == 0
    assert_array_equal(quiet, [False] * 2 + [True, False] * 2 + [True] * 6)
    for axis in ("x_m", "y_m"):
        assert_array_equal(updates[axis][quiet], updates[f"selected_{axis}"][quiet])
    assert (updates["selected"][quiet] > 0).all()
    assert len(leakage["ue"]) == 12
    heard = quiet & leakage["heard"].astype(bool)
    assert_array_equal(leakage["error_m"][heard], leakage["selected_error_m"][heard])


class TestSegments:
    """One campaign cut among clients, and learnt from in every round."""

    def test_nothing_is_learnt_before_the_campaign_ends_and_the_same_for_ever_after(self):
        part = Segments(campaign_rounds=3)
        state = part.start(0, None)
        rounds = []
        for k in range(6):
            observed = observe(40, ues=3, seed=k)
            taken, state = part.take(observed, ONE_MODEL, state, Streams(3).derive_rng("data", k))
            rounds.append(taken)
        *before, first, _, _, _ = rounds
        for taken in before:
            assert len(taken.measured.ue) == len(taken.train.ue) == len(taken.held_out) == 0
        assert len(first.measured.x) == 120
        assert first.fresh is None
        for taken in rounds[3:]:
            for name, part in product(LOCAL, ("train", "measured")):
                values, expected = (getattr(getattr(t, part), name) for t in (taken, first))
                assert_array_equal(values, expected)
            assert len(taken.held_out) == len(taken.fresh.x) == 0

    def test_every_sample_is_learnt_from_or_held_out_and_exactly_a_fifth_is(self):
        part = Segments()
        whole = observe(200, ues=3)
        taken, _ = part.take(
            whole, ONE_MODEL, part.start(0, None), Streams(3).derive_rng("data", 1)
        )
        x = np.concatenate([taken.train.x, taken.held_out.x])
        assert len(x) == 200
        assert set(map(tuple, x)) == set(map(tuple, whole.position_m))
        for i, ue in enumerate(taken.measured.ue):
            n = taken.measured.count[i]
            assert n == (whole.ue == ue).sum()
            assert (taken.held_out.ue == ue).sum() == round(0.2 * n)
            start, end = taken.measured.ptr[i : i + 2]
            assert (np.diff(taken.measured.time_s[start:end]) > 0).all()

    @mark.parametrize("segments", [1, 3, 7, 50])
    def test_of_a_trace_are_consecutive_equal_parts_in_order_of_time(self, tmp_path, segments):
        """A drive of 50 rows whose two phones wrote one after the other into the file, not in order
        of time."""
        rows = [f"p{i % 2},{10 * i},{3 * i},5,{'ab'[i % 2]},{-80 - i % 17}" for i in range(50)]
        rows = ["user,time_s,x_m,y_m,cell,rsrp_dbm", *rows[1::2], *rows[::2]]
        path = tmp_path / "drive.csv"
        path.write_text("\n".join(rows))
        settings = {"cell": "all", "users": "segments", "segments": segments}
        trace = read_trace(path, **settings, outlier_sigmas=None)
        sizes = np.bincount(trace.user)
        assert len(trace.users) == len(sizes) == segments
        assert sizes.sum() == 50
        assert np.ptp(sizes) <= 1
        assert (np.diff(trace.user[np.argsort(trace.time_s)]) >= 0).all()
        assert trace.users[0] == "segment1"
        assert any("cut into" in line for line in lines(trace.notices))


LOCAL = ("ue", "model", "ptr", "x", "y", "time_s")
ONE_MODEL = np.zeros(3, int)
TWO = Observations(
    np.array([0, 0, 0, 1]), np.array([1.0, 1.0, 2.0, 1.0]), np.arange(8.0).reshape(4, 2),
    np.array([0, 1, 1, 0]), np.array([-90.0, -80.0, -100.0, -70.0]),
)  # fmt: skip


@mark.parametrize("kind", [Segments, Measured])
def test_which_cells_get_a_model_and_the_strongest_signal_of_a_moment(kind):
    for cell, models, of_cell, y, model in (
        ("strongest", "strongest", [0, 0], [-80.0, -100.0, -70.0], [0, 0]),
        ("all", "a b", [0, 1], [-90.0, -80.0, -100.0, -70.0], [0, 1, 0]),
        ("b", "b", [-1, 0], [-80.0, -100.0], [0]),
        ("busiest", "b", [-1, 0], [-80.0, -100.0], [0]),
    ):
        part = kind(cell=cell, hold_out=0.0)
        rng = Streams(3).derive_rng("data", 1)
        chosen = part.choose_models(("a", "b"), np.array([1, 4]))
        model_of_cell = part.assign_models(("a", "b"), chosen)
        train = part.take(TWO, model_of_cell, part.start(2, rng), rng)[0].train
        assert " ".join(chosen) == models
        assert model_of_cell.tolist() == of_cell
        assert (train.y.tolist(), train.model.tolist()) == (y, model)
        assert part.named_cell == ("b" if cell == "b" else None)
