"""The command `netsim assess`: a defense on frozen suites, beside rows that are kept."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import pandas

from netsim.errors import BadInput
from netsim.record import write_json, write_text
from scenarios.app.cli.options import (
    choose_out,
    emit,
    join_command_line,
    read_jobs_at_once,
    read_resources,
    say,
    say_fitted,
    shorten_name,
)
from scenarios.app.cli.outcome import show_progress
from scenarios.app.report.paper_figure import write_figure
from scenarios.app.report.plot import render_template
from scenarios.app.result import tabulate_figures
from scenarios.app.results.assessment import RULE, judge_suite, merge_rows
from scenarios.app.results.folder import refuse_foreign_names
from scenarios.app.results.statistics import group_by_label
from scenarios.app.run.assess import Defended, list_rows, parse_defense, play_row
from scenarios.app.run.how import create_scratch_folder
from scenarios.app.run.sweep import Sweep
from scenarios.app.study.load import Scenario

MINUTES = {"city": 8, "town": 6, "cork": 2, "santa-monica": 2, "geolife": 3}
"""bundled suite, in the folder `assess` -> minutes of a row on two idle cores"""
GROUPS = {"drives": ("cork", "santa-monica"), "all": tuple(MINUTES)}
"""words of --on that stand for several suites"""
FILES = ("table.csv", "assess.json", "{}.svg", "{}.pdf")
"""files in the folder of an assessment, the figures of each suite"""
_DRAWN = ("utility.rmse_db", "attack.NAME.home_located.percent")
_CELLS = "suite label defense seeds name key value low high unit hits n baseline verdict attack"


Rows = Sequence[tuple[str, Defended]]
"""suites, and what is played on each"""


def assess_from_options(args: argparse.Namespace) -> None:
    """Play a defense, or rows of the suites, and print verdicts and tables."""
    if args.data:
        os.environ["NETSIM_DATA"] = str(Path(args.data).resolve())
    names = [name for word in args.on for name in GROUPS.get(word, (word,))]
    suites = {
        Path(name).stem: Scenario.from_source(f"assess/{name}" if name in MINUTES else name)
        for name in names
    }
    out = choose_out(args, f"assess-{shorten_name(args.defense or 'rows', 60)}", changes={})
    known = {*MINUTES, *suites}
    files = [file.format(name) for file in FILES for name in known]
    refuse_foreign_names(out, [*known, *files], "an assessment")
    rows = [(name, row) for name in suites for row in list_rows(suites[name])]
    with create_scratch_folder("netsim-assess-") as scratch:
        chosen = [pair for pair in rows if args.defense in (None, pair[1].label)]
        if not chosen:
            defense = parse_defense(args.defense, scratch)
            chosen = [(name, defense) for name in suites]
        minutes = sum(MINUTES.get(name, 0) for name, _ in chosen)
        if not args.json:
            say_fitted([f"{len(chosen)} rows on {', '.join(suites)}: about {minutes} min", RULE])
        played, left_out = _play_rows(args, suites, chosen, out)
    rows = merge_rows(args.keep, played)
    if args.keep:
        write_text(Path(args.keep), rows.to_csv(index=False, float_format="%.9g"))
    labels = group_by_label((frame["suite"].iloc[0], frame["label"].iloc[0]) for frame in played)
    judged = {name: judge_suite(rows[rows["suite"] == name]) for name in labels}
    frames = []
    for name, suite in judged.items():
        frame = pandas.DataFrame(tabulate_figures(suite["runs"], suite["lines"]))
        frames.append(frame.assign(suite=name, defense=frame["label"].map(suite["verdicts"])))
        drawn = {"runs": rows[rows["suite"] == name], "figures": frame}
        try:
            for file in FILES[2:]:
                write_figure(drawn, *_DRAWN, out / file.format(name), chance=True)
        except BadInput as error:
            left_out[f"figure of {name}"] = str(error)
    table = pandas.concat(frames).to_csv(index=False, columns=_CELLS.split(), float_format="%.9g")
    write_text(out / FILES[0], table)
    verdicts = {name: suite["verdicts"] for name, suite in judged.items()}
    report = {"verdicts": verdicts, "left_out": left_out, "rule": RULE}
    write_json(out / FILES[1], report)
    if args.json:
        emit({"event": "result", "kind": "assessment", "folder": str(out), **report})
        return
    say(render_template("assess.txt", suites=judged, played=labels))
    say_fitted([f"left out: {': '.join(pair)}" for pair in left_out.items()])
    say_fitted([f"in {out}: {FILES[0]}, {FILES[1]}, a figure of each suite"])


def _play_rows(
    args: argparse.Namespace, suites: dict[str, Scenario], chosen: Rows, out: Path
) -> tuple[list[pandas.DataFrame], dict[str, str]]:
    """Play rows; returns their runs, and why others do not fit their suite. BadInput: none fits."""
    played = []
    left_out = {}
    jobs = read_jobs_at_once(args)
    command = join_command_line()
    resources = read_resources(args)
    with show_progress(args, "assess") as tell:
        for name, row in chosen:
            sweep = Sweep(
                suites[name], out, jobs, tell, args.replace, command=command, resources=resources
            )
            try:
                played.append(play_row(name, row, args.adapt, sweep))
            except BadInput as error:
                left_out[f"{name}, {row.label}"] = error.lines[0]
    if not played:
        raise BadInput(*map(": ".join, left_out.items()))
    return played, left_out
