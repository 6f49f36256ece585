"""docs/records.md, written from the tables themselves: every column and key of a run folder."""

from __future__ import annotations

from fl.round.tables import TABLES
from scenarios.app.results.summary_keys import KEYS

_HEAD = """# Records of a run

<!-- written by `netsim list --records > docs/records.md` -->

A run folder holds:

| file | what it is |
|---|---|
| `study.yaml` | the scenario as it ran, every default written out; `netsim run study.yaml` repeats it |
| `manifest.json` | seed, command, versions, area, cells, what a trace brought; under `timing` all that a clock said |
| `summary.json` | one flat object, below |
| `*.csv` | one table a record type, appended and flushed every round, below |
| `points.npz` | true positions (`ue`, `position_m`), thinned: what the map of the report draws |
| `map.npz` | buildings, base stations, and distance, RSRP and line of sight at 500 outdoor places |
| `surfaces.npz` | of a density: the map, the exact one, the law of the places, and one UE's answer |
| `grid.npz` | of a map of obstacles: true and learnt heights, and the first device's update as made and as received |
| `plan.json` | what the study's `plan` found, if it has one |
| `report.html` | the page, self-contained |
| `checkpoint.npz` | only while a run is unfinished: where the same command goes on |
| `.netsim` | the marker: the word `run` (`sweep`, `training`); it is written before anything else |

A folder with the marker is ours, whatever else is missing: a run, a sweep or a training that is killed at any moment
is taken up by the same command, and ends in the same bytes. While a folder is written, its marker is locked (`flock`);
the lock ends with the process that holds it. A file is written under its name and `.part`, and takes its name when it
is whole. Tables grow by whole rounds; what came after the last checkpoint is cut off when a run goes on.

`checkpoint.npz` holds the state after a round, the bytes that every table then had, a SHA-256 of each, and one of
itself. They are compared before anything is changed: a damaged checkpoint, or a table that is not what the run wrote,
is refused (`--replace` starts again). They are no signature: they find damage, not a forger. Checkpoints of trainings
and the reference runs that are kept in the user's cache (`netsim/*/trajectory.npz`) carry a digest of the same kind.

Links have no place in these folders. A symbolic link, a folder, a pipe or a device in place of one of these files is
neither read nor written through, and a table with a second name (a hard link) is not gone on with.

No CSV and no summary holds wall time: two runs of one study give the same bytes. Positions are metres in a local
plane, x east and y north. A cell is empty (a value is `null`) where a figure does not exist or is not finite.
Text that a spreadsheet would take for a formula (it starts with `=`, `+`, `-` or `@` and is no number) has a `'` before
it.
A sweep is a folder of run folders with `runs.csv`: folder, label, seed, the varied values, and every summary key; where
variants have curves, also `curve` and `strength`, and `exchange.csv` has the error of the model of every curve at equal
levels of privacy.
"""


def records_page() -> str:
    """Markdown of all tables and summary keys."""
    lines = [_HEAD]
    for table, columns in TABLES.items():
        lines += [f"## {table}.csv", "", "| column | meaning |", "|---|---|"]
        lines += [f"| `{name}` | {text} |" for name, text in columns.items()] + [""]
    lines += ["## summary.json", "", "`NAME` stands for an attack, a mechanism or a step of curation.", ""]
    lines += ["| key | meaning |", "|---|---|"]
    lines += [f"| `{key}` | {text} |" for key, text in KEYS.items()]
    return "\n".join(lines) + "\n"
