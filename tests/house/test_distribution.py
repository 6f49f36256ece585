"""What is distributed: one version everywhere, and packages that work without the sources."""

import importlib.util
import os
import re
import shutil
import site
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from netsim import __version__

ROOT = Path(__file__).parents[2]
PACKAGES = ("netsim", "fl", "rl", "scenarios")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SHORT = ["--set", "world.ues.count=3", "--set", "world.duration_s=259200"]
SHORT += ["--set", "learning.references.central=false", "--quiet"]


def test_one_version_stands_everywhere():
    cited = YAML(typ="safe").load((ROOT / "CITATION.cff").read_text())
    changelog = (ROOT / "docs/changelog.md").read_text()
    newest = re.search(r"(?m)^## (\S+) \((\S+)\)", changelog)
    assert PROJECT["version"] == __version__ == cited["version"] == newest[1]
    assert str(cited["date-released"]) == newest[2]
    assert PROJECT["license"] == cited["license"]


def test_every_release_of_the_changelog_has_a_date():
    heads = re.findall(r"(?m)^## .*", (ROOT / "docs/changelog.md").read_text())
    assert heads
    assert [h for h in heads if not re.fullmatch(r"## \d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", h)] == []


def files_of_packages():
    """Every file that a package needs where it is installed, by its path."""
    every = (path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.is_file())
    return {str(p.relative_to(ROOT)) for p in every if "__pycache__" not in p.parts}


def play(*command, cwd, env=None):
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def build(what, source, out):
    """An archive made by the build backend, from a tree: sdist or wheel. Returns its path."""
    out.mkdir(exist_ok=True)
    code = f"from setuptools import build_meta; print(build_meta.build_{what}({str(out)!r}))"
    return out / play(sys.executable, "-c", code, cwd=source).splitlines()[-1]


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """A source distribution of this tree, and a wheel that is built from it alone."""
    if any(importlib.util.find_spec(name) is None for name in ("pip", "setuptools")):
        pytest.skip("pip or setuptools is not installed: nothing to build with")
    folder = tmp_path_factory.mktemp("built")
    tree = folder / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    sdist = build("sdist", tree, folder / "sdist")
    with tarfile.open(sdist) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    return sdist, build("wheel", source, folder / "wheel")


@pytest.mark.slow
def test_archives_hold_every_file_of_the_packages(archives):
    sdist, wheel = archives
    with tarfile.open(sdist) as packed:
        in_sdist = {name.partition("/")[2] for name in packed.getnames()}
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    needed = files_of_packages()
    assert {f"{name}/py.typed" for name in PACKAGES} <= needed
    assert sorted(needed - in_wheel) == []
    assert sorted(needed - in_sdist) == []
    assert {"README.md", "LICENSE", "pyproject.toml"} <= in_sdist
    assert sdist.name == f"netsim_fl-{__version__}.tar.gz"


@pytest.mark.slow
def test_the_wheel_works_in_a_fresh_environment_without_the_sources(archives, tmp_path):
    """Libraries are those of this environment, which the fresh one sees behind its own."""
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    python = str(environment / "bin/python")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    install = ("-m", "pip", "install", "-q", "--no-index", "--no-deps", "--ignore-installed")
    play(python, *install, str(archives[1]), cwd=tmp_path, env=env)

    where = (
        "import netsim, fl, rl, scenarios as s; print(*(p.__file__ for p in (netsim, fl, rl, s)))"
    )
    places = play(python, "-c", where, cwd=tmp_path, env=env).split()
    assert all(Path(place).is_relative_to(environment) for place in places)

    netsim = str(environment / "bin/netsim")
    assert play(netsim, "--version", cwd=tmp_path, env=env) == f"netsim {__version__}\n"
    said = play(netsim, "run", "city", "--out", "run", *SHORT, cwd=tmp_path, env=env)
    assert "3 rounds" in said
    assert (tmp_path / "run/report.html").stat().st_size > 100_000
    play(netsim, "new", "attack", "first-look", cwd=tmp_path, env=env)
    assert (tmp_path / "first-look/first_look.py").exists()
