"""A sample of what `python tests/faults/forgeries.py` does: checkpoints with a right digest and one wrong value."""

import subprocess
import sys
from pathlib import Path

import pytest

FORGERIES = str(Path(__file__).with_name("forgeries.py"))


def forged(system, every):
    return subprocess.run(
        [sys.executable, FORGERIES, "--system", system, "--every", str(every)], capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize(("system", "every"), [("radio", 4), ("tiny", 11), ("live", 23), ("private", 23)])
def test_a_checkpoint_with_one_wrong_value_is_refused_or_played_to_its_end(system, every):
    said = forged(system, every)
    assert said.returncode == 0, said.stdout
