"""Plays mutated inputs through the command and says which of them are not met with a result or with
one line.

    python tests/fuzz/fuzz.py [--cases N] [--seed S] [--first K] [--family NAME] [--show]

A case is told by the seed and its number: `--first K --cases 1 --show` plays that one, and leaves
its files in the folder that is printed. Exit code 1 where anything is found.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path[:0] = [
    str(Path(__file__).parent),
    str(Path(__file__).parents[1]),
    str(Path(__file__).parents[2]),
]

from fuzz_cases import FAMILIES, case  # noqa: E402
from fuzz_workers import findings  # noqa: E402
from valid_inputs import make_inputs  # noqa: E402

ENDS = {0: "run", 2: "refused", 130: "interrupted", 1: "fail"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--family", choices=list(FAMILIES))
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="fuzz-"))
    valid = make_inputs(root / "valid")
    began = time.monotonic()
    took = Counter()
    slowest = Counter()
    codes = Counter()
    last = began

    def tell(number, code, message):
        nonlocal last
        event = time.monotonic()
        name = case(valid, args.seed, number, args.family).family
        took[name] += event - last
        slowest[name] = max(slowest[name], event - last)
        last = event
        codes[name, code if code in (0, 2, 130) else 1] += 1
        for line in message:
            print(f"case {number} ({name}): {line}", flush=True)

    if args.show:
        print(root, case(valid, args.seed, args.first, args.family).words)
    numbers = range(args.first, args.first + args.cases)
    result = findings(valid, args.seed, numbers, root, args.family, tell)
    for name in FAMILIES:
        ends = ", ".join(
            f"{codes[name, code]} {message}" for code, message in ENDS.items() if codes[name, code]
        )
        print(f"{name}: {ends}; {took[name]:.0f} s, slowest {slowest[name]:.1f} s")
    print(
        f"{args.cases} cases in {time.monotonic() - began:.0f} s: "
        f"{len({n for n, _ in result})} of them with findings"
    )
    return 1 if result else 0


if __name__ == "__main__":
    sys.exit(main())
