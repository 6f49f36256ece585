"""The command `netsim claims`: test published claims against runs."""

from __future__ import annotations

import argparse
from math import inf
from pathlib import Path

from netsim.errors import BadInput
from scenarios.app.cli.options import command_line, engine_of, how_of, jobs_of
from scenarios.app.cli.output import emit, say, table


def main(args: argparse.Namespace) -> None:
    """List the claims, or decide them."""
    from scenarios.app.claims.claim import bundled_claims, read_claims
    from scenarios.app.claims.evaluate import CLAIMS_PAGE, admit_out, evaluate_all, folders_of, place_of
    from scenarios.app.cli.outcome import tell_failures
    from scenarios.app.cli.progress import teller

    engine, jobs, how = engine_of(args), jobs_of(args), how_of(args)
    if args.page is not None and not (args.page and (args.run or args.out)):
        raise BadInput("--page: give the name of a file, and runs to decide by: --out DIR or --run DIR")
    if args.minutes is not None and not (args.minutes > 0 and args.out):
        raise BadInput(f"--minutes {args.minutes:g}: must be above 0, and needs --out DIR")
    file = Path(args.file) if args.file else bundled_claims()
    claims = read_claims(file, args.paper, inf if args.minutes is None else args.minutes)
    if not args.run and args.out is None:
        stated = [c.model_dump(mode="json", exclude={"rule"}) | {"key": c.rule.key} for c in claims]
        if args.json:
            emit({"event": "result", "kind": "claims", "claims": stated})
        else:
            rows = [[c.id, c.where, c.says, c.printed, c.scenario] for c in claims]
            say(table(("id", "where", "says", "published", "scenario"), rows, left=5))
        return
    from scenarios.app.report.report import check_ours, claims_report

    folders = folders_of(args.run, claims)
    out = None if args.out is None else Path(args.out)
    if out is not None:
        admit_out(out, read_claims(file))
    page = Path(args.page) if args.page else None if out is None else out / CLAIMS_PAGE
    if page is not None:
        check_ours(page)  # before hours are played for it
    with teller(args, "claims") as tell:
        verdicts = evaluate_all(claims, folders, out, jobs, tell, engine, how, args.replace)
    played = {} if out is None else {c.scenario: out / place_of(c.scenario) for c in claims}
    if page is not None:
        claims_report(verdicts, played | folders, page, command_line(), args.pages)
    where = {} if page is None else {"page": str(page)}
    if args.json:
        emit({"event": "result", "kind": "verdicts", "verdicts": [one.row for one in verdicts], **where})
    else:
        rows = [[*(v.row[k] for k in ("id", "where", "says")), v.claim.printed, v.ours, v.text] for v in verdicts]
        say(table(("id", "where", "says", "published", "ours, median [quartiles]", "verdict"), rows, left=6))
        if page is not None:
            say(f"page in {page}")
    own = [place for name, place in played.items() if name not in folders]
    tell_failures(*([] if out is None else [out]), *dict.fromkeys(own))
