"""The command `netsim assess`: a defense on frozen suites, beside rows that are kept."""

import argparse
import os
from pathlib import Path

import pandas

from netsim import __version__
from netsim.errors import BadInput
from netsim.record import write_json, write_text
from netsim.safe import describe_file_kind
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
from scenarios.app.result import tabulate_figures
from scenarios.app.results.assessment import (
    NOTHING,
    ROWS,
    RULE,
    build_assessed_lines,
    judge_defense,
    read_rows,
)
from scenarios.app.results.folder import refuse_foreign_names
from scenarios.app.results.outcome import build_figures_table, build_variants_table
from scenarios.app.results.screen import lay_out_table
from scenarios.app.results.shown import LinesByLabel
from scenarios.app.run.assess import find_doubt, fit_row, list_rows, parse_defense, play_row
from scenarios.app.run.how import create_scratch_folder
from scenarios.app.run.sweep import Sweep, check_prepared, resolve_points
from scenarios.app.study import Record
from scenarios.app.study.load import Scenario

MINUTES = {"city": 8, "town": 6, "cork": 2, "santa-monica": 2, "geolife": 3}
"""bundled suite, in the folder `assess` -> minutes of a row on two idle cores"""
GROUPS = {"drives": ("cork", "santa-monica"), "all": tuple(MINUTES)}
"""words of --on that stand for several suites"""
TABLE = "table.csv"
RESULT = "assess.json"
FIGURES = (".svg", ".pdf")
HOMES = "attack.NAME.home_located.percent"
_SHOWN = ("utility.rmse_db", "utility.rmse_db.place", "upload.joules", "upload.seconds")
_CELLS = "label seeds name key value low high unit hits n baseline verdict attack".split()


def assess_from_options(args: argparse.Namespace) -> None:
    """Play a defense, or rows of the suites, and print the tables and the verdict."""
    if args.data:
        os.environ["NETSIM_DATA"] = str(Path(args.data).resolve())
    names = [name for word in args.on for name in GROUPS.get(word, (word,))]
    suites = {
        Path(name).stem: Scenario.from_source(f"assess/{name}" if name in MINUTES else name)
        for name in names
    }
    out = choose_out(args, f"assess-{shorten_name(args.defense or 'rows', 60)}", changes={})
    files = [f"{name}{ending}" for name in suites for ending in FIGURES]
    refuse_foreign_names(out, [*MINUTES, *suites, *files, TABLE, RESULT], "an assessment")
    own = {name: list_rows(suite) for name, suite in suites.items()}
    with create_scratch_folder("netsim-assess-") as scratch:
        defense = None
        if args.defense and not any(args.defense in rows for rows in own.values()):
            defense = parse_defense(args.defense, scratch)
        fitted = []
        left_out = {}
        for name, rows in own.items():
            chosen = [row for row in rows.values() if args.defense in (None, row.label)]
            for row in [defense] if defense else chosen:
                try:
                    scenario = fit_row(suites[name], row)
                    check_prepared(scenario, resolve_points(scenario)[:1])
                    fitted.append((name, row, scenario))
                except BadInput as error:
                    left_out[f"{name}, {row.label}"] = error.lines[0]
        lines = [f"left out: {label}: {reason}" for label, reason in left_out.items()]
        if not fitted:
            raise BadInput(*lines)
        minutes = sum(MINUTES.get(name, 0) for name, _, _ in fitted)
        lines += [f"plays {row.label} on {name}" for name, row, _ in fitted]
        say_fitted([*lines, f"about {minutes} min on two idle cores; {RULE}"])
        played = []
        with show_progress(args, "assess") as tell:
            for name, row, scenario in fitted:
                sweep = Sweep(
                    scenario,
                    out,
                    read_jobs_at_once(args),
                    tell,
                    args.replace,
                    command=join_command_line(),
                    resources=read_resources(args),
                )
                played += play_row(name, row, args.adapt, sweep)
    kept = read_rows(Path(args.keep) if args.keep and describe_file_kind(args.keep) else ROWS)
    rows = pandas.concat([kept, pandas.DataFrame(played)])
    rows = rows.drop_duplicates(["suite", "label", "seed"], keep="last")
    if args.keep:
        write_text(Path(args.keep), rows.to_csv(index=False, float_format="%.9g"))
    tables = []
    verdicts = {}
    for name in dict.fromkeys(name for name, _, _ in fitted):
        of_suite = rows[rows["suite"] == name]
        labels, lines_by_label = build_assessed_lines(of_suite)
        figures = pandas.DataFrame(tabulate_figures(labels, lines_by_label))
        doubts = {row.label: find_doubt(scenario) for n, row, scenario in fitted if n == name}
        nothing = lines_by_label.get(NOTHING, [])
        judged = {
            label: judge_defense(lines, nothing, doubts.get(label, ""))
            for label, lines in lines_by_label.items()
        }
        tables.append(figures.assign(suite=name, defense=figures["label"].map(judged)))
        verdicts[name] = {label: judged[label] for label in doubts}
        for ending in FIGURES:
            try:
                file = out / f"{name}{ending}"
                tables_drawn = {"runs": of_suite, "figures": figures}
                write_figure(tables_drawn, "utility.rmse_db", HOMES, file, chance=True)
            except BadInput as error:
                left_out[file.name] = error.lines[0]
        if not args.json:
            _print_suite(name, lines_by_label, judged, doubts)
    table = pandas.concat(tables)[["suite", "defense", *_CELLS]]
    write_text(out / TABLE, table.to_csv(index=False, float_format="%.9g"))
    result = {"verdicts": verdicts, "rule": RULE, "left_out": left_out, "version": __version__}
    write_json(out / RESULT, result)
    if args.json:
        emit({"event": "result", "kind": "assessment", "folder": str(out), **result})
    else:
        say_fitted([f"{file}: {reason}" for file, reason in left_out.items()])
        say(f"table in {out / TABLE}, result in {out / RESULT}, figures beside them")


def _print_suite(name: str, lines_by_label: LinesByLabel, verdicts: Record, doubts: Record) -> None:
    """Print the figures of each row that was played, then the table of a suite."""
    for label, doubt in doubts.items():
        say(f"{name}, {label}: {verdicts[label]}")
        say_fitted([doubt] * bool(doubt))
        say("\n".join(lay_out_table(build_figures_table("", lines_by_label[label]))))
    shown = {
        f"{label}: {verdicts[label]}": [line for line in lines if line.n or line.key in _SHOWN]
        for label, lines in lines_by_label.items()
    }
    lines = lay_out_table(build_variants_table(shown, [], Path()))
    say("\n".join(line.replace("on the page", f"in {TABLE}") for line in [name, *lines]))
