"""The command `netsim epsilon`: convert between noise multiplier and epsilon."""

from __future__ import annotations

import argparse
import math

from fl.privacy.compose import NO_DIGITS, RoundKinds, compose, least_multiplier
from netsim.errors import BadInput
from scenarios.app.cli.output import say, table
from scenarios.app.results.statistics import MEANINGFUL, too_large

ASSUMED = """\
Noise multiplier: noise std / sensitivity; the sensitivity is the clip norm (add-remove) or twice
the clip norm (replace). Epsilon covers all data of one user. A sampling rate below 1 needs secret
random sampling and add-remove; several models or phases per round are draws (--draws), not rounds."""


def main(args: argparse.Namespace) -> None:
    """Print a table of epsilons, and what each accountant does."""
    if (args.noise_multiplier is None) == (args.target_epsilon is None):
        raise BadInput("epsilon: give either --noise-multiplier or --target-epsilon, and not both")
    if args.target_epsilon is None:
        asked = [(z, n) for z in args.noise_multiplier for n in args.rounds]
    else:
        asked = [(_least(args, n), n) for n in args.rounds]
    rate, draws = args.sampling_rate, args.draws
    # draws of a round that share one coin are one Gaussian of 1 / z^2 times their number
    found = [compose(RoundKinds.of([(z / math.sqrt(draws), rate, n)]), args.delta) for z, n in asked]
    last = "exact" if rate == 1 else "PLD"
    rows = []
    for (z, n), c in zip(asked, found, strict=True):
        exact = _shown(c.best.epsilon) if c.best.accountant == last else "-"
        rows.append([f"{z:.7g}", str(n), *(_shown(f.epsilon) for f in (c.naive, c.zcdp, c.rdp)), exact])
    coin = f", {draws} draws of noise per round on one coin" if draws > 1 else ""
    say(f"epsilon of one user at delta {args.delta:g}, sampling rate {rate:g}{coin}")
    say(table(["noise multiplier", "rounds", "naive", "zCDP", "RDP", last], rows, left=0))
    words = {f.accountant: f.words for c in found for f in c.figures}
    best = " or ".join(dict.fromkeys(c.best.accountant for c in found))
    say(table(["accountant", f"law (all are upper bounds; state {best})"], list(words.items()), left=2))
    say(ASSUMED)
    if any(c.best.epsilon > MEANINGFUL for c in found):
        say(f"warning: an epsilon above {MEANINGFUL:.0f} is no meaningful guarantee")
    if too_many := too_large(args.delta, args.people or 0, "user"):
        say(f"warning: {too_many}")


def _least(args: argparse.Namespace, rounds: int) -> float:
    """The smallest multiplier, rounded up to the digits that are known."""
    target, delta, q = args.target_epsilon, args.delta, args.sampling_rate
    where = f"--target-epsilon {target:g} with {rounds} rounds at delta {delta:g} and sampling rate {q:g}"
    try:
        z = least_multiplier(target, delta, rounds, q) * math.sqrt(args.draws)
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from None
    if z == 0:
        raise BadInput(f"{where}: holds without noise, since a user takes part at all with less than delta")
    if not 1e-100 < z < 1e100:
        raise BadInput(f"{where}: out of reach of floating point (noise multiplier {z:g})")
    unit = 10.0 ** (math.floor(math.log10(z)) - (6 if q == 1 else 4))
    return math.ceil(z / unit) * unit


def _shown(epsilon: float) -> str:
    if not epsilon <= NO_DIGITS:
        return f"> {NO_DIGITS:.0f}"
    return f"{epsilon:.3f}" if epsilon >= 1 else f"{epsilon:.3g}"
