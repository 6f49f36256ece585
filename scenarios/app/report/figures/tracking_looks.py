"""How the kinds of knowledge of a tracker are drawn, the same in all figures of the chapter."""

from __future__ import annotations

from collections.abc import Collection

from scenarios.app.report.plot import GREY, PALETTE, Look
from scenarios.app.results.tracking import FILTER, PLAIN, PRIOR, SMOOTHER

LOOKS = {
    PLAIN: Look("tracked attack alone", PALETTE[1], "diamond", "longdash"),
    FILTER: Look("filter", PALETTE[0]),
    SMOOTHER: Look("smoother", PALETTE[2], "square"),
    PRIOR: Look("prior only", GREY, "cross", "dash"),
}
STATED = {
    kind: Look(f"{LOOKS[kind].name}, as stated", LOOKS[kind].color, LOOKS[kind].symbol, "dot")
    for kind in (FILTER, SMOOTHER)
}


def titled(every: Collection[str], name: str, what: str = "") -> str:
    """What stands above a pair of axes: the attack where there are several, and what is drawn; never empty."""
    parts = [*([name] if len(every) > 1 or not what else []), *([what] if what else [])]
    return ": ".join(parts)
