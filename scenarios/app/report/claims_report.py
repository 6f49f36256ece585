"""The page of verdicts on claims, written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from netsim.safe import what_is
from scenarios.app.claims.claim import Verdict
from scenarios.app.report.claims_page import claims_page
from scenarios.app.report.report import check_ours, report, written
from scenarios.app.results.folder import SUMMARY
from scenarios.app.results.read import RUNS


def claims_report(
    verdicts: Sequence[Verdict], folders: Mapping[str, Path], out: Path, command: str = "", pages: bool = False
) -> Path:
    """Write the page of verdicts on claims; returns its path.

    folders : scenario -> the folder of its runs. pages : also draw the pages of these folders, to which claims lead.
    """
    check_ours(out)
    for folder in dict.fromkeys(folders.values()):
        if pages and (what_is(folder / RUNS) or what_is(folder / SUMMARY)):
            report(folder)
    return written(out, claims_page(verdicts, folders, out.parent, command))
