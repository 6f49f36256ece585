"""Checkpoints with a right digest and one wrong value: every leaf of their trees, changed in several ways.

    python tests/faults/forgeries.py [--system NAME] [--first K] [--every N]

A command that goes on from one must leave with exit code 2 and one line, or play to its end: within 10 s of CPU and
1 GiB more than it has. Prints what does otherwise; exit code 1 where anything does.
"""

import argparse
import copy
import os
import resource
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "fuzz")]

import numpy as np  # noqa: E402
from valid_inputs import _stopped, radio_only, rich, tiny  # noqa: E402

from netsim.checkpoint import load_tree, save_tree  # noqa: E402

MOST_S, MOST_BYTES = 10, 2**30
NUMBERS = (-1, -(10**9), 10**9, 2**62)


def live():
    """Uploads on the air to a server without rounds, and an attack that remembers."""
    study = tiny()
    study["world"]["radio"] |= {"air": {}, "handover": {}}
    study["learning"] |= {
        "server": {"kind": "fedbuff", "buffer": 2, "deadline_s": 60},
        "attacks": [{"kind": "closed-form"}, {"kind": "tracker"}],
    }
    return study


def private():
    """Budgets, thinned updates, sums."""
    study = rich()
    del study["vary"]
    return study


SYSTEMS = {"tiny": tiny, "private": private, "live": live, "radio": radio_only}


def leaves(tree, way=()):
    """The ways to all numbers and arrays of a tree."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        if isinstance(value, np.ndarray | int | float):
            yield (*way, key)
        else:
            yield from leaves(value, (*way, key))


def forged(value):
    """(What was done, the changed value) of a number or an array."""
    if not isinstance(value, np.ndarray):
        return [(str(n), type(value)(n)) for n in (*NUMBERS, *((np.nan, np.inf) if isinstance(value, float) else ()))]
    if value.dtype.kind not in "iuf":
        return []
    found = [("longer", np.repeat(value[:1], 2000, axis=0))] if value.ndim and len(value) else []
    numbers = (*NUMBERS, *((np.nan, np.inf, 1e300) if value.dtype.kind == "f" else ()))
    with np.errstate(over="ignore"):
        return found + [
            (str(n), np.full_like(value, n))
            for n in numbers
            if value.size and (n > 0 or value.dtype.kind != "u" or n != n)
        ]


def cases(tree):
    """(What, forged tree) of every leaf and change."""
    for way in leaves(tree):
        node = tree
        for key in way:
            node = node[key]
        for what, value in forged(node):
            other = copy.deepcopy(tree)
            inner = other
            for key in way[:-1]:
                inner = inner[key]
            inner[way[-1]] = value
            yield f"{'.'.join(map(str, way))} = {what}", other


def prepared(name, root):
    """Words of the command of a system, and the folder of its interrupted run."""
    _stopped(SYSTEMS[name](), root / name)
    return ["run", str(root / f"{name}.yaml"), "--quiet"], root / name


def played(words, folder, tree):
    """What is wrong with a run that goes on from this tree; empty: nothing."""
    place = folder.with_name("forged")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    save_tree(place / "checkpoint.npz", tree)
    said = folder.with_name("said")
    began = time.monotonic()
    child = os.fork()
    if not child:
        _act([*words, "--out", str(place)], said)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    text = said.read_text()
    good = (code == 0 and not text) or (code == 2 and text.count("\n") == 1 and text.startswith("netsim: "))
    return "" if good else f"exit code {code} after {time.monotonic() - began:.1f} s: {text[:300]}"


def _act(words, said):
    """In the fork: the command, within its bounds."""
    from scenarios.app.cli.commands import main

    with Path(said).open("w") as told:
        os.dup2(told.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, used + MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_S, MOST_S))
    warnings.simplefilter("always")
    code = 1
    try:
        code = main(words)
    finally:
        sys.stderr.flush()
        os._exit(code)


def findings(name, root, first=0, every=1):
    """[(case, what is wrong)] of each `every`-th forgery of a system, and how many were played."""
    words, folder = prepared(name, root)
    some = [case for i, case in enumerate(cases(load_tree(folder / "checkpoint.npz"))) if i % every == first]
    found = []
    for what, tree in some:
        if wrong := played(words, folder, tree):
            found.append((what, wrong))
            print(f"{name}: {what}: {wrong}", flush=True)
    return found, len(some)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--system", choices=list(SYSTEMS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    args = parser.parse_args()
    root, bad = Path(tempfile.mkdtemp(prefix="forged-")), 0
    for name in [args.system] if args.system else list(SYSTEMS):
        found, n = findings(name, root, args.first, args.every)
        bad += len(found)
        print(f"{name}: {n} forgeries, {len(found)} with findings", flush=True)
    shutil.rmtree(root)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
