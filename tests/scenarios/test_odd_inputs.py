"""Rounds with hardly any data, places that never change, overflowing updates: defined, recorded, no
crash."""

import re

import numpy as np
from noticed import by_key, of_run
from pytest import mark, raises

from netsim.errors import BadInput
from scenarios import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.study.load import parse_value

CLUSTERED = parse_value(
    "[{kind: diverse-batch, eps_m: 1.0}, {kind: farthest-batch, eps_m: 1.0, num: 3}]"
)
ATTACKS = parse_value(
    "[{kind: closed-form}, {kind: dlg, starts: 2, iterations: 5}, {kind: neuron-votes}]"
)

WILD = {  # overflows on the device
    "learning.learner.learning_rate": 10.0,
    "learning.learner.local_epochs": 40,
    "learning.learner.activation": "elu",
}


def play_with_attacks(tiny, folder, **changes):
    summary = run(tiny({"learning.attacks": ATTACKS, **changes}), folder)
    return summary, lambda table: read_record_table(folder, table)


@mark.parametrize("step", CLUSTERED)
@mark.parametrize("measurements", [1, 3])
def test_a_handful_of_scattered_points_makes_no_cluster(step, measurements, tiny, out):
    """A walker's points lie further apart than a metre: the fallback is one of them, and the record
    says so."""
    round_s = {1: 60.0, 3: 20.0}[measurements]
    changes = {
        "world.ues.measurement_period_s": round_s,
        "learning.curation": [step],
        "learning.data.kind": "measured",
        "learning.data.hold_out": 0.0,
        "learning.data.cell": "all",
        "world.radio.path_loss": {"kind": "free-space"},
    }
    summary, tables = play_with_attacks(tiny, out, **changes)
    curated = tables("curation")
    assert summary["rounds.played"] == 2
    assert curated["fallback"].all()
    assert (curated["after"] == 1).all()
    assert (curated["clusters"] == 0).all()
    assert np.isfinite(tables("estimates")["x_m"]).any()
    printed = by_key(of_run(out))["curation-without-cluster"]
    assert f"curation {step['kind']} never found a cluster" in printed


@mark.parametrize("step", [*CLUSTERED, {"kind": "gan", "steps": 5}])
def test_points_that_are_all_the_same(step, tiny, out):
    static = parse_value(
        "{world.ues.mobility: {kind: static}, learning.data: {kind: measured, hold_out: 0.0}}"
    )
    summary, tables = play_with_attacks(tiny, out, **static, **{"learning.curation": [step]})
    assert not tables("curation")["fallback"].any()
    is_own = tables("leakage")["attack"] == "closed-form"
    if step["kind"] != "gan":  # one place is the centroid of itself
        np.testing.assert_allclose(tables("leakage")["error_m"][is_own], 0.0, atol=1e-5)
    assert summary["updates.non_finite"] == 0


def test_rounds_in_which_nobody_measures(tiny, out):
    summary, tables = play_with_attacks(tiny, out, **{"world.ues.measurement_period_s": 1000.0})
    assert summary["rounds.played"] == 1
    assert summary["rounds.empty"] == 1
    assert set(tables("leakage")["round"]) == {1.0}


def test_updates_that_overflow_are_zero_and_said_so(tiny, out):
    summary, tables = play_with_attacks(tiny, out, **WILD)
    assert summary["updates.non_finite"] == summary["updates.sent"] > 0
    assert "updates-overflowed" in by_key(of_run(out))
    message = tables("estimates")
    for attack in ("closed-form", "dlg"):
        assert set(
            message["status"][(message["attack"] == attack) & (message["quantity"] == "centroid")]
        ) == {"no gradient"}
    assert summary["attack.closed-form.diverged.percent"] == 100.0
    assert summary["attack.closed-form.failed.percent"] == 100.0
    for key in (
        "sw1_m.mean",
        "sqrt_sw1.mean",
        "centroid_error_m.median",
    ):  # no distance is made up, no figure is 0
        assert summary[f"attack.closed-form.{key}"] is None, key


def test_a_world_in_which_nobody_measures_says_so(tiny, tmp_path, out):
    """Commuters measure nothing before 07:00."""
    asleep = {"world.ues.mobility": {"kind": "commuter"}, "world.ues.measurement_period_s": None}
    summary = run(tiny(asleep), out)
    assert summary["samples.count"] == 0
    assert summary["notices.void"] == 1
    assert "nothing-measured" in by_key(of_run(out))
    assert run(tiny(), tmp_path / "t")["notices.void"] == 0


def test_an_area_without_room_is_told(tiny, tmp_path):
    small = parse_value("{world.city: {kind: open-field, width_m: 1, height_m: 300}}")
    for changes, printed in ((small, True), ({}, False)):
        run(tiny(changes), tmp_path / str(printed))
        message = by_key(of_run(tmp_path / str(printed))).get("area-tiny", "")
        assert message.startswith("the area is 1 m x 300 m") == printed


@mark.parametrize("value", [1e-300, 1e300])
@mark.parametrize(
    "slot, part, key",
    [
        ("curation", {"kind": "geo-indistinguishable"}, "epsilon_per_m"),
        ("defenses", {"kind": "clip"}, "norm"),
        ("defenses", {"kind": "adaptive-clip"}, "norm"),
    ],
)
def test_values_beyond_all_sense_are_refused(slot, part, key, value, tiny):
    with raises(BadInput, match=rf"{slot}\[0\]\.{key}=\S+: must be at least "):
        tiny({f"learning.{slot}": [{**part, key: value}]})


@mark.parametrize(
    "changes",
    parse_value(
        "[{learning.curation: [{kind: geo-indistinguishable, epsilon_per_m: 1e-09}]}, "
        "{learning.curation: [{kind: geo-indistinguishable, epsilon_per_m: 1000000000.0}]}, "
        "{learning.defenses: [{kind: clip, norm: 1e-12}, {kind: gaussian, "
        "noise_multiplier: 1e-300}]}, {learning.defenses: [{kind: clip, "
        "norm: 1000000000000.0}, {kind: gaussian, noise_multiplier: 1000000000.0}]}]"
    ),
)
@mark.filterwarnings("error::RuntimeWarning")
def test_the_ends_of_the_bounds_run_without_a_warning(changes, tiny, out):
    run(tiny(changes), out)


def test_every_screen_prints_a_length_below_a_millimetre_alike(tiny_run):
    """3.06e-13 m is a rounding error that differs between machines: terminal, progress, table and
    page say 0.000 m."""
    from dataclasses import replace

    from screens import sweep_lines

    from scenarios.app.cli.outcome import describe_event
    from scenarios.app.report.run_page import build_run_page
    from scenarios.app.report.tables import render_all_figures
    from scenarios.app.results import summary_keys as keys
    from scenarios.app.results.outcome import build_figures_table
    from scenarios.app.results.read import load_finished_run
    from scenarios.app.results.screen import lay_out_table
    from scenarios.app.results.shown import draw_figures_table, format_seed_values, format_value
    from scenarios.app.results.table import build_lines

    def visible(html):
        return re.sub(r"<script.*?</script>|<[^>]*>", " ", html, flags=re.DOTALL)

    result = load_finished_run(tiny_run)
    lengths = {
        k for k in result.summary if (d := keys.find_measure(k)) is not None and d.unit == "m"
    }
    summary = {
        k: 3.06e-13 if k in lengths and v is not None else v for k, v in result.summary.items()
    }
    rows = result.tables["leakage"]
    zero = {
        name: np.where(np.isfinite(v), 3.06e-13, v)
        for name, v in rows.items()
        if name.endswith("_m")
    }
    page = build_run_page(
        replace(result, summary=summary, tables=result.tables | {"leakage": rows | zero})
    )
    event = {
        "event": "run",
        "title": "t",
        "done": 1,
        "of": 1,
        "label": "",
        "seed": 0,
        "summary": summary,
    }
    message = [
        *draw_figures_table(summary),
        *lay_out_table(build_figures_table("Results", build_lines([summary]))),
        *sweep_lines([("a", summary)]),
        *describe_event(event).values(),
    ]
    message += [format_value(summary[k], "m") for k in lengths] + [
        format_seed_values([summary], k) for k in lengths
    ]
    message += [visible(text) for text in (page, render_all_figures({"a": [summary]}))]
    assert len(lengths) > 10
    assert sum("0.000" in text for text in message) > len(lengths)
    assert not [text for text in message if "3.06e-13" in text or "0.000 %" in text]
