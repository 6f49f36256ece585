"""Memory of a run, estimated from its scenario, and the limit above which it is refused before it is allocated."""

import json
import shlex
import subprocess
import sys
import time
from math import inf
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY

import scenarios
from fl.types import Antennas, ImageFormat, Public
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.mobility.replay import Replay
from netsim.radio.shadowing import Correlated, NoShadowing
from netsim.radio.sight_laws import ByProbability
from netsim.rng import Streams
from netsim.traces.inspect import inspect_trace
from scenarios.app.cli.commands import main, parser
from scenarios.app.cli.replay import _overrides
from scenarios.app.cli.replay_scenario import some_targets
from scenarios.app.run import memory_limit
from scenarios.app.run.check import check
from scenarios.app.run.executors.processes import OnProcesses
from scenarios.app.run.executors.ray_cluster import OnRay
from scenarios.app.run.executors.slurm_jobs import OnSlurm
from scenarios.app.run.how import How
from scenarios.app.run.memory import check_memory
from scenarios.app.run.memory_limit import GB, free_bytes, limit
from scenarios.app.run.runner import run
from scenarios.app.study.load import bundled, load

HUGE = {
    "world.ues.count": 100_000,
    "world.city": {"kind": "open-field", "width_m": 40_000, "height_m": 40_000},
    "world.ues.mobility": {"kind": "random-waypoint"},
    "world.base_stations": {"kind": "hexagonal", "inter_site_m": 1000},
    "world.radio": {"path_loss": {"kind": "uma"}},
}
UNLIMITED = 1e9
EXAMPLES = Path(scenarios.__file__).parent / "examples"


def needed(changes=None, name="city", parquet=False):
    return check_memory(load(name, changes or {}), UNLIMITED, parquet)


@pytest.mark.parametrize("command", ["run", "validate", "sweep"])
def test_a_world_that_no_memory_holds_is_refused_in_one_line(tmp_path, capsys, command):
    document = {**TINY, "world": {**TINY["world"], **{k.removeprefix("world."): v for k, v in HUGE.items()}}}
    document["world"]["ues"] = {"count": 100_000, "mobility": {"kind": "random-waypoint"}, "measure_every_s": 10}
    document = {k: v for k, v in document.items() if k in ("title", "seed", "world", "learning")}
    document["world"] = {k: v for k, v in document["world"].items() if not k.startswith("ues.")}
    file, out = tmp_path / "huge.yaml", tmp_path / "out"
    file.write_text(json.dumps(document | ({"vary": {"seed": [1, 2]}} if command == "sweep" else {})))
    began, more = time.monotonic(), {"validate": [], "run": ["--out", str(out)]}
    more["sweep"] = [*more["run"], "--jobs", "1"]
    assert main([command, str(file), "--memory-gb", "8", *more[command]]) == 2
    assert time.monotonic() - began < 60 and not out.exists()
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"{file}:" in said
    for words in (
        "world.radio.shadowing: ",
        " GB of memory",
        "limit of 8.0 GB (--memory-gb)",
        "grids of 1,",
        "give a l",
    ):
        assert words in said


def test_the_limit_is_an_option_else_a_variable_else_the_machine(monkeypatch):
    monkeypatch.delenv("NETSIM_MEMORY_GB", raising=False)
    assert limit(None).bytes == pytest.approx(free_bytes(), rel=0.5)
    assert limit(None, {"NETSIM_MEMORY_GB": "0.5"}).bytes == 0.5 * GB
    assert limit(3, {"NETSIM_MEMORY_GB": "0.5"}).bytes == 3 * GB
    monkeypatch.setenv("NETSIM_MEMORY_GB", "0.1")
    with pytest.raises(BadInput, match=r"limit of 0\.1 GB \(NETSIM_MEMORY_GB\)"):
        check_memory(load("city"))


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "many"])
def test_a_limit_that_is_none_is_refused(text):
    with pytest.raises(BadInput, match=r"NETSIM_MEMORY_GB '.*': must be a number of GB above 0"):
        limit(None, {"NETSIM_MEMORY_GB": text})
    if text != "many":
        with pytest.raises(BadInput, match=r"--memory-gb .*: must be a number of GB above 0"):
            limit(float(text))


def machine(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return free_bytes(root)


def test_what_is_free_is_what_linux_and_all_control_groups_around_leave(tmp_path):
    assert free_bytes(tmp_path) == inf
    info = {"proc/meminfo": "MemTotal: 200 kB\nMemAvailable:     100 kB\n"}
    assert machine(tmp_path / "plain", info) == 100 * 1024
    two = info | {
        "proc/self/cgroup": "0::/a/b\n",
        "sys/fs/cgroup/a/memory.max": "50000\n", "sys/fs/cgroup/a/memory.current": "20000\n",
        "sys/fs/cgroup/a/memory.stat": "anon 5\ninactive_file 1000\n",
        "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "20000\n",
    }  # fmt: skip
    assert machine(tmp_path / "two", two) == 50000 - 20000 + 1000
    one = info | {
        "proc/self/cgroup": "5:cpu:/x\n4:memory:/a\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "7\n",
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9000\n",
        "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "9500\n",
    }  # fmt: skip
    assert machine(tmp_path / "one", one) == 0


@pytest.mark.parametrize("decorrelation_m, grid_m, nlos_m", [(50.0, None, None), (13.0, 2.0, None), (37.0, None, 20.0)])
def test_grids_take_no_more_than_is_foreseen(decorrelation_m, grid_m, nlos_m):
    law = Correlated(decorrelation_m=decorrelation_m, grid_m=grid_m, nlos_decorrelation_m=nlos_m)
    area, site, rng = Area(0, 0, 700, 300), np.arange(3), Streams(1).at("x")
    fields = [f for f in (law.field(area, site, rng), law.nlos_field(area, site, rng)) if f is not None]
    held = sum(f.value_db.nbytes for f in fields)
    assert held < law.held_bytes(area, 3)
    assert law.held_bytes(area, 5) - law.held_bytes(area, 4) == pytest.approx(held / 3)
    assert NoShadowing().held_bytes(area, 3) == 0
    sight, field = ByProbability(decorrelation_m=50), Correlated(decorrelation_m=50)
    assert sight.held_bytes(area, 3) == 2 * field.held_bytes(area, 3)


@pytest.mark.parametrize("scenario", ["city", "density/nine", "density/moving", "radio-maps/leak", "lapa/privacy"])
def test_the_size_of_an_update_is_that_of_the_first_models(scenario):
    study, rng = load(scenario), Streams(1).at("x")
    area = study.world.city.area(None)
    antennas = Antennas(np.array([[1.0, 2.0, 30.0]]), np.array([40.0]), np.array([np.nan]))
    sampled_m = np.random.default_rng(1).uniform(area.low_m, area.high_m, (50, 2))
    public = Public(area, 1, None, antennas, images=ImageFormat(8, 8, 10), sampled_m=sampled_m)
    learner = study.learned.learner
    assert learner.n_parameters(public, rng) == learner.init(public, rng).parameters.shape[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"world.ues.count": 4000}, {"world.ues.measure_every_s": 0.05}, {"learning.learner.hidden": [4000, 4000]},
        {"world.radio.shadowing": {"kind": "correlated", "grid_m": 0.3}},
        {"world.base_stations.rings": None, "world.base_stations.inter_site_m": 80},
        {"learning.attacks": [{"kind": "span", "cell_m": 2}]},
    ],
)  # fmt: skip
def test_more_of_anything_needs_more(changes):
    assert needed(changes) > needed() + 0.5 * GB


def test_parquet_needs_less_for_long_records():
    changes = {"world.ues.count": 3000, "learning.learner.hidden": [2]}
    assert needed(changes, parquet=True) < needed(changes) - 0.5 * GB


def test_shorter_runs_and_a_threat_to_few_need_less():
    assert needed({"learning.rounds": 1}) < needed()
    maps = {"learning.attacks": [{"kind": "span", "cell_m": 5}]}
    assert needed(maps | {"learning.threat.targets": 2}) < needed(maps)


def test_a_trace_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    trace = tmp_path / "trace.csv"
    trace.write_text("time_s,user,lat,lon\n" + "0,a,1,2\n" * 100)
    with trace.open("r+b") as file:
        file.truncate(10**10)
    monkeypatch.setattr(Replay, "load", lambda self, round_s: pytest.fail("it was read"))
    study = load("replay", {"world.ues.mobility.trace": str(trace)})
    with pytest.raises(BadInput, match=r"world\.ues\.mobility\.trace: .* 40 GB .* cut it to fewer users or days"):
        check_memory(study, 8)


def test_no_bundled_scenario_needs_more_than_a_usual_machine_has(monkeypatch):
    monkeypatch.delenv("NETSIM_DATA", raising=False)
    large = {}
    for name in sorted(bundled()):
        try:
            study = load(name)
            large[name] = check_memory(study, UNLIMITED) / GB
        except BadInput:  # it asks for recorded data
            continue
    assert len(large) > 50 and max(large.values()) < 4


def test_check_tells_what_validate_prints(tiny, tmp_path, capsys):
    (tmp_path / "tiny.yaml").write_text(json.dumps(TINY))
    assert main(["validate", str(tmp_path / "tiny.yaml")]) == 0
    assert f"; needs at most about {check(tiny())[0] / GB:.1f} GB of memory\n" in capsys.readouterr().out


def test_runs_at_once_share_the_limit(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("NETSIM_MEMORY_GB", raising=False)
    file, out = tmp_path / "s.yaml", tmp_path / "w"
    file.write_text(json.dumps(TINY | {"vary": {"seed": [1, 2, 3]}}))
    one_gb = check(load(file, {"vary": None}))[0] / GB
    command = ["sweep", str(file), "--out", str(out), "--quiet", "--memory-gb", f"{2.5 * one_gb}", "--jobs"]
    assert main([*command, "8"]) == 2 and not out.exists()  # three at once: no more are to be played
    said = capsys.readouterr().err
    assert (
        f"(--memory-gb, {2.5 * one_gb:.1f} GB for 3 runs at once)" in said
        and "lower --jobs, or raise --memory-gb" in said
    )
    assert f"{file}:" in said and said.count("\n") == 1
    assert main([*command, "2"]) == 0
    monkeypatch.setattr(memory_limit, "free_bytes", lambda root: 2.5 * one_gb * GB)
    free = [*command[:4], "--replace", "--set", "title=another", "--jobs"]
    assert main([*free, "3"]) == 2 and "free on this machine, " in capsys.readouterr().err
    needed = check(load("power/pedestrians"))[0] / GB
    monkeypatch.setattr(memory_limit, "free_bytes", lambda root: 1.5 * needed * GB)  # enough for one
    at_once = ["train", "power/pedestrians", "--seed", "0", "1", "--out", str(tmp_path / "t"), "--jobs", "2"]
    assert main(at_once) == 2 and "for 2 runs at once" in capsys.readouterr().err


def test_of_a_stated_limit_each_run_has_its_part_and_looks_itself_at_what_is_free(monkeypatch):
    monkeypatch.delenv("NETSIM_MEMORY_GB", raising=False)
    assert How(memory_gb=9).among(3).each == How(memory_gb=3) and How().among(3).each == How()
    assert How(memory_gb=9).among(0).each == How(memory_gb=9)
    monkeypatch.setenv("NETSIM_MEMORY_GB", "8")
    assert How().among(4).each == How(memory_gb=2) and How().each == How()
    assert [engine.here(5) for engine in (OnProcesses(), OnRay(), OnRay("auto"), OnSlurm())] == [5, 5, 1, 1]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"learning.round_s": 0.001}, "learning.round_s"),
        ({"learning.round_s": 0.001, "learning.rounds": 10**9}, "learning.rounds"),
    ],
)
def test_the_key_that_decides_is_blamed(changes, place):
    with pytest.raises(BadInput) as error:
        check_memory(load("city", changes), 1.5)
    assert str(error.value).startswith(f"{place}: ")


def test_a_tuning_is_refused_with_its_file(tmp_path, capsys):
    pytest.importorskip("optuna")
    space = {"learning.learner.learning_rate": {"low": 0.001, "high": 0.1}}
    file, out = tmp_path / "s.yaml", tmp_path / "w"
    file.write_text(json.dumps(TINY | {"vary": {"random": {"space": space}}}))
    command = ["tune", str(file), "--objective", "utility.rmse_db", "--direction", "min", "--out", str(out)]
    assert main([*command, "--memory-gb", "0.2"]) == 2 and not out.exists()
    said = capsys.readouterr().err
    assert said.startswith(f"netsim: {file}") and said.count("\n") == 1
    assert main([*command, "--memory-gb", "2", "--jobs", "20"]) == 2
    assert "2.0 GB for 20 runs at once" in capsys.readouterr().err


def test_runs_of_python_and_of_workers_have_the_limit_too(tiny, tmp_path):
    with pytest.raises(BadInput, match=r"limit of 0\.2 GB"):
        run(tiny(), tmp_path / "one", how=How(memory_gb=0.2))
    assert not (tmp_path / "one").exists()


def test_a_training_is_refused_before_it_begins(tmp_path, capsys):
    assert main(["train", "power/pedestrians", "--memory-gb", "0.2", "--out", str(tmp_path / "t")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "0.2 GB (--memory-gb)" in said and not (tmp_path / "t").exists()


PEAK = """
import sys
from scenarios.app.cli.commands import main
code = main(sys.argv[1:])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
sys.exit(code)
"""  # ru_maxrss would be that of the process that started it, where that is larger


def peak_bytes(folder, *command):
    """The largest resident set of a whole command, page included."""
    words = [sys.executable, "-c", PEAK, *command, "--quiet", "--out", str(folder / "run"), "--memory-gb", "1000"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return 1024 * float(done.stdout.splitlines()[-1])


def sets(changes):
    return [word for key, value in changes.items() for word in ("--set", f"{key}={json.dumps(value)}")]


NOISY = [{"kind": "clip", "norm": 1}, {"kind": "gaussian", "noise_multiplier": 1}]
GRIDS = {"world.duration_s": 5, "world.radio.shadowing": {"kind": "correlated", "grid_m": 0.2}}
LARGE = {"learning.rounds": 1, "learning.learner.hidden": [700, 700], "learning.attacks": [{"kind": "closed-form"}]}
STUDIES = [
    ("radio/coverage", {"world.duration_s": 5}),
    ("replays/sumo", {"learning.rounds": 1}),
    *(
        pytest.param(*each, marks=pytest.mark.slow)
        for each in (
            ("radio/coverage", {"world.duration_s": 5, "world.ues.count": 5000}), ("radio/coverage", GRIDS),
            ("town", {"learning.rounds": 1}), ("city", {"learning.rounds": 3, "world.ues.count": 400}), ("city", LARGE),
            ("city", LARGE | {"learning.defenses": NOISY}), ("density/nine", {}), ("lapa/privacy", {}),
            ("radio-maps/leak", {}), ("signal-maps/radio", {"learning.rounds": 2}), ("rsrp-dp/budget", {}),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario, changes", STUDIES)
def test_the_estimate_is_the_peak_of_a_run_up_to_twice_that(tmp_path, scenario, changes):
    peak = peak_bytes(tmp_path, "run", scenario, *sets(changes))
    assert peak < check_memory(load(scenario, changes), UNLIMITED) < 2 * peak


def vehicles(path, n, begins_s, stays_s=60):
    """A SUMO trace of n vehicles, of which each is there for a minute from its own time on."""
    rng = np.random.default_rng(1)
    steps = {t: [] for t in range(int(max(begins_s)) + stays_s)}
    for k, (first_s, at_m) in enumerate(zip(begins_s, rng.uniform(0, 3000, (n, 2)), strict=True)):
        for t in range(int(first_s), int(first_s) + stays_s):
            steps[t].append(f'<vehicle id="v{k}" x="{at_m[0] + t % 50:.1f}" y="{at_m[1]:.1f}" speed="1"/>')
    body = "".join(f'<timestep time="{t}">{"".join(there)}</timestep>' for t, there in steps.items())
    path.write_text(f"<fcd-export>{body}</fcd-export>")
    return path


def suggested(path):
    """The study that the command plays which an inspection suggests."""
    line = inspect_trace(path).splitlines()[-1]
    args = parser().parse_args(shlex.split(line.removeprefix("try").strip())[1:])
    overrides = _overrides(args)
    return args.scenario, overrides | some_targets(load(args.scenario, overrides), overrides)


def test_a_replay_needs_memory_for_the_ues_that_are_there_at_a_time(tmp_path):
    """Ten times the vehicles over ten times as long: as many updates in a round, and a hundred of them attacked."""
    needed = []
    for n in (60, 600):
        trace = vehicles(tmp_path / f"{n}.xml", n, np.arange(n) + 0.0)
        changes = {"world.ues.mobility.trace": str(trace), "learning.round_s": 60, "learning.threat": {"targets": 60}}
        needed.append(check_memory(load("replay", changes), UNLIMITED))
    assert needed[0] < needed[1] < needed[0] + 0.1 * GB


@pytest.mark.parametrize("trace", sorted(p.name for p in EXAMPLES.iterdir()))
def test_what_an_inspection_suggests_is_accepted(trace):
    accepted(EXAMPLES / trace)


def test_what_an_inspection_suggests_for_many_vehicles_is_accepted(tmp_path):
    accepted(vehicles(tmp_path / "fcd.xml", 1500, np.random.default_rng(2).uniform(0, 1800, 1500)))


def test_what_an_inspection_suggests_for_real_traces_is_accepted(data_folder):
    for trace in sorted(data_folder.glob("mobility_*")):
        accepted(trace)


def accepted(trace):
    """Both runs of the command that an inspection suggests begin with 2 GB."""
    scenario, overrides = suggested(trace)
    for way in ("dataset", "public"):
        study = load(scenario, overrides | {"learning.learner.standardise_by": way})
        assert 0.5 * GB < check(study, how=How(memory_gb=2))[0] < 2 * GB


@pytest.mark.slow
@pytest.mark.parametrize("trace", sorted(p.name for p in EXAMPLES.iterdir()))
def test_what_an_inspection_suggests_is_played(tmp_path, trace):
    line = inspect_trace(EXAMPLES / trace).splitlines()[-1]
    brief = {"learning.rounds": 2, "learning.attacks": [{"kind": "closed-form"}]}
    command = [*shlex.split(line.removeprefix("try").strip())[1:], *sets(brief)]
    assert main([*command, "--quiet", "--memory-gb", "2", "--out", str(tmp_path / "out")]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("trace", ["taxis", "geolife", "vehicles"])
def test_the_estimate_of_a_replay_is_its_peak_up_to_twice_that(tmp_path, request, trace):
    if trace == "vehicles":
        path = vehicles(tmp_path / "fcd.xml", 600, np.random.default_rng(2).uniform(0, 600, 600))
    else:
        names = {"taxis": "mobility_cabspotting_sf.csv.gz", "geolife": "mobility_geolife_beijing.csv.gz"}
        path = request.getfixturevalue("data_folder") / names[trace]
    scenario, overrides = suggested(path)
    brief = {"learning.rounds": 5, "learning.attacks": [{"kind": "closed-form"}]}
    line = inspect_trace(path).splitlines()[-1]
    peak = peak_bytes(tmp_path, *shlex.split(line.removeprefix("try").strip())[1:], *sets(brief))
    assert peak < check_memory(load(scenario, overrides | brief), UNLIMITED) < 2 * peak
