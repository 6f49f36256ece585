"""From a noise multiplier to epsilon and back, as text, with what the figures stand on."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from fl.privacy.compose import NO_DIGITS, Composition, Draws, compose, least_multiplier
from netsim.errors import BadInput
from scenarios.app.results.statistics import MEANINGFUL, too_large

MOST_ROUNDS = 1_000_000_000
MOST_DRAWS = 1_000_000
LEAST_DELTA = 1e-300
WIDTH = 100


def epsilon_text(
    multipliers: Sequence[float] | None,
    target: float | None,
    rounds: Sequence[int],
    delta: float,
    q: float,
    draws: int = 1,
    people: int | None = None,
) -> str:
    """What is printed. Raises BadInput for what cannot be asked.

    A round of so many draws, all of which hang on one coin, is one Gaussian of 1 / z^2 times their number. people: how
    many users there are; None: not known.
    """
    _check(multipliers, target, rounds, delta, q, draws)
    if people is not None and people < 1:
        raise BadInput(f"--people {people}: must be 1 or more")
    if target is not None:
        asked = [(_least(target, n, delta, q, draws), n) for n in rounds]
    else:
        asked = [(z, n) for z in multipliers or () for n in rounds]
    compositions = [compose(Draws.of([(z / math.sqrt(draws), q, n)]), delta) for z, n in asked]
    who = "everybody in every round" if q == 1 else f"each user in a round with probability {q:g}"
    who += f", {draws} draws of noise in a round on one coin" if draws > 1 else ""
    lines = []
    if target is not None:
        lines.append(f"smallest noise multiplier for epsilon {target:g}")
    lines += [f"epsilon of one user at delta {delta:g}, {who}", *_table(asked, compositions, q), *_words(compositions)]
    if any(c.best.epsilon > MEANINGFUL for c in compositions):
        lines.append(f"An epsilon above {MEANINGFUL:.0f} is no meaningful guarantee.")
    if said := too_large(delta, people or 0, "user"):
        lines += textwrap.wrap(f"WARNING: {said}", WIDTH)
    return "\n".join(lines)


def _check(
    multipliers: Sequence[float] | None,
    target: float | None,
    rounds: Sequence[int],
    delta: float,
    q: float,
    draws: int,
) -> None:
    if (multipliers is None) == (target is None):
        raise BadInput("epsilon: give either --noise-multiplier or --target-epsilon, and not both")
    if not LEAST_DELTA <= delta < 1:
        raise BadInput(f"--delta {delta:g}: must lie above 0 and below 1 (and not below {LEAST_DELTA:g})")
    if not 0 < q <= 1:
        raise BadInput(f"--sampling-rate {q:g}: must lie above 0 and at most at 1")
    if not 1 <= draws <= MOST_DRAWS:
        raise BadInput(f"--draws {str(draws)[:20]}: must lie between 1 and {MOST_DRAWS}")
    for n in rounds:
        if not 1 <= n <= MOST_ROUNDS:
            raise BadInput(f"--rounds {str(n)[:20]}: must lie between 1 and {MOST_ROUNDS}")
    for z in multipliers or ():
        if not 0 < z < math.inf:
            raise BadInput(f"--noise-multiplier {z:g}: must be positive and finite")
    if target is not None and not 0 < target < math.inf:
        raise BadInput(f"--target-epsilon {target:g}: must be positive and finite; no noise reaches 0 or less")


def _least(target: float, rounds: int, delta: float, q: float, draws: int) -> float:
    """The smallest multiplier, rounded up to the digits that are known."""
    where = f"--target-epsilon {target:g} with {rounds} rounds at delta {delta:g} and sampling rate {q:g}"
    try:
        z = least_multiplier(target, delta, rounds, q) * math.sqrt(draws)
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from None
    if z == 0:
        raise BadInput(f"{where}: holds without noise, since a user takes part at all with less than delta")
    if not 1e-100 < z < 1e100:
        raise BadInput(f"{where}: out of reach of floating point (noise multiplier {z:g})")
    unit = 10.0 ** (math.floor(math.log10(z)) - (6 if q == 1 else 4))
    return math.ceil(z / unit) * unit


def _table(asked: Sequence[tuple[float, int]], compositions: Sequence[Composition], q: float) -> list[str]:
    last = "exact" if q == 1 else "PLD"
    rows = [["noise multiplier", "rounds", "naive", "zCDP", "RDP", last]]
    for (z, n), c in zip(asked, compositions, strict=True):
        figures = [c.naive, c.zcdp, c.rdp]
        best = _shown(c.best.epsilon) if c.best.accountant == last else "-"
        rows.append([f"{z:.7g}", str(n), *(_shown(f.epsilon) for f in figures), best])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]


def _words(compositions: Sequence[Composition]) -> list[str]:
    """What each accountant does, and what all of them take for granted."""
    words = dict.fromkeys(f"{f.accountant}: {f.words}" for c in compositions for f in c.figures)
    best = " or ".join(dict.fromkeys(c.best.accountant for c in compositions))
    paragraphs = [
        *words,
        f"State {best}: all of these are upper bounds on the same loss.",
        "Noise multiplier: std of the noise / sensitivity. The sensitivity is the clip norm where a user is present or "
        "absent (add-remove), and twice the clip norm where the data of a user are replaced (replace).",
        "Unit: all data of one user. At sampling rate 1 the figures hold under either relation; below 1 they hold "
        "under add-remove only, and under replace take 1. A user who sends to several models, or in several phases of "
        "a round, is in as many draws on one coin: give --draws, since counting them as rounds would promise too much.",
        "Noise and rounds are fixed beforehand. A sampling rate below 1 needs secret random sampling; a user who is "
        "silent because of its channel or its place counts at rate 1.",
    ]
    return [line for text in paragraphs for line in textwrap.wrap(text, WIDTH, subsequent_indent="  ")]


def _shown(epsilon: float) -> str:
    if not epsilon <= NO_DIGITS:
        return f"> {NO_DIGITS:.0f}"
    return f"{epsilon:.3f}" if epsilon >= 1 else f"{epsilon:.3g}"
