"""`netsim audit`: honest studies are within what is booked; faults, old and planted, are found,
each by its half."""

import json
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY

from fl.defenses.clip import AdaptiveClip, Clip
from fl.defenses.gaussian import CentralGaussian, Gaussian
from fl.radio_map.obstacles import HEIGHTS
from fl.round import merge
from fl.round.learning import Learning
from fl.types import Bound, RoundContext, Updates
from netsim.clock import DAY_S
from netsim.errors import BadInput
from netsim.fit import Rule
from netsim.mobility.replay import Replay
from scenarios.app.cli.commands import main
from scenarios.app.result import run
from scenarios.app.results.folder import read_table
from scenarios.app.run import setup as setting_up
from scenarios.app.run.audit import audit
from scenarios.app.run.events import ignore
from scenarios.app.study.load import AskedStudy, bundled, load

sys.path.append(str(Path(__file__).parents[1] / "fl"))
from test_sensitivity import RADIO_MAP, STATED, UPLINKS, replayed, trace_of

C = 0.01
CLIP = {"kind": "clip", "norm": C, "relation": "add-remove"}
REPLACE = {"kind": "clip", "norm": C}
ADAPTIVE = {"kind": "adaptive-clip", "norm": C, "relation": "add-remove"}
CENTRAL = {"kind": "central-gaussian", "noise_multiplier": 1.0}
LOCAL = {"kind": "gaussian", "noise_multiplier": 1.0}
SHARES, SKELLAM = (
    {"kind": kind, "noise_multiplier": 1.0} for kind in ("distributed-gaussian", "skellam")
)
BANDED = {**CENTRAL, "correlation": "banded", "bands": 2}
SUM = {"learning.threat": {"observes": "aggregate", "secagg_threshold": 2}}


def half(sampling):
    how = {"kind": "uniform", "clients": 4, "participation": 0.5}
    return {
        "learning.participation": 0.5,
        "learning.sampling": sampling,
        "learning.aggregation": how,
    }


@pytest.fixture
def found(tiny, tmp_path):
    """Rows of the audit of a tiny study, as dictionaries: call it with defenses and other
    changes."""

    def play(defenses, changes=None, most=2):
        asked = {
            "learning.attacks": [],
            "learning.round_s": 20,
            "learning.defenses": defenses,
            "learning.data": {"kind": "measured", "cell": "strongest", "memory": "all"},
            "learning.aggregation": {"kind": "uniform", "clients": 4},
            **(changes or {}),
        }
        study = tiny(asked)
        played = run(study, tmp_path / "run", replace=True).run
        audit(study, played, most, ignore)
        table = read_table(tmp_path / "run", "audit")
        return [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]

    return play


def violated(rows):
    """Half and quantity, or the name of a public value."""
    return {
        (row["half"], row["quantity"].partition(" (")[0] or row["mechanism"])
        for row in rows
        if row["verdict"] == "violated"
    }


def worst(rows, quantity, half="neighbours"):
    mine = [row for row in rows if row["half"] == half and row["quantity"].startswith(quantity)]
    return max(mine, key=lambda row: np.nan_to_num(row["moved"], nan=row["lower"]))


TABLE = {
    "central": ([CLIP, CENTRAL], {}),
    "replaced": ([REPLACE, CENTRAL], {}),
    "poisson": ([CLIP, CENTRAL], half("poisson")),
    "cyclic": ([CLIP, CENTRAL], half("cyclic")),
    "banded": ([CLIP, BANDED], half("cyclic")),
    "shares": ([CLIP, SHARES], SUM),
    "skellam": ([CLIP, SKELLAM], SUM),
    "local": ([REPLACE, LOCAL], {}),
    "adaptive": ([ADAPTIVE, CENTRAL], {}),
    "lapa": ([REPLACE, {"kind": "lapa", "epsilon_system_total": 60.0, "rounds": 6}], {}),
    "images": (
        [REPLACE, LOCAL],
        {
            "learning.data": {
                "kind": "images",
                "samples": 20,
                "partition": {"kind": "label-skew", "iid": 1},
            },
            "learning.learner": {"kind": "image-net", "network": {"kind": "mlp", "hidden": [8]}},
        },
    ),
    "fedbuff": (
        [REPLACE, LOCAL],
        {
            "learning.server": {"kind": "fedbuff", "buffer": 2},
            "world.radio.dynamic_uplink": {},
        },
    ),
}
TIGHT = {"central", "replaced", "poisson", "banded", "shares", "local", "adaptive", "lapa"}


@pytest.mark.parametrize("name", TABLE)
def test_honest_studies_are_within_what_is_booked(found, name):
    rows = found(*TABLE[name], most=4 if name == "banded" else 2)
    halves = {"neighbours", "ledger", "noise"} - (
        {"ledger"} if name == "poisson" else set()
    )  # a coin is not compared
    assert violated(rows) == set()
    assert {row["half"] for row in rows} == halves
    if name == "poisson":
        assert worst(rows, "sum")["moved"] == pytest.approx(worst(rows, "sum")["sensitivity"])
        return
    of_all = worst(rows, "epsilon", "ledger")
    assert of_all["lower"] <= of_all["upper"] * (1 + 1e-6)
    if name in TIGHT:  # and no more is booked than must be
        assert of_all["lower"] == pytest.approx(of_all["upper"], rel=1e-4)


def test_a_trace_with_a_stated_extent_is_within_and_one_without_is_named(found, tmp_path):
    trace = trace_of(tmp_path / "t.csv", ("a", "b", "c", "d", "far"))
    rows = found(
        [CLIP, CENTRAL],
        {**replayed(trace, **STATED), "learning.aggregation": {"kind": "uniform", "clients": 5}},
    )
    assert {row["verdict"] for row in rows} == {"within"}
    rows = found([CLIP, CENTRAL], replayed(trace), most=5)
    named = {row["mechanism"] for row in rows if row["verdict"] == "caveat"}
    assert {"the area", "the number of rounds", "the first day"} <= named
    assert violated(rows) == set()


def test_of_the_only_user_of_a_trace_updates_are_compared(found, tmp_path):
    """Without its rows there is no trace, so that public values have nothing to be compared
    with."""
    changes = replayed(trace_of(tmp_path / "t.csv", ["a"]), **STATED)
    rows = found([CLIP, LOCAL], {**changes, "learning.defenses": [CLIP, LOCAL]})
    assert rows
    assert not violated(rows)
    assert {row["ue"] for row in rows if row["half"] == "neighbours"} == {"a"}


def test_a_cell_of_one_user_that_nobody_learns_moves_nothing(found, tmp_path):
    rows = Path(trace_of(tmp_path / "t.csv", ["a", "b", "c"]))
    rows.write_text(rows.read_text() + "2021-04-22T19:00:00Z,c,52.01,4.015,-90,y\n")
    changes = replayed(str(rows), **STATED | {"cell": "all"}) | {
        "learning.data": {"kind": "measured", "cell": "x"}
    }
    assert not violated(
        found([CLIP, LOCAL], {**changes, "learning.defenses": [CLIP, LOCAL]}, most=3)
    )


def test_without_epsilon_it_is_refused(found):
    with pytest.raises(BadInput, match="no UE sent an update with noise"):
        found([REPLACE])


@pytest.mark.parametrize("chain", [[CLIP, CENTRAL], [CLIP, LOCAL]])
def test_a_round_for_which_the_budget_has_no_room_is_not_held_against_it(found, chain):
    rows = found(chain, {"learning.privacy_budget": {"epsilon": 9.0}})
    assert violated(rows) == set()
    assert max(row["round"] for row in rows) == (2 if CENTRAL in chain else 3)
    assert worst(rows, "epsilon", "ledger")["lower"] == pytest.approx(
        worst(rows, "epsilon", "ledger")["upper"]
    )


def test_as_json_it_says_the_rows(tmp_path, capsys):
    (tmp_path / "tiny.yaml").write_text(json.dumps(TINY))
    asked = [
        "--set",
        f"learning.defenses={json.dumps([REPLACE, LOCAL])}",
        "--ues",
        "1",
        "--quiet",
        "--json",
    ]
    assert main(["audit", str(tmp_path / "tiny.yaml"), "--out", str(tmp_path / "run"), *asked]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["verdict"] == "nothing found"
    assert result["rows"]["half"][0] == "neighbours"


# -- faults that were there


def unchecked(patch):
    patch.setattr(Learning, "check", lambda self: None)


def test_a_clip_after_shares_is_found_by_the_noise_as_sent(found, monkeypatch):
    unchecked(monkeypatch)
    rows = found([CLIP, {**SHARES, "noise_multiplier": 0.7}, {**CLIP, "name": "again"}], SUM)
    assert ("noise", "std of row") in violated(rows)


def test_noise_of_a_ue_beside_noise_at_the_server_moves_the_sum(found, monkeypatch):
    unchecked(monkeypatch)
    monkeypatch.setattr(RoundContext, "promise", lambda self, bound: bound)
    rows = found([CLIP, CENTRAL, LOCAL])
    assert ("neighbours", "sum") in violated(rows)
    assert worst(rows, "sum")["moved"] > 5 * C


def booked_as(patch, half, **more):
    """The count of an adaptive clip is booked otherwise."""
    method = getattr(AdaptiveClip, half)

    def other(self, *args):
        first, state, spends = method(self, *args)
        return (
            first,
            state,
            [replace(s, sensitivity=np.full(len(s.ue), 0.5), **more) for s in spends],
        )

    patch.setattr(AdaptiveClip, half, other)


def test_the_bit_of_zeros_moves_a_count_by_one(found, monkeypatch):
    booked_as(monkeypatch, "protect")
    rows = found([{**ADAPTIVE, "noise": "shares"}, SHARES], SUM)
    assert {("neighbours", "count"), ("ledger", "epsilon")} <= violated(rows)
    assert (worst(rows, "count")["moved"], worst(rows, "count")["sensitivity"]) == (1.0, 0.5)


def test_mechanisms_that_are_never_added_up_are_found_by_the_ledger(found, monkeypatch):
    booked_as(monkeypatch, "finish", relation="add-remove")
    rows = found([ADAPTIVE, SHARES], SUM)
    assert violated(rows) == {("ledger", "epsilon")}


def test_days_that_follow_from_rows_are_found(found, tmp_path, monkeypatch):
    def of_rows(study_or_world, *more):
        world = next(of for of in (study_or_world, *more) if hasattr(of, "trace"))
        return np.unique(np.floor(world.trace.time_s / DAY_S).astype(np.int64))

    monkeypatch.setattr(setting_up, "_days", of_rows)
    trace = tmp_path / "t.csv"
    trace_of(trace, ("a", "b"))
    trace.write_text(trace.read_text() + "2021-04-24T12:00:00Z,e,52.01,4.015,-80,x\n")
    extent = STATED | {"until": "2021-04-26"}
    asked = replayed(str(trace), **extent) | {
        "learning.data": {"kind": "measured", "hold_out_by": "day"}
    }
    rows = found([CLIP, CENTRAL], asked, most=5)
    assert "which days are held out" in {
        row["mechanism"] for row in rows if row["verdict"] != "within"
    }


def test_turns_that_follow_one_another_over_a_day_of_23_hours(found, tmp_path, monkeypatch):
    """A deadline of 24 h lets the next window pass by, and cohorts that wait for every other one
    come at once."""
    monkeypatch.setattr(Learning, "check_correlation", lambda self, shortest_s: None, raising=False)
    trace = tmp_path / "t.csv"
    times = [f"2021-03-{day}T{hour:02d}:30:00Z" for day in range(26, 32) for hour in (8, 14)]
    rows = [
        f"{t},{user},52.01,{4.01 + k / 500:.3f},{-80 - 3 * k},x"
        for t in times
        for k, user in enumerate("abcd")
    ]
    trace.write_text("\n".join(["time_s,user,lat,lon,rsrp_dbm,cell", *rows]) + "\n")
    asked = replayed(str(trace), **STATED | {"since": "2021-03-26", "until": "2021-04-01"}) | half(
        "cyclic"
    )
    asked |= {
        "learning.server": {"kind": "synchronous", "deadline_s": DAY_S},
        "learning.defenses": [CLIP, BANDED],
    }
    rows = found([], asked, most=4)
    assert {("neighbours", "sum"), ("ledger", "epsilon")} <= violated(rows)
    of_all = worst(rows, "epsilon", "ledger")
    assert (of_all["lower"], of_all["upper"]) == (
        pytest.approx(5.93, abs=0.01),
        pytest.approx(5.35, abs=0.01),
    )


def test_users_that_one_user_decides_are_named(found, tmp_path):
    trace = tmp_path / "t.csv"
    lines = ["time_s,user,lat,lon,rsrp_dbm,cell"]
    lines += [f"2021-04-21T{8 + k:02d}:00:00Z,u{k},52.01,4.015,-80,x" for k in range(6)]
    lines += ["2021-04-22T08:00:00Z,u0,52.01,4.016,-81,x"]
    trace.write_text("\n".join(lines) + "\n")
    rows = found([CLIP, CENTRAL], replayed(str(trace), **STATED, users="auto"), most=6)
    assert {row["ue"] for row in rows if row["mechanism"] == "what a user is"} == {"u0"}


def test_a_label_that_says_presence_is_hidden_is_found(found, monkeypatch):
    monkeypatch.setattr(Bound, "zeroed", property(lambda self: self))
    rows = found([CLIP, LOCAL])
    # without a bound
    assert ("neighbours", "row") in violated(rows)
    assert np.isnan(worst(rows, "row")["moved"])


def test_sums_that_are_opened_with_too_few_are_found(found, monkeypatch):
    grouped = merge.in_groups

    def opened(phase, uploads):
        sums = grouped(phase, uploads)
        return replace(sums, opened=sums.company > 0)

    monkeypatch.setattr(merge, "in_groups", opened)
    rows = found(
        [CLIP, SHARES], {**SUM, "learning.data": {"kind": "measured"}, "learning.round_s": 10}
    )
    assert ("noise", "updates in a sum") in violated(rows)


# -- faults that are planted


def test_half_the_noise(found, monkeypatch):
    finish = CentralGaussian.finish

    def quieter(self, total, *args):
        louder, state, spends = finish(self, total, *args)
        return (total + louder) / 2, state, spends

    monkeypatch.setattr(CentralGaussian, "finish", quieter)
    assert violated(found([CLIP, CENTRAL])) == {("noise", "std of sum")}


def test_half_the_sensitivity(found, monkeypatch):
    monkeypatch.setattr(Bound, "sensitivity", property(lambda self: self.norm / 2))
    rows = found([CLIP, CENTRAL])
    assert {("neighbours", "sum"), ("ledger", "epsilon")} == violated(rows)
    assert worst(rows, "sum")["moved"] == pytest.approx(2 * worst(rows, "sum")["sensitivity"])


def test_a_clip_that_one_phase_lacks(found, monkeypatch):
    protect = Clip.protect

    def skipped(self, updates, *args):
        clipped, state, spends = protect(self, updates, *args)
        return (
            (
                updates.scaled(np.ones(len(updates.ue)), clipped.bound)
                if updates.phase == HEIGHTS
                else clipped
            ),
            state,
            spends,
        )

    monkeypatch.setattr(Clip, "protect", skipped)
    asked = {k: v for k, v in RADIO_MAP.items() if k != "learning.defenses"} | {
        "learning.data": {"kind": "links", "memory": "round"}
    }
    rows = found([{"kind": "clip"}, CENTRAL], asked)
    assert {
        row["quantity"]
        for row in rows
        if row["verdict"] == "violated" and row["half"] == "neighbours"
    } == {f"sum ({HEIGHTS})"}


def noise_made(patch, defense, other):
    """The noise n on a sum t, or on rows of UEs, is other(t, n)."""
    half = "finish" if defense is CentralGaussian else "protect"
    method = getattr(defense, half)

    def drawn(self, of, *args):
        noisy, state, spends = method(self, of, *args)
        rows = [x if defense is CentralGaussian else x.rows(slice(None)) for x in (of, noisy)]
        made = other(rows[0], rows[1] - rows[0])
        return of + made if defense is CentralGaussian else of.plus(made), state, spends

    patch.setattr(defense, half, drawn)


@pytest.mark.parametrize(
    ("defense", "chain"), [(CentralGaussian, [CLIP, CENTRAL]), (Gaussian, [CLIP, LOCAL])]
)
def test_noise_that_depends_on_what_it_hides(found, monkeypatch, defense, chain):
    noise_made(
        monkeypatch,
        defense,
        lambda t, n: n * (1 + 3 * np.linalg.norm(t, axis=1, keepdims=True) / C),
    )
    assert (
        "neighbours",
        "noise of sum" if defense is CentralGaussian else "noise of row",
    ) in violated(found(chain))


def test_more_noise_than_is_booked_is_within(found, monkeypatch):
    noise_made(monkeypatch, CentralGaussian, lambda t, n: 3 * n)
    assert violated(found([CLIP, CENTRAL])) == set()


def test_a_part_without_noise(found, monkeypatch):
    noise_made(
        monkeypatch,
        CentralGaussian,
        lambda t, n: 1.5 * n * (np.arange(n.shape[1]) < n.shape[1] // 2),
    )
    assert violated(found([CLIP, CENTRAL])) == {("noise", "std of sum")}


def test_a_count_without_noise(found, monkeypatch):
    finish = AdaptiveClip.finish

    def clear(self, total, n, facts, state, rng):
        same, _, spends = finish(self, total, n, facts, state, rng)
        return same, self._moved(state, (state.bits - 0.5).sum(), 1 / facts.weight), spends

    monkeypatch.setattr(AdaptiveClip, "finish", clear)
    assert violated(found([ADAPTIVE, CENTRAL])) == {("noise", "std of count")}


def test_a_model_that_also_takes_the_sum_without_noise(found, monkeypatch):
    aggregated = merge.aggregated

    def leaking(phase, got, *more):
        weights, model, spends = aggregated(phase, got, *more)
        clear = got.updates.weighted_sum(weights, phase.setup.public.n_model)
        return weights, replace(model, parameters=model.parameters + clear), spends

    monkeypatch.setattr(merge, "aggregated", leaking)
    rows = found([CLIP, CENTRAL])
    assert {row["mechanism"] for row in rows if row["verdict"] == "violated"} == {
        "the model beside its noise"
    }


def test_one_coin_twice(found, monkeypatch):
    finish = CentralGaussian.finish
    monkeypatch.setattr(
        CentralGaussian, "finish", lambda *args: finish(*args[:-1], replace(args[-1], round=1))
    )
    assert violated(found([CLIP, CENTRAL])) == {("noise", "correlation of two draws")}


def test_equal_noise_for_two_ues(found, monkeypatch):
    def noisy(self, std, what, rng):
        drawn = rng.normal(what, np.zeros(len(self.ue), dtype=int), (self.n_parameters,))
        return self.with_values(self.rows(slice(None)) + std[:, None] * drawn, None)

    monkeypatch.setattr(Updates, "noisy", noisy)
    assert ("noise", "correlation of two draws") in violated(found([REPLACE, LOCAL]))


def test_shares_by_all_in_place_of_the_fewest(found, monkeypatch):
    monkeypatch.setattr(RoundContext, "least_honest", lambda self, share: 4)
    assert ("noise", "std of row") in violated(found([CLIP, SHARES], SUM))


def test_merging_the_first(found, monkeypatch):
    kept = Rule.broken
    unruled = "central-noise-first-updates"
    monkeypatch.setattr(
        Rule, "broken", lambda self, words: "" if self.key == unruled else kept(self, words)
    )
    first = {"learning.server": {"kind": "synchronous", "merge_after_updates": 2}}
    rows = found([CLIP, CENTRAL], {**UPLINKS["slow"], **first}, most=4)
    assert ("neighbours", "sum") in violated(rows)


def test_an_area_that_follows_from_rows_without_a_word(found, tmp_path, monkeypatch):
    monkeypatch.setattr(Replay, "drawn_values", lambda self, *args: [])
    trace = trace_of(tmp_path / "t.csv", ("a", "b", "c", "far"))
    rows = found([CLIP, CENTRAL], replayed(trace), most=4)
    assert "the area" in {row["mechanism"] for row in rows if row["verdict"] == "violated"}


def test_rounds_that_hang_on_one_user(found, monkeypatch):
    monkeypatch.setattr(Learning, "hides_who_came", property(lambda self: False))
    monkeypatch.setattr("fl.round.caveats.caveats", lambda *_: iter(()))  # the run then says so
    late = {"learning.server": {"kind": "synchronous", "deadline_s": 50}}
    rows = found([CLIP, CENTRAL], {**UPLINKS["slow"], **late}, most=4)
    assert "which windows are played" in {
        row["mechanism"] for row in rows if row["verdict"] == "violated"
    }


# -- all bundled studies with an epsilon, and everything that accepts a guarantee


def shortened(name):
    """A bundled study of a few rounds without attacks; None where it has no epsilon."""
    if "learning" in AskedStudy.of(name).document.data:
        study = load(name, {"learning.rounds": 3})
    else:
        study = None
    if study is None or not any("spend" in defense.offers for defense in study.learned.defenses):
        return None
    return study.model_copy(
        update={"learning": study.learned.model_copy(update={"attacks": (), "membership": None})}
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [*bundled()])
def test_bundled_studies_are_within_or_say_so(name, data_folder, tmp_path):
    study = shortened(name)
    if study is None:
        pytest.skip("no epsilon")
    audit(study, run(study, tmp_path).run, 2, ignore)
    assert "violated" not in read_table(tmp_path, "audit")["verdict"]


OURS = "learning.aggregation", "learning.defenses"
LEARNERS = {"rsrp-net": {}, "radio-map": {k: v for k, v in RADIO_MAP.items() if k not in OURS}}
LEARNERS["radio-map"] |= {"learning.data": {"kind": "links", "memory": "round"}}
LEARNERS["images"] = TABLE["images"][1]
SERVERS = {"rounds": {"kind": "synchronous"}, "deadline": {"kind": "synchronous", "deadline_s": 15}}
CHAINS = [
    [CLIP, CENTRAL],
    [REPLACE, CENTRAL],
    [CLIP, BANDED],
    [REPLACE, LOCAL],
    [ADAPTIVE, CENTRAL],
    [CLIP, SHARES],
    [CLIP, SKELLAM],
    [{**ADAPTIVE, "noise": "shares"}, SHARES],
    [ADAPTIVE, CENTRAL, LOCAL],
]


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "server", "uplink"), [*product(LEARNERS, SERVERS, UPLINKS)])
def test_whatever_accepts_a_guarantee_is_within_or_says_so(found, learner, server, uplink):
    played = 0
    for chain, sampling in product(CHAINS, ("all", "poisson", "cyclic")):
        asked = {**LEARNERS[learner], **UPLINKS[uplink], "learning.server": SERVERS[server]}
        asked |= half(sampling) if sampling != "all" else {}
        asked |= SUM if any(step in (SHARES, SKELLAM) for step in chain) else {}
        try:
            rows = found(chain, asked, most=1)
        except BadInput:
            continue
        played += 1
        assert violated(rows) == set(), (chain, sampling)
    assert played
