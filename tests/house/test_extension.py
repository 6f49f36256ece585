"""Parts from outside: what docs/extending.md shows builds and runs, and a plug-in that fails is
told in one line."""

import importlib
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Annotated

import pytest
from forked import fork_command, fork_work
from pydantic import TypeAdapter
from rows import read_cells

from fl.attacks import ATTACKS
from fl.attacks.base import Attack
from netsim.errors import BadInput
from netsim.part import find_entry_points, load_plugins
from scenarios.app.cli.commands import main
from scenarios.app.study.slots import SLOTS

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs/extending.md").read_text()
SHORT = ["--set", "world.duration_s=259200", "--set", "learning.round_s=86400"]
SHORT += ["--set", "learning.learner.hidden=[8]"]

BOTH = """
from typing import Literal

from fl.attacks.closed_form import ClosedForm
from fl.round.learning import Learning
from fl.encodings import Fourier
from scenarios.app.study import study


class MyWaves(Fourier):
    kind: Literal["my-waves"] = "my-waves"


class MyAttack(ClosedForm):
    kind: Literal["my-attack"] = "my-attack"
"""
BOTH_ENTRIES = (
    "[netsim.attack]\nmy-attack = both:MyAttack\n[netsim.encoding]\nmy-waves = both:MyWaves\n"
)


def list_documented():
    """File name -> text of every block of docs/extending.md whose introduction names a file."""
    result = re.findall(r"(?s)`([\w.]+)`[^`]*:\n\n```(?:python|toml)\n(.*?)```", DOCS)
    assert len(result) == DOCS.count("```python") + DOCS.count("```toml")
    return dict(result)


def install(folder, module, text, entries):
    """A module and its entry points, as an installer leaves them."""
    (folder / f"{module}.py").write_text(text)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)


def install_sign(folder):
    text = list_documented()["sign_part.py"]
    assert len(text.strip().splitlines()) < 40
    install(folder, "sign_part", text, "[netsim.defense]\nsign = sign_part:Sign\n")


def play_module(plugins, cwd, *arguments):
    """Run a module of Python that finds the plug-ins of a folder."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(plugins), str(ROOT)])}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, cwd=cwd, check=False)


def run_campus(folder, attack, *changes):
    """Run a scenario, made short, with an attack and other changes."""
    command = ["run", "campus", "--out", "out", "--quiet"]
    words = [word for change in changes for word in ("--set", change)]
    attacks = ["--set", f"learning.attacks=[{{kind: {attack}}}]"]
    return fork_command(folder, *command, *SHORT, *attacks, *words)


def test_a_stranger_adds_a_defense(tmp_path):
    install_sign(tmp_path)
    listed = fork_command(tmp_path, "list", "defense")
    assert "sign" in listed.stdout and "size of every number that is sent" in listed.stdout, (
        listed.stderr
    )
    wrong = fork_command(
        tmp_path, "validate", "campus", "--set", "learning.defenses=[{kind: sign, step: -1}]"
    )
    assert wrong.returncode == 2
    assert "must be above 0" in wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1


def test_a_stranger_adds_an_attack_that_learns_on_made_up_towns(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = list_documented()["pulled_look.py"]
    install(
        tmp_path, "pulled_look", text, "[netsim.attack]\npulled-look = pulled_look:PulledLook\n"
    )
    ran = run_campus(tmp_path, "pulled-look", "world.ues.mobility={kind: commuter}")
    assert ran.returncode == 0, ran.stderr
    heading, row = (tmp_path / "out/learnt.csv").read_text().splitlines()
    assert heading == "attack,kind,column,weight"
    assert row.startswith("pulled-look,home,offset,")
    assert 0 < float(row.rpartition(",")[2]) < 1
    assert (
        len(json.loads((tmp_path / "out/manifest.json").read_text())["towns"]["pulled-look"]) == 2
    )


def test_a_new_package_is_that_of_the_manual_and_passes_its_test(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for slot, name, file in (
        ("attack", "first-look", "first_look.py"),
        ("defense", "sign", "sign_part.py"),
        ("learner", "plane", "plane_part.py"),
        ("reward", "allowance", "allowance_part.py"),
        ("trace-format", "json-lines", "json_lines.py"),
    ):
        assert main(["new", slot, name]) == 0
        assert Path(name, file).read_text() == list_documented()[file]
    assert Path("sign", "pyproject.toml").read_text() == list_documented()["pyproject.toml"]
    assert main(["new", "attack", "first-look"]) == 2
    assert "a file or folder of this name exists here" in capsys.readouterr().err
    for slot, name, part, n in (
        ("attack", "first-look", "FirstLook", 2),
        ("learner", "plane", "Plane", 3),
        ("reward", "allowance", "Allowance", 3),
        ("trace-format", "json-lines", "JsonLines", 2),
    ):
        package = tmp_path / name
        (module,) = (p.stem for p in package.glob("*.py") if not p.stem.startswith("test_"))
        text = list_documented()[f"{module}.py"]
        install(package, module, text, f"[netsim.{slot}]\nit = {module}:{part}\n")
        ran = fork_work(package, pytest.main, [])
        assert f"{n} passed" in ran.stdout, ran.stdout[-2000:]


PACKAGES = tomllib.loads((ROOT / "scenarios/app/cli/packages.toml").read_text())
WITHOUT_TEMPLATE = {
    ("city", "footprints"),
    ("mobility", "replay"),
    ("path-loss", "map"),
    ("power", "ddpg"),
    ("power", "shared"),
    ("layout", "cell-file"),
    ("learner", "flower"),
    ("learner", "recorded"),
    ("population", "places"),
    ("data", "samples"),
    ("partition", "quantity"),
    ("partition", "place"),
    ("prior", "none"),
    "trace-format",
    "power-task",
    "power-agent",
    "reward",
}


def test_each_kind_has_a_scene_and_the_arguments_of_the_method_that_is_overridden():
    missing = {slot for slot in SLOTS if slot not in PACKAGES["like"]}
    for slot, rows in PACKAGES["like"].items():
        kinds = [kind for row in rows for kind in row["kinds"]]
        assert len(kinds) == len(set(kinds))
        missing |= {(slot, kind) for kind in SLOTS[slot].parts if kind not in kinds}
        ((name, written),) = re.findall(r"def (\w+)\((.*)\)", PACKAGES["body"][slot])
        for kind in kinds:
            method = inspect.getattr_static(SLOTS[slot].parts[kind], name)
            names = inspect.signature(getattr(method, "fget", method)).parameters
            assert [text.partition("=")[0] for text in written.split(", ")] == [*names], kind
    assert missing == WITHOUT_TEMPLATE


@pytest.mark.parametrize(
    "slot",
    [s if s == "curation" else pytest.param(s, marks=pytest.mark.slow) for s in PACKAGES["like"]],
)
def test_a_new_part_passes_its_test_as_it_is(slot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind = PACKAGES["like"][slot][0]["kinds"][0]
    assert main(["new", slot, "my-part", "--like", kind]) == 0
    package = tmp_path / "my-part"
    module = (package / "my_part.py").read_text()
    install(package, "my_part", module, f"[netsim.{slot}]\nmy-part = my_part:MyPart\n")
    ran = fork_work(package, pytest.main, ["-p", "no:cacheprovider"])
    assert "2 passed" in ran.stdout, ran.stdout[-2000:]


@pytest.mark.parametrize("values, wrong", [("", ""), ("leak", "losst")])
def test_a_stranger_adds_a_reward(values, wrong, tmp_path):
    text = list_documented()["allowance_part.py"].replace(f'{{"{values}"', f'{{"{wrong}"')
    entries = "[netsim.reward]\nallowance = allowance_part:Allowance\n"
    install(tmp_path, "allowance_part", text, entries)
    reward = "train.task.reward={kind: allowance, free_j: 0.5}"
    message = fork_command(tmp_path, "validate", "power/city", "--set", reward)
    assert message.returncode == 2 * bool(wrong), message.stderr
    assert not wrong or (
        "no figure 'losst'; figures are noise, loss, " in message.stderr
        and message.stderr.count("\n") == 1
    )


def test_a_stranger_adds_a_trace_format(tmp_path):
    install(
        tmp_path,
        "json_lines",
        list_documented()["json_lines.py"],
        "[netsim.trace-format]\njson-lines = json_lines:JsonLines\n",
    )
    fixes = [
        f'{{"who": "{names}", "when": {1000 * t}, "lat": {52 + t}, "lon": 4}}\n'
        for names in "ab"
        for t in (1, 2, 9)
    ]
    (tmp_path / "walk.jsonl").write_text("".join(fixes))
    seen = fork_command(tmp_path, "inspect", "walk.jsonl")
    assert "json-lines: JSON lines, one object per fix" in seen.stdout, seen.stderr
    assert "users            2" in seen.stdout
    (tmp_path / "walk.jsonl").write_text("".join(fixes).replace("61", "161"))
    wrong = fork_command(tmp_path, "inspect", "walk.jsonl", "--format", "json-lines")
    problem = (
        "walk.jsonl: line 3, column lat: 161 is not a number in [-90, 90]; are lat and lon swapped"
    )
    assert wrong.returncode == 2
    assert problem in wrong.stderr
    assert wrong.stderr.count("\n") == 1
    for text in (
        "[1, 2]\n",
        '{"who": 1, "when": 1, "lat": "north", "lon": 4}\n',
        '{"lat": 1}\n',
        "{nothing\n",
        "\n",
        "a\0b",
    ):
        (tmp_path / "walk.jsonl").write_text(text)
        wrong = fork_command(tmp_path, "inspect", "walk.jsonl")
        assert wrong.returncode == 2
        assert wrong.stderr.startswith("netsim: walk.jsonl: ")
        assert wrong.stderr.count("\n") == 1


def test_the_manual_names_every_slot_and_its_base_class():
    rows = {}
    for slots, classes in re.findall(r"(?m)^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \| (`[^|]+`) \|", DOCS):
        first, *rest = re.findall(r"`([\w.]+)`", classes)
        package = first.rpartition(".")[0]
        names = [first, *(f"{package}.{second}" for second in rest)]
        rows |= dict(zip(re.findall(r"`([a-z-]+)`", slots), names, strict=True))
    assert sorted(rows) == sorted(SLOTS)
    for slot, name in rows.items():
        module, _, word = name.rpartition(".")
        base = getattr(importlib.import_module(module), word)
        assert all(issubclass(part, base) for part in SLOTS[slot].parts.values())


@pytest.mark.slow
def test_one_module_may_hold_parts_of_several_slots(tmp_path):
    """Whatever it imports of this package."""
    install(tmp_path, "both", BOTH, BOTH_ENTRIES)
    text = fork_command(tmp_path, "validate", "campus")
    assert text.returncode == 0, text.stderr
    ran = run_campus(tmp_path, "my-attack")
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"centroid error, m .* my-attack\n", ran.stdout)
    listed = fork_command(tmp_path, "list")
    assert "my-waves" in listed.stdout
    assert "my-attack" in listed.stdout


HEAD = "from typing import Any, Literal\nfrom fl.attacks.closed_form import ClosedForm\n"
GOOD = f'{HEAD}class Part(ClosedForm):\n    """A part."""\n    kind: Literal["broken"] = "broken"\n'
WITHOUT = r"""
raise SystemExit(3)                         it cannot be imported (SystemExit: 3)
import sys; sys.exit()                      it cannot be imported (SystemExit)
raise RuntimeError('first\nsecond')         it cannot be imported (RuntimeError: first)
def                                         it cannot be imported (SyntaxError: invalid syntax
import nowhere_to_be_found                  No module named 'nowhere_to_be_found'
pass                                        module 'broken' has no attribute 'Part'
Part = 3                                    it is not a part with a `kind`
from fl.attacks.base import Attack as Part  it is not a part with a `kind`
"""
"""modules without a part, and what is said of each"""
BROKEN = dict(zip(WITHOUT.strip().splitlines(), read_cells(WITHOUT), strict=True)) | {
    "it belongs elsewhere": (
        GOOD.replace("fl.attacks.closed_form", "fl.defenses.clip").replace("ClosedForm", "Clip"),
        "it is no Attack; derive it from fl.attacks.base.Attack",
    ),
    "its equation is missing": (
        GOOD.replace("closed_form", "base").replace("ClosedForm", "Attack"),
        "it lacks run",
    ),
    "its kind is taken": (
        GOOD.replace('"broken"', '"dlg"'),
        "its kind 'dlg' is taken; give it another",
    ),
    "its field has a type of no use": (
        GOOD + "    other: 'Nowhere' = 1\n",
        "its fields cannot be checked (PydanticUndefinedAnnotation: name 'Nowhere' is not defined)",
    ),
}


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A folder for plug-ins that this process reads, until the test ends."""
    monkeypatch.syspath_prepend(tmp_path)
    for result in (find_entry_points, load_plugins):
        result.cache_clear()
    yield tmp_path
    sys.modules.pop("broken", None)
    for result in (find_entry_points, load_plugins):
        result.cache_clear()


@pytest.mark.parametrize(
    "wrong, code, text",
    [
        ("view.nothing", 1, "has no attribute 'nothing'); plug-in {}/broken.py:7; details in "),
        (
            "view.build_estimates('centre', view.source, 0.0 * view.source[:, None] + [1.0, 2.0])",
            2,
            "plug-in broken ({}/broken.py:6): run returned Estimates, NoneType, expected estimates "
            "that say centroid, place, answer, ",
        ),
    ],
)
def test_a_mistake_in_a_plugin_is_told_with_its_place(wrong, code, text, tmp_path):
    run = f"    def run(self, view, facts, state, rng):\n        return {wrong}, state\n"
    install(tmp_path, "broken", GOOD + run, "[netsim.attack]\nbroken = broken:Part\n")
    ran = run_campus(tmp_path, "broken")
    assert (ran.returncode, ran.stderr.count("\n")) == (code, 1)
    assert text.format(tmp_path) in ran.stderr


@pytest.mark.parametrize("text, reason", BROKEN.values(), ids=BROKEN)
def test_a_plugin_that_fails_is_told_in_one_line(outside, text, reason):
    install(outside, "broken", text, "[netsim.attack]\nbroken = broken:Part\n")
    with pytest.raises(BadInput) as caught:
        TypeAdapter(Annotated[Attack, ATTACKS]).validate_json('{"kind": "closed-form"}')
    (line,) = caught.value.lines
    assert line.startswith("plug-in broken:Part of broken (netsim.attack): ")
    assert reason in line
    assert line.endswith("; mend broken, or uninstall it")


IN_SECTIONS = {
    "train": ("power-task", GOOD, "train={}", "it is no Task; derive it from rl.settings.Task"),
    "learning.membership": (
        "membership",
        GOOD.replace("fl.attacks.closed_form", "fl.membership.base").replace(
            "ClosedForm", "Inference"
        ),
        "learning.membership={attacks: [{kind: loss-threshold}]}",
        "it lacks score",
    ),
}


@pytest.mark.parametrize("slot, text, section, reason", IN_SECTIONS.values(), ids=IN_SECTIONS)
def test_a_plugin_of_a_section_is_no_mistake_of_the_scenario(tmp_path, slot, text, section, reason):
    """Sections that few scenarios have are looked at last; no line of the file is named for what no
    line can mend."""
    install(tmp_path, "broken", text, f"[netsim.{slot}]\nbroken = broken:Part\n")
    assert fork_command(tmp_path, "validate", "campus").returncode == 0
    message = fork_command(tmp_path, "validate", "campus", "--set", section)
    assert message.returncode == 2
    assert message.stdout == ""
    messages = (
        f"netsim: plug-in broken:Part of broken (netsim.{slot}): {reason}; mend broken, or "
        f"uninstall it\n"
    )
    assert message.stderr == messages


def test_two_plugins_of_one_kind_are_refused(outside):
    install(outside, "broken", GOOD, "[netsim.attack]\none = broken:Part\ntwo = broken:Part\n")
    with pytest.raises(BadInput, match="its kind 'broken' is taken"):
        load_plugins("attack")


def test_a_plugin_that_leaves_python_leaves_the_command_with_its_own_code(tmp_path):
    install(tmp_path, "broken", "raise SystemExit(0)", "[netsim.attack]\nbroken = broken:Part\n")
    text = fork_command(tmp_path, "validate", "campus")
    assert text.returncode == 2
    assert text.stdout == ""
    assert len(text.stderr.splitlines()) == 1
    assert text.stderr.startswith(
        "netsim: plug-in broken:Part of broken (netsim.attack): it cannot be imported"
    )


@pytest.mark.slow
def test_the_contract_tests_and_the_matrix_see_it(tmp_path):
    install_sign(tmp_path)
    command = ["pytest", "-p", "no:cacheprovider", "tests/house/test_contract.py", "-k"]
    few = "sign and (defense:sign or (none+sign+fedavg+closed-form and rows))"
    ran = play_module(tmp_path, ROOT, *command, few)
    assert ran.returncode == 0, ran.stdout[-2000:]
    assert " passed" in ran.stdout
