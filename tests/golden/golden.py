"""Play the built-in studies briefly, and compare with golden.json; or renew it.

`python tests/golden/golden.py [STUDY ...]` prints what moved, and ends with 1 if anything did; `--renew` keeps what it
finds instead. A name stands for its study, another word for all whose names contain it. `--out FILE` keeps sketches
elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from brief import names, needs_data, play
from sketch import Sketch, differences, sketch

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"
MOST_TOLD = 8


def golden() -> dict[str, Sketch]:
    """Study -> what its short run gave."""
    return json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}


def played(name: str, folder: Path, changes: dict[str, Any] | None = None) -> Sketch:
    """The sketch of a study that is played briefly into a new folder."""
    return sketch(folder, play(name, folder, changes))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="*", metavar="STUDY", help="names, or words of names (default: all)")
    parser.add_argument("--renew", action="store_true", help="keep what is found as golden")
    parser.add_argument("--out", metavar="FILE", help="keep what is found in this file")
    args = parser.parse_args()
    every, moved, found = golden(), 0, {}
    for name in names():
        if args.studies and not any(word == name or (word in name and word not in names()) for word in args.studies):
            continue
        if needs_data(name) and "NETSIM_DATA" not in os.environ:
            print(f"{name}: NETSIM_DATA is not set, left out", flush=True)
            continue
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            found[name] = played(name, Path(folder) / "run")
        lines = differences(name, every.get(name, {}), found[name])
        moved += bool(lines)
        few = lines[:MOST_TOLD] if name in every else []
        print("\n".join([f"{name}: {time.process_time() - began:.1f} s, {len(lines)} differences", *few]), flush=True)
        if args.renew:  # after every study: it can be stopped
            _write(GOLDEN, {of: (every | found)[of] for of in names() if of in every | found})
        if args.out:
            _write(Path(args.out), found)
    return 0 if args.renew else int(moved > 0)


def _write(path: Path, sketches: dict[str, Sketch]) -> None:
    """A line a column."""
    lines = ["{"]
    for i, (study, files) in enumerate(sketches.items()):
        lines.append(f" {json.dumps(study)}: {{")
        for j, (name, one) in enumerate(files.items()):
            lines.append(f'  {json.dumps(name)}: {{"rows": {one["rows"]}, "columns": {{')
            columns = [f"   {json.dumps(key)}: {json.dumps(of)}" for key, of in one["columns"].items()]
            lines += [",\n".join(columns), f"  }}}}{',' if j + 1 < len(files) else ''}"]
        lines.append(f" }}{',' if i + 1 < len(sketches) else ''}")
    path.write_text("\n".join([*lines, "}", ""]))


if __name__ == "__main__":
    sys.exit(main())
