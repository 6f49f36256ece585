"""A sample of what `faults.py` and `kills.py` do: kills and signals at random moments, kills at any
step."""

import sys
from importlib import import_module
from pathlib import Path

from forked import fork_work
from pytest import mark, param

FOLDER = Path(__file__).parent


def run_program(program, *words):
    """Play one of these programs, whose commands are forks of its own."""
    return fork_work(FOLDER, _play_program, program, words)


def _play_program(program, words):
    sys.argv[1:] = map(str, words)
    return import_module(program).main()


def test_a_run_that_is_told_to_end_at_random_moments_goes_on_to_the_same_bytes():
    message = run_program("faults", "--kills", "2", "--system", "run", "--signal", "TERM")
    assert (message.returncode, message.stderr) == (0, ""), message
    assert message.stdout.splitlines()[-1].startswith(
        "2 of 2 kills, in 1 systems, end in the same bytes"
    )


@mark.slow
@mark.parametrize("signal", ["KILL", "TERM", "INT"])
def test_every_system_that_is_ended_at_random_moments_goes_on_to_the_same_bytes(signal):
    message = run_program("faults", "--kills", "100", "--signal", signal)
    assert message.returncode == 0, message


EVERY_STEP = [
    param(kind, 1, 10**5, 1, marks=mark.slow) for kind in ("run", "radio", "sweep", "training")
]


@mark.parametrize(
    "kind, first, last, all_rows",
    [("run", 2, 50, 24), ("radio", 2, 70, 34), ("sweep", 20, 33, 30), *EVERY_STEP],
)
def test_a_kill_at_a_step_locks_nobody_out_and_ends_in_the_same_bytes(
    kind, first, last, all_rows, tmp_path
):
    message = run_program("kills", kind, tmp_path, str(first), str(last), str(all_rows))
    assert message.returncode == 0, message.stderr[-3000:]
    assert int(message.stdout) > min(last, 50) - 1
