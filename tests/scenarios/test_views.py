"""What an attacker received is kept, and attacks on it find what they find in a run, byte by byte;
it says nothing of another town."""

import json
import shutil
from pathlib import Path

import numpy as np
from conftest import build_study_world
from forked import fork_command
from interrupted import run_in_two
from pytest import fixture, mark
from refused import catch_line

from netsim.checkpoint import load_tree, save_tree
from scenarios.app.cli.commands import main
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.run.attacked import attack_run
from scenarios.app.run.events import ignore_event
from scenarios.app.run.runner import build_run_job
from scenarios.app.study.load import load, parse_value

UPLINK = {
    "world.radio.uplink": {"kind": "oma", "bandwidth_hz": 1e6, "decoding": "error-free"},
    "world.radio.dynamic_uplink": {},
}
LIVING = {
    "world.duration_s": 3 * 86_400,
    "world.tick_s": 1200,
    "world.ues.measurement_period_s": None,
    "learning.round_s": 86_400,
    "world.ues.mobility": {
        "kind": "commuter",
        "home_m": [[50, 50], [100, 200], [200, 50], [350, 250]],
        "work_m": [[200, 200], [300, 100], [50, 250], [100, 100]],
    },
}
TRACKER = "{kind: tracker, shadow_ues: 6, cell_m: 100.0, own_places: true}"
SETTINGS = {
    "updates": (
        "[{kind: closed-form}, {kind: span, rank: 2}, {kind: neuron-votes}, {kind: arrival-times}]",
        {},
    ),
    "sums": (
        "[{kind: fused, towns: 0, cell_m: 100}, {kind: arrival-times}]",
        {"learning.threat": {"observes": "aggregate"}, **UPLINK},
    ),
    "sums of groups and curation, shadow UEs": (
        f"[{TRACKER}, {{kind: dwell, shadow_ues: 6}}]",
        {
            "learning.defenses": [{"kind": "clip", "norm": 1.0}],
            "learning.threat": {"observes": "aggregate", "secagg_group_size": 2},
            "learning.curation": [{"kind": "geo-indistinguishable", "epsilon_per_m": 0.01}],
            "learning.server_optimiser": {"kind": "fedadam"},
        },
    ),
    "names change every round": (
        f"[{{kind: span, rank: 2}}, {TRACKER}]",
        {"learning.threat": {"pseudonyms": {"kind": "per-round"}, "shuffle": True}},
    ),
    "without rounds, names change": (
        f"[{{kind: span, rank: 2}}, {{kind: arrival-times}}, {TRACKER}]",
        {
            "learning.threat": {"pseudonyms": {"kind": "per-round"}},
            "learning.server": {"kind": "fedbuff", "buffer": 2},
            **UPLINK,
        },
    ),
    "an eavesdropper": (
        "[{kind: span, rank: 2}, {kind: closed-form}]",
        {
            "learning.threat": {"viewpoint": "eavesdropper", "position_m": [50, 50]},
            "world.radio.uplink": {"kind": "noma", "norm_bound": 1.0, "deadline_s": 60},
        },
    ),
    "two phases": (
        "[{kind: weighted-centroid}]",
        {
            "learning.learner": {"kind": "radio-map", "cell_m": 20},
            "learning.data": {"kind": "links", "hold_out_ues": 1},
            "world.ues.measure": "all",
        },
    ),
    "published models": (
        "[{kind: span, rank: 2}]",
        {"learning.threat": {"observes": "model", "viewpoint": "analyst"}},
    ),
}


def attack(folder, study, out, replace=False):
    job = build_run_job(study, out, replace=replace)
    return attack_run(folder, job, ignore_event)


def read_tables(folder):
    """Bytes of all tables but metrics, of which attacks write only theirs."""
    return {p.name: p.read_bytes() for p in folder.glob("*.csv") if p.name != "metrics.csv"}


def read_attack_keys(folder):
    summary = json.loads((folder / "summary.json").read_text())
    return {k: v for k, v in summary.items() if not k.startswith("metric.")}


@mark.parametrize("attacks, changes", SETTINGS.values(), ids=SETTINGS)
def test_attacks_on_views_find_what_a_run_finds(attacks, changes, tiny, tmp_path):
    """Also where the run that kept them had no attack; and the views change no byte."""
    changes = {"learning.attacks": parse_value(attacks), **changes}
    study = tiny(changes)
    blind = tiny(changes | {"learning.attacks": []})
    plain, kept, bare, again, other = (tmp_path / name for name in ("p", "k", "b", "a", "o"))
    run(study, plain)
    run(study, kept, views=True)
    run(blind, bare, views=True)
    expected = read_tables(plain)
    assert read_tables(kept) == expected
    assert "estimates.csv" in expected
    attack(kept, study, again)
    assert read_tables(again) == expected
    assert read_attack_keys(again) == read_attack_keys(plain)
    attack(bare, study, other)
    # what UEs can tell by themselves is looked at where there are attacks
    without = {"updates.csv"}
    assert {k: v for k, v in read_tables(other).items() if k not in without} == {
        k: v for k, v in expected.items() if k not in without
    }
    metrics = read_record_table(again, "metrics")
    assert set(metrics["part"]) <= {part.label for part in study.learned.attacks}


def test_no_truth_is_in_the_files_of_the_attacker(tiny, out):
    """Under names that change nothing but the judge's files has the numbers of UEs."""
    changes = {"learning.threat": {"pseudonyms": {"kind": "per-round"}, "shuffle": True}}
    run(tiny(changes), out, views=True)
    for number, path in enumerate(sorted((out / "views").glob("0*.npz"))):
        facts, views = load_tree(path)
        assert facts["channel"] is None
        for view in views:
            assert (view["ue"] // 4 == number).all()
            assert view["learner"] is None if "learner" in view else True
            assert set(np.unique(view["party"][0])) <= set(view["ue"].tolist())


def test_a_run_goes_on_with_its_views(tiny, whole, cut):
    study = tiny({"world.duration_s": 240})
    run(study, whole, views=True)

    def run_views(*arguments):
        return run(*arguments, views=True)

    import interrupted

    before = interrupted.run
    interrupted.run = run_views
    try:
        run_in_two(study, cut, lambda event: event.done == 2)
    finally:
        interrupted.run = before
    views = {p.name: p.read_bytes() for p in (whole / "views").iterdir()}
    assert len(views) == 3 * 4
    assert {p.name: p.read_bytes() for p in (cut / "views").iterdir()} == views
    run(study, cut, replace=True)
    assert not (cut / "views").exists()


@fixture(scope="module")
def town(tmp_path_factory):
    """A run of twelve residents for three days, whose updates are not hidden."""
    changes = parse_value(
        "{world.duration_s: 259200, world.ues.count: 12, learning.attacks: [], "
        "learning.references: {path_loss: false, central: false}}"
    )
    study = load("city", changes)
    folder = tmp_path_factory.mktemp("town") / "run"
    run(study, folder, views=True)
    return study, folder


def count_homes_found(named, home_m, radius_m=100.0):
    """Homes (n, 2) of UEs within a distance of the two places that are named of each."""
    first = named["rank"] <= 2
    ue = named["ue"][first].astype(int)
    place_m = np.column_stack([named["x_m"], named["y_m"]])[first]
    is_near = np.linalg.norm(place_m - home_m[ue], axis=1) <= radius_m
    return len(np.unique(ue[is_near]))


def test_views_of_a_town_are_at_chance_in_another(town, tmp_path):
    """Homes of the same town are found; of homes that another seed draws as many as by chance: 24
    places on 1.3 % of the area each, and 3.6 with a probability below 1 %."""
    study, folder = town
    learning = load("city").learned
    attacks = tuple(part for part in learning.attacks if part.label == "span")
    learning = study.learned.model_copy(update={"attacks": attacks})
    out = tmp_path / "out"
    attack(folder, study.model_copy(update={"learning": learning}), out)
    named = read_record_table(out, "named")
    own = build_study_world(study).places.home_m
    other = build_study_world(study.model_copy(update={"seed": 77})).places.home_m
    assert count_homes_found(named, own) >= 6
    assert count_homes_found(named, other) <= 3


@fixture(scope="module")
def kept(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "run"
    run(tiny(LIVING), folder, views=True)
    return folder


def complain(capsys, *words):
    """The line with which a command refuses."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


def test_the_command_prints_what_a_run_prints(kept, capsys, tmp_path):
    out = tmp_path / "out"
    settings = "{kind: span, rank: 2}"
    words = ["attack", kept, "--attack", "closed-form", "--attack", settings, "--out", out]
    assert main([str(word) for word in [*words, "--quiet"]]) == 0
    assert "centroid error" in capsys.readouterr().out
    assert (out / "report.html").exists()
    assert main(["show", str(out)]) == 0
    assert {"closed-form", "span"} == set(read_record_table(out, "leakage")["attack"])
    line = complain(capsys, "run", out / "study.yaml", "--out", out, "--quiet")
    assert "add --replace" in line


BAD_ATTACKS = {
    "no kind": ("nothing", "nothing"),
    "unknown key": ("{kind: span, ranks: 3}", "ranks"),
    "no mapping": ("[1, 2]", "attacks[0]"),
    "out of bounds": ("{kind: span, rank: 0}", "rank"),
    "what the threat does not grant": ("network-positioning", "operator"),
    "no such file": ("nowhere.py:Mine", "plug-in nowhere:Mine of nowhere.py"),
}


@mark.parametrize("text, part", BAD_ATTACKS.values(), ids=BAD_ATTACKS)
def test_attacks_that_cannot_be_are_refused(text, part, kept, tmp_path):
    ran = fork_command(tmp_path, "attack", kept, "--attack", text, "--out", tmp_path / "out")
    assert (ran.returncode, ran.stderr.count("\n"), ran.stdout) == (2, 1, "")
    assert part in ran.stderr
    assert not (tmp_path / "out").exists()


def test_folders_that_cannot_be_are_refused(kept, tiny, tiny_run, capsys, tmp_path):
    out = tmp_path / "out"
    words = ["--attack", "span", "--out", out, "--quiet"]
    assert "kept no views; play it again with --views" in complain(
        capsys, "attack", tiny_run, *words
    )
    assert "no such file" in complain(capsys, "attack", tmp_path / "nothing", *words).lower()
    assert not out.exists()
    itself = ["attack", kept, "--attack", "span", "--out", kept, "--replace"]
    assert "is the run itself" in complain(capsys, *itself)
    assert len(list((kept / "views").iterdir())) == 9
    line = complain(capsys, "run", tiny_run / "study.yaml", "--views", "--out", tiny_run)
    assert "add --replace" in line
    for name in ("000001-all.npz", "truth-000002-all.npz", "truth-000001.npz"):
        for damage in (Path.unlink, lambda path: path.write_bytes(b"PK"), swap_tree):
            copy = tmp_path / "copy"
            shutil.copytree(kept, copy)
            damage(copy / "views" / name)
            line = complain(capsys, "attack", copy, *words)
            assert f"views/{name}: is missing or damaged (" in line
            assert line.endswith("play the run again with --views --replace")
            shutil.rmtree(copy)


def swap_tree(path):
    """Another tree, whole."""
    save_tree(path, [1, {"views": np.ones(3)}])


def test_no_view_is_written_through_a_link(tiny, tmp_path):
    out = tmp_path / "out"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("mine")
    run(tiny(), out)
    (out / "views").symlink_to(elsewhere)
    line = catch_line(run, tiny(), out, replace=True, views=True)
    assert "symbolic link" in line
    assert [p.name for p in elsewhere.iterdir()] == ["mine"]


def test_a_radio_study_has_no_views(tiny, out):
    study = tiny({"learning": None, "world.radio.measurement_noise_db": 0.0})
    line = catch_line(run, study, out, views=True)
    assert "`learning:` section" in line


PLUGIN = """
from typing import Literal

from fl.attacks.span import Span
from fl.types import Estimates


class Mine(Span):
    kind: Literal["mine"] = "mine"

    def conclude(self, state, facts, rng):
        import numpy as np

        ue = np.arange(4)
        place_m = np.tile([[11.0, 12.0]], (4, 1)) + ue[:, None]
        return Estimates.from_places(ue, np.zeros(4, int), "answer", place_m)


class Raises(Span):
    kind: Literal["raises"] = "raises"

    def run(self, view, facts, state, rng):
        return view.nothing, state
"""


def test_a_file_is_a_plugin_and_concludes_after_the_last_round(kept, tmp_path):
    """Its last answers replace all others, for every UE, in the last rows of leakage and at the
    end."""
    (tmp_path / "mine.py").write_text(PLUGIN)
    out = tmp_path / "out"
    ran = fork_command(tmp_path, "attack", kept, "--attack", "mine.py:Mine", "--out", out, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    named = read_record_table(out, "named")
    assert len(named["ue"]) == 4
    np.testing.assert_array_equal(named["x_m"], 11.0 + named["ue"])
    np.testing.assert_array_equal(named["y_m"], 12.0 + named["ue"])
    rows = read_record_table(out, "leakage")
    last = rows["round"] == rows["round"].max()
    np.testing.assert_array_equal(rows["named_x_m"][last], 11.0 + rows["ue"][last])
    assert (rows["named_x_m"][~last] != 11.0 + rows["ue"][~last]).any()


def test_a_run_concludes_as_views_do(tmp_path, tiny):
    """With and without rounds: an installed plug-in in a run, and the same on its views."""
    (tmp_path / "mine.py").write_text(PLUGIN)
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[netsim.attack]\nmine = mine:Mine\n")
    without = json.dumps(UPLINK | {"learning.server": {"kind": "fedbuff", "buffer": 2}})
    for name, changes in (("rounds", "{}"), ("without", without)):
        from conftest import write_tiny

        path = write_tiny(
            tmp_path / f"{name}.yaml",
            LIVING | json.loads(changes) | {"learning.attacks": [{"kind": "mine"}]},
        )
        whole, out = tmp_path / name, tmp_path / f"{name}-again"
        ran = fork_command(tmp_path, "run", path, "--views", "--out", whole, "--quiet")
        assert (ran.returncode, ran.stderr) == (0, "")
        ran = fork_command(tmp_path, "attack", whole, "--attack", "mine", "--out", out, "--quiet")
        assert (ran.returncode, ran.stderr) == (0, "")
        assert read_tables(out) == read_tables(whole)
        named = read_record_table(whole, "named")
        assert len(named["ue"]) == 4
        np.testing.assert_array_equal(named["x_m"], 11.0 + named["ue"])


MISTAKES = {
    "raises": (PLUGIN, "Raises", 1, "has no attribute 'nothing'); plug-in {}/mine.py:23; details"),
    "a name": ("nothing\n", "Mine", 2, "(NameError: name 'nothing' is not defined), {}/mine.py:1;"),
    "syntax": ("class\n", "Mine", 2, "(mine.py, line 1)"),
    "no class": (PLUGIN, "Other", 2, "plug-in mine:Other of mine.py (netsim.attack)"),
    "no part": ("Mine = 3\n", "Mine", 2, "it is not a part with a `kind`; mend mine.py"),
    "taken": (PLUGIN.replace('"mine"', '"span"'), "Mine", 2, "its kind 'span' is taken"),
}


@mark.parametrize("text, name, code, part", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_in_a_file_are_told_with_their_line(text, name, code, part, kept, tmp_path):
    (tmp_path / "mine.py").write_text(text)
    out = tmp_path / "out"
    ran = fork_command(
        tmp_path, "attack", kept, "--attack", f"mine.py:{name}", "--out", out, "--quiet"
    )
    assert (ran.returncode, ran.stderr.count("\n")) == (code, 1), ran.stderr
    assert part.format(tmp_path) in ran.stderr
