"""The table that a sweep ends with: a row for each variant, means over its seeds, beside chance."""

import pytest

from scenarios.app.cli.commands import main
from scenarios.app.results.sweep_table import MOST_ROWS, sweep_lines

SWEEP = """
title: two commuters
world:
  duration_s: 172800
  tick_s: 1800
  city: {kind: open-field, width_m: 900, height_m: 600}
  base_stations: [{name: a, at_m: [100, 100]}]
  ues: {count: 2, mobility: {kind: commuter}}
learning:
  round_s: 86400
  data: {kind: measured, cell: all}
  learner: {kind: rsrp-net, hidden: [4], activation: relu}
  leakage: {random_baseline_draws: 5, directions: 4}
  attacks: [{kind: closed-form}]
vary:
  seed: [1, 2]
  variants:
    - {label: plain, set: {}}
    - {label: noisy, set: {learning.defenses: [{kind: clip}, {kind: gaussian, noise_multiplier: 1}]}}
"""


def named(attack, home, work, both, shuffled=3.0):
    """Keys of an attack."""
    shares = {"home": home, "work": work, "both": both}
    return {
        f"attack.{attack}.centroid_error_m.median": None,
        **{f"attack.{attack}.{k}_named_within_near.percent": v for k, v in shares.items()},
        **{f"attack.{attack}.{k}_named_within_near.shuffled.percent": shuffled for k in shares},
    }


def run(rmse=4.0, **more):
    chance = {
        f"baseline.{name}.{k}_named_within_near.percent": v
        for name, v in (("uniform", 1.5), ("others", 6.0))
        for k in ("home", "work", "both")
    }
    return {"leakage.near_m": 100, "utility.rmse_db": rmse, "utility.constant_rmse_db": 10.0, **chance, **more}


def cells(line):
    """A line of the table as cells; a mean and its range are one."""
    return line.replace(" (", "(").replace(" to ", "-").split()


def tracked(attack, near, **figures):
    """Keys of a tracker."""
    return {f"tracking.{attack}.filter_near.percent": near} | {
        f"tracking.{attack}.{who}_{what}": value + k
        for who, value in figures.items()
        for k, what in enumerate(("error_m.median", "known_h.mean"))
    }


def test_trackers_stand_beside_the_estimates_of_single_rounds():
    best = tracked("good", 40.0, plain=300.0, filter=200.0, smoother=100.0)
    other = tracked("bad", 30.0, plain=1.0, filter=2.0, smoother=3.0)
    lines = sweep_lines([("a", run(**other, **best))])
    assert [cells(lines[0])[-6:], cells(lines[2])[-6:]] == [
        ["one", "round", "filter", "filter", "smoother", "smoother"], ["300", "301", "200", "201", "100", "101"]
    ]  # fmt: skip
    assert "hours in which a UE is known within 100 m" in " ".join(lines)
    assert not any("smoother" in line for line in sweep_lines([("a", run())]))


def test_a_mean_says_over_how_many_seeds_it_is_where_some_measured_nothing():
    nothing = run(None) | {"utility.constant_rmse_db": None}
    lines = sweep_lines(
        [("a", run(4.0)), ("a", run(5.0)), ("a", nothing), ("b", run(7.0)), ("b", run(7.0)), ("b", run(7.0))]
    )
    assert "4.5 (4 to 5; 2 of 3 seeds)" in lines[2] and "seeds" not in lines[3]
    assert "n of m seeds: the others have no such figure" in " ".join(lines)
    assert "n of m" not in " ".join(sweep_lines([("a", run(4.0)), ("a", run(5.0))]))


def test_a_row_is_the_mean_over_seeds_with_its_range():
    lines = sweep_lines(
        [("a", run(rmse, **named("span", share, 90.0, 80.0))) for rmse, share in ((4, 90), (5, 96), (6, 99))]
    )
    assert cells(lines[1])[:4] == ["variant", "dB", "constant,", "%"]
    label, rmse, below, home, work, both, epsilon = cells(lines[2]) + ["-"] * ("epsilon" not in lines[0])
    assert (label, rmse, home) == ("a", "5(4-6)", "95(90-99)")
    assert below == "50(40-60)" and (work, both, epsilon) == ("90", "80", "-")
    assert "3 seeds a variant" in lines[-2] + lines[-1] and "within 100 m" in lines[-2] + lines[-1]


def test_chance_stands_below():
    lines = sweep_lines(
        [("a", run(**named("span", 90.0, 90.0, 80.0))), ("b", run(**named("span", 9.0, 8.0, 7.0, 5.0)))]
    )
    ends = [cells(line)[-3:] for line in lines if line.startswith("chance")]
    assert ends == [["1.5"] * 3, ["6"] * 3, ["4"] * 3]


def test_a_row_has_its_strongest_attack():
    """By both places first; the other row has another one."""
    first = run(**named("span", 80.0, 90.0, 60.0), **named("votes", 95.0, 20.0, 10.0))
    second = run(**named("span", 1.0, 1.0, 0.0), **named("votes", 50.0, 1.0, 0.0))
    lines = sweep_lines([("a", first), ("b", second)])
    assert [cells(line)[-4:] for line in lines[2:4]] == [["80", "90", "60", "span"], ["50", "1", "0", "votes"]]


def test_epsilon_central_and_accuracy_have_columns_where_they_are_known():
    lines = sweep_lines([
        ("a", {"utility.rmse_db": 4.4, "utility.central_rmse_db": 4.0, "privacy.gaussian.epsilon.max": 3.2}),
        ("b", {"utility.rmse_db": 4.0, "privacy.clip.epsilon.max": None, "privacy.all.epsilon.max": 9.0}),
        ("c", {"utility.rmse_db": 4.0, "privacy.all.epsilon.max": 2000.0}),
    ])  # fmt: skip
    assert [cells(line) for line in lines[2:5]] == [
        ["a", "4.4", "10", "3.2"], ["b", "4", "-", "infinite"], ["c", "4", "-", ">", "1000"],
    ]  # fmt: skip
    (row,) = [line for line in sweep_lines([("x", {"utility.accuracy_percent": 93.4})]) if line.startswith("x")]
    assert cells(row) == ["x", "93"]


def test_nothing_to_show_or_too_much():
    assert sweep_lines([("a", {"radio.samples": 4})]) == []
    assert sweep_lines([(str(k), run()) for k in range(MOST_ROWS + 1)]) == []
    assert len(sweep_lines([(str(k), run()) for k in range(MOST_ROWS)])) > MOST_ROWS


def test_without_homes_the_centroid_error_is_shown():
    lines = sweep_lines([("a" * 50, {"utility.rmse_db": 4.0, "attack.dlg.centroid_error_m.median": 33.2})])
    assert cells(lines[2]) == ["a" * 29 + "...", "4", "33.2"] and "error, m" in lines[1]


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_the_command_prints_it(tmp_path, capsys, quiet):
    (tmp_path / "s.yaml").write_text(SWEEP)
    assert main(["sweep", str(tmp_path / "s.yaml"), "--jobs", "1", "--out", str(tmp_path / "w"), *quiet]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert [line.split()[0] for line in lines[3:5]] == ["plain", "noisy"] and "all runs in" in lines[-1]
    assert cells(lines[3])[-1] == "-" and cells(lines[4])[-1] != "-"  # epsilon
    assert (said.err == "") if quiet else ("% of homes" in said.err)
