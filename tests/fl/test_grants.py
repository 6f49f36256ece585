"""What a threat grants of uploads beside their content: arrival times, and who was asked."""

import json
from dataclasses import fields, is_dataclass
from itertools import chain

import numpy as np
from fl_values import build_updates
from linked import SERVERS
from noticed import by_key, of_run
from numpy.testing import assert_array_equal
from pytest import mark
from refused import catch_line

from fl.attacks.arrival_times import ArrivalTimes
from fl.attacks.closed_form import ClosedForm
from fl.attacks.threat import ARRIVAL_TIMES, CELLS, Threat
from fl.learners.rsrp_net import RsrpNet
from fl.types import Model, Received, Timing
from netsim.rng import Streams
from scenarios.app.result import run

RNG = Streams(3).derive_rng("tests", 1)
LEARNER = RsrpNet(hidden=(2,))
LOST = {
    "world.ues.count": 12,
    "world.radio.uplink": {"kind": "oma", "decoding": "error-free", "deadline_s": 5e-4},
}


def grant(threat, decoded, arrived_s, targeted=None, ue=(5, 2, 2, 9, 7)):
    """View of five rows of four UEs, with delays."""
    n = len(ue)
    received = Received(build_updates(np.ones((n, 3)), np.array(ue)), np.array(decoded))
    targeted = np.ones(n, dtype=bool) if targeted is None else np.array(targeted)
    timing = Timing(
        np.full(n, 1.0), np.array(arrived_s, float), np.arange(n), np.ones(n), np.arange(n)
    )
    models = (Model(np.zeros((1, 3))),) * 2
    return threat.grant_view(
        LEARNER, "all", received, np.ones(n), targeted, models, RNG, timing, np.zeros(n, int)
    )


def list_arrays(value, skipped=("learner", "replica")):
    """All arrays of a view with the paths to them, those of its parts included."""
    if isinstance(value, np.ndarray):
        yield "", value
    elif isinstance(value, tuple | list):
        for k, part in enumerate(value):
            yield from ((f"{k}.{path}", array) for path, array in list_arrays(part))
    elif isinstance(value, dict):
        for key, part in sorted(value.items()):
            yield from ((f"{key}.{path}", array) for path, array in list_arrays(part))
    elif is_dataclass(value):
        for field in fields(value):
            if field.name not in skipped:
                part = getattr(value, field.name)
                yield from ((f"{field.name}.{path}", array) for path, array in list_arrays(part))


def watch(monkeypatch):
    """The views and the contexts that an attack gets from now on."""
    seen = []
    original = ClosedForm.run

    def note(self, view, facts, *rest):
        if not np.isin("self-test", rest[-1].purpose.split(".")):
            seen.append((view, facts))
        return original(self, view, facts, *rest)

    monkeypatch.setattr(ClosedForm, "run", note)
    return seen


# -- arrival times


@mark.parametrize("observes", ["updates", "aggregate"])
def test_hidden_times_are_in_no_array_of_a_view(observes):
    threat = Threat(observes=observes, times=False)
    early, late = (grant(threat, [True] * 5, [when] * 5) for when in (2.0, 60.0))
    for (path, a), (again, b) in zip(list_arrays(early), list_arrays(late), strict=True):
        assert path == again
        assert_array_equal(a, b, err_msg=path)
    assert np.isnan(early.timing.arrived_s).all()
    assert not early.timing.staleness.any()
    assert early.timing.base_station.tolist() == [0, 1, 2, 3, 4]
    assert early.timing.requested_s.tolist() == [1] * 5
    granted = grant(Threat(observes=observes), [True] * 5, [2, 3, 4, 5, 6])
    assert granted.timing.arrived_s.tolist() == [2, 3, 4, 5, 6]
    assert granted.timing.staleness.tolist() == [0, 1, 2, 3, 4]


@mark.parametrize("times", [True, False])
@mark.parametrize("cells", [True, False])
def test_times_and_cells_are_granted_each_by_itself(times, cells):
    threat = Threat(observes="aggregate", times=times, cells=cells)
    assert (ARRIVAL_TIMES in threat.offers) == times
    assert (CELLS in threat.offers) == cells
    timing = grant(threat, [True] * 5, [2.0] * 5).timing
    assert np.isfinite(timing.arrived_s).all() == times
    assert (timing.base_station >= 0).all() == cells


@mark.parametrize("observes", ["updates", "aggregate"])
def test_runs_that_differ_in_arrival_times_alone_have_the_same_views(
    observes, tiny, tmp_path, monkeypatch
):
    """Phones of other speeds over an ideal uplink: all updates come, at other times."""
    seen = watch(monkeypatch)
    pieces = []
    for times in (False, True):
        for speed_s in (0.0, 0.01):
            seen.clear()
            changes = {
                "world.ues.training_s_per_sample": speed_s,
                "learning.threat": {"observes": observes, "times": times},
                "world.radio.uplink": {"kind": "ideal"},
                "learning.attacks": [{"kind": "closed-form"}] if observes == "updates" else [],
            }
            if observes == "aggregate":
                monkeypatch.setattr(ClosedForm, "needs", {})
                changes["learning.attacks"] = [{"kind": "closed-form"}]
            run(tiny(changes), tmp_path / f"{times}-{speed_s}")
            assert all(facts.channel is None for _, facts in seen)
            pieces.append([list(list_arrays(view)) for view, _ in seen])
    hidden, slow, granted, slow_granted = pieces
    assert len(hidden) == len(slow) > 0
    for a, b in zip(chain(*hidden), chain(*slow), strict=True):
        assert a[0] == b[0]
        assert_array_equal(a[1], b[1], err_msg=a[0])
    differing = {
        a[0]
        for a, b in zip(chain(*granted), chain(*slow_granted), strict=True)
        if not np.array_equal(a[1], b[1])
    }
    assert differing == {"timing.arrived_s."}


def test_who_reads_times_is_refused_without_them(tiny):
    changes = {"learning.attacks": [{"kind": "arrival-times"}], "learning.threat.times": False}
    assert "without shuffle or times: false" in catch_line(tiny, changes)


@mark.parametrize(
    "threat",
    [
        {"viewpoint": "eavesdropper", "position_m": [0, 0]},
        {"observes": "model"},
        {"shuffle": True, "pseudonyms": {"kind": "per-round"}},
    ],
)
@mark.parametrize("key", ["times", "cells"])
def test_only_from_a_server_that_hears_updates_can_something_be_hidden(threat, key, tiny):
    changes = {"learning.threat": threat | {key: False}, "learning.attacks": []}
    assert f"{key}: only from a server" in catch_line(tiny, changes)


@mark.parametrize("speed_s, use, is_told", [(0, "times", 1), (0, "cell", 0), (0.01, "times", 0)])
def test_an_ideal_uplink_is_said_to_hide_times(speed_s, use, is_told, tiny, tmp_path):
    changes = {
        "world.radio.uplink": {"kind": "ideal"},
        "world.ues.training_s_per_sample": speed_s,
        "learning.attacks": [{"kind": "arrival-times", "use": use}],
    }
    run(tiny(changes), tmp_path / "r")
    assert ("arrivals-at-once" in by_key(of_run(tmp_path / "r"))) == is_told
    assert ArrivalTimes(use=use).reads_times == (use == "times")


# -- who was asked


def test_asked_are_the_targets_whose_updates_were_awaited():
    decoded = [True, False, False, True, False]
    for threat in (Threat(), Threat(observes="aggregate"), Threat(cells=False, times=False)):
        view = grant(threat, decoded, [2.0] * 5)
        assert view.asked.tolist() == [2, 5, 7, 9]
        assert np.setdiff1d(view.asked, view.ue).tolist() == [2, 7]
        targeted = [False, True, True, True, False]
        assert grant(threat, decoded, [2.0] * 5, targeted).asked.tolist() == [2, 9]


@mark.parametrize(
    "threat",
    [
        {"viewpoint": "eavesdropper", "position_m": [0, 0]},
        {"observes": "model"},
        {"observes": "model", "knowledge": ["participants"]},
        {"viewpoint": "analyst", "observes": "model"},
        {"shuffle": True, "pseudonyms": {"kind": "per-round"}},
    ],
)
def test_who_is_no_server_that_hears_updates_does_not_know_who_was_asked(threat):
    view = grant(Threat.model_validate_json(json.dumps(threat)), [True] * 5, [2.0] * 5)
    assert view.asked is None


def test_names_of_those_asked_are_sorted():
    view = grant(Threat(), [True, True, True, False, False], [2.0] * 5)
    renamed = view.rename(np.array([4, 8, 8]), np.array([8, 1, 4]))
    assert renamed.asked.tolist() == [1, 4, 8]
    assert view.rename(np.array([4, 8, 8])).asked is None


@mark.parametrize("rule", [{"kind": "permanent"}, {"kind": "every", "period_s": 100}])
def test_in_a_run_asked_less_heard_are_lost(rule, tiny, tmp_path, monkeypatch):
    """By the records, under names by those of the run; a new name that never came stays out."""
    seen = watch(monkeypatch)
    changes = LOST | {"learning.threat.pseudonyms": rule, "world.duration_s": 360}
    updates = run(tiny(changes), tmp_path).tables["updates"]
    n_lost = 0
    names_seen = set()
    for number, (view, _) in enumerate(seen, start=1):
        rows = updates["round"] == number
        sent = np.unique(updates["ue"][rows])
        came = np.unique(updates["ue"][rows & (updates["decoded"] == 1)])
        lost = np.setdiff1d(view.asked, view.ue)
        names_seen |= set(view.ue.tolist())
        assert set(view.ue.tolist()) <= set(view.asked.tolist())
        assert (np.diff(view.asked) > 0).all()
        if rule["kind"] == "permanent":
            assert view.asked.tolist() == sent.tolist()
            assert lost.tolist() == np.setdiff1d(sent, came).tolist()
        else:
            assert len(lost) <= len(sent) - len(came)
            assert set(view.asked.tolist()) <= names_seen
        n_lost += len(lost)
    assert n_lost > 0


def test_without_rounds_asked_are_those_whose_uploads_have_ended(tiny, tmp_path, monkeypatch):
    seen = watch(monkeypatch)
    run(tiny(SERVERS["fedbuff"] | {"world.duration_s": 240}), tmp_path)
    assert seen
    for view, _ in seen:
        assert set(view.ue.tolist()) <= set(view.asked.tolist())
