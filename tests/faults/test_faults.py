"""A sample of what `python tests/faults/faults.py` does: kills and signals at random moments of a run."""

import subprocess
import sys
from pathlib import Path

import pytest
from thinned import one_in

FAULTS = str(Path(__file__).with_name("faults.py"))


def ended(*words):
    return subprocess.run([sys.executable, FAULTS, *words], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("signal", one_in(2, ["KILL", "TERM"]))
def test_a_run_that_is_ended_at_random_moments_goes_on_to_the_same_bytes(signal):
    said = ended("--kills", "2", "--system", "radio alone", "--signal", signal)
    assert (said.returncode, said.stderr) == (0, ""), said
    assert said.stdout.splitlines()[-1].startswith("2 of 2 kills, in 1 systems, end in the same bytes")


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["KILL", "TERM", "INT"])
def test_every_system_that_is_ended_at_random_moments_goes_on_to_the_same_bytes(signal):
    said = subprocess.run(
        [sys.executable, FAULTS, "--kills", "100", "--signal", signal], capture_output=True, text=True
    )
    assert said.returncode == 0, said
