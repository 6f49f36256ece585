"""The command `netsim assess`: a defense on frozen suites, beside rows that are kept."""

from argparse import Namespace
from pathlib import Path

import pandas

from netsim.errors import BadInput
from netsim.record import write_json, write_text
from scenarios.app.cli.options import (
    choose_out,
    emit,
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
from scenarios.app.run.assess import list_rows, parse_defense, play_row
from scenarios.app.run.sweep import Sweep, make_folder_name
from scenarios.app.study.load import Scenario

SUITES = ("city", "town", "cork", "santa-monica", "geolife")
"""bundled suites, in the folder `assess`"""
FILES = ("table.csv", "assess.json", "{}.svg", "{}.pdf")
"""files in the folder of an assessment, the figures of each suite"""
_HOMES = "attack.NAME.home_located.percent"
_CELLS = "suite label defense seeds name key value low high unit hits n baseline verdict attack"


def assess_from_options(args: Namespace) -> None:
    """Play a defense, or rows of the suites, and print verdicts and tables."""
    suites = {
        Path(name).stem: Scenario.from_source(f"assess/{name}" if name in SUITES else name)
        for name in args.on
    }
    out = choose_out(args, f"assess-{shorten_name(args.defense or 'rows', 60)}", changes={})
    known = {*SUITES, *suites}
    files = [file.format(name) for file in FILES for name in known]
    refuse_foreign_names(out, [*known, *files], "an assessment")
    chosen = [
        (name, row, "")
        for name, suite in suites.items()
        for row in list_rows(suite)
        if args.defense in (None, row["label"])
    ]
    if not chosen:
        defense = parse_defense(args.defense)
        chosen = [(name, *defense) for name in suites]
    if not args.json:
        say_fitted([f"{len(chosen)} rows, 2 to 8 min each on two idle cores: {', '.join(suites)}"])
    played = []
    left_out = {}
    jobs = read_jobs_at_once(args)
    resources = read_resources(args)
    with show_progress(args, "assess") as tell:
        for name, row, digest in chosen:
            folder = out / name / f"{make_folder_name(row['label'])}{digest}"
            sweep = Sweep(suites[name], folder, jobs, tell, args.replace, resources=resources)
            try:
                played.append(play_row(name, row, args.adapt, sweep))
            except BadInput as error:
                left_out[f"{name}, {row['label']}"] = error.lines[0]
    if not played:
        raise BadInput(*map(": ".join, left_out.items()))
    rows = merge_rows(args.keep, played)
    if args.keep:
        write_text(Path(args.keep), rows.to_csv(index=False, float_format="%.9g"))
    labels = pandas.concat(played).groupby("suite", sort=False)["label"].unique()
    judged = {}
    frames = []
    for name in labels.index:
        runs = rows[rows["suite"] == name]
        judged[name] = suite = judge_suite(runs)
        figures = pandas.DataFrame(tabulate_figures(suite["runs"], suite["lines"]))
        frames.append(figures.assign(suite=name, defense=figures["label"].map(suite["verdicts"])))
        drawn = {"runs": runs, "figures": figures}
        try:
            for file in FILES[2:]:
                write_figure(drawn, "utility.rmse_db", _HOMES, out / file.format(name), chance=True)
        except BadInput as error:
            left_out[f"figure of {name}"] = error.lines[0]
    table = pandas.concat(frames).to_csv(index=False, columns=_CELLS.split(), float_format="%.9g")
    write_text(out / FILES[0], table)
    verdicts = {name: suite["verdicts"] for name, suite in judged.items()}
    report = {"verdicts": verdicts, "left_out": left_out, "rule": RULE}
    write_json(out / FILES[1], report)
    if args.json:
        emit({"event": "result", "kind": "assessment", "folder": str(out), **report})
        return
    say(render_template("assess.txt", suites=judged, played=labels))
    omitted = [f"left out: {': '.join(pair)}" for pair in left_out.items()]
    say_fitted([*omitted, f"in {out}: {FILES[0]}, {FILES[1]}, a figure of each suite", RULE])
