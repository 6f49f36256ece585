"""What a run does is counted, not timed: calls, evaluations and files, which are the same on every
machine."""

import json
import sys
from zipfile import ZipFile

import pytest
from tabled import cases

from benchmarks import town
from benchmarks.growth import Work, document
from benchmarks.world import Ours
from netsim.clock import DAY_S
from netsim.rng import Streams
from netsim.world.build import build_world
from scenarios import load, run


def calls(work):
    """Calls of functions, of Python and of libraries, while `work` is done."""
    count = 0

    def count_call(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def study(folder, work):
    file = folder / f"{work.rounds}-{work.ues}-{work.targets}.yaml"
    file.write_text(json.dumps(document(work)))
    return load(str(file))


def calls_of_a_run(folder, work):
    loaded = study(folder, work)
    out = folder / f"run-{work.rounds}-{work.ues}-{work.targets}"
    return calls(lambda: run(loaded, out))


@pytest.fixture(scope="module")
def count_calls(tmp_path_factory):
    """Calls of a run; what it imports, compiles and keeps has been there before."""
    folder = tmp_path_factory.mktemp("counted")
    for rounds in (2, 3):
        calls_of_a_run(folder, Work(rounds, 2, 2))
    return lambda *sizes: calls_of_a_run(folder, Work(*sizes))


def test_a_round_costs_the_same_calls_however_many_were_before(count_calls):
    """Single rounds differ by what was measured in them, ten of them by some percent, twenty by
    less than one."""
    early, middle, late = (count_calls(rounds, 2, 2) for rounds in (20, 40, 60))
    assert (late - middle) / (middle - early) == pytest.approx(1, abs=0.02)


def test_calls_of_one_more_ue_and_of_one_more_target(count_calls):
    few = count_calls(2, 60, 10)
    assert (count_calls(2, 120, 10) - few) / 60 < 3_000  # two rounds, 20 measurements each
    assert (count_calls(2, 60, 60) - few) / 50 < 6_500


@pytest.mark.parametrize("ues", [15, 150])
def test_calls_of_a_tick_do_not_grow_with_its_ues(ues):
    world = Ours(5, ues)
    for _ in range(20):
        world.tick()
    # SINR twice: without those that get no rate
    assert calls(lambda: [world.tick() for _ in range(50)]) / 50 < 500


@pytest.mark.parametrize(
    "residents, limit",
    cases("""
1, 24000
40, 175000
400, 230000
"""),
)
def test_calls_of_a_day_of_residents_grow_far_slower_than_their_number(residents, limit):
    """They decide about eight times a day each, those that are due in a tick in one call."""
    world = build_world(town.setting(town.Bench(1000.0, 1, residents)), Streams(1), DAY_S)
    state = world.state
    now_s = 0.0
    tick_s = 900.0

    def days(count):
        nonlocal state, now_s
        for _ in range(int(count * DAY_S / tick_s)):
            state, _ = world.mobility.advance(state, now_s, now_s + tick_s, world.ground)
            now_s += tick_s

    days(2)
    before = state.decision.sum()
    assert calls(lambda: days(4)) / 4 < limit
    assert (state.decision.sum() - before) / 4 > 5 * residents


def test_a_checkpoint_has_a_handful_of_members_whatever_the_rounds(tmp_path):
    members = {}
    for rounds in (3, 12):

        def stop(progress, last=rounds):
            if progress.done == last:
                raise KeyboardInterrupt

        folder = tmp_path / str(rounds)
        with pytest.raises(KeyboardInterrupt):
            run(study(tmp_path, Work(20, 30, 5)), folder, stop)
        (checkpoint,) = folder.glob("*.npz")
        with ZipFile(checkpoint) as saved:
            members[rounds] = len(saved.namelist())
    assert all(files < 10 for files in members.values())
