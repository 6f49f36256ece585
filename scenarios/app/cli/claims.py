"""The command `netsim claims`: test published claims against runs."""

from __future__ import annotations

import argparse
from math import inf
from pathlib import Path

from netsim.errors import BadInput
from scenarios.app.cli.options import command_line, emit, engine_of, how_of, jobs_of, say, table


def main(args: argparse.Namespace) -> None:
    """List the claims, or decide them."""
    from scenarios.app.claims.claim import bundled_claims, read_claims
    from scenarios.app.claims.evaluate import (
        CLAIMS,
        CLAIMS_PAGE,
        evaluate_all,
        folders_of,
        places_in,
        play,
        write_verdicts,
    )
    from scenarios.app.cli.outcome import tell_failures, teller
    from scenarios.app.report.report import check_ours, claims_report

    engine = engine_of(args)
    jobs = jobs_of(args)
    how = how_of(args)
    if args.page is not None and not (args.page and (args.run or args.out)):
        raise BadInput("--page: give the name of a file, and runs to decide by: --out DIR or --run DIR")
    if args.minutes is not None and not (args.minutes > 0 and args.out):
        raise BadInput(f"--minutes {args.minutes:g}: must be above 0, and needs --out DIR")
    file = Path(args.file) if args.file else bundled_claims()
    claims = read_claims(file, args.paper, inf if args.minutes is None else args.minutes)
    if not args.run and args.out is None:
        listed = [c.model_dump(mode="json", exclude={"rule"}) | {"key": c.rule.key} for c in claims]
        rows = [[c.id, c.where, c.says, c.printed, c.scenario] for c in claims]
        if args.json:
            emit({"event": "result", "kind": "claims", "claims": listed})
        else:
            say(table(("id", "where", "says", "published", "scenario"), rows, left=5))
        return
    folders = folders_of(args.run, claims)
    places = dict[str, Path]()
    why = dict[str, str]()
    page = Path(args.page) if args.page else None
    if args.out is not None:
        out = Path(args.out)
        missing = [c for c in claims if c.scenario not in folders]
        every = places_in(out, read_claims(file))
        places = {c.scenario: every[c.scenario] for c in missing}
        page = page or out / CLAIMS_PAGE
        check_ours(page)  # before hours are played for it
        with teller(args, "claims") as tell:
            why = play(missing, places, jobs, tell, engine, how, args.replace)
    verdicts = evaluate_all(claims, places | folders, why)
    if args.out is not None:
        write_verdicts(out / CLAIMS, verdicts)
    if page is not None:
        claims_report(verdicts, places | folders, page, command_line(), args.pages)
    if args.json:
        where = {} if page is None else {"page": str(page)}
        emit({"event": "result", "kind": "verdicts", "verdicts": [one.row for one in verdicts], **where})
    else:
        rows = [[*(v.row[k] for k in ("id", "where", "says")), v.claim.printed, v.ours, v.text] for v in verdicts]
        say(table(("id", "where", "says", "published", "ours, median [quartiles]", "verdict"), rows, left=6))
        say(f"page in {page}" if page else "")
    tell_failures(*places.values())
