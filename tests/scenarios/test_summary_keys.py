"""Keys of summaries and columns of tables: declared once, written by a run, explained in the
reference."""

import ast
import inspect
import re
import shutil
from math import inf, nan

import numpy as np
import pytest
from pages import read_json
from pydantic import TypeAdapter
from rows import read_cells, read_yaml
from tabled import cases

from netsim.errors import BadInput
from netsim.record import write_json
from scenarios.app.cli.commands import main
from scenarios.app.result import run
from scenarios.app.results import attacks, summary
from scenarios.app.results.attacks import PLACES
from scenarios.app.results.folder import QUANTITIES, read_record_table
from scenarios.app.results.summary_keys import (
    KEYS,
    Measure,
    check_declared,
    compute_measures,
    find_measure,
)
from scenarios.app.study import SCHEMA_VERSION
from scenarios.app.study.load import load


def strip_name(item):
    """What stands after NAME; the whole key where there is none."""
    if item.is_pattern:
        return item.key.partition("NAME.")[2]
    return item.key


def test_every_key_has_one_declaration():
    assert len({item.key for item in KEYS}) == len(KEYS)
    for item in KEYS:
        name = "some-name_2" if item.is_pattern else ""
        if item.group == "metric":
            name = "part_2.a-metric_db"
        assert find_measure(item.to_key(name)) is item
        assert item.parse_name(item.to_key(name)) == name
        assert item.says
        assert item.to_key(name) == ".".join(filter(None, (item.group, name, strip_name(item))))
        with pytest.raises(ValueError, match="name"):
            item.to_key("" if item.is_pattern else "x")
    assert find_measure("attack.unheard") is None
    with pytest.raises(KeyError, match=r"attack\.unheard"):
        check_declared(["ues.count", "attack.unheard"])


WORDS = set(
    *read_cells("mean  median  min  max  std  rms  q05  q25  q75  q95  last  low  high  percent")
)


def test_a_statistic_is_the_last_word_of_a_key():
    """A key is GROUP[.NAME].QUANTITY_unit[.SELECTION].STATISTIC, without digits: a statistic is not
    glued to a quantity, and no name holds the value of a setting."""
    for item in KEYS:
        assert not re.search(
            r"_(mean|median|min|max|rms|q\d+|low|high|worst|largest|most)\b", item.key
        )
        assert not WORDS & set(strip_name(item).split(".")[:-1])
        assert not re.search(r"\d", re.sub(r"s?w1|last20|q\d\d|_m2", "", item.key))


STATISTICS = """
x.mean     -         2
x.rms      -         3.391164991562634
x.median   -         4.5
x.median   known     1.5
x.max      -         nan
x.percent  -         200
x          share     200
x.count    -         6
x          distinct  6
x          -         nan
"""


@pytest.mark.parametrize("pattern, statistic, value", read_cells(STATISTICS))
def test_statistics_by_hand(pattern, statistic, value):
    """Of -1, 0, 3, 6, NaN and infinity: a quantile lies between values that it counts; what is not
    finite is null."""
    x = np.array([-1.0, 0.0, 3.0, 6.0, inf, nan])
    measure = Measure(pattern, "", "", "rows", "x", statistic.strip("-"))
    assert measure.compute_value({"x": x}) == pytest.approx(float(value), nan_ok=True)


def test_a_measure_is_weighted_and_what_has_no_rows_has_no_key():
    half = Measure("y.percent", "%", "", "rows", "x", "share", "n")
    x, n = np.array([[0.5, 1.0, nan, 0.0], [3.0, 1.0, 9.0, 0.0]])
    assert half.compute_value({"x": x, "n": n}) == 62.5
    assert np.isnan(half.compute_value({"x": np.ones(2), "n": np.zeros(2)}))
    walks = {"walk_error_m": np.array([1.0, 3.0]), "walk_no_motion_m": np.array([4.0, nan])}
    text = compute_measures({"walks": walks}, "a")
    assert text == {"attack.a.walk_error_m.mean": 2.0, "attack.a.walk_no_motion_m.mean": 4.0}
    lacks = (
        "walk_no_motion_m.mean: rows 'walks' have no column 'walk_no_motion_m'; they have "
        "walk_error_m"
    )
    with pytest.raises(ValueError, match=lacks):
        compute_measures({"walks": {"walk_error_m": np.zeros(1)}}, "a")


RUNS = """
'replays/sumo', 'learning.rounds: 2'
'city', 'learning.rounds: 4, world.ues.count: 8, learning.data.hold_out_by: [day, block]'
'campus', 'world.duration_s: 1814400, learning.learner.hidden: [4], '
    'learning.defenses: [{kind: clip}, {kind: gaussian, noise_multiplier: 1}], '
    'learning.curation: [{kind: geo-indistinguishable, epsilon_per_m: 0.1}], '
    'learning.membership: {attacks: [{kind: gradient-norm}]}'
'cities/plaza', 'world.duration_s: 60, world.ues.count: 4, world.radio.dynamic_uplink: {}'
'density/nine', 'world.ues.count: 40, learning.learner.grid: [12, 12], '
    'learning.threat.n_targets: 4'
'density/moving', 'world.ues.count: 8, learning.rounds: 3'
'density/moving', 'world.ues.count: 8, learning.rounds: 3, learning.request_policy: '
    '{kind: custom, gamma: null, multiples: any, speed_m_s: 1.8}'
'lapa/aggregation', 'learning.rounds: 2, learning.data.samples: 20, '
    'world.radio.dynamic_uplink: {}'
'town', 'learning.rounds: 2, learning.attacks: [{kind: arrival-times}], '
    'learning.threat: {observes: aggregate, secagg_group_size: 2}, '
    'learning.withholding: [{kind: random-silence, probability: 0.5}]'
'town', 'learning.rounds: 2, learning.threat.pseudonyms: {kind: per-round}, learning.attacks: '
    '[{kind: re-identify, sigma_m: 100}, {kind: tracker, sigma_m: 100}]'
'tracking/names', 'learning.rounds: 2, world.ues.count: 4, '
    'learning.threat.knowledge: [weights, training, homes], '
    'learning.attacks: [{kind: re-identify, sigma_m: 100, homes: known}]'
'radio-maps/train', 'learning.rounds: 2, learning.learner.cell_m: 30'
'radio/coverage', 'world.duration_s: 60, world.ues.count: 4, measured: $peer'
"""
"""scenarios and their changes; the requests of one are refused by their rate"""
# see test_plan
OF_PLANS = {item.key for item in KEYS if item.group == "" and item.key.startswith("plan.")}


@pytest.mark.slow
def test_every_declared_key_is_written(tmp_path):
    """And every written one is declared, or a run would end with a KeyError."""
    written = set()
    peer = tmp_path / "theirs.csv"
    peer.write_text("gain_db,rsrp_dbm,geometry_db,sinr_db\n" + "-90,-80,10,5\n-100,-90,20,15\n")
    for i, (scenario, changes) in enumerate(cases(RUNS, peer=str(peer))):
        summary = run(load(scenario, read_yaml(changes) | {"vary": None}), tmp_path / str(i))
        written |= {find_measure(key).key for key in summary}
    assert {item.key for item in KEYS} - OF_PLANS - {"utility.NAME"} == written - {"utility.NAME"}


def test_rows_of_every_measure_are_made_somewhere():
    """A run without the rows of a measure does not have its key, so that nothing else finds a
    misspelt name of rows."""
    nodes = [
        node
        for values in (attacks, summary)
        for node in ast.walk(ast.parse(inspect.getsource(values)))
    ]
    names = {node.value for node in nodes if isinstance(node, ast.Constant)}
    names |= {*QUANTITIES, *(f"measured {quantity}" for quantity in QUANTITIES)}
    names |= {f"{place} by chance" for place in PLACES}
    names |= {"notices"}  # which are counted when a run has ended
    assert {item.key: item.rows for item in KEYS if item.rows not in names} == {}


def test_baselines_and_counts_are_keys():
    named = {key for item in KEYS for _, key in item.beside} | {item.count for item in KEYS}
    assert len(named) > 2
    assert named <= {item.key for item in KEYS} | {""}


@pytest.mark.parametrize(
    "field, value, says",
    read_cells("""
        statistic  meen  no statistic 'meen'
        rule       good  rule
        hed        x     hed
    """),
)
def test_a_misspelt_field_of_a_measure_is_refused(field, value, says):
    with pytest.raises(ValueError, match=says):
        TypeAdapter(Measure).validate_python({"key": "a.b", field: value})


@pytest.mark.parametrize("schema", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
def test_a_run_of_another_schema_is_refused_in_one_line(tiny_run, tmp_path, capsys, schema):
    folder = shutil.copytree(tiny_run, tmp_path / "r")
    manifest = read_json(folder / "manifest.json")
    assert manifest["schema"] == SCHEMA_VERSION
    write_json(
        folder / "manifest.json", manifest | {"schema": schema, "versions": {"netsim": "0.6.0"}}
    )
    shutil.copytree(folder, tmp_path / "s")
    requested = [[command, str(folder)] for command in ("show", "report", "export", "rerun")]
    requested += [["report", str(tmp_path)], ["compare", str(folder), str(tmp_path / "s")]]
    assert [main(command) for command in requested] == [2] * len(requested)
    says = (
        f"schema {schema}, written by netsim 0.6.0; this one reads schema {SCHEMA_VERSION}; "
        f"run the study again"
    )
    assert capsys.readouterr().err.splitlines() == [f"netsim: {folder}: records of {says}"] * len(
        requested
    )


def test_readers_take_types_from_the_declaration(tmp_path):
    (tmp_path / "estimates.csv").write_text("round,attack,x_m,quantity\n1,7,,3\n")
    table = read_record_table(tmp_path, "estimates")
    assert table["attack"].tolist() == ["7"]
    assert table["quantity"].tolist() == ["3"]
    assert table["round"].tolist() == [1.0]
    assert table["x_m"].dtype == float
    (tmp_path / "estimates.csv").write_text("round\nx\n")
    with pytest.raises(BadInput, match="column round"):
        read_record_table(tmp_path, "estimates")


def test_the_centre_that_errors_are_compared_with_is_that_of_the_area(tiny_run):
    """400 m x 300 m: its centre is (200, 150), and neither a corner, nor (150, 200)."""
    summary = read_json(tiny_run / "summary.json")
    rows = read_record_table(tiny_run, "updates")
    centre_m = np.hypot(rows["x_m"] - 200.0, rows["y_m"] - 150.0)
    assert summary["baseline.area_centre.error_m.median"] == pytest.approx(np.nanmedian(centre_m))
    keys = zip(rows["round"], rows["ue"], rows["model"], strict=True)
    group = dict(zip(keys, centre_m, strict=True))
    leaks = read_record_table(tiny_run, "leakage")
    less = dict[float, list[float]]()
    for k, ue in enumerate(leaks["ue"]):
        key = (leaks["round"][k], ue, leaks["model"][k])
        if leaks["heard"][k] == 1:
            less.setdefault(ue, []).append(
                0.0 if leaks["diverged"][k] == 1 else leaks["error_m"][k] - group[key]
            )
    mean = np.mean([np.mean(item) for item in less.values()])
    assert summary["attack.closed-form.centroid_error_m.less_baseline.mean"] == pytest.approx(
        mean, abs=1e-6
    )


def test_late_metrics_are_those_of_the_last_twenty_rounds(tiny, tmp_path):
    summary = run(tiny(read_yaml("world.duration_s: 1500, learning.attacks: []")), tmp_path).summary
    metrics = read_record_table(tmp_path, "metrics")
    values = (metrics["part"] == "learner") & (metrics["name"] == "mape_percent")
    value = metrics["value"][values].astype(float)
    assert len(value) == 25
    assert summary["metric.learner.mape_percent.last20.mean"] == pytest.approx(np.mean(value[-20:]))
