"""Who takes part, what is kept, who listens, and how leakage is summed up."""

import json

import numpy as np
import pytest

from fl.leakage.distances import exact_w1
from fl.learners.rsrp_net import RsrpNet
from fl.types import Local, Public
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.radio.noma import Noma
from netsim.radio.uplink import Cohort, Payload
from netsim.rng import Rng
from netsim.traces.select import chained
from scenarios import run
from scenarios.app.results.folder import read_table

NOMA = {"world.radio.uplink": {"kind": "noma", "norm_bound": 1.0}}
AREA = Area(0.0, 0.0, 1000.0, 800.0)


def played(study, folder):
    summary = run(study, folder)
    return summary, lambda table: read_table(folder, table)


def test_the_server_asks_a_share_of_the_ues(tiny, tmp_path):
    _, whole = played(tiny({"world.ues.count": 6}), tmp_path / "all")
    _, some = played(tiny({"world.ues.count": 6, "learning.participation": 0.5}), tmp_path / "half")
    assert whole("rounds")["ues"].tolist() == [6, 6] and some("rounds")["ues"].tolist() == [3, 3]
    asked = [set(some("updates")["ue"][some("updates")["round"] == r]) for r in (1, 2)]
    assert asked[0] != asked[1]  # drawn anew
    _, one = played(tiny({"world.ues.count": 6, "learning.participation": 0.01}), tmp_path / "one")
    assert one("rounds")["ues"].tolist() == [1, 1]


def test_devices_that_keep_everything_learn_from_all_of_it(tiny, tmp_path):
    _, now = played(tiny({"learning.data": {"kind": "measured"}}), tmp_path / "now")
    _, ever = played(tiny({"learning.data": {"kind": "measured", "memory": "all"}}), tmp_path / "ever")
    fresh, kept = now("updates"), ever("updates")
    so_far: dict[tuple[float, float], float] = {}
    for ue, model, new, all_ in zip(fresh["ue"], fresh["model"], fresh["selected"], kept["selected"], strict=True):
        so_far[ue, model] = so_far.get((ue, model), 0) + new
        assert all_ == so_far[ue, model]
    assert max(kept["selected"]) > max(fresh["selected"])
    np.testing.assert_array_equal(kept["samples"], fresh["samples"])  # the truth is the round's


@pytest.mark.parametrize("decoding", ["noisy", "error-free"])
def test_an_eavesdropper_beside_a_ue_hears_it_better_than_the_base_station(decoding, tiny, tmp_path):
    static = {"kind": "static", "at_m": [[50.0, 50.0], [900.0, 700.0]]}
    changes = {
        "world.city": {"kind": "open-field", "width_m": 1000, "height_m": 800},
        "world.ues.mobility": static,
        "world.ues.count": 2,
        "world.radio.uplink": {"kind": "noma", "norm_bound": 1.0, "decoding": decoding},
        "world.base_stations": [{"name": "b", "at_m": [500, 400]}],
        "learning.threat": {"viewpoint": "eavesdropper", "at_m": [60, 60], "height_m": 1.5},
    }
    summary, tables = played(tiny(changes), tmp_path / "r")
    near, far = (tables("eavesdropper")["ue"] == k for k in (0, 1))
    there, here = tables("links")["sinr_db"], tables("eavesdropper")["sinr_db"]
    assert (here[near] > there[tables("links")["ue"] == 0]).all() and (here[far] < here[near]).all()
    np.testing.assert_allclose(tables("eavesdropper")["distance_m"][near], np.hypot(10, 10), rtol=1e-6)
    if decoding == "error-free":
        assert tables("eavesdropper")["decoded"][near].all() and not tables("eavesdropper")["decoded"][far].any()
        assert summary["eavesdropper.decoded.percent"] == pytest.approx(50.0)
        assert set(tables("estimates")["ue"]) == {0.0}  # who is not decoded is not attacked


def test_what_is_overheard_is_decoded_at_the_rate_that_was_sent():
    gain = np.array([[8.0], [2.0]])
    cohort = Cohort(
        np.arange(2), np.zeros(2, int), gain, None, np.ones(2), np.ones(2, int), np.full(2, np.inf), np.zeros(2),
        np.zeros(2),
    )  # fmt: skip
    uplink = Noma(noise_w=1.0, bandwidth_hz=1e6, decoding="error-free")
    payload = Payload(1e6, 10, None)
    hasty = uplink.model_copy(update={"deadline_s": 1e-9})
    sent = hasty.plan(cohort, payload)
    assert not sent.decoded.any() and not hasty.eavesdropped(cohort, payload, sent).decoded.any()  # they broke off
    sent = uplink.plan(cohort, payload)
    assert sent.decoded.all()
    same = uplink.eavesdropped(cohort, payload, sent)
    assert same.decoded.all()
    weaker = Cohort(**{**vars(cohort), "gain": gain * np.array([[1.0], [0.5]])})
    np.testing.assert_array_equal(uplink.eavesdropped(weaker, payload, sent).decoded, [True, False])


def test_an_attack_that_needs_more_than_the_threat_grants_is_refused(tiny):
    dlg = {"learning.attacks": [{"kind": "dlg", "starts": 1, "iterations": 1}]}
    with pytest.raises(BadInput, match=r"dlg needs starting weights: .*threat.knows"):
        tiny(dlg | {"learning.threat": {"knows": []}})
    tiny({"learning.threat": {"knows": []}})  # the closed form needs neither
    with pytest.raises(BadInput, match="ideal uplink"):
        spy = {"viewpoint": "eavesdropper", "at_m": [0, 0]}
        tiny({"world.radio.uplink": {"kind": "ideal"}, "learning.threat": spy})
    with pytest.raises(BadInput, match="at_m"):
        tiny(NOMA | {"learning.threat": {"viewpoint": "eavesdropper"}})
    with pytest.raises(BadInput, match="single uplinks"):
        tiny(NOMA | {"learning.threat": {"viewpoint": "eavesdropper", "at_m": [0, 0], "sees": "sum"}})


def batch(n, rng):
    x = AREA.sample(rng.uniform(size=(n, 2)))
    y = -95.0 + 8.0 * rng.normal(size=n)
    return Local(np.zeros(1, int), np.zeros(1, int), np.array([0, n]), x, y, np.arange(n, dtype=float))


@pytest.mark.parametrize("n", [1, 2, 40])
def test_theorem_1_bounds_the_closed_form(n):
    from fl.attacks.closed_form import centroid

    rng = np.random.default_rng(n)
    learner = RsrpNet(hidden=(32, 16), activation="elu")
    model = learner.init(Public(AREA, 1), Rng(1, "init"))
    data = batch(n, rng)
    dw, db = learner.first_layer(learner.local(model, "all", data, Rng(1, "x")).rows(slice(None)))
    centre, scale = learner.standardisation(model)
    error = np.linalg.norm(centre[0] + scale[0] * centroid(dw, db)[0] - data.x.mean(axis=0))
    bound = learner.centroid_bound_m(model, data)[0]
    assert error <= bound + 1e-9 and (n > 1 or bound == pytest.approx(0.0, abs=1e-9))
    fedavg = learner.model_copy(update={"local_epochs": 2})
    assert np.isnan(fedavg.centroid_bound_m(model, data)).all()


def test_first_layer_deltas_are_the_bias_gradients_of_single_samples():
    from fl.networks.predictions import first_layer_deltas

    learner = RsrpNet(hidden=(5, 3), activation="tanh", learning_rate=0.5)
    model = learner.init(Public(AREA, 1), Rng(1, "init"))
    data = batch(4, np.random.default_rng(0))
    z = (data.x - model.constants["centre_m"]) / model.constants["scale_m"]
    for i in range(4):
        mean, squares = first_layer_deltas(learner.net, model.parameters[0], z[i : i + 1], data.y[i : i + 1])
        one = Local(data.ue, data.model, np.array([0, 1]), data.x[i : i + 1], data.y[i : i + 1], data.time_s[i : i + 1])
        _, db = learner.first_layer(learner.local(model, "all", one, Rng(1, "x")).rows(slice(None)))
        np.testing.assert_allclose(db[0], -0.5 * mean, rtol=1e-9)
        assert (squares == 0).all()


def test_exact_transport_of_a_shift_is_the_shift():
    points = np.random.default_rng(0).normal(size=(60, 2))
    assert exact_w1(points, points + np.array([3.0, 4.0])) == pytest.approx(5.0)
    assert exact_w1(points, points[::-1]) == pytest.approx(0.0, abs=1e-12)
    assert np.isnan(exact_w1(points, points[:0]))
    assert exact_w1(np.zeros((3000, 2)), np.array([[3.0, 4.0]])) == pytest.approx(5.0)


def test_the_summary_speaks_of_the_target(tiny, tmp_path):
    base = {"world.ues.count": 3, "world.ues.mobility": {"kind": "random-waypoint"}}
    every, tables = played(tiny(base), tmp_path / "all")
    one, _ = played(tiny(base | {"learning.leakage": {"target": "ue1"}}), tmp_path / "one")
    mine = tables("leakage")["ue"] == 1
    key = "attack.closed-form.centroid_error_m.median"
    assert one[key] == pytest.approx(np.median(tables("leakage")["error_m"][mine])) and one[key] != every[key]
    with pytest.raises(BadInput, match="no UE is called 'ue7'"):
        run(tiny(base | {"learning.leakage": {"target": "ue7"}}), tmp_path / "x")
    assert len(tables("user_distances")["ue"]) == 3


def test_a_useless_model_is_said_to_be_useless(tiny, tmp_path):
    bad, _ = played(tiny({"learning.learner.learning_rate": 1e-7}), tmp_path / "r")
    assert not bad["utility.useful"] and bad["attack.closed-form.centroid_error_m.median"] is not None


def test_attackers_check_themselves(tiny, tmp_path):
    known, tables = played(tiny(), tmp_path / "r")
    assert (tables("estimates")["self_test_m"][tables("estimates")["quantity"] == "centroid"] < 1e-6).all()
    blind, tables = played(tiny({"learning.threat": {"knows": ["weights"]}}), tmp_path / "s")
    assert np.isnan(tables("estimates")["self_test_m"]).all() and blind["attack.closed-form.self_test_m.median"] is None
    assert known["attack.closed-form.failed.percent"] == 0.0


def test_drives_that_follow_each_other_are_one_user():
    drives = [  # id, from, to, begins, ends
        (0, 0.0, 5000.0, 0.0, 10.0),
        (1, 5100.0, 200.0, 20.0, 30.0),  # goes on where drive 0 ended
        (2, 20e3, 30e3, 21.0, 40.0),  # nobody was near: background
        (3, 0.0, 9000.0, 25.0, 50.0),  # begins where drive 1 ends, but before that: somebody else
        (4, 9500.0, 0.0, 60.0, 70.0),
        (5, 9500.0, 0.0, 61.0, 62.0),
    ]
    ids = np.repeat([d[0] for d in drives], 2)
    time_s = np.array([t for d in drives for t in d[3:]])
    xy_m = np.array([[x, 0.0] for d in drives for x in d[1:3]])
    chain = chained(ids, time_s, xy_m, 1609.0)
    assert chain[0] == chain[1] != 0 and chain[2] == 0 and chain[3] == chain[4] != chain[0] and chain[5] == 0
    assert json.dumps(chained(ids[:2], time_s[:2], xy_m[:2], 1609.0).tolist()) == "[0]"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learning.threat": {"height_m": 20}}, r"learning\.threat.*height_m: the server has no antenna"),
        ({"learning.threat": {"at_m": [1, 1]}}, "only then"),
        ({"learning.threat": {"knows": ["weights", "weights"]}}, r"threat\.knows.*'weights' stands 2 times"),
        (
            {"learning.attacks": [{"kind": "dlg", "start_at": "grid", "start_noise": 0.1}]},
            "start_noise.*'grid' take none",
        ),
        ({"learning.attacks": [{"kind": "dlg", "start_noise": 0.1}]}, "start_noise.*'normal' take none"),
    ],
)
def test_what_would_have_no_effect_is_refused(changes, words, tiny):
    with pytest.raises(BadInput, match=words) as error:
        tiny(changes)
    assert len(error.value.lines) == 1


def test_words_before_a_reason_are_grammatical():
    from fl.learning import _meets
    from netsim.part import Part

    class Needy(Part):
        kind: str = "needy"
        needs = {"record loss": "so", "starting weights": "so", "bound": "so"}

    said = {}
    for need in Needy.needs:
        with pytest.raises(ValueError, match="needy needs ") as error:
            _meets("here", Needy(), set(Needy.needs) - {need})
        said[need] = str(error.value)
    assert [said[k].split(":")[1] for k in said] == [
        " needy needs a record loss",
        " needy needs starting weights",
        " needy needs a bound",
    ]


@pytest.mark.parametrize("kind", ["correlated", "iid", "none"])
def test_an_eavesdropper_at_the_place_of_a_base_station_has_its_shadowing(kind, tiny):
    from netsim.build import build_world
    from netsim.rng import Streams

    world = build_world(tiny({"world.radio.shadowing": {"kind": kind}}).world, Streams(1), 60.0)
    place = np.random.default_rng(0).uniform(0, 300, (40, 2))
    there, height_m = world.stations[1].at_m, world.stations[1].height_m
    loss_db = world.budget.gain_db(place, world.budget.pairs(place))
    same = world.antenna_at(there, height_m)
    np.testing.assert_array_equal(same.gain_db(place, same.pairs(place))[:, 0], loss_db[:, 1])
    beside = world.antenna_at((there[0] + 5.0, there[1]), height_m)
    assert (kind == "none") == np.allclose(beside.shadow(place)[:, 0], world.budget.shadow(place)[:, 1])


@pytest.mark.parametrize(
    ("at_m", "words"),
    [
        ([1e300, 0], r"at_m\[0\]=1e\+300: must be at least -1e\+09"),
        ([1e8, 0], "eavesdropper stands 100000 km from the far corner"),
    ],
)
def test_an_eavesdropper_stands_near_the_area(at_m, words, tiny, tmp_path):
    from scenarios.app.run.runner import run

    with pytest.raises(BadInput, match=words):
        run(tiny(NOMA | {"learning.threat": {"viewpoint": "eavesdropper", "at_m": at_m}}), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_a_round_spends_what_its_links_spend(tiny, tmp_path):
    """A UE that sends to two models has one link, whose energy counts once."""
    changes = {
        "learning.data": {"kind": "measured", "cell": "all"},
        "world.ues.measure": "all",
        "world.radio.uplink": {"kind": "noma", "norm_bound": 1.0},
    }
    summary, tables = played(tiny(changes), tmp_path / "r")
    assert len(tables("updates")["ue"]) > len(tables("links")["ue"])  # several models
    round_, energy_j = tables("links")["round"], tables("links")["energy_j"]
    spent = [energy_j[round_ == r].sum() for r in tables("rounds")["round"]]
    np.testing.assert_allclose(tables("rounds")["energy_j"], spent, rtol=1e-6)
    assert summary["uplink.energy_j"] == pytest.approx(tables("links")["energy_j"].sum(), rel=1e-6)
