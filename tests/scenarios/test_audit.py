"""`netsim audit`: honest studies are within what is booked; faults, old and planted, are found,
each by its half."""

import json
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from conftest import write_tiny
from pytest import approx, fixture, mark
from refused import catch_line

from fl.defenses.clip import AdaptiveClip, Clip
from fl.defenses.gaussian import CentralGaussian, Gaussian
from fl.radio_map.obstacles import HEIGHTS
from fl.round import assembly, merge
from fl.round.learning import Learning
from fl.types import Bound, RoundContext, Updates
from netsim.clock import DAY_S
from netsim.errors import BadInput
from netsim.fit import PartRule
from netsim.mobility.replay import Replay
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.run.audit import write_audit
from scenarios.app.run.events import ignore_event
from scenarios.app.study.load import Scenario, list_bundled, load, parse_value

sys.path.append(str(Path(__file__).parents[1] / "fl"))
from test_sensitivity import RADIO_MAP, STATED, UPLINKS, build_replay, write_trace

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
    choice = {"kind": "uniform", "clients": 4, "participation": 0.5}
    return {
        "learning.participation": 0.5,
        "learning.sampling": sampling,
        "learning.aggregation": choice,
    }


@fixture
def audit(tiny, tmp_path):
    """Rows of the audit of a tiny study, as dictionaries: call it with defenses and other
    changes."""

    def play(defenses, changes=None, max_n=2):
        scenario = {
            "learning.attacks": [],
            "world.duration_s": 80,
            "learning.round_s": 20,
            "learning.defenses": defenses,
            "learning.data": {"kind": "measured", "cell": "strongest", "memory": "all"},
            "learning.aggregation": {"kind": "uniform", "clients": 4},
            **(changes or {}),
        }
        study = tiny(scenario)
        played = run(study, tmp_path / "run", replace=True).run
        write_audit(study, played, max_n, ignore_event)
        table = read_record_table(tmp_path / "run", "audit")
        return [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]

    return play


def find_violations(rows):
    """Half and quantity, or the name of a public value."""
    return {
        (row["half"], row["quantity"].partition(" (")[0] or row["mechanism"])
        for row in rows
        if row["verdict"] == "violated"
    }


def worst(rows, quantity, half="neighbours"):
    is_own = [row for row in rows if row["half"] == half and row["quantity"].startswith(quantity)]
    return max(is_own, key=lambda row: np.nan_to_num(row["moved"], nan=row["lower"]))


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
        parse_value(
            "{learning.data: {kind: images, samples: 20, partition: {kind: label-skew, "
            "iid: 1}}, learning.learner: {kind: torch, module: perceptron, "
            "arguments: {hidden: [8]}}}"
        ),
    ),
    "fedbuff": (
        [REPLACE, LOCAL],
        parse_value(
            "{learning.server: {kind: fedbuff, buffer: 2}, world.radio.dynamic_uplink: {}}"
        ),
    ),
}
TIGHT = {"central", "replaced", "poisson", "banded", "shares", "local", "adaptive", "lapa"}


@mark.parametrize("name", TABLE)
def test_honest_studies_are_within_what_is_booked(audit, name):
    rows = audit(*TABLE[name], max_n=4 if name == "banded" else 2)
    # a coin is not compared
    halves = {"neighbours", "ledger", "noise"} - ({"ledger"} if name == "poisson" else set())
    assert find_violations(rows) == set()
    assert {row["half"] for row in rows} == halves
    if name == "poisson":
        assert worst(rows, "sum")["moved"] == approx(worst(rows, "sum")["sensitivity"])
        return
    of_all = worst(rows, "epsilon", "ledger")
    assert of_all["lower"] <= of_all["upper"] * (1 + 1e-6)
    if name in TIGHT:  # and no more is booked than must be
        assert of_all["lower"] == approx(of_all["upper"], rel=1e-4)


def test_a_trace_with_a_stated_extent_is_within_and_one_without_is_named(audit, tmp_path):
    trace = write_trace(tmp_path / "t.csv", ("a", "b", "c", "d", "far"))
    rows = audit(
        [CLIP, CENTRAL],
        {
            **build_replay(trace, **STATED),
            "learning.aggregation": {"kind": "uniform", "clients": 5},
        },
    )
    assert {row["verdict"] for row in rows} == {"within"}
    rows = audit([CLIP, CENTRAL], build_replay(trace), max_n=5)
    named = {row["mechanism"] for row in rows if row["verdict"] == "caveat"}
    assert {"the area", "the number of rounds", "the first day"} <= named
    assert find_violations(rows) == set()


def test_of_the_only_user_of_a_trace_updates_are_compared(audit, tmp_path):
    """Without its rows there is no trace, so that public values have nothing to be compared
    with."""
    changes = build_replay(write_trace(tmp_path / "t.csv", ["a"]), **STATED)
    rows = audit([CLIP, LOCAL], {**changes, "learning.defenses": [CLIP, LOCAL]})
    assert not find_violations(rows)
    assert {row["ue"] for row in rows if row["half"] == "neighbours"} == {"a"}


def test_a_cell_of_one_user_that_nobody_learns_moves_nothing(audit, tmp_path):
    rows = Path(write_trace(tmp_path / "t.csv", ["a", "b", "c"]))
    rows.write_text(rows.read_text() + "2021-04-22T19:00:00Z,c,52.01,4.015,-90,y\n")
    changes = build_replay(str(rows), **STATED | {"cell": "all"}) | {
        "learning.data": {"kind": "measured", "cell": "x"}
    }
    assert not find_violations(
        audit([CLIP, LOCAL], {**changes, "learning.defenses": [CLIP, LOCAL]}, max_n=3)
    )


def test_without_epsilon_it_is_refused(audit):
    assert "no UE sent an update with noise" in catch_line(audit, [REPLACE])


@mark.parametrize("chain", [[CLIP, CENTRAL], [CLIP, LOCAL]])
def test_a_round_for_which_the_budget_has_no_room_is_not_held_against_it(audit, chain):
    rows = audit(chain, {"learning.privacy_budget": {"epsilon": 9.0}})
    assert find_violations(rows) == set()
    assert max(row["round"] for row in rows) == (2 if CENTRAL in chain else 3)
    assert worst(rows, "epsilon", "ledger")["lower"] == approx(
        worst(rows, "epsilon", "ledger")["upper"]
    )


def test_as_json_it_says_the_rows(tmp_path, run_command):
    write_tiny(tmp_path / "tiny.yaml")
    changes = [
        "--set",
        f"learning.defenses={json.dumps([REPLACE, LOCAL])}",
        "--ues",
        "1",
        "--quiet",
        "--json",
    ]
    result = json.loads(
        run_command(f"audit {tmp_path}/tiny.yaml --out {tmp_path}/run", *changes).splitlines()[-1]
    )
    assert result["verdict"] == "nothing found"
    assert result["rows"]["half"][0] == "neighbours"


# -- faults that were there


def skip_checks(patch):
    patch.setattr(Learning, "check", lambda self: None)


def test_a_clip_after_shares_is_found_by_the_noise_as_sent(audit, monkeypatch):
    skip_checks(monkeypatch)
    rows = audit([CLIP, {**SHARES, "noise_multiplier": 0.7}, {**CLIP, "name": "again"}], SUM)
    assert ("noise", "std of row") in find_violations(rows)


def test_noise_of_a_ue_beside_noise_at_the_server_moves_the_sum(audit, monkeypatch):
    skip_checks(monkeypatch)
    monkeypatch.setattr(RoundContext, "adapt_bound", lambda self, bound: bound)
    rows = audit([CLIP, CENTRAL, LOCAL])
    assert ("neighbours", "sum") in find_violations(rows)
    assert worst(rows, "sum")["moved"] > 5 * C


def book_count(patch, half, **changes):
    """The count of an adaptive clip is booked otherwise."""
    method = getattr(AdaptiveClip, half)

    def book(self, *args):
        first, state, spends = method(self, *args)
        return (
            first,
            state,
            [replace(s, sensitivity=np.full(len(s.ue), 0.5), **changes) for s in spends],
        )

    patch.setattr(AdaptiveClip, half, book)


def test_the_bit_of_zeros_moves_a_count_by_one(audit, monkeypatch):
    book_count(monkeypatch, "protect")
    rows = audit([{**ADAPTIVE, "noise": "shares"}, SHARES], SUM)
    assert {("neighbours", "count"), ("ledger", "epsilon")} <= find_violations(rows)
    assert (worst(rows, "count")["moved"], worst(rows, "count")["sensitivity"]) == (1.0, 0.5)


def test_mechanisms_that_are_never_added_up_are_found_by_the_ledger(audit, monkeypatch):
    book_count(monkeypatch, "finish", relation="add-remove")
    rows = audit([ADAPTIVE, SHARES], SUM)
    assert find_violations(rows) == {("ledger", "epsilon")}


def test_days_that_follow_from_rows_are_found(audit, tmp_path, monkeypatch):
    def find_days(study_or_world, *rest):
        world = next(part for part in (study_or_world, *rest) if hasattr(part, "trace"))
        return np.unique(np.floor(world.trace.time_s / DAY_S).astype(np.int64))

    monkeypatch.setattr(assembly, "_find_days", find_days)
    trace = tmp_path / "t.csv"
    write_trace(trace, ("a", "b"))
    trace.write_text(trace.read_text() + "2021-04-24T12:00:00Z,e,52.01,4.015,-80,x\n")
    extent = STATED | {"until": "2021-04-26"}
    changes = build_replay(str(trace), **extent) | {
        "learning.data": {"kind": "measured", "hold_out_by": "day"}
    }
    rows = audit([CLIP, CENTRAL], changes, max_n=5)
    assert "which days are held out" in {
        row["mechanism"] for row in rows if row["verdict"] != "within"
    }


def test_turns_that_follow_one_another_over_a_day_of_23_hours(audit, tmp_path, monkeypatch):
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
    changes = build_replay(
        str(trace), **STATED | {"since": "2021-03-26", "until": "2021-04-01"}
    ) | half("cyclic")
    changes |= {
        "learning.server": {"kind": "synchronous", "deadline_s": DAY_S},
        "learning.defenses": [CLIP, BANDED],
    }
    rows = audit([], changes, max_n=4)
    assert {("neighbours", "sum"), ("ledger", "epsilon")} <= find_violations(rows)
    of_all = worst(rows, "epsilon", "ledger")
    assert (of_all["lower"], of_all["upper"]) == (
        approx(5.93, abs=0.01),
        approx(5.35, abs=0.01),
    )


def test_users_that_one_user_decides_are_named(audit, tmp_path):
    trace = tmp_path / "t.csv"
    lines = ["time_s,user,lat,lon,rsrp_dbm,cell"]
    lines += [f"2021-04-21T{8 + k:02d}:00:00Z,u{k},52.01,4.015,-80,x" for k in range(6)]
    lines += ["2021-04-22T08:00:00Z,u0,52.01,4.016,-81,x"]
    trace.write_text("\n".join(lines) + "\n")
    rows = audit([CLIP, CENTRAL], build_replay(str(trace), **STATED, users="auto"), max_n=6)
    assert {row["ue"] for row in rows if row["mechanism"] == "what a user is"} == {"u0"}


def test_a_label_that_says_presence_is_hidden_is_found(audit, monkeypatch):
    monkeypatch.setattr(Bound, "zeroed", property(lambda self: self))
    rows = audit([CLIP, LOCAL])
    # without a bound
    assert ("neighbours", "row") in find_violations(rows)
    assert np.isnan(worst(rows, "row")["moved"])


def test_sums_that_are_opened_with_too_few_are_found(audit, monkeypatch):
    grouped = merge.group_uploads

    def open_groups(phase, uploads):
        sums = grouped(phase, uploads)
        return replace(sums, opened=sums.company > 0)

    monkeypatch.setattr(merge, "group_uploads", open_groups)
    rows = audit(
        [CLIP, SHARES], {**SUM, "learning.data": {"kind": "measured"}, "learning.round_s": 10}
    )
    assert ("noise", "updates in a sum") in find_violations(rows)


# -- faults that are planted


def test_half_the_noise(audit, monkeypatch):
    finish = CentralGaussian.finish

    def quieter(self, total, *args):
        louder, state, spends = finish(self, total, *args)
        return (total + louder) / 2, state, spends

    monkeypatch.setattr(CentralGaussian, "finish", quieter)
    assert find_violations(audit([CLIP, CENTRAL])) == {("noise", "std of sum")}


def test_half_the_sensitivity(audit, monkeypatch):
    monkeypatch.setattr(Bound, "sensitivity", property(lambda self: self.norm / 2))
    rows = audit([CLIP, CENTRAL])
    assert {("neighbours", "sum"), ("ledger", "epsilon")} == find_violations(rows)
    assert worst(rows, "sum")["moved"] == approx(2 * worst(rows, "sum")["sensitivity"])


def test_a_clip_that_one_phase_lacks(audit, monkeypatch):
    protect = Clip.protect

    def skip_clip(self, updates, *args):
        clipped, state, spends = protect(self, updates, *args)
        return (
            (
                updates.scale_rows(np.ones(len(updates.ue)), clipped.bound)
                if updates.phase == HEIGHTS
                else clipped
            ),
            state,
            spends,
        )

    monkeypatch.setattr(Clip, "protect", skip_clip)
    changes = {k: v for k, v in RADIO_MAP.items() if k != "learning.defenses"} | {
        "learning.data": {"kind": "links", "memory": "round"}
    }
    rows = audit([{"kind": "clip"}, CENTRAL], changes)
    assert {
        row["quantity"]
        for row in rows
        if row["verdict"] == "violated" and row["half"] == "neighbours"
    } == {f"sum ({HEIGHTS})"}


def replace_noise(patch, defense, second):
    """The noise n on a sum t, or on rows of UEs, is other(t, n)."""
    half = "finish" if defense is CentralGaussian else "protect"
    method = getattr(defense, half)

    def draw_noise(self, part, *args):
        noisy, state, spends = method(self, part, *args)
        rows = [x if defense is CentralGaussian else x.rows(slice(None)) for x in (part, noisy)]
        samples = second(rows[0], rows[1] - rows[0])
        return part + samples if defense is CentralGaussian else part.plus(samples), state, spends

    patch.setattr(defense, half, draw_noise)


@mark.parametrize("defense, chain", [(CentralGaussian, [CLIP, CENTRAL]), (Gaussian, [CLIP, LOCAL])])
def test_noise_that_depends_on_what_it_hides(audit, monkeypatch, defense, chain):
    replace_noise(
        monkeypatch,
        defense,
        lambda t, n: n * (1 + 3 * np.linalg.norm(t, axis=1, keepdims=True) / C),
    )
    assert (
        "neighbours",
        "noise of sum" if defense is CentralGaussian else "noise of row",
    ) in find_violations(audit(chain))


def test_more_noise_than_is_booked_is_within(audit, monkeypatch):
    replace_noise(monkeypatch, CentralGaussian, lambda t, n: 3 * n)
    assert find_violations(audit([CLIP, CENTRAL])) == set()


def test_a_part_without_noise(audit, monkeypatch):
    replace_noise(
        monkeypatch,
        CentralGaussian,
        lambda t, n: 1.5 * n * (np.arange(n.shape[1]) < n.shape[1] // 2),
    )
    assert find_violations(audit([CLIP, CENTRAL])) == {("noise", "std of sum")}


def test_a_count_without_noise(audit, monkeypatch):
    finish = AdaptiveClip.finish

    def clear(self, total, n, facts, state, rng):
        same, _, spends = finish(self, total, n, facts, state, rng)
        return same, self._adapt_norm(state, (state.bits - 0.5).sum(), 1 / facts.weight), spends

    monkeypatch.setattr(AdaptiveClip, "finish", clear)
    assert find_violations(audit([ADAPTIVE, CENTRAL])) == {("noise", "std of count")}


def test_a_model_that_also_takes_the_sum_without_noise(audit, monkeypatch):
    aggregated = merge.aggregate_updates

    def leaking(phase, got, *rest):
        weights, model, spends = aggregated(phase, got, *rest)
        clear = got.updates.sum_weighted(weights, phase.setup.public.n_model)
        return weights, replace(model, parameters=model.parameters + clear), spends

    monkeypatch.setattr(merge, "aggregate_updates", leaking)
    rows = audit([CLIP, CENTRAL])
    assert {row["mechanism"] for row in rows if row["verdict"] == "violated"} == {
        "the model beside its noise"
    }


def test_one_coin_twice(audit, monkeypatch):
    finish = CentralGaussian.finish
    monkeypatch.setattr(
        CentralGaussian, "finish", lambda *args: finish(*args[:-1], replace(args[-1], round=1))
    )
    assert find_violations(audit([CLIP, CENTRAL])) == {("noise", "correlation of two draws")}


def test_equal_noise_for_two_ues(audit, monkeypatch):
    def noisy(self, std, name, rng):
        draw_noise = rng.normal(name, np.zeros(len(self.ue), dtype=int), (self.n_parameters,))
        return self.with_values(self.rows(slice(None)) + std[:, None] * draw_noise, None)

    monkeypatch.setattr(Updates, "add_noise", noisy)
    assert ("noise", "correlation of two draws") in find_violations(audit([REPLACE, LOCAL]))


def test_shares_by_all_in_place_of_the_fewest(audit, monkeypatch):
    monkeypatch.setattr(RoundContext, "count_honest", lambda self, share: 4)
    assert ("noise", "std of row") in find_violations(audit([CLIP, SHARES], SUM))


def test_merging_the_first(audit, monkeypatch):
    kept = PartRule.explain_breach
    unruled = "central-noise-first-updates"
    monkeypatch.setattr(
        PartRule,
        "explain_breach",
        lambda self, words: "" if self.key == unruled else kept(self, words),
    )
    first = {"learning.server": {"kind": "synchronous", "merge_after_updates": 2}}
    rows = audit([CLIP, CENTRAL], {**UPLINKS["slow"], **first}, max_n=4)
    assert ("neighbours", "sum") in find_violations(rows)


def test_an_area_that_follows_from_rows_without_a_word(audit, tmp_path, monkeypatch):
    monkeypatch.setattr(Replay, "list_drawn_values", lambda self, *args: [])
    trace = write_trace(tmp_path / "t.csv", ("a", "b", "c", "far"))
    rows = audit([CLIP, CENTRAL], build_replay(trace), max_n=4)
    assert "the area" in {row["mechanism"] for row in rows if row["verdict"] == "violated"}


def test_rounds_that_hang_on_one_user(audit, monkeypatch):
    monkeypatch.setattr(Learning, "hides_who_came", property(lambda self: False))
    # the run then says so
    monkeypatch.setattr("fl.round.caveats.collect_caveats", lambda *_: iter(()))
    late = {"learning.server": {"kind": "synchronous", "deadline_s": 50}}
    rows = audit([CLIP, CENTRAL], {**UPLINKS["slow"], **late}, max_n=4)
    assert "which windows are played" in {
        row["mechanism"] for row in rows if row["verdict"] == "violated"
    }


# -- all bundled studies with an epsilon, and everything that accepts a guarantee


def shorten_study(name):
    """A bundled study of a few rounds without attacks; None where it has no epsilon."""
    if "learning" in Scenario.from_source(name).document.data:
        study = load(name, {"learning.rounds": 3})
    else:
        study = None
    if study is None or not any("spend" in defense.offers for defense in study.learned.defenses):
        return None
    return study.model_copy(
        update={"learning": study.learned.model_copy(update={"attacks": (), "membership": None})}
    )


@mark.slow
@mark.parametrize("name", [*list_bundled()])
def test_bundled_studies_are_within_or_say_so(name, data_folder, tmp_path):
    study = shorten_study(name)
    if study is None:
        pytest.skip("no epsilon")
    write_audit(study, run(study, tmp_path).run, 2, ignore_event)
    assert "violated" not in read_record_table(tmp_path, "audit")["verdict"]


OURS = "learning.aggregation", "learning.defenses"
LEARNERS = {"rsrp-net": {}, "radio-map": {k: v for k, v in RADIO_MAP.items() if k not in OURS}}
LEARNERS["radio-map"] |= {"learning.data": {"kind": "links", "memory": "round"}}
LEARNERS["images"] = TABLE["images"][1]
SERVERS = parse_value(
    "{rounds: {kind: synchronous}, deadline: {kind: synchronous, deadline_s: 15}}"
)
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


@mark.slow
@mark.parametrize("learner, server, uplink", [*product(LEARNERS, SERVERS, UPLINKS)])
def test_whatever_accepts_a_guarantee_is_within_or_says_so(audit, learner, server, uplink):
    played = 0
    for chain, sampling in product(CHAINS, ("all", "poisson", "cyclic")):
        changes = {**LEARNERS[learner], **UPLINKS[uplink], "learning.server": SERVERS[server]}
        changes |= half(sampling) if sampling != "all" else {}
        changes |= SUM if any(step in (SHARES, SKELLAM) for step in chain) else {}
        try:
            rows = audit(chain, changes, max_n=1)
        except BadInput:
            continue
        played += 1
        assert find_violations(rows) == set(), (chain, sampling)
    assert played
