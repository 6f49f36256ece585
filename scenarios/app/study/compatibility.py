"""Which learners, curations, defenses, aggregations, attacks and threats fit together, and why not.

Asked of the very validator that refuses a scenario, so the answer cannot drift from it.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from itertools import permutations, product
from typing import Any, get_args

from pydantic import ValidationError

from fl.attacks.base import Vantage
from fl.attacks.threat import Threat
from fl.learning import Learning
from scenarios.app.study.slots import SLOTS

Combination = dict[str, Any]
LEGAL = "legal"
_NARROWEST = 60


def combinations() -> Iterator[tuple[Combination, str]]:
    """Every combination of one part a slot (defenses: none, one, or two in order), with LEGAL or the reason.

    Of data, each learner has the first kind that it can learn from. Every part is built and checked once, by itself;
    a combination is then only asked whether its parts fit together.
    """
    attacks = _none_or_one("attack")
    for combination, parts, before in _without_attack():
        for attack, attempt in attacks.items():  # asked last: what is refused without one is refused with any
            verdict = _verdict(parts | {"attacks": attempt}) if before == LEGAL and attempt else before
            yield combination | {"attack": attack}, verdict


def legal_combinations() -> Iterator[Combination]:
    """Those of `combinations` that are legal. About a tenth of the work: no attack is tried where all are refused."""
    attacks = _none_or_one("attack")
    for combination, parts, before in _without_attack():
        for attack, attempt in attacks.items() if before == LEGAL else ():
            if not attempt or _verdict(parts | {"attacks": attempt}) == LEGAL:
                yield combination | {"attack": attack}


def _without_attack() -> Iterator[tuple[Combination, dict[str, Any], str]]:
    """Every combination without its attack, its parts, and LEGAL or the reason."""
    learners, aggregations = _examples("learner"), _examples("aggregation")
    data = {kind: _data_of(kind) for kind in learners}
    curations = _none_or_one("curation")
    single = _examples("defense")
    chains: dict[str, tuple[Any, ...]] = {"none": (), **{kind: (part,) for kind, part in single.items()}}
    chains |= {f"{a} > {b}": (single[a], single[b]) for a, b in permutations(single, 2)}
    threats = {f"{viewpoint} sees {sees}": _threat(sees, viewpoint) for sees, viewpoint in _vantages()}
    plain = {name: field.get_default(call_default_factory=True) for name, field in Learning.model_fields.items()}
    for learner, curation, chain, aggregation, seen in product(learners, curations, chains, aggregations, threats):
        kind, part = data[learner]
        parts = plain | {
            "round_s": 60,
            "data": part,
            "learner": learners[learner],
            "curation": curations[curation],
            "defenses": chains[chain],
            "aggregation": aggregations[aggregation],
            "threat": threats[seen],
        }
        combination = {
            "data": kind,
            "learner": learner,
            "curation": curation,
            "defenses": chain,
            "aggregation": aggregation,
            "attack": "none",
            "threat": seen,
        }
        granted = threats[seen]
        yield combination, parts, granted if isinstance(granted, str) else _verdict(parts)


def _none_or_one(slot: str) -> dict[str, tuple[Any, ...]]:
    """An empty slot, or an example of one of its kinds."""
    return {"none": (), **{kind: (part,) for kind, part in _examples(slot).items()}}


def threat(sees: str, viewpoint: str) -> dict[str, Any]:
    """An example of a threat; an eavesdropper has a place."""
    return {"sees": sees, "viewpoint": viewpoint} | ({"at_m": [0, 0]} if viewpoint == "eavesdropper" else {})


def _vantages() -> Iterator[tuple[str, str]]:
    return product(get_args(Vantage), get_args(Threat.model_fields["viewpoint"].annotation))


def _threat(sees: str, viewpoint: str) -> Threat | str:
    """That threat, or why there is none such."""
    try:
        return Threat.model_validate_json(json.dumps(threat(sees, viewpoint)), strict=True)
    except ValidationError as error:
        return error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")


def _verdict(parts: dict[str, Any]) -> str:
    """LEGAL, or the first reason why parts that are each well do not fit together."""
    try:
        Learning.model_construct(**parts).check()
    except ValueError as error:
        return str(error)
    return LEGAL


def matrix_text(width: int = 110) -> str:
    """The matrix for people, at most `width` wide: how many combinations are legal, and every reason with its cases."""
    width = max(width, _NARROWEST)
    verdicts = list(combinations())
    reasons: dict[str, list[Combination]] = {}
    for combination, reason in verdicts:
        reasons.setdefault(reason, []).append(combination)
    legal = reasons.pop(LEGAL, [])
    head = f"{len(legal)} of {len(verdicts)} combinations are legal (one part a slot, up to two defenses in order)"
    lines = textwrap.wrap(head, width)
    lines += ["", *_crossing("attack", "threat", verdicts, width), ""]
    lines += [*_crossing("defenses", "learner", verdicts, width), ""]
    for slot in ("learner", "defenses"):
        lines += [*_crossing(slot, "server", list(beside(slot, "server", verdicts)), width), ""]
    for slot in ("learner", "curation"):
        lines += [*_crossing(slot, "withholding", list(beside(slot, "withholding", verdicts)), width), ""]
    lines += ["Refused, because:"]
    for reason, them in sorted(reasons.items(), key=lambda item: -len(item[1])):
        common = {k: v for k, v in them[0].items() if all(c[k] == v for c in them)}
        where = ", ".join(f"{k} {v}" for k, v in common.items()) or "several"
        first = textwrap.wrap(f"  {len(them):5d}  {reason}", width, subsequent_indent=" " * 9)
        lines += [*first, *textwrap.wrap(f"({where})", width, initial_indent=" " * 9, subsequent_indent=" " * 10)]
    return "\n".join(lines)


def matrix_csv() -> str:
    """Every combination as CSV."""
    import csv
    from io import StringIO

    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for i, (combination, reason) in enumerate(combinations()):
        if i == 0:
            writer.writerow([*combination, "verdict"])
        writer.writerow([*combination.values(), reason])
    return out.getvalue()


def beside(slot: str, other: str, verdicts: list[tuple[Combination, str]]) -> Iterator[tuple[Combination, str]]:
    """For each word of a slot and each part of another, server or withholding, whether a combination that is legal
    without that part is so with it.
    """
    first: dict[str, Combination] = {}
    for combination, verdict in verdicts:
        if verdict == LEGAL:
            first.setdefault(combination[slot], combination)
    for word, combination in first.items():
        parts = _parts(combination)
        for kind, part in _examples(other).items():
            yield {slot: word, other: kind}, _verdict(parts | {other: part if other == "server" else (part,)})


def _parts(combination: Combination) -> dict[str, Any]:
    """The parts of a combination, without its attack."""
    chain = [] if combination["defenses"] == "none" else combination["defenses"].split(" > ")
    curation, (viewpoint, sees) = combination["curation"], combination["threat"].split(" sees ")
    return {name: field.get_default(call_default_factory=True) for name, field in Learning.model_fields.items()} | {
        "round_s": 60,
        "data": _examples("data")[combination["data"]],
        "learner": _examples("learner")[combination["learner"]],
        "curation": () if curation == "none" else (_examples("curation")[curation],),
        "defenses": tuple(_examples("defense")[kind] for kind in chain),
        "aggregation": _examples("aggregation")[combination["aggregation"]],
        "threat": _threat(sees, viewpoint),
    }


def _crossing(down: str, across: str, verdicts: list[tuple[Combination, str]], width: int) -> list[str]:
    """Which of two slots' words ever meet in a legal combination; columns that do not fit follow below."""
    rows, columns = dict.fromkeys(c[down] for c, _ in verdicts), list(dict.fromkeys(c[across] for c, _ in verdicts))
    meet = {(c[down], c[across]) for c, reason in verdicts if reason == LEGAL}
    left = max(len(r) for r in (*rows, down))
    lines = [f"{down} x {across}"]
    while columns:
        room, some = width - left - 2, list[str]()
        while columns and (not some or room >= len(columns[0]) + 2):
            room -= len(columns[0]) + 2
            some.append(columns.pop(0))
        lines.append("  " + " " * left + "".join(f"  {c}" for c in some))
        for r in rows:
            marks = "".join(f"  {'yes' if (r, c) in meet else '-':^{len(c)}}" for c in some)
            lines.append(f"  {r:<{left}}{marks}".rstrip())
    return lines


def _data_of(learner: str) -> tuple[str, Any]:
    """The first kind of data from which a learner can learn, and an example of it."""
    needs = set(_examples("learner")[learner].needs)
    return next((kind, part) for kind, part in _examples("data").items() if needs <= part.offers)


def _examples(slot: str) -> dict[str, Any]:
    """An example of every kind of a slot, built."""
    return {
        kind: part.model_validate_json(json.dumps(part.example), strict=True)
        for kind, part in SLOTS[slot].parts.items()
    }
