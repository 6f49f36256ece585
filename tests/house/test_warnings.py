"""Warnings: those that our packages and tests raise or cause fail, those inside of other libraries
are shown."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
OLD = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, UserWarning, SyntaxWarning)
OURS = (
    "netsim",
    "netsim.radio.air",
    "fl.types",
    "rl",
    "scenarios.app.cli.start",
    "benchmarks.town",
    "test_cli",
)
OTHERS = (
    "pygame.pkgdata",
    "netsimulator",
    "flwr.server",
    "rlcard",
    "scenariosdk.x",
)


def warn(module, category):
    exec(
        "import warnings; warnings.warn('old', category)",
        {"__name__": module, "category": category},
    )


@pytest.mark.parametrize("category", OLD)
def test_a_warning_fails_where_it_is_ours_and_is_shown_where_it_is_not(category):
    for module in OURS:
        with pytest.raises(category, match="old"):
            warn(module, category)
    with warnings.catch_warnings(record=True) as shown:
        for module in OTHERS:
            warn(module, category)
    assert [item.category for item in shown] == [category] * len(OTHERS)
    assert {str(item.message) for item in shown} == {"old"}


def test_modules_beside_the_tests_are_ours():
    for path in (ROOT / "tests").rglob("*.py"):
        with pytest.raises(DeprecationWarning):
            warn(path.stem, DeprecationWarning)


def test_numbers_that_we_give_to_a_library_are_ours():
    """The mean of nothing warns inside of numpy, a quotient by 0 in the line that divides."""
    for cause in (
        lambda: np.mean(np.zeros(0)),
        lambda: np.zeros(1) / np.zeros(1),
        lambda: np.nanmax(np.full(2, np.nan)),
    ):
        with pytest.raises(RuntimeWarning):
            cause()
    for module in ("scipy.stats._fit", "pandas.core.nanops", "sklearn.mixture"):
        with pytest.raises(RuntimeWarning):
            warn(module, RuntimeWarning)


CASES = """
import threading
import pytest

def run(text, module):
    exec(text, {"__name__": module})

def run_file(text, place, tmp_path):
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(text)
    exec(compile(text, str(path), "exec"), {"__name__": "x"})

CLASS = "class A:\\n def __del__(self):\\n  raise ValueError('late')\\nA()"
THREAD = "import threading\\ndef f():\\n raise ValueError('late')\\nt = threading.Thread(target=f)"
THREAD += "\\nt.start()\\nt.join()"

def test_ours_leaves_a_file_open():
    run(f"open({__file__!r})", "netsim.record")

def test_ours_leaves_a_socket_open():
    run("import socket; socket.socket()", "scenarios.app.cli.start")

def test_ours_raises_where_nothing_can_be_raised(tmp_path):
    run_file(CLASS, "netsim/fl/late.py", tmp_path)

def test_ours_raises_in_a_thread(tmp_path):
    run_file(THREAD, "x/rl/late.py", tmp_path)

def test_other_leaves_a_file_open():
    run(f"open({__file__!r})", "pygame.pkgdata")

def test_other_raises_where_nothing_can_be_raised(tmp_path):
    run_file(CLASS, "netsim/.venv/lib/python3.13/site-packages/ray/late.py", tmp_path)

def test_other_raises_in_a_thread(tmp_path):
    run_file(THREAD, "x/lib/python3.11/site-packages/playwright/late.py", tmp_path)

def test_other_is_old_where_it_is_imported(tmp_path, monkeypatch):
    (tmp_path / "antique.py").write_text("import warnings\\nwarnings.warn('old', DeprecationWarning)")
    monkeypatch.syspath_prepend(tmp_path)
    import antique
"""


def test_what_is_left_open_or_raised_too_late_is_told_by_whose_it_is(tmp_path):
    (tmp_path / "test_cases.py").write_text(CASES)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        ROOT / "pyproject.toml",
        "--rootdir",
        tmp_path,
        "-rA",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-o",
        "addopts=",
        tmp_path / "test_cases.py",
    ]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=tmp_path)
    result = [
        line.split(" - ")[0].split("::")
        for line in done.stdout.splitlines()
        if "test_cases.py::" in line[:40]
    ]
    outcome = {name: head.split()[0] for head, name in result}
    assert len(outcome) == 8, done.stdout + done.stderr
    assert outcome == {name: "FAILED" if "_ours_" in name else "PASSED" for name in outcome}, (
        done.stdout
    )
    assert "DeprecationWarning: old" in done.stdout
