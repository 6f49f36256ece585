"""One campaign cut among clients, and learnt from in every round."""

from itertools import pairwise

import numpy as np
import pytest

from fl.data.measured import Measured, Segments
from netsim.rng import Streams
from netsim.traces.read import read_trace
from netsim.ues import Observations


def observed(n, first_s=0.0, ues=3, cells=2, seed=0):
    draw = np.random.default_rng(seed)
    return Observations(
        draw.integers(0, ues, n), first_s + draw.choice(1000, n, replace=False).astype(float),
        draw.random((n, 2)), draw.integers(0, cells, n), -90 + draw.normal(size=n),
    )  # fmt: skip


def rng(round_):
    return Streams(3).at("data", round_)


CELL = np.zeros(2, dtype=np.int64)


def trace_file(folder, n, seed=0):
    """A drive of n rows whose two phones wrote one after the other into the file, not in order of time."""
    draw = np.random.default_rng(seed)
    rows = [f"p{i % 2},{10 * i},{3 * i},5,{'ab'[i % 2]},{-80 - draw.random() * 20:.2f}\n" for i in range(n)]
    path = folder / "drive.csv"
    path.write_text("user,time_s,x_m,y_m,cell,rsrp_dbm\n" + "".join(rows[1::2] + rows[::2]))
    return path


class TestData:
    def test_nothing_is_learnt_before_the_campaign_ends_and_the_same_for_ever_after(self):
        part = Segments(campaign_rounds=3)
        state = part.start(0, None)
        pieces = [observed(40, 1000.0 * k, seed=k) for k in range(6)]
        for k in range(2):
            taken, state = part.take(pieces[k], CELL, state, rng(k))
            assert len(taken.measured.ue) == len(taken.train.ue) == len(taken.held_out) == 0
        first, state = part.take(pieces[2], CELL, state, rng(2))
        assert len(first.measured.x) == 120 and first.fresh is None
        for k in range(3, 6):
            taken, state = part.take(pieces[k], CELL, state, rng(k))
            for name in ("ue", "model", "ptr", "x", "y", "time_s"):
                np.testing.assert_array_equal(getattr(taken.train, name), getattr(first.train, name))
                np.testing.assert_array_equal(getattr(taken.measured, name), getattr(first.measured, name))
            assert len(taken.held_out) == 0 and len(taken.fresh.x) == 0

    def test_every_sample_is_learnt_from_or_held_out_and_exactly_a_fifth_is(self):
        part, whole = Segments(), observed(200)
        taken, _ = part.take(whole, CELL, part.start(0, rng(1)), rng(1))
        found = {tuple(x) for x in taken.train.x} | {tuple(x) for x in taken.held_out.x}
        assert found == {tuple(x) for x in whole.position_m}
        assert len(taken.train.x) + len(taken.held_out) == 200
        for i, ue in enumerate(taken.measured.ue):
            n = taken.measured.count[i]
            assert n == (whole.ue == ue).sum() and (taken.held_out.ue == ue).sum() == round(0.2 * n)
            mine = taken.measured.time_s[taken.measured.ptr[i] : taken.measured.ptr[i + 1]]
            assert (np.diff(mine) > 0).all()


class TestTrace:
    @pytest.mark.parametrize("segments", [1, 3, 7, 50])
    def test_consecutive_equal_parts_in_order_of_time(self, tmp_path, segments):
        path = trace_file(tmp_path, 50)
        trace = read_trace(path, cell="all", users="segments", segments=segments, outlier_sigmas=None)
        sizes = np.bincount(trace.user, minlength=segments)
        assert len(trace.users) == segments and sizes.sum() == 50 and sizes.max() - sizes.min() <= 1
        ends = [(trace.time_s[trace.user == k].min(), trace.time_s[trace.user == k].max()) for k in range(segments)]
        assert all(a[1] < b[0] for a, b in pairwise(ends))
        assert trace.users[0] == "segment1" and any("cut into" in n for n in trace.notes)


TWO = Observations(
    np.array([0, 0, 0, 1]), np.array([1.0, 1.0, 2.0, 1.0]), np.arange(8.0).reshape(4, 2),
    np.array([0, 1, 1, 0]), np.array([-90.0, -80.0, -100.0, -70.0]),
)  # fmt: skip


@pytest.mark.parametrize("kind", [Segments, Measured])
def test_which_cells_get_a_model_and_the_strongest_signal_of_a_moment(kind):
    def taken(cell, models):
        part = kind(cell=cell, hold_out=0.0)
        assert part.models(("a", "b"), np.array([1, 4])) == models
        of_cell = part.model_of_cell(("a", "b"), models)
        train = part.take(TWO, of_cell, part.start(2, rng(1)), rng(1))[0].train
        return of_cell.tolist(), train.y.tolist(), train.model.tolist(), part.named_cell

    assert taken("strongest", ("strongest",)) == ([0, 0], [-80.0, -100.0, -70.0], [0, 0], None)
    assert taken("all", ("a", "b")) == ([0, 1], [-90.0, -80.0, -100.0, -70.0], [0, 1, 0], None)
    for cell, name in (("b", "b"), ("busiest", None)):
        assert taken(cell, ("b",)) == ([-1, 0], [-80.0, -100.0], [0], name)
