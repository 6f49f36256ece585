"""Notices on studies and their results."""

from netsim.errors import format_count
from netsim.notice import Catalogue, Notices

notice = Catalogue(__file__)


def find_delta_notices(place: str, delta: float, n: int, whose: str) -> Notices:
    """Yield a guarantee at a delta of 1/n and more, with n people or records.

    Whoever publishes all of one of them, drawn at random, has this delta at epsilon 0: Dwork and
    Roth, The Algorithmic Foundations of Differential Privacy, 2014, Section 2.3.
    """
    if n >= 1 and delta >= 1 / n:
        yield notice(
            "delta-too-large", place, delta=delta, share=1 / n, whose=format_count(n, whose)
        )
