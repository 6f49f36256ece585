"""Names of senders: how long they last, that none comes back, and that attacks forget where names
change."""

import itertools

import numpy as np
import pandas as pd
import pytest
from interrupted import run_in_two
from thinned import one_in

from fl.attacks.closed_form import ClosedForm
from fl.attacks.threat import ARRIVAL_TIMES, Threat
from fl.tracking.belief import Belief
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.pseudonyms import Every, Names, PerRound, asked
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.result import run

RNG = Streams(5).at("pseudonyms")
RULES = [
    {"kind": "permanent"},
    {"kind": "per-round"},
    {"kind": "every", "period_s": 40},
    {"kind": "every", "period_s": 40, "stagger": True},
]


def seen(rule, names, ue, time_s, round_):
    ue = np.array(ue)
    return asked(names, rule, ue, np.full(len(ue), float(time_s)), round_, RNG)


class TestNames:
    def test_are_new_in_every_round_and_never_come_back(self):
        names = Names.start(PerRound(), 5)
        used = []
        for number in range(1, 40):
            names = seen(PerRound(), names, [4, 1, 3, 1], 60 * number, number)
            now = names.now[[1, 3, 4]]
            assert not set(now) & set(used)
            assert len(set(now)) == 3
            np.testing.assert_array_equal(names.of[now], [1, 3, 4])
            used += now.tolist()
        assert sorted(used) == list(range(3 * 39))
        assert names.now[0] == names.now[2] == -1  # nobody has seen them

    def test_change_for_all_at_once_on_a_grid_of_time(self):
        rule = Every(period_s=100)
        names = seen(rule, Names.start(rule, 3), [0, 1, 2], 10, 1)
        same = seen(rule, names, [0, 1, 2], 100, 2)
        other = seen(rule, names, [0, 1, 2], 100.1, 2)
        np.testing.assert_array_equal(
            same.now, names.now
        )  # what is asked for at the end is of that period
        assert not set(other.now) & set(names.now)

    def test_change_once_a_period_at_times_of_their_own_where_staggered(self):
        rule = Every(period_s=100, stagger=True)
        ue = np.arange(200)
        names = Names.start(rule, 200)
        changed_s = np.full(200, np.nan)
        names = seen(rule, names, ue, 0, 1)
        for t in range(1, 101):
            before = names.now
            names = seen(rule, names, ue, t, 1 + t)
            changed = names.now != before
            assert np.isnan(changed_s[changed]).all()
            changed_s[changed] = t
        assert np.isfinite(changed_s).all()
        assert np.histogram(changed_s, 5)[0].min() > 15

    def test_translate_beliefs_by_the_names_of_their_round(self):
        names = Names.start(PerRound(), 2)
        history = []
        for number in (1, 2, 4):
            names = seen(PerRound(), names, [0, 1], number, number)
            history.append(names.now)
        grid = PlaceGrid(Area(0, 0, 10, 10), 1, 6)
        p = np.eye(6, dtype=np.float32)
        point_m = np.arange(12.0).reshape(6, 1, 2)
        then = names.of_ues(
            Belief(3, 3.0, np.arange(6), grid, p, np.full(6, 1 / 6, dtype=np.float32), point_m)
        )
        np.testing.assert_array_equal(then.ue, [0, 1])
        np.testing.assert_array_equal(then.probability.argmax(axis=1), history[1])
        np.testing.assert_array_equal(then.point_m[:, 0, 0], 2 * history[1])


BUSY = {
    "world.duration_s": 360,
    "world.ues.count": 6,
    "world.radio.uplink": {"kind": "oma", "decoding": "error-free"},
}
SERVERS = {
    "rounds": {},
    "fedbuff": {
        "learning.server": {"kind": "fedbuff", "buffer": 3},
        "world.radio.dynamic_uplink": {},
    },
    "fedasync": {"learning.server": {"kind": "fedasync"}, "world.radio.dynamic_uplink": {}},
}
THREATS = {
    "rows": {},
    "sum": {"observes": "aggregate", "secagg_group_size": 2},
    "model": {"observes": "model", "viewpoint": "analyst"},
    "eavesdropper": {"viewpoint": "eavesdropper", "position_m": [200, 150]},
    "n_targets": {"n_targets": 2},
}


def table(folder, name):
    return pd.read_csv(folder / f"{name}.csv")


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("rule", RULES)
def test_names_move_no_estimate_of_an_attack_on_single_rounds(rule, threat, server, tiny, tmp_path):
    """What is said of each UE in each round is the same under all names, whoever listens to
    whichever server."""
    study = BUSY | SERVERS[server] | {"learning.attacks": [{"kind": "closed-form"}]}
    run(tiny(study | {"learning.threat": THREATS[threat]}), tmp_path / "known")
    run(
        tiny(study | {"learning.threat": THREATS[threat] | {"pseudonyms": rule}}),
        tmp_path / "named",
    )
    keys = ["round", "attack", "ue", "model", "quantity"]
    known, named = (
        table(tmp_path / f, "estimates").sort_values([*keys, "x_m"], ignore_index=True)
        for f in ("known", "named")
    )
    assert len(known) > 5
    pd.testing.assert_frame_equal(
        named.drop(columns="self_test_m"), known.drop(columns="self_test_m")
    )
    assert (tmp_path / "known/updates.csv").read_bytes() == (
        tmp_path / "named/updates.csv"
    ).read_bytes()


@pytest.mark.parametrize("attack", [{"kind": "span"}, {"kind": "neuron-votes"}])
def test_what_adds_up_rounds_begins_anew_under_a_new_name(attack, tiny, tmp_path):
    """Under names of one round it says what it says of a run that begins there."""
    # the model does not move, so that every round begins from the same one; a UE stands still
    study = {
        "world.duration_s": 360,
        "learning.attacks": [attack],
        "learning.learner.learning_rate": 1e-4,
    }
    first_only = {"kind": "every", "period_s": 1e6}
    for name, rule in (
        ("new", {"kind": "per-round"}),
        ("kept", first_only),
        ("none", {"kind": "permanent"}),
    ):
        run(tiny(study | {"learning.threat": {"pseudonyms": rule}}), tmp_path / name)
    new, kept, none = (table(tmp_path / f, "estimates") for f in ("new", "kept", "none"))
    order = ["round", "ue", "model", "quantity", "weight", "x_m"]
    kept, none = (t.sort_values(order, ignore_index=True)[[*order, "y_m"]] for t in (kept, none))
    pd.testing.assert_frame_equal(kept, none)
    later = [t[t["round"] == 6].sort_values(order)[["x_m", "y_m"]].to_numpy() for t in (new, none)]
    assert later[0].shape != later[1].shape or not np.allclose(*later, equal_nan=True)


@pytest.mark.parametrize(("rule", "server"), one_in(4, itertools.product(RULES[1:], SERVERS)))
def test_names_go_on_from_a_checkpoint(rule, server, tiny, tmp_path, table_bytes):
    threat = {"pseudonyms": rule}
    study = tiny(
        BUSY
        | SERVERS[server]
        | {"learning.attacks": [{"kind": "neuron-votes"}], "learning.threat": threat}
    )
    run(study, tmp_path / "whole")
    run_in_two(study, tmp_path / "cut", lambda progress: progress.values["time_s"] >= 200)
    assert table_bytes(tmp_path / "cut") == table_bytes(tmp_path / "whole")


def test_a_shuffler_hides_times_and_counts(tiny, tmp_path):
    threat = Threat(pseudonyms=PerRound(), shuffle=True)
    assert ARRIVAL_TIMES not in threat.offers
    assert ARRIVAL_TIMES in Threat(pseudonyms=PerRound()).offers
    views = []
    run_ = ClosedForm.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ClosedForm,
            "run",
            lambda self, view, *rest: (views.append(view), run_(self, view, *rest))[1],
        )
        shuffled = {"shuffle": True, "pseudonyms": {"kind": "per-round"}}
        run(tiny(BUSY | {"learning.threat": shuffled}), tmp_path)
    real = [v for v in views if len(v.ue) > 1]
    assert len(real) == 6
    assert all(v.timing is None and v.count is None for v in real)
    assert all((np.diff(v.ue) >= 0).all() for v in real)


@pytest.mark.parametrize("server", ["fedbuff", "fedasync"])
def test_names_of_updates_without_rounds_are_those_of_the_times_at_which_they_were_asked_for(
    server, tiny, tmp_path
):
    given = []

    def noted(names, rule, ue, asked_s, round_, rng):
        given.extend(zip(itertools.repeat(round_), ue.tolist(), asked_s.tolist()))
        return asked(names, rule, ue, asked_s, round_, rng)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fl.round.attack.asked", noted)
        rule = {"learning.threat": {"pseudonyms": {"kind": "every", "period_s": 40}}}
        buffer = {"learning.server.buffer": 4} if server == "fedbuff" else {}
        run(tiny(BUSY | SERVERS[server] | buffer | rule), tmp_path)
    rows = table(tmp_path, "transmissions")
    rows = rows[rows["staleness"].notna()].sort_values(["round", "ue"])
    wanted = rows[["round", "ue", "requested_s"]].to_numpy()
    np.testing.assert_allclose(np.array(sorted(given)), wanted, atol=1e-6)
    assert (rows.groupby("round")["requested_s"].nunique() > 1).any() == (server == "fedbuff")
