"""The command `netsim claims`: what publications say, and whether runs agree."""

from __future__ import annotations

import argparse
from pathlib import Path

from netsim.errors import BadInput
from scenarios.app.cli.compare import add_pages
from scenarios.app.cli.engine_options import add_engine, check_engine_needed, engine_of, jobs_of
from scenarios.app.cli.options import Commands, add_how, add_json, command_line, how_of, out_of
from scenarios.app.cli.output import emit, say


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("claims", help="what publications say, and whether our runs agree")
    command.add_argument(
        "--run", action="append", default=[], metavar="[SCENARIO=]DIR",
        help="decide by this folder of a run or a sweep (may be repeated)",
    )  # fmt: skip
    command.add_argument("--paper", default="", metavar="WORD", help="only publications with this word in their name")
    command.add_argument(
        "--out", metavar="DIR", help="play the scenarios that are missing in DIR, decide, keep a table"
    )
    add_engine(command)
    command.add_argument(
        "--minutes", type=float, metavar="M",
        help="play only scenarios that together take one core M minutes, the cheapest first (with --out)",
    )  # fmt: skip
    command.add_argument("--file", metavar="FILE", help="a file of claims of your own")
    command.add_argument("--quiet", action="store_true", help="no progress")
    command.add_argument("--page", metavar="FILE", help="a page of the verdicts (default: claims.html in --out)")
    command.add_argument("--replace", action="store_true", help="replace runs of other studies or versions in --out")
    add_how(command)
    add_pages(command)
    add_json(command)


def main(args: argparse.Namespace) -> None:
    """List the claims, or decide them."""
    from scenarios.app.claims.claim import affordable, bundled_claims, playing_minutes, read_claims
    from scenarios.app.claims.evaluate import CLAIMS_PAGE, admit_out, evaluate_all, folders_of, places_of
    from scenarios.app.claims.text import claims_text, verdict_row, verdicts_text
    from scenarios.app.cli.events import of_claims
    from scenarios.app.cli.outcome import tell_failures
    from scenarios.app.cli.progress import teller

    engine, jobs, how = engine_of(args), jobs_of(args), how_of(args)
    if args.page is not None and not (args.page and (args.run or args.out)):
        raise BadInput("--page: give the name of a file, and runs to decide by: --out DIR or --run DIR")
    if args.minutes is not None and not (args.minutes > 0 and args.out):
        raise BadInput(f"--minutes {args.minutes:g}: must be above 0, and needs --out DIR")
    file = Path(args.file) if args.file else bundled_claims()
    claims = read_claims(file, args.paper)
    if args.minutes is not None:
        claims = affordable(claims, playing_minutes(file), args.minutes)
        if not claims:
            raise BadInput(f"--minutes {args.minutes:g}: no scenario of these claims is known to take so little")
    check_engine_needed(args, args.out is not None, "--out DIR")
    if not args.run and args.out is None:
        if args.json:
            stated = [claim.model_dump(mode="json", exclude={"rule"}) | {"key": claim.rule.key} for claim in claims]
            emit({"event": "result", "kind": "claims", "claims": stated})
        else:
            say(claims_text(claims))
        return
    from scenarios.app.report.claims_report import claims_report
    from scenarios.app.report.report import check_ours

    folders = folders_of(args.run, claims)
    out = None if args.out is None else out_of(args, Path())
    if out is not None:
        admit_out(out, read_claims(file))
    page = Path(args.page) if args.page else None if out is None else out / CLAIMS_PAGE
    if page is not None:
        check_ours(page)  # before hours are played for it
    with teller(args, "claims", prepares=False) as tell:
        verdicts = evaluate_all(
            claims, folders, out, jobs, lambda *now: tell(of_claims(*now)), engine, how, args.replace
        )
    if page is not None:
        claims_report(verdicts, places_of(claims, folders, out), page, command_line(), args.pages)
    where = {} if page is None else {"page": str(page)}
    if args.json:
        emit({"event": "result", "kind": "verdicts", "verdicts": [verdict_row(one) for one in verdicts], **where})
    else:
        say(verdicts_text(verdicts))
        if page is not None:
            say(f"page in {page}")
    played = [place for name, place in places_of(claims, folders, out).items() if name not in folders]
    tell_failures(*([] if out is None else [out]), *played)
