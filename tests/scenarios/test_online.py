"""Who takes part, what is kept, who listens, and how leakage is summed up."""

import json
from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose
from pytest import approx, mark, raises
from refused import catch_line

from fl.learners.rsrp_net import RsrpNet
from fl.types import Local, Public
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.radio.shared_band import Noma
from netsim.radio.uplink import Cohort, Payload
from netsim.rng import Rng
from netsim.traces.moves import chain_drives
from netsim.world.channel_card import describe_channel, list_not_modelled
from scenarios import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.study.load import parse_value

NOMA = {"world.radio.uplink": {"kind": "noma", "norm_bound": 1.0}}
AREA = Area(0.0, 0.0, 1000.0, 800.0)


def play_study(study, folder):
    summary = run(study, folder)
    return summary, lambda table: read_record_table(folder, table)


def test_the_server_asks_a_share_of_the_ues(tiny, tmp_path):
    _, whole = play_study(tiny({"world.ues.count": 6}), tmp_path / "all")
    _, jobs = play_study(
        tiny({"world.ues.count": 6, "learning.participation": 0.5}), tmp_path / "half"
    )
    assert whole("rounds")["ues"].tolist() == [6, 6]
    assert jobs("rounds")["ues"].tolist() == [3, 3]
    changes = [set(jobs("updates")["ue"][jobs("updates")["round"] == r]) for r in (1, 2)]
    assert changes[0] != changes[1]  # drawn anew
    _, item = play_study(
        tiny({"world.ues.count": 6, "learning.participation": 0.01}), tmp_path / "one"
    )
    assert item("rounds")["ues"].tolist() == [1, 1]


@mark.parametrize("decoding", ["noisy", "error-free"])
def test_an_eavesdropper_beside_a_ue_hears_it_better_than_the_base_station(decoding, tiny, out):
    static = parse_value("{kind: static, positions_m: [[50.0, 50.0], [900.0, 700.0]]}")
    changes = {
        "world.city": {"kind": "open-field", "width_m": 1000, "height_m": 800},
        "world.ues.mobility": static,
        "world.ues.count": 2,
        "world.radio.uplink": {"kind": "noma", "norm_bound": 1.0, "decoding": decoding},
        "world.base_stations": parse_value("[{name: b, position_m: [500, 400]}]"),
        "learning.threat": parse_value(
            "{viewpoint: eavesdropper, position_m: [60, 60], height_m: 1.5}"
        ),
    }
    summary, tables = play_study(tiny(changes), out)
    near, far = (tables("eavesdropper")["ue"] == k for k in (0, 1))
    mast = tables("links")["sinr_db"]
    ear = tables("eavesdropper")["sinr_db"]
    assert (ear[near] > mast[tables("links")["ue"] == 0]).all()
    assert (ear[far] < ear[near]).all()
    assert_allclose(tables("eavesdropper")["distance_m"][near], np.hypot(10, 10), rtol=1e-6)
    if decoding == "error-free":
        assert tables("eavesdropper")["decoded"][near].all()
        assert not tables("eavesdropper")["decoded"][far].any()
        assert summary["eavesdropper.decoded.percent"] == approx(50.0)
        assert set(tables("estimates")["ue"]) == {0.0}  # who is not decoded is not attacked


def test_what_is_overheard_is_decoded_at_the_rate_that_was_sent():
    gain = np.array([[8.0], [2.0]])
    cohort = Cohort(
        np.arange(2),
        np.zeros(2, int),
        gain,
        None,
        np.ones(2),
        np.ones(2, int),
        np.full(2, np.inf),
        np.zeros(2),
        np.zeros(2),
    )
    uplink = Noma(noise_w=1.0, bandwidth_hz=1e6, decoding="error-free")
    payload = Payload(1e6, 10, None)
    hasty = uplink.model_copy(update={"deadline_s": 1e-9})
    sent = hasty.plan(cohort, payload)
    # they broke off
    assert not sent.decoded.any()
    assert not hasty.eavesdrop(cohort, payload, sent).decoded.any()
    sent = uplink.plan(cohort, payload)
    assert sent.decoded.all()
    same = uplink.eavesdrop(cohort, payload, sent)
    assert same.decoded.all()
    weaker = replace(cohort, gain=gain * np.array([[1.0], [0.5]]))
    np.testing.assert_array_equal(uplink.eavesdrop(weaker, payload, sent).decoded, [True, False])


EXACT = {"kind": "oma", "decoding": "error-free", "interference": "all"}


def test_a_user_who_has_left_takes_no_upload_of_others_along(tiny, tmp_path):
    """Four users in two cells; the rows of one end before the first upload, and the others arrive
    as without it."""
    rows = [
        f"{user},{t},{x + t / 10},{y}"
        for user, x, y, last in (
            ("a", 60, 60, 150),
            ("b", 120, 80, 150),
            ("c", 340, 240, 150),
            ("d", 300, 220, 40),
        )
        for t in range(0, last, 5)
    ]
    for name, chosen in (("four", "abcd"), ("three", "abc")):
        kept = [row for row in rows if row[0] in chosen]
        (tmp_path / f"{name}.csv").write_text("\n".join(["user,time_s,x_m,y_m", *kept]) + "\n")
    links = {}
    for name in ("four", "three"):
        changes = {
            "world.ues": {
                "mobility": {
                    "kind": "replay",
                    "trace": str(tmp_path / f"{name}.csv"),
                    "absent_after_s": 10,
                }
            },
            "world.radio": {"uplink": EXACT},
        }
        _, tables = play_study(tiny(changes), tmp_path / name)
        links[name] = tables("links")
    item = links["four"]
    second = links["three"]
    left = item["ue"] == 3
    assert left.sum() == 1
    assert not item["decoded"][left].any()
    assert (item["base_station"][left] == "").all()
    assert second["decoded"].all()
    for column in ("decoded", "sinr_db", "rate_bps"):
        np.testing.assert_array_equal(item[column][~left], second[column])


def ears(tiny, folder, changes):
    _, tables = play_study(tiny(changes), folder)
    return tables("links"), tables("eavesdropper")


@mark.parametrize("dynamic", parse_value("[{}, {scheduler: {kind: groups, size: 1}}]"))
def test_an_ear_beside_uploads_that_take_time_has_the_noise_of_their_share_of_the_band(
    dynamic, tiny, out
):
    """At the mast itself, of four UEs that send at once, or one by one: all that differs is what
    comes from outside."""
    static = parse_value(
        "{kind: static, positions_m: [[50.0, 50.0], [90.0, 70.0], [120.0, 130.0], [140.0, 90.0]]}"
    )
    changes = {
        "world.ues.mobility": static,
        "world.base_stations": parse_value("[{name: b, position_m: [100, 100], height_m: 10}]"),
        "world.radio.uplink": EXACT | {"interference_over_thermal_db": 6},
        "world.radio.dynamic_uplink": dynamic | {"link_adaptation": "grant"},
        "learning.threat": {"viewpoint": "eavesdropper", "position_m": [100, 100]},
        "power": {"kind": "fixed", "power_dbm": -5},
    }
    links, ear = ears(tiny, out, changes)
    assert links["decoded"].all()
    assert ear["decoded"].all()
    assert_allclose(ear["sinr_db"], links["sinr_db"] + 6.0, rtol=1e-6)


@mark.parametrize("key, value", [("interference_over_thermal_db", 6), ("uplink_share", 0.2)])
def test_an_ideal_uplink_has_neither_a_floor_nor_a_frame(key, value, tiny):
    line = catch_line(tiny, {"world.radio.uplink": {"kind": "ideal", key: value}})
    assert f"unknown key '{key}'" in line
    for bad in (-1, 1e9) if key != "uplink_share" else (0, 1.5):
        assert key in catch_line(
            tiny, {"world.radio.uplink": {"kind": "oma", "norm_bound": 1.0, key: bad}}
        )


@mark.parametrize("uplink", [{"kind": "ideal"}, EXACT])
def test_the_card_lists_noise_from_outside_and_the_share_of_the_time(uplink, tiny):
    radio = tiny({"world.radio.uplink": uplink}).world.radio
    effects = ("interference from outside", "time shared with the downlink")
    assert set(effects) <= set(list_not_modelled(radio))
    if uplink is EXACT:
        rest = {"interference_over_thermal_db": 6, "uplink_share": 0.2}
        study = tiny({"world.radio.uplink": uplink | rest})
        assert not set(effects) & set(list_not_modelled(study.world.radio))
        card = describe_channel(study.world, study.world.listed_stations, False)
        assert "interference_over_thermal_db 6.0" in card["uplink"]
        assert "uplink_share 0.2" in card["uplink"]


def test_an_attack_that_needs_more_than_the_threat_grants_is_refused(tiny):
    dlg = parse_value("{learning.attacks: [{kind: dlg, starts: 1, iterations: 1}]}")
    with raises(BadInput, match=r"dlg needs starting weights: .*threat.knowledge"):
        tiny(dlg | {"learning.threat": {"knowledge": []}})
    tiny({"learning.threat": {"knowledge": []}})  # the closed form needs neither
    with raises(BadInput, match="ideal uplink"):
        spy = {"viewpoint": "eavesdropper", "position_m": [0, 0]}
        tiny({"world.radio.uplink": {"kind": "ideal"}, "learning.threat": spy})
    assert "position_m" in catch_line(
        tiny, NOMA | {"learning.threat": {"viewpoint": "eavesdropper"}}
    )
    assert "single uplinks" in catch_line(
        tiny,
        NOMA
        | parse_value(
            "{learning.threat: {viewpoint: eavesdropper, position_m: [0, 0], observes: aggregate}}"
        ),
    )


def batch(n, rng):
    x = AREA.sample(rng.uniform(size=(n, 2)))
    y = -95.0 + 8.0 * rng.normal(size=n)
    return Local(
        np.zeros(1, int), np.zeros(1, int), np.array([0, n]), x, y, np.arange(n, dtype=float)
    )


@mark.parametrize("n", [1, 2, 40])
def test_theorem_1_bounds_the_closed_form(n):
    from fl.attacks.closed_form import estimate_centroid

    rng = np.random.default_rng(n)
    learner = RsrpNet(hidden=(32, 16), activation="elu")
    model = learner.init(Public(AREA, 1), Rng(1, "init"))
    data = batch(n, rng)
    dw, db = learner.first_layer(
        learner.train_locally(model, "all", data, Rng(1, "x")).rows(slice(None))
    )
    centre, scale = learner.standardisation(model)
    error = np.linalg.norm(
        centre[0] + scale[0] * estimate_centroid(dw, db)[0] - data.x.mean(axis=0)
    )
    bound = learner.compute_centroid_bound_m(model, data)[0]
    assert error <= bound + 1e-9
    assert n > 1 or bound == approx(0.0, abs=1e-9)
    fedavg = learner.model_copy(update={"local_epochs": 2})
    assert np.isnan(fedavg.compute_centroid_bound_m(model, data)).all()


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
    chain = chain_drives(ids, time_s, xy_m, 1609.0)
    assert chain[0] == chain[1] != 0
    assert chain[2] == 0
    assert chain[3] == chain[4] != chain[0]
    assert chain[5] == 0
    assert json.dumps(chain_drives(ids[:2], time_s[:2], xy_m[:2], 1609.0).tolist()) == "[0]"


def test_a_round_spends_what_its_links_spend(tiny, out):
    """A UE that sends to two models has one link, whose energy counts once."""
    changes = parse_value(
        "{learning.data: {kind: measured, cell: all}, world.ues.measure: all, "
        "world.radio.uplink: {kind: noma, norm_bound: 1.0}}"
    )
    summary, tables = play_study(tiny(changes), out)
    assert len(tables("updates")["ue"]) > len(tables("links")["ue"])  # several models
    round_ = tables("links")["round"]
    energy_j = tables("links")["energy_j"]
    spent = [energy_j[round_ == r].sum() for r in tables("rounds")["round"]]
    assert_allclose(tables("rounds")["energy_j"], spent, rtol=1e-6)
    assert summary["uplink.energy_j"] == approx(tables("links")["energy_j"].sum(), rel=1e-6)
