"""The command `netsim claims`: what publications say, and whether runs agree."""

from __future__ import annotations

import argparse
from pathlib import Path

from netsim.errors import BadInput
from scenarios.app.cli.options import Commands, add_jobs, add_json, jobs_of, out_of
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
    add_jobs(command)
    command.add_argument(
        "--minutes", type=float, metavar="M",
        help="play only scenarios that together take one core M minutes, the cheapest first (with --out)",
    )  # fmt: skip
    command.add_argument("--file", metavar="FILE", help="a file of claims of your own")
    command.add_argument("--quiet", action="store_true", help="no progress")
    add_json(command)


def main(args: argparse.Namespace) -> None:
    """List the claims, or decide them."""
    from scenarios.app.claims.claim import affordable, bundled_claims, playing_minutes, read_claims
    from scenarios.app.claims.evaluate import admit_out, evaluate_all, folders_of
    from scenarios.app.claims.text import claims_text, verdict_row, verdicts_text
    from scenarios.app.cli.events import of_claims
    from scenarios.app.cli.progress import teller

    jobs = jobs_of(args)
    if args.minutes is not None and not (args.minutes > 0 and args.out):
        raise BadInput(f"--minutes {args.minutes:g}: must be above 0, and needs --out DIR")
    file = Path(args.file) if args.file else bundled_claims()
    claims = read_claims(file, args.paper)
    if args.minutes is not None:
        claims = affordable(claims, playing_minutes(file), args.minutes)
        if not claims:
            raise BadInput(f"--minutes {args.minutes:g}: no scenario of these claims is known to take so little")
    if not args.run and args.out is None:
        if args.json:
            stated = [claim.model_dump(mode="json", exclude={"rule"}) | {"key": claim.rule.key} for claim in claims]
            emit({"event": "result", "kind": "claims", "claims": stated})
        else:
            say(claims_text(claims))
        return
    folders = folders_of(args.run, claims)
    out = None if args.out is None else out_of(args, Path())
    if out is not None:
        admit_out(out, read_claims(file))
    with teller(args, "claims", prepares=False) as tell:
        verdicts = evaluate_all(claims, folders, out, jobs, lambda *now: tell(of_claims(*now)))
    if args.json:
        emit({"event": "result", "kind": "verdicts", "verdicts": [verdict_row(one) for one in verdicts]})
    else:
        say(verdicts_text(verdicts))
