"""A new defense from outside the package: under 40 lines, then it has YAML, validation, listing and contracts."""

import os
import subprocess
import sys
from pathlib import Path

PLUGIN = '''
"""Sign compression: only the direction of every number is sent."""
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.defenses.base import Defense


class Sign(Defense):
    """Replaces every number of an update by step times its sign."""

    kind: Literal["sign"] = "sign"
    step: float = Field(default=1e-3, gt=0)
    """size of every number that is sent"""

    reference: ClassVar[str] = "Bernstein et al., signSGD, 2018"
    example: ClassVar[dict[str, Any]] = {"kind": "sign"}

    def protect(self, updates, local, facts, state, rng):
        rows = updates.rows(slice(None))
        return updates.plus(self.step * np.sign(rows) - rows), state, []
'''
ENTRY = "[netsim.defense]\nsign = sign_defense:Sign\n"
ROOT = Path(__file__).parent.parent


def install(folder):
    assert len(PLUGIN.strip().splitlines()) < 40
    (folder / "sign_defense.py").write_text(PLUGIN)
    info = folder / "sign_defense-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sign-defense\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY)


def netsim(folder, *arguments):
    paths = os.pathsep.join([str(folder), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-m", "scenarios.cli", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, cwd=folder, check=False)


def test_a_stranger_adds_a_defense(tmp_path):
    install(tmp_path)
    listed = netsim(tmp_path, "list", "defense")
    assert "sign" in listed.stdout and "size of every number that is sent" in listed.stdout, listed.stderr
    short = ["--set", "world.duration_s=259200", "--set", "learning.every_s=86400"]
    short += ["--set", "learning.learner.hidden=[8]"]
    sign = ["--set", "learning.defenses=[{kind: sign, step: 0.01}]"]
    ran = netsim(tmp_path, "run", "campus", "--out", "out", "--quiet", *short, *sign)
    assert ran.returncode == 0, ran.stderr
    assert "kind: sign" in (tmp_path / "out" / "study.yaml").read_text()
    wrong = netsim(tmp_path, "validate", "campus", "--set", "learning.defenses=[{kind: sign, step: -1}]")
    assert wrong.returncode == 2 and "must be > 0" in wrong.stderr and len(wrong.stderr.splitlines()) == 1


def test_the_contract_tests_and_the_matrix_see_it(tmp_path):
    install(tmp_path)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    chosen = ["tests/test_contract.py", "-k", "sign and (defense:sign or (none+sign+fedavg+closed-form and rows))"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *chosen]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:]
    assert " passed" in ran.stdout
