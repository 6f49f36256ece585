"""Kills commands at random moments and takes them up again; they must end in the bytes of those
that were let be.

    python tests/faults/faults.py [--kills N] [--seed S] [--system NAME] [--signal KILL|TERM|INT]

Moments are uniform over the life of a command, a little longer than it takes: its start, its
preparation, rounds, checkpoints, the page. After each kill the same command goes on, and is perhaps
killed again. Every play is a fork of this process, which has played the command once, so that all
libraries are loaded and all functions compiled. A command that is told to end (TERM, INT) leaves
with 130 and one line, beside that of a finished run.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path[:0] = [
    str(Path(__file__).parent),
    str(Path(__file__).parents[1]),
    str(Path(__file__).parents[2]),
]

from accidents import systems  # noqa: E402

MARGIN = 1.1  # of the time that a command takes, within which it is killed
TIMES = ("timing", "command")
ENDING = (signal.SIGINT, signal.SIGTERM)


def play(words, out, message, after_s=None, number=signal.SIGKILL, before=lambda: None):
    """Play a command in a fork; its exit code. `after_s`: when it is sent a signal; `said`: the
    file of its stderr; `before`: done first, in the fork.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # a fork hears them once it has its handlers
    child = os.fork()
    if not child:
        before()
        _act([*words, "--out", str(out)], message)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    if after_s is not None:
        time.sleep(after_s)
        os.kill(child, number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _act(words, message):
    """In the fork: the command, then the end."""
    from scenarios.app.cli.commands import main

    for number in ENDING:
        signal.signal(number, signal.default_int_handler)
    errors = os.open(message, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(errors, 2)
    sys.stdout = os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w")
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        code = main(words)
    except KeyboardInterrupt:  # before main could listen
        code = 130
        sys.stderr.write("netsim: interrupted\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def find_here(words):
    """Play a command in this process; its exit code."""
    from scenarios.app.cli.commands import main

    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        code = main(words)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return code


def results(folder):
    """Path -> what a file holds: all but pages, locks and what tells of wall time."""
    result = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if (
            path.is_file()
            and path.suffix not in (".html", ".svg", ".png")
            and path.name != ".netsim"
        ):
            result[name] = _without_times(path) if path.suffix == ".json" else path.read_bytes()
    return result


def _without_times(path):
    tree = json.loads(path.read_text())
    if isinstance(tree, dict):
        return {key: value for key, value in tree.items() if key not in TIMES}
    return tree


def kill_at_random(words, root, expected, takes_s, kills, draw, number):
    """Kill a command so many times, over as many lives as it takes. Returns how many kills did no
    harm, and what is wrong: [line].
    """
    done = 0
    good = 0
    life = 0
    folder = root / "killed"
    message = root / "said"
    wrong = []

    def end_process(code):
        nonlocal good, life
        if code:
            harm = [f"taken up: exit code {code}: {message.read_text()[:300]}"]
        else:
            harm = _differences(folder, expected)
        good += 0 if harm else life
        life = 0
        shutil.rmtree(folder, ignore_errors=True)
        return harm

    while done < kills:
        code = play(words, folder, message, draw.uniform(0.0, MARGIN) * takes_s, number)
        text = message.read_text() if message.exists() else ""
        if code == 0:
            wrong += end_process(0)
            continue
        done += 1
        harm = []
        if number == signal.SIGKILL:
            if code != -signal.SIGKILL:
                harm = [f"exit code {code}: {text[:300]}"]
            else:
                harm = []
        elif (
            code != 130
            or len([x for x in text.splitlines() if "is finished" not in x]) != 1
            or "Traceback" in text
        ):
            harm = [f"signal {number}: exit code {code}: {text[:300]!r}"]
        life += not harm
        wrong += harm
    wrong += end_process(play(words, folder, message))
    return good, wrong


def _differences(folder, expected):
    """What is not as it was expected."""
    result = results(folder)
    names = sorted(n for n in result.keys() | expected.keys() if result.get(n) != expected.get(n))
    if names:
        return [f"other bytes: {', '.join(names)[:300]}"]
    return []


def examine(words, root, kills, draw, number):
    """A command that is killed so many times: how many kills did no harm, what is wrong, and how
    long it takes."""
    from rl import train as loop
    from scenarios.app.run import play as playing

    playing.CHECKPOINT_EVERY_S = loop.SAVE_EVERY_S = 0.0
    code = find_here([*words, "--out", str(root / "here")])
    began = time.monotonic()
    code = code or play(words, root / "whole", root / "said")
    takes_s = time.monotonic() - began
    if code:
        return 0, [f"exit code {code}"], takes_s
    expected = results(root / "whole")
    wrong = _differences(root / "here", expected)
    good, rest = kill_at_random(words, root, expected, takes_s, kills, draw, number)
    return good, wrong + rest, takes_s


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--system")
    parser.add_argument("--signal", choices=["KILL", "TERM", "INT"], default="KILL")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    import torch

    import scenarios.app.report.report
    import scenarios.app.training.train  # noqa: F401 - what forks find loaded

    torch.set_num_threads(1)
    policies = systems(root)
    chosen = [args.system] if args.system else list(policies)
    draw = random.Random(args.seed)
    good = 0
    bad = 0
    began = time.monotonic()
    for k, name in enumerate(chosen):
        kills = args.kills // len(chosen) + (k < args.kills % len(chosen))
        place = root / str(k)
        place.mkdir()
        harmless, wrong, takes_s = examine(
            policies[name], place, kills, draw, signal.Signals[f"SIG{args.signal}"]
        )
        good = good + harmless
        bad = bad + bool(wrong)
        print(
            f"{name} ({takes_s:.1f} s): {kills} kills, {'; '.join(wrong) or 'the same bytes'}",
            flush=True,
        )
        shutil.rmtree(place)
    shutil.rmtree(root)
    spent = os.times()
    wall_s = time.monotonic() - began
    cpu_s = spent.user + spent.system + spent.children_user + spent.children_system
    print(
        f"{good} of {args.kills} kills, in {len(chosen)} systems, end in the same bytes; "
        f"{cpu_s:.0f} s of CPU, {wall_s:.0f} s in all"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
