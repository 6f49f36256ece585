"""`netsim show`, `--open`, and folders that nobody named."""

import json
import re
import shutil
from argparse import Namespace
from pathlib import Path

from conftest import SHORT
from pytest import fixture, mark
from refused import read_cases

from scenarios.app import result
from scenarios.app.cli.commands import build_parser, main
from scenarios.app.cli.options import choose_out, name_scenario
from scenarios.app.cli.replay import choose_replay_folder
from scenarios.app.results.folder import read_json
from scenarios.app.study.load import load, parse_value


@fixture(scope="module")
def campus_run(tmp_path_factory):
    """A finished run, and what its command printed."""
    import contextlib
    import io

    folder = tmp_path_factory.mktemp("show") / "r"
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["run", "campus", "--out", str(folder), "--quiet", *SHORT]) == 0
    return folder, out.getvalue()


def print_command(capsys, *words, code=0):
    capsys.readouterr()
    assert main(list(words)) == code
    out, errors = capsys.readouterr()
    return out if code == 0 else errors


def test_show_prints_what_the_run_printed(campus_run, capsys):
    folder, printed = campus_run
    assert print_command(capsys, "show", str(folder)).splitlines()[1:] == printed.splitlines()[1:]
    assert print_command(capsys, "show", str(folder)).startswith(f"{folder}, seed 4: ")
    whole = print_command(capsys, "show", str(folder), "--verbose")
    assert "centroid_error_m" in whole


def test_show_draws_nothing_unless_it_opens(campus_run, capsys, monkeypatch):
    folder, _ = campus_run
    page = folder / "report.html"
    opened = []
    before = page.read_bytes()
    page.unlink()
    try:
        assert f"not drawn yet: netsim report {folder}" in " ".join(
            print_command(capsys, "show", str(folder)).split()
        )
        assert not page.exists()
        monkeypatch.setenv("DISPLAY", ":0")
        monkeypatch.setattr(
            result.webbrowser, "open", lambda address: opened.append(address) or True
        )
        print_command(capsys, "show", str(folder), "--open")
        assert opened == [page.resolve().as_uri()]
    finally:
        page.write_bytes(before)


@mark.parametrize("environment", [{}, {"DISPLAY": ":0"}])
def test_without_a_browser_a_line_has_the_path(campus_run, capsys, monkeypatch, environment):
    def none(address):
        assert environment, "a browser without a window was asked"
        raise result.webbrowser.Error("could not locate runnable browser")

    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(result.webbrowser, "open", none)
    assert f"no browser here; open {campus_run[0] / 'report.html'}" in print_command(
        capsys, "show", str(campus_run[0]), "--open"
    )


def test_an_unfinished_run_says_how_it_goes_on(campus_run, out, capsys):
    folder = shutil.copytree(campus_run[0], out, ignore=shutil.ignore_patterns("summary.json"))
    manifest = read_json(folder / "manifest.json")
    (folder / "manifest.json").write_text(
        json.dumps({**manifest, "command": "netsim run campus", "finished": False})
    )
    error = print_command(capsys, "show", str(folder), code=2)
    assert error == (
        f"netsim: {folder}: this run is not finished; `netsim run campus` goes on where "
        f"it stopped\n"
    )
    assert (
        print_command(capsys, "report", str(folder), code=2)
        == print_command(capsys, "export", str(folder), code=2)
        == error
    )
    (folder / "manifest.json").unlink()
    assert "the same command goes on" in print_command(capsys, "show", str(folder), code=2)


def name_folder(scenario, *sets):
    changes = {path: parse_value(value) for path, value in (text.split("=", 1) for text in sets)}
    seed = changes.pop("seed", load(scenario).seed)
    return str(choose_out(Namespace(out=None), scenario, str(seed), changes=changes))


def test_a_scenario_as_written_has_its_seed_as_folder():
    assert name_folder("city") == "runs/city/1"
    assert name_folder("city", "seed=7") == "runs/city/7"


NAMES = r"""
world.city.kind=town
    1-city-town
learning.defenses=[]
    1-defenses-none
world.ues.count=9; learning.rounds=3
    1-rounds-3-count-9
learning.rounds=3; world.ues.count=9; seed=2
    2-rounds-3-count-9
power={kind: fixed, power_dbm: -3}
    1-power-kind-fixed-power-dbm-3-[0-9a-f]{8}
learning.learner.learning_rate=0.1
    1-learning-rate-0.1
learning.learner.hidden=[8]
    1-hidden-8-[0-9a-f]{8}
title=Somebody's very/own
    1-title-Somebody-s-very-own-[0-9a-f]{8}
title=../../etc
    1-title-etc-[0-9a-f]{8}
title=日本
    1-title-[0-9a-f]{8}
"""


@mark.parametrize("changes, end", read_cases(NAMES))
def test_what_is_changed_stands_in_the_name(changes, end):
    sets = changes.split("; ")
    name = name_folder("city", *sets)
    assert re.fullmatch(f"runs/city/{end}", name), name
    assert name == name_folder("city", *reversed(sets))


CHANGES = """
learning.rounds=3
learning.round_s=3
learning.rounds=30
learning.learner.learning_rate=3
learning.learner.hidden=[8]
learning.learner.hidden=[8, 8]
learning.learner.hidden=[88]
world.city={kind: town, width_m: 900}
world.city={kind: town, height_m: 900}
title=a b
title=a-b
title=A b
title=a.b
title=rounds-3
title=x
title=x; world.ues.count=9
"""


def test_two_changes_rarely_share_a_folder():
    """Where they do, because two keys have one last name, the folder refuses the second."""
    many = [[], *(line.split("; ") for line in CHANGES.strip().splitlines())]
    folders = [name_folder("city", *sets).lower() for sets in many]
    assert len(set(folders)) == len(many)
    assert max(map(len, folders)) < 90


def test_replays_have_names_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def name_replay(*words):
        return str(choose_replay_folder(build_parser().parse_args(["replay", *words])))

    assert (
        name_replay("commuter.csv.gz", "--cell", "campus", "--round", "24h")
        == "runs/replay/commuter-campus-24h"
    )
    assert name_replay("commuter.csv", "--users", "day") == "runs/replay/commuter-users-day"
    assert name_replay("t.csv", "--seed", "9") == "runs/replay/t-seed-9"
    rest = ["t.csv", "t.gpx", "a/t.csv", "b/t.csv", "../t.csv", "my t.csv", "my-t.csv"]
    assert len({name_replay(trace) for trace in rest}) == len(rest)
    assert not any(".." in Path(name_replay(trace)).parts for trace in rest)


def test_the_same_command_again_takes_the_same_folder_and_another_one_another(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = ["run", "campus", "--quiet", *SHORT]
    first, second = (
        print_command(capsys, *words, *rest) for rest in ([], ["--set", "learning.rounds=1"])
    )
    folders = sorted(p.name for p in (tmp_path / "runs/campus").iterdir())
    assert len(folders) == 2
    assert all(name.startswith("4-") for name in folders)
    assert all(any(name in " ".join(text.split()) for name in folders) for text in (first, second))
    before = {p: p.read_bytes() for p in tmp_path.rglob("summary.json")}
    # played again where it was; the peak of memory is that of the process
    again = print_command(capsys, *words)
    item, another = (
        [line for line in text.splitlines() if "peak" not in line] for text in (first, again)
    )
    assert item == another
    assert {p: p.read_bytes() for p in tmp_path.rglob("summary.json")} == before


def test_files_are_called_by_their_names_and_bundled_scenarios_by_theirs(tmp_path, monkeypatch):
    # a path in the place of a name would lead out of runs/
    monkeypatch.chdir(tmp_path)
    for name in ("plain", "mine.yaml"):
        (tmp_path / name).write_text("")
    names = [
        f"{tmp_path}/plain",
        "./plain",
        "../" + tmp_path.name + "/mine.yaml",
        "cities/town",
        "city",
    ]
    assert [name_scenario(name) for name in names] == [
        "plain",
        "plain",
        "mine",
        "cities/town",
        "city",
    ]
