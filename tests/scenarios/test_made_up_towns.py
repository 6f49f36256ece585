"""Attacks that learn on made-up towns: what towns teach, that seeds share it, how it is kept, refusals, and sweeps
with adapted attackers."""

from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from conftest import write_tiny
from forked import fork_command, fork_sweep
from numpy.testing import assert_array_equal
from pydantic import Field, PrivateAttr
from pytest import fixture, mark, raises

from fl.attacks.base import Attack
from fl.defenses.clip import Clip
from netsim.checkpoint import load_tree
from netsim.errors import BadInput
from netsim.fit import explain_first_breach
from scenarios.app.result import run
from scenarios.app.results.folder import read_json, read_record_table
from scenarios.app.run import kept, towns
from scenarios.app.run.events import ignore_event
from scenarios.app.run.runner import build_run_job
from scenarios.app.run.simulate import LearningPlay, PlannedStudy
from scenarios.app.run.towns import FIRST_SEED, teach_attacks
from scenarios.app.study.load import load

IMPORTS = (
    "from typing import Literal",
    "import numpy as np",
    "from pydantic import Field, PrivateAttr",
    "from fl.attacks.base import Attack",
)
FEW = {"random_baseline_draws": 20, "directions": 12}
COMMUTERS = {
    "world.duration_s": 3 * 86_400,
    "world.tick_s": 1200,
    "world.ues.measurement_period_s": None,
    "world.ues.count": 3,
    "world.ues.mobility": {"kind": "commuter"},
    "world.city.width_m": 1200,
    "world.city.height_m": 900,
    "learning.round_s": 86_400,
}


class Recorder(Attack):
    """Answers the mean home of the UEs of its towns; a lesson is all truth of a town."""

    kind: Literal["recorder"] = "recorder"
    n: int = Field(2, ge=0)

    _home_m: tuple[float, ...] | None = PrivateAttr(None)

    @property
    def n_towns(self) -> int:
        return self.n

    def start(self):
        return np.zeros((0, 2), dtype=int)

    def take_lesson(self, state, town, rng):
        seen = {"round_ue": state, "ue": town.ue, "home_m": town.home_m, "work_m": town.work_m}
        return {**seen, "round": town.facts.round, "drawn": rng.uniform("any", town.ue)}

    def learn(self, lessons):
        learnt = self.model_copy()
        mean_m = np.mean([lesson["home_m"].mean(axis=0) for lesson in lessons], axis=0)
        learnt._home_m = tuple(mean_m.tolist())
        return learnt

    def tabulate_learnt(self):
        if self._home_m is None:
            return []
        return [
            {"kind": "home", "column": axis, "weight": weight}
            for axis, weight in zip("xy", self._home_m, strict=True)
        ]

    def run(self, view, facts, state, rng):
        named = np.column_stack([np.full(len(view.ue), facts.round), view.ue])
        place_m = np.tile(self._home_m or (np.nan, np.nan), (len(view.update), 1))
        answers = view.build_estimates("answer", np.arange(len(view.update)), place_m)
        return answers, np.concatenate([state, named])


@fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/netsim"


@fixture
def build_study(tiny):
    """Builds the study of three commuters and an attack, by default the recorder, with changes."""

    def build(changes=None, attack=None, seed=3):
        study = tiny(COMMUTERS | {"learning.attacks": []} | (changes or {}))
        learning = study.learned.model_copy(update={"attacks": (attack or Recorder(),)})
        return study.model_copy(update={"learning": learning, "seed": seed})

    return build


def read_lessons(cache):
    paths = sorted(cache.glob("*/kept.npz"), key=lambda path: path.parent.name)
    return [load_tree(path) for path in paths]


def test_towns_teach_their_own_truth_and_none_of_the_real_run(build_study, cache, out):
    run(build_study(), out)
    lessons = read_lessons(cache)
    assert len(lessons) == 2
    real = read_record_table(out, "ues")
    real_m = np.column_stack([real["home_x_m"], real["home_y_m"]])
    for lesson in lessons:
        assert lesson["round"] == 3
        assert_array_equal(lesson["ue"], np.arange(3))
        assert np.isfinite(lesson["home_m"]).all()
        assert set(lesson["round_ue"][:, 1]) <= {0, 1, 2}
        away_m = np.linalg.norm(lesson["home_m"][:, None] - real_m, axis=2)
        assert away_m.min() > 1.0
    assert np.abs(lessons[0]["home_m"] - lessons[1]["home_m"]).max() > 1.0
    # what was learnt is used, and written down
    mean_m = np.mean([lesson["home_m"].mean(axis=0) for lesson in lessons], axis=0)
    learnt = read_record_table(out, "learnt")
    assert learnt["column"].tolist() == ["x", "y"]
    assert set(learnt["attack"]) == {"recorder"}
    np.testing.assert_allclose(learnt["weight"], mean_m, rtol=1e-8)
    estimates = read_record_table(out, "estimates")
    np.testing.assert_allclose(estimates["x_m"], mean_m[0], rtol=1e-8)
    digests = read_json(out / "manifest.json")["towns"]["recorder"]
    assert sorted(digests) == sorted(path.parent.name for path in cache.glob("*/kept.npz"))


def test_seeds_of_a_setting_share_their_towns_which_are_played_once(build_study, cache, tmp_path):
    steps = []
    run(build_study(seed=1), tmp_path / "1", steps.append)
    stamps = {path: path.stat().st_mtime_ns for path in cache.glob("*/kept.npz")}
    assert len(stamps) == 2
    # seed 1 begins with the last town
    played = [(step.part, step.done, step.total, step.last) for step in steps]
    towns = [(f"town {k} of 2", n, 3, False) for k in (2, 1) for n in (1, 2, 3)]
    assert played == [*towns, ("", 1, 3, False), ("", 2, 3, False), ("", 3, 3, True)]
    steps.clear()
    run(build_study(seed=2, attack=Recorder(name="other")), tmp_path / "2", steps.append)
    assert {step.part for step in steps} == {""}
    assert {path: path.stat().st_mtime_ns for path in cache.glob("*/kept.npz")} == stamps
    first, second = (read_json(tmp_path / seed / "manifest.json")["towns"] for seed in "12")
    assert first["recorder"] == second["other"]


def test_a_cache_that_is_gone_is_made_again_to_the_byte(build_study, cache, tmp_path, table_bytes):
    run(build_study(), tmp_path / "first")
    files = {path: path.read_bytes() for path in cache.glob("*/kept.npz")}
    for path in files:
        path.unlink()
    run(build_study(), tmp_path / "second")
    assert {path: path.read_bytes() for path in cache.glob("*/kept.npz")} == files
    assert table_bytes(tmp_path / "first") == table_bytes(tmp_path / "second")


def test_the_seed_of_a_study_is_that_of_no_town(build_study, cache, monkeypatch):
    seeds = []

    def play(cache, town, make, title, watch):
        seeds.append(town.seed)
        assert (town.plan, town.vary, town.train) == (None, None, None)
        assert town.learned.attacks[0].lessons == ()
        return str(town.seed), {"home_m": np.zeros((1, 2))}

    monkeypatch.setattr(towns, "keep_run", play)
    for seed in (0, FIRST_SEED - 1, FIRST_SEED, FIRST_SEED + 1, 2**63 - 1):
        seeds.clear()
        study = teach_attacks(build_study(attack=Recorder(n=3), seed=seed), cache)
        (attack,) = study.learned.attacks
        assert len(set(seeds)) == 3
        assert seed not in seeds
        # in the order of towns, whichever was played first
        assert attack.lessons == tuple(map(str, sorted(seeds)))


def test_an_interrupted_run_goes_on_with_the_towns_that_are_kept(
    build_study, cache, tmp_path, table_bytes
):
    run(build_study(seed=2), tmp_path / "whole")
    files = {path.name: path for path in cache.glob("*/kept.npz")}
    for path in cache.glob("*/kept.npz"):
        path.unlink()

    def interrupt(event):
        if (event.part, event.done) == ("town 2 of 2", 2):
            raise KeyboardInterrupt

    with raises(KeyboardInterrupt):
        run(build_study(seed=2), tmp_path / "cut", interrupt)
    assert len(list(cache.glob("*/kept.npz"))) == 1
    assert list(cache.glob("*/run-*")) == []
    steps = []
    run(build_study(seed=2), tmp_path / "cut", steps.append)
    assert {step.part for step in steps} == {"town 2 of 2", ""}
    assert table_bytes(tmp_path / "cut") == table_bytes(tmp_path / "whole")
    assert files


def test_a_run_that_was_cut_goes_on_with_what_was_learnt(build_study, check_resumed):
    check_resumed(build_study(), 2)


def test_a_damaged_lesson_is_one_line(build_study, cache, out):
    run(build_study(), out)
    path = next(cache.glob("*/kept.npz"))
    path.write_bytes(b"no lesson")
    with raises(BadInput, match=rf"{path.parent}: .*delete it, and the run is made again"):
        teach_attacks(build_study(), cache)


def test_a_cache_that_cannot_be_written_is_one_line(build_study, tmp_path):
    (tmp_path / "file").write_text("")
    with raises(BadInput, match="set XDG_CACHE_HOME to a folder that can be written"):
        teach_attacks(build_study(), tmp_path / "file")


def test_an_attack_that_takes_no_lesson_is_refused(build_study, cache):
    class Idle(Recorder):
        kind: Literal["idle"] = "idle"
        take_lesson = Attack.take_lesson

    with raises(BadInput, match=r"attack idle: .*without its own take_lesson"):
        teach_attacks(build_study(attack=Idle()), cache)


def test_no_attack_plays_without_what_it_would_have_learnt(build_study, tmp_path):
    study = build_study()
    job = build_run_job(study, tmp_path / "run")
    with raises(RuntimeError, match="an attack has not learnt"):
        LearningPlay(job, study, PlannedStudy(study, {}), ignore_event).play()


def test_an_attack_without_towns_is_left_as_it_is(build_study, cache):
    study = build_study(attack=Recorder(n=0))
    assert teach_attacks(study, cache).learned.attacks == study.learned.attacks
    assert not cache.exists()


def test_names_that_change_have_the_places_of_their_owners(build_study, cache):
    changes = {"learning.threat": {"pseudonyms": {"kind": "per-round"}}}
    teach_attacks(build_study(changes), cache)
    for lesson in read_lessons(cache):
        n = len(lesson["ue"])
        assert 6 < n <= 9  # of three UEs in three rounds
        assert_array_equal(lesson["ue"], np.arange(n))
        homes_m, times = np.unique(lesson["home_m"], axis=0, return_counts=True)
        assert len(homes_m) == 3
        assert times.max() <= 3
        assert set(lesson["round_ue"][:, 1]) == set(range(n))


REFUSED = {
    "home_m": ({"kind": "commuter", "home_m": [[100, 100]]}, "lists the homes"),
    "work_m": ({"kind": "commuter", "work_m": [[100, 100]]}, "lists the workplaces"),
    "positions_m": ({"kind": "static", "positions_m": [[100, 100]]}, "lists the places"),
}


@mark.parametrize("mobility, text", REFUSED.values(), ids=REFUSED)
def test_towns_that_have_the_places_of_the_run_are_refused(build_study, mobility, text):
    period_s = 1200 if mobility["kind"] == "static" else None
    changes = {"world.ues.mobility": mobility, "world.ues.measurement_period_s": period_s}
    study = build_study(changes)
    assert text in explain_first_breach(study)
    quiet = build_study(changes, Recorder(n=0))
    assert explain_first_breach(quiet) == ""
    assert explain_first_breach(build_study()) == ""


# -- as a plug-in, by commands

PLUGIN = "[netsim.attack]\nrecorder = recorder_part:Recorder\n"


@fixture
def netsim(tmp_path):
    """Runs a command of netsim in a fork that finds the recorder as a plug-in."""
    text = Path(__file__).read_text()
    start, end = text.index("class Recorder"), text.index("@fixture(autouse=True)")
    heading = "".join(f"{line}\n" for line in IMPORTS)
    space = '    space = {"n": (1,)}\n'
    body = text[start:end].replace("    _home_m:", f"{space}    _home_m:", 1)
    (tmp_path / "recorder_part.py").write_text(heading + body)
    info = tmp_path / "recorder_part-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: recorder_part\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(PLUGIN)

    return partial(fork_command, tmp_path)


def test_a_trace_is_refused_when_it_is_validated(netsim):
    changes = ["--set", "learning.attacks=[{kind: recorder}]"]
    refused = netsim("validate", "replay", *changes)
    assert refused.returncode == 2, refused.stderr
    assert "learning.attacks[0]: recorder learns on made-up towns, and a trace" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_an_adapted_sweep_plays_the_towns_of_each_row_once(netsim, tmp_path, cache):
    attacks = {"learning.attacks": [{"kind": "recorder", "n": 1}], "learning.leakage": FEW}
    rows = [{"label": n, "set": {"learning.participation": n}} for n in (1.0, 0.7)]
    vary = {"seed": [1, 2], "variants": [row | {"label": str(row["label"])} for row in rows]}
    path = write_tiny(tmp_path / "s.yaml", COMMUTERS | attacks | {"vary": vary})
    words = ["--adapt", 2, "--jobs", 2, "--quiet", "--out", "o"]
    ran = fork_sweep(tmp_path, "sweep", path, *words)
    assert ran.returncode == 0, ran.stderr
    kept = list(cache.glob("*/kept.npz"))
    assert len(kept) == 2
    digests = set()
    for name, label in (("adapt/*/*", "candidate-1"), ("[01]*/*", "recorder")):
        manifests = list(tmp_path.glob(f"o/{name}/manifest.json"))
        assert manifests
        for manifest in manifests:
            digests |= {*read_json(manifest)["towns"][label]}
    assert digests == {path.parent.name for path in kept}


def test_the_code_of_a_foreign_defense_is_in_the_key_of_what_is_kept(tmp_path, monkeypatch):
    """An edited defense is another setting: its towns are played again."""
    asked = []

    class Foreign(Clip):
        """A defense of another package."""

    def record(*packages):
        asked.extend(packages)
        raise BadInput("enough")

    monkeypatch.setattr(kept, "compute_code_digest", record)
    study = load("city", {"vary": None, "learning.attacks": []})
    study = study.change_learning(defenses=(Foreign(norm=1.0),))
    monkeypatch.setattr(Foreign, "__module__", "brought.part")
    with raises(BadInput, match="enough"):
        kept.keep_run(tmp_path, study, lambda play: {}, "a town")
    assert "brought" in asked
