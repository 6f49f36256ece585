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
import pytest
from conftest import TINY
from noticed import of_run

from scenarios.app.cli import ask, options
from scenarios.app.cli.commands import main
from scenarios.app.study.load import bundled, load

ROOT = Path(__file__).parents[2]
BRIEF = [
    "--set",
    "learning.attacks=[{kind: closed-form}]",
    "--set",
    "learning.learner.hidden=[8]",
    "--quiet",
]
SHORT = [
    "--set",
    "world.duration_s=259200",
    "--set",
    "learning.round_s=86400",
    "--set",
    "learning.learner.hidden=[8]",
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
    assert "seed 5" in out
    assert "round 3/3" in progress
    assert "round 3/3" not in out
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
    keys = json.loads((tmp_path / "r" / "summary.json").read_text())
    wanted = [
        "utility.rmse_db",
        "utility.constant_rmse_db",
        "attack.closed-form.centroid_error_m.median",
        "attack.closed-form.diverged.percent",
        "attack.closed-form.sw1_m.mean",
        "baseline.random_guess.sw1_m.q05",
    ]
    assert set(wanted) <= set(keys)


def test_a_published_replay_shows_both_feature_modes(tmp_path, capsys):
    trace = write_trace(tmp_path / "t.csv", good_rows())
    words = ["replay", str(trace), "--round", "12h", "--out", str(tmp_path / "r"), *BRIEF]
    assert main([*words, "--published"]) == 0
    out = capsys.readouterr().out
    assert "standardised-by-dataset, seed 0: " in out
    assert "standardised-by-public, seed 0: " in out
    assert "200 of 200 rows used" in out
    for mode in ("dataset", "public"):
        study = (tmp_path / "r" / f"standardised-by-{mode}" / "study.yaml").read_text()
        assert "profile: published" in study
        assert "activation: tanh" in study
        summary = json.loads(
            (tmp_path / "r" / f"standardised-by-{mode}" / "summary.json").read_text()
        )
        assert summary["samples.count"] == 200
    assert main([*words, "--published", "--defend"]) == 2
    assert "leave --defend out" in capsys.readouterr().err


def test_a_replay_trains_a_useful_map_at_the_level_of_the_trace(tmp_path, capsys):
    rows = good_rows()
    trace = write_trace(tmp_path / "t.csv", rows)
    out = tmp_path / "r"
    assert main(["replay", str(trace), "--round", "12h", "--out", str(out), *BRIEF]) == 0
    told = " ".join(capsys.readouterr().out.split())
    level_dbm = [row[4] for row in rows]
    mean, spread = (round(float(of(level_dbm))) for of in (np.mean, np.std))
    assert f"mean {mean} dBm, standard deviation {max(spread, 1)} dB, of the trace's rows" in told
    # two days are too few to hold out one of
    assert "20 % of the rows score the map" in told
    assert "--defend" in told
    study = load(out / "study.yaml")
    learner = study.learned.learner
    data = study.learned.data
    assert (learner.profile, learner.public_rsrp_mean_dbm, data.hold_out_by) == (
        "useful",
        mean,
        "sample",
    )
    assert json.loads((out / "summary.json").read_text())["samples.count"] == 200


def test_a_replay_beside_its_defenses(tmp_path, capsys):
    """Sums are for several users, and so are attacks that follow them over the hours, in rounds
    that have some."""

    def replayed(name, rows, *words):
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
    two = [[time_s, who, *more] for time_s, _, *more in alone for who in "ab"]
    labels = [variant.label for variant in load("replay").vary.variants]
    told = replayed(
        "one.csv", alone, "--defend", "--jobs", "1", *BRIEF[:2], "--set", "learning.rounds=1"
    )
    assert [label for label in labels if label in told] == labels[:-1]
    assert "variant" in told
    attacks = {}
    for name, rows in {"1.csv": alone, "2.csv": two}.items():
        replayed(name, rows, "--set", "learning.rounds=1")
        attacks[name] = [
            one.kind for one in load(tmp_path / f"{name}-r" / "study.yaml").learned.attacks
        ]
    assert attacks["2.csv"] == [*attacks["1.csv"], "dwell", "tracker"]


def test_replay_takes_other_headers(tmp_path, capsys):
    trace = write_trace(
        tmp_path / "t.csv", good_rows(), ("timestamp", "id", "Latitude", "Longitude", "RSRP", "pci")
    )
    columns = "time_s=timestamp,user=id,lat=Latitude,lon=Longitude,rsrp_dbm=RSRP,cell=pci"
    assert (
        main(["replay", str(trace), "--columns", columns, "--out", str(tmp_path / "r"), *BRIEF])
        == 0
    )
    capsys.readouterr()
    assert main(["replay", str(trace), "--out", str(tmp_path / "s")]) == 2
    line = capsys.readouterr().err.strip()
    assert "timestamp" in line
    assert "--columns" in line
    assert "\n" not in line


def test_sweep_runs_every_point_and_goes_on(tmp_path, capsys):
    vary = (
        "vary:\n  seed: [2]\n  values: {learning.learner.hidden: [[4], [8]]}\n"
        "  variants:\n    - {label: raw, set: {}}\n    - {label: centred, set: "
        "{learning.learner.labels: centred}}\n"
    )
    scenario = campus_with(tmp_path / "s.yaml", vary)
    sweep = [
        "sweep",
        str(scenario),
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "w"),
        "--set",
        "learning.attacks=[]",
    ]
    assert main(sweep) == 0
    with (tmp_path / "w" / "runs.csv").open() as f:
        rows = list(csv.DictReader(f))
    assert len(rows) == 4
    assert {r["seed"] for r in rows} == {"2"}
    assert {r["label"] for r in rows} == {
        f"{a}, hidden=[{h}]" for a in ("raw", "centred") for h in (4, 8)
    }
    assert all((tmp_path / "w" / r["folder"] / "summary.json").exists() for r in rows)
    before = (tmp_path / "w" / "runs.csv").read_bytes()
    missing = tmp_path / "w" / rows[3]["folder"] / "summary.json"
    missing.unlink()
    capsys.readouterr()
    assert main(sweep) == 0
    assert "4/4" in capsys.readouterr().err  # only the missing one ran again
    assert (tmp_path / "w" / "runs.csv").read_bytes() == before
    assert missing.exists()


def test_sweep_folder_bytes_equal_a_lone_run(tmp_path):
    scenario = campus_with(tmp_path / "s.yaml", "vary: {seed: [7]}\n")
    assert main(["sweep", str(scenario), "--jobs", "1", "--out", str(tmp_path / "w"), *BRIEF]) == 0
    assert main(["run", str(scenario), "--seed", "7", "--out", str(tmp_path / "r"), *BRIEF]) == 0
    swept = tmp_path / "w" / "as-written" / "seed-7"
    assert (swept / "summary.json").read_bytes() == (tmp_path / "r" / "summary.json").read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["list", "learner"],
        ["list", "defense"],
        pytest.param(["list", "--matrix"], marks=pytest.mark.slow),
    ],
)
def test_lists_fit_a_terminal_of_a_hundred_columns(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert main(words) == 0
    said = capsys.readouterr().out
    assert ("density" if words[-1] == "learner" else "clip") in said
    assert max(map(len, said.splitlines())) <= 100


def test_schema_knows_every_kind(capsys):
    from scenarios.app.study.slots import SLOTS

    assert main(["schema"]) == 0
    text = capsys.readouterr().out
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

    monkeypatch.setattr(ask, "validate", fail)
    assert main(["validate", "campus"]) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "the moon fell" in line
    log = Path(line.strip().rsplit(" ", 1)[1])
    assert "Traceback" in log.read_text()
    log.unlink()


HUGE = ("1" + 400 * "0", "-" + 350 * "9", "1e400", "NaN", "Infinity")


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize(
    ("name", "key"), [("summary.json", "utility.rmse_db"), ("manifest.json", "seed")]
)
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
        said = capsys.readouterr().err
        assert code == (
            0 if words[0] == "export" and name == "summary.json" and code == 0 else 2
        ), (words, said)
        assert code == 0 or (
            said.count("\n") == 1 and str(file) in said and "is no finite number" in said
        )


@pytest.mark.parametrize("cell", ["1e400", "-" + "9" * 400, "inf"])
def test_a_cell_that_no_float_holds_is_damage_in_one_line(cell, tiny_run, tmp_path, capsys):
    folder = Path(shutil.copytree(tiny_run, tmp_path / "r"))
    header, first, *rows = (folder / "updates.csv").read_text().splitlines()
    cells = first.split(",")
    cells[header.split(",").index("weight")] = cell
    (folder / "updates.csv").write_text("\n".join([header, ",".join(cells), *rows]) + "\n")
    assert main(["report", str(folder)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "updates.csv: row 1: weight " in said
    assert "inf is not in [" in said


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


@pytest.mark.parametrize("words", GONE)
def test_a_working_folder_that_is_gone_is_one_line(words, tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    more = (
        ["--objective", "utility.rmse_db", "--direction", "min"] if words.startswith("tune") else []
    )
    assert main([*words.split(), *more]) == 2
    assert capsys.readouterr().err == (
        "netsim: the working folder is gone (No such file or directory); go to another one by cd\n"
    )
    with pytest.raises(SystemExit):
        main(["run", "--help"])  # help needs none


@pytest.mark.parametrize("value", ["", None])
def test_a_variable_that_is_set_to_nothing_is_not_set(value, monkeypatch, capsys):
    monkeypatch.delenv("NETSIM_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("NETSIM_DATA", value)
    name = next(
        name
        for name, path in bundled().items()
        if "${NETSIM_DATA}" in path.read_text(encoding="utf-8")
    )
    assert main(["validate", name]) == 2
    assert "the environment variable NETSIM_DATA is not set" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_a_stream_cannot_show_is_escaped(stream, encoding, monkeypatch):
    """Also of lines that are no results, and of a stream that refuses what it cannot encode."""
    raw = io.BytesIO()
    shown = io.TextIOWrapper(raw, encoding=encoding, errors="strict", write_through=True)
    monkeypatch.setattr("sys.stdout" if stream == "stdout" else "sys.stderr", shown)
    options.write("Übung 漢: round 1/2\n", shown)
    options.say("Größe – 漢", errors=stream == "stderr")
    said = raw.getvalue().decode(encoding)
    assert "\\u6f22" in said
    assert "Übung" in said or "\\xdcbung" in said


FAILS = """
import sys
import scenarios.app.cli.ask as ask
from scenarios.app.cli.commands import main
def boom(args):
    raise RuntimeError(chr(0x6f22))
ask.schema = boom
sys.exit(main(["schema"]))
"""


def test_titles_and_labels_of_any_script_in_a_locale_that_has_none(tmp_path):
    """Titles are shown in escapes, a failure keeps its log, a folder that has no name there is
    refused in one line."""
    changes = {"title": "Übung – 漢", "vary": {"variants": [{"label": "größer", "set": {}}]}}
    (tmp_path / "s.yaml").write_text(json.dumps(TINY | changes), encoding="utf-8")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}

    def ended(*words):
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=os.environ | plain, capture_output=True
        )
        assert b"Traceback" not in done.stderr
        return done.returncode, done.stderr.decode("ascii").splitlines()

    start = ["-m", "scenarios.app.cli.start"]
    assert ended(*start, "run", "s.yaml", "--out", "r")[0] == ended(*start, "show", "r")[0] == 0
    code, lines = ended(*start, "sweep", "s.yaml", "--out", "s", "--jobs", "1", "--quiet")
    assert code == 2
    assert len(lines) == 1
    assert "set LC_ALL=C.UTF-8" in lines[0]
    code, lines = ended("-c", FAILS)
    log = Path(lines[0].rpartition("details in ")[2])
    assert code == 1
    assert len(lines) == 1
    assert "漢" in log.read_text(encoding="utf-8")
    log.unlink()


def test_absent_cell(tmp_path, capsys):
    trace = write_trace(tmp_path / "t.csv", good_rows())
    assert main(["replay", str(trace), "--cell", "c9", "--out", str(tmp_path / "r")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "c9" in err
    assert "c1" in err


CAMPUS = (ROOT / "scenarios" / "campus.yaml").read_text()
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


@pytest.mark.parametrize("name", BAD_SCENARIOS)
def test_bad_scenario(name, tmp_path, capsys):
    text, words = BAD_SCENARIOS[name]
    scenario = tmp_path / "s.yaml"
    scenario.write_text(text)
    assert main(["run", str(scenario), "--out", str(tmp_path / "r")]) == 2
    err = capsys.readouterr().err
    assert all(w in err for w in words), err
    assert "Traceback" not in err
    assert "s.yaml:" in err
    assert not (tmp_path / "r").exists()
    assert err.count("\n") == 1, err


def test_validate_counts_what_run_leaves_out(tmp_path, capsys):
    """Of buildings and of streets, and of every variant of a sweep, in the words of the run
    itself."""

    def shapes(name, kind, coordinates, every):
        features = [
            {
                "type": "Feature",
                "properties": each,
                "geometry": {"type": kind, "coordinates": coordinates},
            }
            for each in every
        ]
        (tmp_path / name).write_text(
            json.dumps({"type": "FeatureCollection", "features": features})
        )

    shapes(
        "houses.geojson",
        "Polygon",
        [[[0, 5], [20, 5], [20, 20], [0, 5]]],
        [{"height": 7.2}, {"height": -1}],
    )
    tags = ["['residential', 'service']", "['proposed', 'planned']", "nan"]
    shapes(
        "streets.geojson", "LineString", [[-90, 0], [90, 0]], [{"highway": each} for each in tags]
    )
    city = {
        "kind": "footprints",
        "file": "houses.geojson",
        "streets": "streets.geojson",
        "default_height_m": 9,
    }
    world = {
        **TINY["world"],
        "city": {**city, "margin_m": 150},
        "ues": {"count": 2, "mobility": {"kind": "static"}},
    }
    world["ues"]["measurement_period_s"] = 5
    file = tmp_path / "s.yaml"
    where = f"note: city: {tmp_path}"
    vary = {"variants": [{"label": "alone", "set": {"world.city.streets": None}}]}
    file.write_text(json.dumps({**TINY, "world": world, "vary": vary}))
    assert main(["validate", str(file)]) == 0
    valid, *warnings = capsys.readouterr().out.splitlines()
    assert "s.yaml: valid (tiny)" in valid
    assert warnings[:3] == [
        f"{where}/houses.geojson: heights of buildings: 1 by default_height_m, 1 values "
        f"are no height, such as -1",
        f"{where}/houses.geojson: buildings: 2 of 2 overlap others: of an outline its "
        f"parts count, else the highest",
        f"{where}/streets.geojson: 2 of its shapes are no streets (1 highway=proposed, 1 "
        f"without a tag highway)",
    ]
    assert main(["run", str(file), "--out", str(tmp_path / "r"), "--quiet"]) == 0
    assert {each.text for each in of_run(tmp_path / "r")} >= set(warnings)
    file.write_text(
        json.dumps({**TINY, "world": {**world, "city": {**city, "default_height_m": None}}})
    )
    assert main(["validate", str(file)]) == 2
    err = capsys.readouterr().err
    assert "houses.geojson: features[1]: properties.height: -1 is not a height; give one" in err
    assert err.endswith("or set default_height_m\n")
    assert err.count("\n") == 1


def test_without_arguments_it_says_what_to_type_first(capsys):
    assert main([]) == 0
    said, errors = capsys.readouterr()
    assert all(
        f"  netsim {what} " in said for what in ("run city", "replay FILE", "new mine", "--help")
    )
    assert not errors


BAD_LINES = [
    ["new", "attack", "span"],
    ["new", "defense", "Mine"],
    ["new", "reward", "mine"],
    ["new", "attack", "mine", "--from", "city"],
    ["runs"],
    ["run", "campos"],
    ["run"],
    ["fly"],
    ["run", "campus", "--seed", "x"],
    ["run", "campus", "--set", "nonsense"],
    ["run", "campus", "--seed", "-1"],
    ["replay", "nowhere.csv"],
    ["sweep", "campus"],
    ["sweep", "town", "--jobs", "0"],
    ["list", "defence"],
    ["report", "nowhere"],
    ["inspect", "nowhere.csv"],
    ["replay", str(ROOT / "scenarios" / "examples" / "commuter.csv.gz"), "--round", "24"],
    [
        "replay",
        str(ROOT / "scenarios" / "examples" / "commuter.csv.gz"),
        "--columns",
        "lat=lat,lon=lat",
    ],
    ["run", "campus", "--out", ""],
    ["run", "campus", "--out", "x" * 300],
    ["run", "campus", "--set", "learning.round_s=0.001"],
    ["sweep", "town", "--set", "seed=9"],
]


@pytest.mark.parametrize("words", BAD_LINES, ids=lambda words: " ".join(words)[:60])
def test_bad_command_line(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(words)
    except SystemExit as stop:
        code = stop.code
    err = capsys.readouterr().err
    assert code == 2 and err.count("\n") == 1 and "Traceback" not in err, err
    assert list(tmp_path.iterdir()) == []


def test_replay_leaves_folders_of_others_alone(tmp_path, capsys):
    trace = write_trace(tmp_path / "t.csv", good_rows())
    foreign = tmp_path / "letters"
    foreign.mkdir()
    (foreign / "dear.txt").write_text("dear")
    assert main(["replay", str(trace), "--out", str(foreign), "--quiet"]) == 2
    line = capsys.readouterr().err
    assert "letters" in line
    assert "not a run" in line
    assert line.count("\n") == 1
    assert main(["replay", str(trace), "--out", str(foreign), "--quiet", "--published"]) == 2
    line = capsys.readouterr().err
    assert "dear.txt" in line
    assert "does not belong to a replay" in line
    assert line.count("\n") == 1
    assert [p.name for p in foreign.iterdir()] == ["dear.txt"]
    ours = [
        "replay",
        str(trace),
        "--out",
        str(tmp_path / "r"),
        "--round",
        "12h",
        "--published",
        *BRIEF,
    ]
    assert main(ours) == main(ours) == 0  # the same again is welcome
    other = [*ours, "--set", "seed=9"]
    before = (tmp_path / "r" / "standardised-by-public" / "summary.json").read_bytes()
    capsys.readouterr()
    assert main(other) == 2
    assert "finished run of another study" in capsys.readouterr().err
    assert (tmp_path / "r" / "standardised-by-public" / "summary.json").read_bytes() == before
    assert main([*other, "--replace"]) == 0
    assert (tmp_path / "r" / "standardised-by-public" / "summary.json").read_bytes() != before
    alone = tmp_path / "r" / "standardised-by-public"  # the folder of a run is not that of a replay
    assert main(["replay", str(trace), "--out", str(alone), "--quiet"]) == 2


def campus_with(path, text):
    path.write_text(CAMPUS.replace("6652800", "172800").replace("604800", "86400") + text)
    return path


def test_a_mistake_in_a_variant_is_found_where_it_stands(tmp_path, capsys):
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
    scenario = campus_with(tmp_path / "s.yaml", text)
    lines = scenario.read_text().splitlines()
    assert main(["validate", str(scenario)]) == 2
    err = capsys.readouterr().err
    assert (
        f"vary, 'wrong one': {scenario}:{len(lines)}: learning.defenses[0].norm: must be "
        f"at least 1e-12" in err
    )
    campus_with(scenario, "vary:\n  values:\n    learning.round_s:\n      - 86400\n      - -5\n")
    assert main(["validate", str(scenario)]) == 2
    assert (
        f"{scenario}:{len(scenario.read_text().splitlines())}: learning.round_s"
        in capsys.readouterr().err
    )
    campus_with(
        scenario,
        "vary:\n  variants:\n    - label: lost\n      set: {'learning.attacks[9].starts': 1}\n",
    )
    assert main(["validate", str(scenario)]) == 2
    assert (
        f"{scenario}:{len(scenario.read_text().splitlines())}: vary.variants[0]"
        in capsys.readouterr().err
    )
    # a list of variants from the command line stands in no file
    assert (
        main(
            [
                "validate",
                str(scenario),
                "--set",
                "vary.variants=[{label: x, set: {learning.round_s: -5}}]",
            ]
        )
        == 2
    )
    assert "--set learning.round_s=-5: must be above 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    "path", ["learning..rounds", ".seed", "seed.", "learning.attacks[x]", "a[0]b", "[0].seed"]
)
def test_a_path_with_an_empty_part_is_refused(path, capsys):
    assert main(["validate", "campus", "--set", f"{path}=3"]) == 2
    err = capsys.readouterr().err
    assert "is no path" in err
    assert path in err
    assert err.count("\n") == 1


def test_setting_a_value_inside_of_a_default_keeps_its_kind(tmp_path):
    from scenarios.app.study.load import load

    plain = load("town")
    assert load(
        "town", {"learning.aggregation.clients": 12, "learning.aggregation.kind": "uniform"}
    )
    assert load("town", {"world.radio.uplink.kind": "oma"}).world.radio.uplink.kind_name() == "oma"
    (tmp_path / "s.yaml").write_text(
        (ROOT / "scenarios" / "campus.yaml").read_text().replace("  data: ", "  # ")
    )
    study = load(tmp_path / "s.yaml", {"learning.data.hold_out": 0.9})
    assert study.learning.data.kind_name() == "measured"
    assert study.learning.data.hold_out == 0.9
    linked = {"learning.attacks": [{"kind": "re-identify"}], "learning.attacks[0].of.name": None}
    assert (
        load("town", linked).learning.attacks[0].of.cloud is False
    )  # as re-identify has it by default
    assert load("town") == plain


def test_labels_of_any_script_make_folders_of_their_own(tmp_path):
    from scenarios.app.run.sweep import points
    from scenarios.app.study.load import load

    labels = ["größer", "größter", "日本", "中国", "a_b/../c"]
    variants = "".join(f"    - {{label: {label}, set: {{}}}}\n" for label in labels)
    scenario = campus_with(tmp_path / "s.yaml", f"vary:\n  variants:\n{variants}")
    folders = [p.folder for p in points(load(scenario), {})]
    long = [[k] * 200 for k in (1, 2)]  # too long for a folder name
    cut = [
        p.folder
        for p in points(load(scenario, {"vary": {"values": {"learning.learner.hidden": long}}}), {})
    ]
    assert len(set(cut)) == 2
    assert all(len(folder) < 70 for folder in cut)
    assert folders == [
        f"{name}/seed-4" for name in ("größer", "größter", "日本", "中国", "a-b-..-c")
    ]
