"""Play the built-in studies briefly, and compare every bit with what they gave before; a command of
developers.

`python tests/golden/golden.py [STUDY ...]` prints what moved, and ends with 1 if anything did;
`--renew` keeps what it finds instead. A name stands for its study, another word for all whose names
contain it. Libraries are held to kernels that every x86-64 processor has, and the file says on
which machine each study was played: numbers of other kernels or versions are not compared (2),
those of another processor with a word. `--file FILE` keeps and compares in another file: one that
is made here, before a change.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from brief import names, needs_data, play
from machine import PROCESSOR, elsewhere, in_plain_kernels, machine
from sketch import Sketch, differences, sketch

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"
MOST_TOLD = 8
REMEDY = (
    "make numbers here before the change, `--renew --file FILE`, and compare with them, "
    "`--file FILE`"
)


def kept(path: Path = GOLDEN) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, Any]]]:
    """Of a file: key -> machine; study -> the key of the machine that played it, and its files."""
    every = json.loads(path.read_text()) if path.exists() else {"machines": {}, "studies": {}}
    return every["machines"], every["studies"]


def golden() -> dict[str, Sketch]:
    """Study -> what its short run gave."""
    return {name: of["files"] for name, of in kept()[1].items()}


def played(name: str, folder: Path, changes: dict[str, Any] | None = None) -> Sketch:
    """The sketch of a study that is played briefly into a new folder."""
    return sketch(folder, play(name, folder, changes))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "studies", nargs="*", metavar="STUDY", help="names, or words of names (default: all)"
    )
    parser.add_argument("--renew", action="store_true", help="keep what is found")
    parser.add_argument(
        "--file", type=Path, default=GOLDEN, help="where numbers are kept (default: golden.json)"
    )
    args = parser.parse_args()
    (machines, studies) = kept(args.file)
    here = machine()
    moved = 0
    chosen = [name for name in names() if _is_chosen(name, args.studies)]
    if not args.renew and (refusal := refused(args.file, machines, studies, chosen, here)):
        print(refusal)
        return 2
    if not args.renew and (warning := warned(args.file, machines, studies, chosen, here)):
        print(warning, flush=True)
    for name in chosen:
        if needs_data(name) and not os.environ.get("NETSIM_DATA"):
            print(f"{name}: NETSIM_DATA is not set, left out", flush=True)
            continue
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            found = played(name, Path(folder) / "run")
        lines = differences(name, studies.get(name, {}).get("files", {}), found)
        moved += bool(lines)
        few = lines[:MOST_TOLD] if name in studies else []
        print(
            "\n".join(
                [f"{name}: {time.process_time() - began:.1f} s, {len(lines)} differences", *few]
            ),
            flush=True,
        )
        if args.renew:  # after every study: it can be stopped
            studies[name] = {"machine": key_of(here), "files": found}
            _write(
                args.file,
                machines | {key_of(here): here},
                {of: studies[of] for of in names() if of in studies},
            )
    if args.renew:
        return 0
    return int(moved > 0)


def _is_chosen(name: str, words: list[str]) -> bool:
    return not words or any(
        word == name or (word in name and word not in names()) for word in words
    )


def key_of(of: dict[str, str]) -> str:
    """A short name of a machine."""
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:8]


def refused(
    path: Path,
    machines: dict[str, dict[str, str]],
    studies: dict[str, Any],
    chosen: list[str],
    here: dict[str, str],
) -> str:
    """Why bits cannot be compared, in a line; empty: they can."""
    if missing := [name for name in chosen if name not in studies]:
        return f"{path}: has no numbers of {', '.join(missing)}; {REMEDY}"
    for name in chosen:
        if differs := elsewhere(machines[studies[name]["machine"]], here):
            return (
                f"{path}: {name} was played on another machine, whose last digits are others "
                f"({differs}); {REMEDY}"
            )
    return ""


def warned(
    path: Path,
    machines: dict[str, dict[str, str]],
    studies: dict[str, Any],
    chosen: list[str],
    here: dict[str, str],
) -> str:
    """That another processor played them with the same kernels, in a line; empty: it was this
    one."""
    others = {machines[studies[name]["machine"]][PROCESSOR] for name in chosen} - {here[PROCESSOR]}
    if not others:
        return ""
    return (
        f"{path}: was played by {'; '.join(sorted(others))}, with the same kernels; what moves a "
        f"little may be this processor ({here[PROCESSOR]}); to be sure {REMEDY}"
    )


def _write(
    path: Path, machines: dict[str, dict[str, str]], studies: dict[str, dict[str, Any]]
) -> None:
    """A line a column; machines that made none of the studies are left out."""
    used = {key: machines[key] for key in sorted({of["machine"] for of in studies.values()})}
    lines = ["{", f'"machines": {json.dumps(used)},', '"studies": {']
    for i, (study, of) in enumerate(studies.items()):
        lines.append(f' {json.dumps(study)}: {{"machine": {json.dumps(of["machine"])}, "files": {{')
        for j, (name, one) in enumerate(of["files"].items()):
            lines.append(f'  {json.dumps(name)}: {{"rows": {one["rows"]}, "columns": {{')
            columns = [
                f"   {json.dumps(key)}: {json.dumps(values)}"
                for key, values in one["columns"].items()
            ]
            lines += [",\n".join(columns), f"  }}}}{',' if j + 1 < len(of['files']) else ''}"]
        lines.append(f" }}}}{',' if i + 1 < len(studies) else ''}")
    path.write_text("\n".join([*lines, "}}", ""]))


if __name__ == "__main__":
    in_plain_kernels()
    sys.exit(main())
