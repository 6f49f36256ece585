"""Names of senders: how long they last, that none comes back, and that attacks forget where names
change."""

import itertools

import numpy as np
import pandas as pd
from linked import SERVERS, play_cut, table
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark
from thinned import one_in

from fl.attacks.closed_form import ClosedForm
from fl.attacks.threat import ARRIVAL_TIMES, Threat
from fl.tracking.belief import Belief
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.pseudonyms import Names, Periodic, PerRound, give_names
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.result import run

RNG = Streams(5).derive_rng("pseudonyms")
RULES = [
    {"kind": "permanent"},
    {"kind": "per-round"},
    {"kind": "every", "period_s": 40},
    {"kind": "every", "period_s": 40, "stagger": True},
]


def see(rule, names, ue, time_s, round_):
    return give_names(names, rule, np.array(ue), np.full(len(ue), float(time_s)), round_, RNG)


class TestNames:
    def test_are_new_in_every_round_and_never_come_back(self):
        names = Names.start(PerRound(), 5)
        used = []
        for number in range(1, 40):
            names = see(PerRound(), names, [4, 1, 3, 1], 60 * number, number)
            current = names.name_of_ue[[1, 3, 4]]
            assert not set(current) & set(used)
            assert len(set(current)) == 3
            assert_array_equal(names.owner[current], [1, 3, 4])
            used += current.tolist()
        assert sorted(used) == list(range(3 * 39))
        assert names.name_of_ue[0] == names.name_of_ue[2] == -1  # nobody has seen them

    def test_change_for_all_at_once_on_a_grid_of_time(self):
        """What is asked for at the end is of that period."""
        rule = Periodic(period_s=100)
        ue = [0, 1, 2]
        first = see(rule, Names.start(rule, 3), ue, 10, 1)
        assert_array_equal(see(rule, first, ue, 100, 2).name_of_ue, first.name_of_ue)
        later = see(rule, first, ue, 100.1, 2)
        assert not set(later.name_of_ue) & set(first.name_of_ue)

    def test_change_once_a_period_at_times_of_their_own_where_staggered(self):
        rule = Periodic(period_s=100, stagger=True)
        ue = np.arange(200)
        names = Names.start(rule, 200)
        changed_s = np.full(200, np.nan)
        names = see(rule, names, ue, 0, 1)
        for t in range(1, 101):
            before = names.name_of_ue
            names = see(rule, names, ue, t, 1 + t)
            changed = names.name_of_ue != before
            assert np.isnan(changed_s[changed]).all()
            changed_s[changed] = t
        assert np.isfinite(changed_s).all()
        assert np.histogram(changed_s, 5)[0].min() > 15

    def test_translate_beliefs_by_the_names_of_their_round(self):
        names = Names.start(PerRound(), 2)
        history = []
        for number in (1, 2, 4):
            names = see(PerRound(), names, [0, 1], number, number)
            history.append(names.name_of_ue)
        grid = PlaceGrid(Area(0, 0, 10, 10), 1, 6)
        p = np.eye(6, dtype=np.float32)
        point_m = np.arange(12.0).reshape(6, 1, 2)
        belief = Belief(3, 3.0, np.arange(6), grid, p, p.mean(axis=0), point_m)
        belief = names.translate_belief(belief)
        assert_array_equal(belief.ue, [0, 1])
        assert_array_equal(belief.probability.argmax(axis=1), history[1])
        assert_array_equal(belief.point_m[:, 0, 0], 2 * history[1])


BUSY = {
    "world.duration_s": 360,
    "world.ues.count": 6,
    "world.radio.uplink": {"kind": "oma", "decoding": "error-free"},
}
THREATS = {
    "rows": {},
    "sum": {"observes": "aggregate", "secagg_group_size": 2},
    "model": {"observes": "model", "viewpoint": "analyst"},
    "eavesdropper": {"viewpoint": "eavesdropper", "position_m": [200, 150]},
    "n_targets": {"n_targets": 2},
}


@mark.slow
@mark.parametrize("server", SERVERS)
@mark.parametrize("threat", THREATS)
@mark.parametrize("rule", RULES)
def test_names_move_no_estimate_of_an_attack_on_single_rounds(rule, threat, server, tiny, tmp_path):
    """What is said of each UE in each round is the same under all names, whoever listens to
    whichever server."""
    study = BUSY | SERVERS[server] | {"learning.attacks": [{"kind": "closed-form"}]}
    keys = ["round", "attack", "ue", "model", "quantity", "x_m"]
    estimates = []
    updates = []
    for name, names in (("permanent", {}), ("named", {"pseudonyms": rule})):
        folder = tmp_path / name
        run(tiny(study | {"learning.threat": THREATS[threat] | names}), folder)
        rows = table(folder, "estimates").sort_values(keys, ignore_index=True)
        estimates.append(rows.drop(columns="self_test_m"))
        updates.append((folder / "updates.csv").read_bytes())
    permanent, named = estimates
    assert len(permanent) > 5
    pd.testing.assert_frame_equal(named, permanent)
    assert updates[0] == updates[1]


@mark.parametrize("attack", [{"kind": "span"}, {"kind": "neuron-votes"}])
def test_what_adds_up_rounds_begins_anew_under_a_new_name(attack, tiny, tmp_path):
    """Under names of one round it says what it says of a run that begins there.

    The model does not move, so that every round begins from the same one; a UE stands still.
    """
    study = {
        "world.duration_s": 360,
        "learning.attacks": [attack],
        "learning.learner.learning_rate": 1e-4,
    }
    order = ["round", "ue", "model", "quantity", "weight", "x_m"]
    tables = []
    for rule in ("per-round", "every", "permanent"):
        names = {"kind": rule} | ({"period_s": 1e6} if rule == "every" else {})
        run(tiny(study | {"learning.threat": {"pseudonyms": names}}), tmp_path / rule)
        rows = table(tmp_path / rule, "estimates")
        tables.append(rows.sort_values(order, ignore_index=True)[[*order, "y_m"]])
    new, kept, none = tables
    pd.testing.assert_frame_equal(kept, none)
    later = [t[t["round"] == 6][["x_m", "y_m"]].to_numpy() for t in (new, none)]
    assert later[0].shape != later[1].shape or not np.allclose(*later, equal_nan=True)


@mark.parametrize("rule, server", one_in(4, itertools.product(RULES[1:], SERVERS)))
def test_names_go_on_from_a_checkpoint(rule, server, tiny, tmp_path, table_bytes):
    names = {"learning.attacks": [{"kind": "neuron-votes"}], "learning.threat.pseudonyms": rule}
    play_cut(tiny(BUSY | SERVERS[server] | names), tmp_path, table_bytes, 200)


def test_a_shuffler_hides_times_and_counts(tiny, tmp_path, monkeypatch):
    assert ARRIVAL_TIMES not in Threat(pseudonyms=PerRound(), shuffle=True).offers
    assert ARRIVAL_TIMES in Threat(pseudonyms=PerRound()).offers
    views = []
    original = ClosedForm.run

    def note(self, view, *rest):
        views.append(view)
        return original(self, view, *rest)

    monkeypatch.setattr(ClosedForm, "run", note)
    shuffled = {"shuffle": True, "pseudonyms": {"kind": "per-round"}}
    run(tiny(BUSY | {"learning.threat": shuffled}), tmp_path)
    real = [v for v in views if len(v.ue) > 1]
    assert len(real) == 6
    for view in real:
        assert view.timing is view.count is None
        assert (np.diff(view.ue) >= 0).all()


@mark.parametrize("server", ["fedbuff", "fedasync"])
def test_names_of_updates_without_rounds_are_those_of_the_times_at_which_they_were_asked_for(
    server, tiny, tmp_path, monkeypatch
):
    requests = []

    def note(names, rule, ue, asked_s, round_, rng):
        requests.extend(zip(itertools.repeat(round_), ue.tolist(), asked_s.tolist()))
        return give_names(names, rule, ue, asked_s, round_, rng)

    monkeypatch.setattr("fl.round.attack.give_names", note)
    rule = {"learning.threat": {"pseudonyms": {"kind": "every", "period_s": 40}}}
    buffer = {"learning.server.buffer": 4} if server == "fedbuff" else {}
    run(tiny(BUSY | SERVERS[server] | buffer | rule), tmp_path)
    rows = table(tmp_path, "transmissions")
    rows = rows[rows["staleness"].notna()].sort_values(["round", "ue"])
    expected = rows[["round", "ue", "requested_s"]].to_numpy()
    assert_allclose(np.array(sorted(requests)), expected, atol=1e-6)
    assert (rows.groupby("round")["requested_s"].nunique() > 1).any() == (server == "fedbuff")
