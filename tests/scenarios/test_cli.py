"""The command line: what people type, what they get, and one clear line for everything that cannot
be used."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from conftest import ROOT, SHORT, TINY, write_campus
from noticed import of_run
from pytest import mark, param, raises

from scenarios.app.cli import ask, options
from scenarios.app.cli.commands import main
from scenarios.app.results.folder import read_csv_rows, read_summary
from scenarios.app.study.load import list_bundled, load, parse_value

BRIEF = [
    "--set",
    "learning.attacks=[{kind: closed-form}]",
    "--set",
    "learning.learner.hidden=[8]",
    "--quiet",
]


def good_rows(n=200, start=1_700_000_000):
    """Rows of a little walk of two days."""
    return [
        [
            start + 900 * i,
            "u",
            f"{52 + 1e-5 * (i % 97):.6f}",
            f"{4 + 1e-5 * (i % 53):.6f}",
            -80 - i % 30,
            "c1",
        ]
        for i in range(n)
    ]


def write_trace(path, rows, header=("time_s", "user", "lat", "lon", "rsrp_dbm", "cell")):
    with path.open("w", newline="") as f:
        csv.writer(f).writerows([header, *rows])
    return path


def test_run_writes_a_folder_and_prints_its_result(tmp_path, capsys):
    assert main(["run", "campus", "--out", str(tmp_path / "r"), "--seed", "5", *SHORT]) == 0
    out, progress = capsys.readouterr()
    assert "centroid error" in out
    assert "round 3/3" in progress
    assert "\033" not in out + progress
    names = {p.name for p in (tmp_path / "r").iterdir()}
    assert names >= {
        "study.yaml",
        "manifest.json",
        "summary.json",
        "rounds.csv",
        "estimates.csv",
        "leakage.csv",
    }
    assert names >= {"updates.csv", "links.csv", "ues.csv", "points.npz", "report.html"}
    keys = read_summary(tmp_path / "r")
    expected = [
        "utility.rmse_db",
        "utility.constant_rmse_db",
        "attack.closed-form.centroid_error_m.median",
        "attack.closed-form.diverged.percent",
        "attack.closed-form.sw1_m.mean",
        "baseline.random_guess.sw1_m.q05",
    ]
    assert set(expected) <= set(keys)


def test_a_published_replay_shows_both_feature_modes(tmp_path, refuse_command, run_command):
    trace = write_trace(tmp_path / "t.csv", good_rows())
    words = ["replay", str(trace), "--round", "12h", "--out", str(tmp_path / "r"), *BRIEF]
    out = run_command([*words, "--published"])
    assert "standardised-by-dataset, seed 0: " in out
    assert "standardised-by-public, seed 0: " in out
    for mode in ("dataset", "public"):
        study = (tmp_path / "r" / f"standardised-by-{mode}" / "study.yaml").read_text()
        assert "profile: published" in study
        summary = read_summary(tmp_path / "r" / f"standardised-by-{mode}")
        assert summary["samples.count"] == 200
    assert "leave --defend out" in refuse_command([*words, "--published", "--defend"])


def test_a_replay_trains_a_useful_map_at_the_level_of_the_trace(tmp_path, out, run_command):
    rows = good_rows()
    trace = write_trace(tmp_path / "t.csv", rows)
    printed = " ".join(run_command(f"replay {trace} --round 12h --out {out}", *BRIEF).split())
    level_dbm = [row[4] for row in rows]
    mean, spread = (round(float(part(level_dbm))) for part in (np.mean, np.std))
    assert (
        f"mean {mean} dBm, standard deviation {max(spread, 1)} dB, of the trace's rows" in printed
    )
    # two days are too few to hold out one of
    assert "% of the blocks score the map" in printed
    study = load(out / "study.yaml")
    learner = study.learned.learner
    data = study.learned.data
    assert (learner.profile, learner.public_rsrp_mean_dbm, data.hold_out_by) == (
        "useful",
        mean,
        "block",
    )
    assert (data.guard, data.memory) == (0.3, "all")
    assert read_summary(out)["samples.count"] == 200


def test_a_replay_beside_its_defenses(tmp_path, capsys):
    """Sums are for several users, and so are attacks that follow them over the hours, in rounds
    that have some."""

    def replay(name, rows, *words):
        trace = write_trace(tmp_path / name, rows)
        brief = [
            "--set",
            "learning.learner.hidden=[8]",
            "--quiet",
            "--out",
            str(tmp_path / f"{name}-r"),
        ]
        assert main(["replay", str(trace), "--round", "6h", *brief, *words]) == 0
        return capsys.readouterr().out

    alone = good_rows()
    two = [[time_s, user, *rest] for time_s, _, *rest in alone for user in "ab"]
    labels = [variant.label for variant in load("replay").vary.variants]
    printed = replay(
        "one.csv", alone, "--defend", "--jobs", "1", *BRIEF[:2], "--set", "learning.rounds=1"
    )
    # of one user no sum, and with blocks of true places no moved ones
    assert [label for label in labels if label in printed] == labels[:-2]
    attacks = {}
    for name, rows in {"1.csv": alone, "2.csv": two}.items():
        replay(name, rows, "--set", "learning.rounds=1")
        attacks[name] = [
            item.kind for item in load(tmp_path / f"{name}-r" / "study.yaml").learned.attacks
        ]
    assert attacks["2.csv"] == [*attacks["1.csv"], "dwell", "tracker"]


def test_replay_takes_other_headers(tmp_path, refuse_command):
    trace = write_trace(
        tmp_path / "t.csv", good_rows(), ("timestamp", "id", "Latitude", "Longitude", "RSRP", "pci")
    )
    columns = "time_s=timestamp,user=id,lat=Latitude,lon=Longitude,rsrp_dbm=RSRP,cell=pci"
    assert (
        main(["replay", str(trace), "--columns", columns, "--out", str(tmp_path / "r"), *BRIEF])
        == 0
    )
    line = refuse_command(f"replay {trace} --out {tmp_path}/s")
    assert "timestamp" in line


def test_sweep_runs_every_point_and_goes_on(tmp_path, out, capsys):
    vary = (
        "vary:\n  seed: [2]\n  values: {learning.learner.hidden: [[4], [8]]}\n"
        "  variants:\n    - {label: raw, set: {}}\n    - {label: centred, set: "
        "{learning.learner.labels: centred}}\n"
    )
    scenario = write_campus(tmp_path / "s.yaml", vary)
    sweep = f"sweep {scenario} --jobs 1 --out {out} --set learning.attacks=[]".split()
    assert main(sweep) == 0
    rows = read_csv_rows(out / "runs.csv")
    assert {r["seed"] for r in rows} == {"2"}
    assert {r["label"] for r in rows} == {
        f"{a}, hidden=[{h}]" for a in ("raw", "centred") for h in (4, 8)
    }
    assert all((out / r["folder"] / "summary.json").exists() for r in rows)
    before = (out / "runs.csv").read_bytes()
    missing = out / rows[3]["folder"] / "summary.json"
    missing.unlink()
    capsys.readouterr()
    assert main(sweep) == 0
    assert "4/4" in capsys.readouterr().err  # only the missing one ran again
    assert (out / "runs.csv").read_bytes() == before
    assert missing.exists()


def test_sweep_folder_bytes_equal_a_lone_run(tmp_path, out, run_command):
    scenario = write_campus(tmp_path / "s.yaml", "vary: {seed: [7]}\n")
    run_command(f"sweep {scenario} --jobs 1 --out {out}", *BRIEF)
    run_command(f"run {scenario} --seed 7 --out {tmp_path}/r", *BRIEF)
    swept = out / "as-written/seed-7"
    assert (swept / "summary.json").read_bytes() == (tmp_path / "r/summary.json").read_bytes()


@mark.parametrize(
    "words",
    [
        ["list"],
        ["list", "learner"],
        ["list", "defense"],
        param(["list", "--matrix"], marks=mark.slow),
    ],
)
def test_lists_fit_a_terminal_of_a_hundred_columns(words, run_command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    printed = run_command(words)
    assert ("density" if words[-1] == "learner" else "clip") in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_schema_knows_every_kind(run_command):
    from scenarios.app.study.slots import SLOTS

    text = run_command("schema")
    schema = json.loads(text)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    for union in SLOTS.values():
        for kind in (
            union.parts if union.slot != "trace-format" else ()
        ):  # of which a scenario has the kind alone
            assert f'"const": "{kind}"' in text


def test_an_unexpected_failure_is_1_with_a_log(monkeypatch, capsys):
    def fail(args):
        raise RuntimeError("the moon\nfell")

    monkeypatch.setattr(ask, "validate_from_options", fail)
    assert main(["validate", "campus"]) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "the moon fell" in line
    log = Path(line.strip().rsplit(" ", 1)[1])
    assert "Traceback" in log.read_text()
    log.unlink()


HUGE = ("1" + 400 * "0", "-" + 350 * "9", "1e400", "NaN", "Infinity")


@mark.parametrize("number", HUGE)
@mark.parametrize("name, key", [("summary.json", "utility.rmse_db"), ("manifest.json", "seed")])
def test_a_number_that_no_float_holds_is_damage_in_one_line(
    name, key, number, tiny_run, tmp_path, capsys
):
    for k in ("r", "s"):
        shutil.copytree(tiny_run, tmp_path / k)
    file = tmp_path / "r" / name
    file.write_text(re.sub(rf'"{key}": [^,\n]+', f'"{key}": {number}', file.read_text()))
    assert number in file.read_text()
    for words in (
        ["show", "r"],
        ["report", "r"],
        ["compare", "r", "s"],
        ["rerun", "r"],
        ["export", "r"],
    ):
        command = [words[0], *(str(tmp_path / word) for word in words[1:])]
        code = main(
            [*command, "--out", str(tmp_path / "c.html")] if words[0] == "compare" else command
        )
        printed = capsys.readouterr().err
        assert code == (
            0 if words[0] == "export" and name == "summary.json" and code == 0 else 2
        ), (words, printed)
        assert code == 0 or (
            printed.count("\n") == 1 and str(file) in printed and "is no finite number" in printed
        )


@mark.parametrize("cell", ["1e400", "-" + "9" * 400, "inf"])
def test_a_cell_that_no_float_holds_is_damage_in_one_line(cell, tiny_run, out, refuse_command):
    folder = Path(shutil.copytree(tiny_run, out))
    header, first, *rows = (folder / "updates.csv").read_text().splitlines()
    cells = first.split(",")
    cells[header.split(",").index("weight")] = cell
    (folder / "updates.csv").write_text("\n".join([header, ",".join(cells), *rows]) + "\n")
    printed = refuse_command(f"report {folder}")
    assert "updates.csv: row 1: weight " in printed


GONE = [
    "run city",
    "list",
    "show r",
    "compare a b",
    "claims",
    "new a.yaml",
    "inspect a.csv",
    "tune city",
    "rerun r --out s",
]


@mark.parametrize("words", GONE)
def test_a_working_folder_that_is_gone_is_one_line(words, tmp_path, monkeypatch, refuse_command):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    rest = (
        ["--objective", "utility.rmse_db", "--direction", "min"] if words.startswith("tune") else []
    )
    assert refuse_command([*words.split(), *rest]) == (
        "netsim: the working folder is gone (No such file or directory); go to another one by cd\n"
    )
    with raises(SystemExit):
        main(["run", "--help"])  # help needs none


@mark.parametrize("value", ["", None])
def test_a_variable_that_is_set_to_nothing_is_not_set(value, monkeypatch, refuse_command):
    monkeypatch.delenv("NETSIM_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("NETSIM_DATA", value)
    name = next(
        name
        for name, path in list_bundled().items()
        if "${NETSIM_DATA}" in path.read_text(encoding="utf-8")
    )
    assert "the environment variable NETSIM_DATA is not set" in refuse_command("validate", name)


@mark.parametrize("encoding", ["ascii", "latin-1"])
@mark.parametrize("stream", ["stdout", "stderr"])
def test_what_a_stream_cannot_show_is_escaped(stream, encoding, monkeypatch):
    """Also of lines that are no results, and of a stream that refuses what it cannot encode."""
    raw = io.BytesIO()
    shown = io.TextIOWrapper(raw, encoding=encoding, errors="strict", write_through=True)
    monkeypatch.setattr("sys.stdout" if stream == "stdout" else "sys.stderr", shown)
    options.write_stream("Übung 漢: round 1/2\n", shown)
    options.say("Größe – 漢", errors=stream == "stderr")
    printed = raw.getvalue().decode(encoding)
    assert "\\u6f22" in printed
    assert "Übung" in printed or "\\xdcbung" in printed


FAILS = """
import sys
import scenarios.app.cli.ask as ask
from scenarios.app.cli.commands import main
def boom(args):
    raise RuntimeError(chr(0x6f22))
ask.print_schema = boom
sys.exit(main(["schema"]))
"""


def test_titles_and_labels_of_any_script_in_a_locale_that_has_none(tmp_path):
    """Titles are shown in escapes, a failure keeps its log, a folder that has no name there is
    refused in one line."""
    changes = parse_value("{title: 'Übung – 漢', vary: {variants: [{label: größer, set: {}}]}}")
    (tmp_path / "s.yaml").write_text(json.dumps(TINY | changes), encoding="utf-8")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}

    def run_process(*words):
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=os.environ | plain, capture_output=True
        )
        assert b"Traceback" not in done.stderr
        return done.returncode, done.stderr.decode("ascii").splitlines()

    start = ["-m", "scenarios.app.cli.start"]
    assert (
        run_process(*start, "run", "s.yaml", "--out", "r")[0]
        == run_process(*start, "show", "r")[0]
        == 0
    )
    code, lines = run_process(*start, "sweep", "s.yaml", "--out", "s", "--jobs", "1", "--quiet")
    assert code == 2
    assert len(lines) == 1
    assert "set LC_ALL=C.UTF-8" in lines[0]
    code, lines = run_process("-c", FAILS)
    log = Path(lines[0].rpartition("details in ")[2])
    assert code == 1
    assert len(lines) == 1
    assert "漢" in log.read_text(encoding="utf-8")
    log.unlink()


def test_absent_cell(tmp_path, refuse_command):
    trace = write_trace(tmp_path / "t.csv", good_rows())
    err = refuse_command(f"replay {trace} --cell c9 --out {tmp_path}/r")
    assert "c9" in err


CAMPUS = (ROOT / "scenarios/campus.yaml").read_text()
BAD_SCENARIOS = {
    "unknown key": (CAMPUS.replace("tick_s:", "tic_s:"), ["tic_s", "tick_s"]),
    "noise without bound": (
        CAMPUS + "  defenses: [{kind: gaussian, noise_multiplier: 1}]\n",
        ["gaussian needs a bound", "clip"],
    ),
    "analyst observes rows": (
        CAMPUS.replace("viewpoint: server", "viewpoint: analyst"),
        ["analyst"],
    ),
    "twice the same attack": (
        CAMPUS.replace("{kind: dlg, starts: 8}", "{kind: closed-form}"),
        ["name"],
    ),
    "unknown cell": (CAMPUS.replace("hold_out: 0.2", "cell: campos"), ["campos", "campus"]),
    "no size": (CAMPUS.replace(", width_m: 2000, height_m: 1500", ""), ["size"]),
    "bad date": (CAMPUS.replace('"2026-01-05"', '"2026-13-05"'), ["2026-13-05"]),
}


@mark.parametrize("name", BAD_SCENARIOS)
def test_bad_scenario(name, tmp_path, out, refuse_command):
    text, words = BAD_SCENARIOS[name]
    scenario = tmp_path / "s.yaml"
    scenario.write_text(text)
    err = refuse_command(f"run {scenario} --out {out}")
    assert all(w in err for w in words), err
    assert "s.yaml:" in err
    assert not out.exists()
    assert err.count("\n") == 1, err


def test_validate_counts_what_run_leaves_out(tmp_path, out, refuse_command, run_command):
    """Of buildings and of streets, and of every variant of a sweep, in the words of the run
    itself."""

    def shapes(name, kind, coordinates, all_rows):
        features = [
            {
                "type": "Feature",
                "properties": item,
                "geometry": {"type": kind, "coordinates": coordinates},
            }
            for item in all_rows
        ]
        (tmp_path / name).write_text(
            json.dumps({"type": "FeatureCollection", "features": features})
        )

    shapes(
        "houses.geojson",
        "Polygon",
        [[[0, 5], [20, 5], [20, 20], [0, 5]]],
        parse_value("[{height: 7.2}, {height: -1}]"),
    )
    tags = ["['residential', 'service']", "['proposed', 'planned']", "nan"]
    shapes(
        "streets.geojson", "LineString", [[-90, 0], [90, 0]], [{"highway": item} for item in tags]
    )
    city = parse_value(
        "{kind: footprints, file: houses.geojson, streets: streets.geojson, default_height_m: 9}"
    )
    world = {
        **TINY["world"],
        "city": {**city, "margin_m": 150},
        "ues": {"count": 2, "mobility": {"kind": "static"}},
    }
    world["ues"]["measurement_period_s"] = 5
    file = tmp_path / "s.yaml"
    prefix = f"note: city: {tmp_path}"
    vary = parse_value("{variants: [{label: alone, set: {world.city.streets: null}}]}")
    file.write_text(json.dumps({**TINY, "world": world, "vary": vary}))
    valid, *warnings = run_command(f"validate {file}").splitlines()
    assert "s.yaml: valid (tiny)" in valid
    assert warnings[:3] == [
        f"{prefix}/houses.geojson: heights of buildings: 1 by default_height_m, 1 values "
        f"are no height, such as -1",
        f"{prefix}/houses.geojson: buildings: 2 of 2 overlap others: of an outline its "
        f"parts count, else the highest",
        f"{prefix}/streets.geojson: 2 of its shapes are no streets (1 highway=proposed, 1 "
        f"without a tag highway)",
    ]
    run_command(f"run {file} --out {out} --quiet")
    assert {item.text for item in of_run(out)} >= set(warnings)
    file.write_text(
        json.dumps({**TINY, "world": {**world, "city": {**city, "default_height_m": None}}})
    )
    err = refuse_command(f"validate {file}")
    assert "houses.geojson: features[1]: properties.height: -1 is not a height; give one" in err
    assert err.endswith("or set default_height_m\n")


def test_without_arguments_it_says_what_to_type_first(capsys):
    assert main([]) == 0
    printed, errors = capsys.readouterr()
    assert all(
        f"  netsim {name} " in printed for name in ("run city", "replay FILE", "new mine", "--help")
    )
    assert not errors


COMMUTER = ROOT / "scenarios/examples/commuter.csv.gz"
BAD_LINES = f"""
new attack span
new defense Mine
new attack mine --from city
runs
run campos
run
fly
run campus --seed x
run campus --set nonsense
run campus --seed -1
replay nowhere.csv
sweep campus
sweep town --jobs 0
list defence
report nowhere
inspect nowhere.csv
replay {COMMUTER} --round 24
replay {COMMUTER} --columns lat=lat,lon=lat
run campus --out {"x" * 300}
run campus --set learning.round_s=0.001
sweep town --set seed=9
run campos --jso
run campus --rep
show r --js
sweep town --on slurm --slurm timeout_min
sweep town --on slurm --slurm time=60
sweep town --on slurm --slurm timeout_min=0
sweep town --on slurm --slurm timeout_min=1.5
sweep town --on slurm --slurm mem_gb=nan
sweep town --on slurm --slurm slurm_use_srun=1
"""


@mark.parametrize("words", [*BAD_LINES.strip().splitlines(), ["run", "campus", "--out", ""]])
def test_bad_command_line(words, tmp_path, refuse_command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "Traceback" not in refuse_command(words)
    assert list(tmp_path.iterdir()) == []


def test_replay_leaves_folders_of_others_alone(tmp_path, out, refuse_command):
    trace = write_trace(tmp_path / "t.csv", good_rows())
    foreign = tmp_path / "letters"
    foreign.mkdir()
    (foreign / "dear.txt").write_text("dear")
    line = refuse_command(f"replay {trace} --out {foreign} --quiet")
    assert "not a run" in line
    line = refuse_command(f"replay {trace} --out {foreign} --quiet --published")
    assert "dear.txt" in line
    assert [p.name for p in foreign.iterdir()] == ["dear.txt"]
    ours = [*f"replay {trace} --out {out} --round 12h --published".split(), *BRIEF]
    assert main(ours) == main(ours) == 0  # the same again is welcome
    second = [*ours, "--set", "seed=9"]
    before = (out / "standardised-by-public/summary.json").read_bytes()
    assert "finished run of another study" in refuse_command(second)
    assert (out / "standardised-by-public/summary.json").read_bytes() == before
    assert main([*second, "--replace"]) == 0
    assert (out / "standardised-by-public/summary.json").read_bytes() != before
    alone = out / "standardised-by-public"  # the folder of a run is not that of a replay
    assert main(["replay", str(trace), "--out", str(alone), "--quiet"]) == 2


def test_a_mistake_in_a_variant_is_found_where_it_stands(tmp_path, refuse_command):
    """The line is the variant's, also of a value deep inside; a value list's is that of its
    entry."""
    text = """vary:
  variants:
    - {label: fine, set: {}}
    - label: wrong one
      set:
        learning.defenses:
          - kind: clip
            norm: -1
"""
    scenario = write_campus(tmp_path / "s.yaml", text)
    lines = scenario.read_text().splitlines()
    assert (
        f"vary, 'wrong one': {scenario}:{len(lines)}: learning.defenses[0].norm: must be "
        f"at least 1e-12" in refuse_command(f"validate {scenario}")
    )
    write_campus(scenario, "vary:\n  values:\n    learning.round_s:\n      - 86400\n      - -5\n")
    assert (
        f"{scenario}:{len(scenario.read_text().splitlines())}: learning.round_s"
        in refuse_command(f"validate {scenario}")
    )
    write_campus(
        scenario,
        "vary:\n  variants:\n    - label: lost\n      set: {'learning.attacks[9].starts': 1}\n",
    )
    assert (
        f"{scenario}:{len(scenario.read_text().splitlines())}: vary.variants[0]"
        in refuse_command(f"validate {scenario}")
    )
    # a list of variants from the command line stands in no file
    assert "--set learning.round_s=-5: must be above 0" in refuse_command(
        f"validate {scenario} --set", "vary.variants=[{label: x, set: {learning.round_s: -5}}]"
    )


@mark.parametrize(
    "path", ["learning..rounds", ".seed", "seed.", "learning.attacks[x]", "a[0]b", "[0].seed"]
)
def test_a_path_with_an_empty_part_is_refused(path, refuse_command):
    err = refuse_command("validate campus --set", f"{path}=3")
    assert "is no path" in err
    assert path in err


def test_setting_a_value_inside_of_a_default_keeps_its_kind(tmp_path):
    from scenarios.app.study.load import load

    plain = load("town")
    assert load(
        "town", {"learning.aggregation.clients": 12, "learning.aggregation.kind": "uniform"}
    )
    assert load("town", {"world.radio.uplink.kind": "oma"}).world.radio.uplink.kind_name() == "oma"
    (tmp_path / "s.yaml").write_text(
        (ROOT / "scenarios/campus.yaml").read_text().replace("  data: ", "  # ")
    )
    study = load(tmp_path / "s.yaml", {"learning.data.hold_out": 0.9})
    assert study.learning.data.kind_name() == "measured"
    assert study.learning.data.hold_out == 0.9
    linked = parse_value(
        "{learning.attacks: [{kind: re-identify}], 'learning.attacks[0].of.name': null}"
    )
    # as re-identify has it by default
    assert load("town", linked).learning.attacks[0].of.cloud is False
    assert load("town") == plain


def test_labels_of_any_script_make_folders_of_their_own(tmp_path):
    from scenarios.app.run.sweep import plan_points
    from scenarios.app.study.load import load

    labels = ["größer", "größter", "日本", "中国", "a_b/../c"]
    variants = "".join(f"    - {{label: {label}, set: {{}}}}\n" for label in labels)
    scenario = write_campus(tmp_path / "s.yaml", f"vary:\n  variants:\n{variants}")
    folders = [p.folder for p in plan_points(load(scenario), {})]
    long = [[k] * 200 for k in (1, 2)]  # too long for a folder name
    cut = [
        p.folder
        for p in plan_points(
            load(scenario, {"vary": {"values": {"learning.learner.hidden": long}}}), {}
        )
    ]
    assert len(set(cut)) == 2
    assert all(len(folder) < 70 for folder in cut)
    assert folders == [
        f"{name}/seed-4" for name in ("größer", "größter", "日本", "中国", "a-b-..-c")
    ]
