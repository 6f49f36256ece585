"""Play the built-in studies briefly, and compare every bit with what they gave before; a command of
developers.

`python tests/golden/golden.py [STUDY ...]` prints what moved, and ends with 1 if anything did;
`--renew` keeps what it finds instead. A name stands for its study, another word for all whose names
contain it. Libraries are held to kernels that every x86-64 processor has, and the file says on
which machine each study was played: numbers of other kernels or versions are not compared (2),
those of another processor with a word. `--file FILE` keeps and compares in another file: one that
is made here, before a change.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from brief import names, needs_data, play
from machine import PROCESSOR, elsewhere, in_plain_kernels, machine
from sketch import differences, sketch

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"
MOST_TOLD = 8
REMEDY = (
    "make numbers here before the change, `--renew --file FILE`, and compare with them, "
    "`--file FILE`"
)


def read_kept(path=GOLDEN):
    """Of a file: key -> machine; study -> the key of the machine that played it, and its files."""
    everything = json.loads(path.read_text()) if path.exists() else {"machines": {}, "studies": {}}
    return everything["machines"], everything["studies"]


def golden():
    """Study -> what its short run gave."""
    return {name: values["files"] for name, values in read_kept()[1].items()}


def play_briefly(name, folder, changes=None):
    """The sketch of a study that is played briefly into a new folder."""
    return sketch(folder, play(name, folder, changes))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "studies", nargs="*", metavar="STUDY", help="names, or words of names (default: all)"
    )
    parser.add_argument("--renew", action="store_true", help="keep what is found")
    parser.add_argument(
        "--file", type=Path, default=GOLDEN, help="where numbers are kept (default: golden.json)"
    )
    args = parser.parse_args()
    (machines, studies) = read_kept(args.file)
    local = machine()
    moved = 0
    chosen = [name for name in names() if _is_chosen(name, args.studies)]
    if not args.renew and (refusal := explain_refusal(args.file, machines, studies, chosen, local)):
        print(refusal)
        return 2
    if not args.renew and (
        warning := warn_of_processor(args.file, machines, studies, chosen, local)
    ):
        print(warning, flush=True)
    for name in chosen:
        if needs_data(name) and not os.environ.get("NETSIM_DATA"):
            print(f"{name}: NETSIM_DATA is not set, left out", flush=True)
            continue
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            result = play_briefly(name, Path(folder) / "run")
        lines = differences(name, studies.get(name, {}).get("files", {}), result)
        moved += bool(lines)
        few = lines[:MOST_TOLD] if name in studies else []
        print(
            "\n".join(
                [f"{name}: {time.process_time() - began:.1f} s, {len(lines)} differences", *few]
            ),
            flush=True,
        )
        if args.renew:  # after every study: it can be stopped
            studies[name] = {"machine": make_key(local), "files": result}
            _write(
                args.file,
                machines | {make_key(local): local},
                {values: studies[values] for values in names() if values in studies},
            )
    if args.renew:
        return 0
    return int(moved > 0)


def _is_chosen(name, words):
    return not words or any(
        word == name or (word in name and word not in names()) for word in words
    )


def make_key(values):
    """A short name of a machine."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def explain_refusal(
    path,
    machines,
    studies,
    chosen,
    local,
):
    """Why bits cannot be compared, in a line; empty: they can."""
    if missing := [name for name in chosen if name not in studies]:
        return f"{path}: has no numbers of {', '.join(missing)}; {REMEDY}"
    for name in chosen:
        if differs := elsewhere(machines[studies[name]["machine"]], local):
            return (
                f"{path}: {name} was played on another machine, whose last digits are others "
                f"({differs}); {REMEDY}"
            )
    return ""


def warn_of_processor(
    path,
    machines,
    studies,
    chosen,
    local,
):
    """That another processor played them with the same kernels, in a line; empty: it was this
    one."""
    rest = {machines[studies[name]["machine"]][PROCESSOR] for name in chosen} - {local[PROCESSOR]}
    if not rest:
        return ""
    return (
        f"{path}: was played by {'; '.join(sorted(rest))}, with the same kernels; what moves a "
        f"little may be this processor ({local[PROCESSOR]}); to be sure {REMEDY}"
    )


def _write(path, machines, studies):
    """A line a column; machines that made none of the studies are left out."""
    used = {key: machines[key] for key in sorted({group["machine"] for group in studies.values()})}
    lines = ["{", f'"machines": {json.dumps(used)},', '"studies": {']
    for i, (study, group) in enumerate(studies.items()):
        lines.append(
            f' {json.dumps(study)}: {{"machine": {json.dumps(group["machine"])}, "files": {{'
        )
        for j, (name, item) in enumerate(group["files"].items()):
            lines.append(f'  {json.dumps(name)}: {{"rows": {item["rows"]}, "columns": {{')
            columns = [
                f"   {json.dumps(key)}: {json.dumps(values)}"
                for key, values in item["columns"].items()
            ]
            lines += [",\n".join(columns), f"  }}}}{',' if j + 1 < len(group['files']) else ''}"]
        lines.append(f" }}}}{',' if i + 1 < len(studies) else ''}")
    path.write_text("\n".join([*lines, "}}", ""]))


if __name__ == "__main__":
    in_plain_kernels()
    sys.exit(main())
