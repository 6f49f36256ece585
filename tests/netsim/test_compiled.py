"""Compiled functions: their machine code is kept in the user's cache, and nothing is left beside
the sources."""

import os
import subprocess
import sys
import time
from pathlib import Path

from pytest import mark

import netsim
from netsim import compiled
from netsim.compiled import compute_code_digest


def test_machine_code_goes_to_the_users_cache(tmp_path):
    """Files beside an installed module outlive it: the folder that is left hides the next
    installation."""
    (tmp_path / "mine.py").write_text(
        "from netsim.compiled import compiled\n\n\n@compiled\ndef double(x):\n    return 2.0 * x\n"
    )
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("NUMBA_CACHE_DIR", None)
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(Path(netsim.__file__).parents[1])])
    code = (
        "from mine import double; import numba; assert double(3.0) == 6.0; assert not "
        "numba.core.config.CACHE_DIR"
    )
    subprocess.run([sys.executable, "-c", code], env=env, check=True, cwd=tmp_path)
    assert list((tmp_path / "cache" / "netsim" / "numba").rglob("mine.double*.nbi"))
    assert not list(tmp_path.glob("__pycache__/*.nb?"))


def test_compiling_is_told_once_and_not_where_code_comes_from_the_cache(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from netsim.compiled import compiled\n\n\n@compiled\ndef total(x):\n    return "
        "x.sum(axis=1).sum() + x.max()\n"
    )
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("NUMBA_CACHE_DIR", None)
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(Path(netsim.__file__).parents[1])])
    code = "import numpy; from mine import total; total(numpy.ones((2, 2)))"
    lines = [
        subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True)
        for _ in range(2)
    ]
    assert (
        lines[0].stderr == b"compiling, once on this machine; later starts take it from a cache\n"
    )
    assert lines[1].stderr == b""


def test_machine_code_of_a_few_states_of_the_code_is_kept(tmp_path, monkeypatch):
    states = tmp_path / "netsim" / "numba"
    for age in range(6):
        (states / f"{age}").mkdir(parents=True)
        os.utime(states / f"{age}", (1e9 - age, 1e9 - age))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiled, "tell", lambda _: None)
    compiled._find_code_folder.cache_clear()
    try:
        folder = compiled._find_code_folder()
    finally:
        compiled._find_code_folder.cache_clear()
    assert folder.name == compute_code_digest("netsim", "fl", word=b"compiled")
    assert {path.name for path in states.iterdir()} == {folder.name, "0", "1", "2"}


@mark.slow
def test_no_run_leaves_machine_code_beside_the_sources(tmp_path):
    root = Path(netsim.__file__).parents[1]
    began = time.time()
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(root)}
    env.pop("NUMBA_CACHE_DIR", None)
    command = [
        sys.executable,
        "-m",
        "scenarios.app.cli.commands",
        "run",
        "town",
        "--set",
        "learning.rounds=1",
    ]
    sets = ["--set", "world.radio.uplink={kind: noma, norm_bound: 1}", "--out", "r", "--quiet"]
    subprocess.run([*command, *sets], env=env, check=True, cwd=tmp_path, capture_output=True)
    assert list((tmp_path / "cache" / "netsim" / "numba").rglob("rng._philox*.nbi"))
    packages = (p for d in ("netsim", "fl", "rl") for p in (root / d).rglob("*.nb?"))
    assert not [p for p in packages if p.stat().st_mtime > began]


def test_the_digest_of_code_hangs_on_contents_and_names_and_not_on_times(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    package = tmp_path / "made_up_package" / "inner"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("raise RuntimeError('it is imported')\n")
    module = package / "a.py"
    (module).write_text("A = 1\n")

    def digest():
        compute_code_digest.cache_clear()
        return compute_code_digest("made_up_package")

    first = digest()
    time_ns = (module).stat().st_mtime_ns
    os.utime(module, ns=(0, 0))
    assert digest() == first
    (module).write_text("A = 2\n")  # of the same size
    os.utime(module, ns=(time_ns, time_ns))
    changed = digest()
    assert changed != first
    (module).rename(package / "b.py")
    assert digest() not in (first, changed)
    named = compute_code_digest("made_up_package", word=b"A")
    (package / "c.py").write_text("B = 2\n")
    assert digest() != changed
    assert compute_code_digest("made_up_package", word=b"A") == named
    compute_code_digest.cache_clear()
