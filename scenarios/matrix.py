"""Which learners, curations, defenses, aggregations, attacks and threats fit together, and why not.

Asked of the very validator that refuses a scenario, so the answer cannot drift from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any, get_args

from pydantic import ValidationError

from fl.attacks.base import Vantage
from fl.learning import Learning
from fl.threat import Threat
from scenarios.slots import SLOTS

Combination = dict[str, Any]
LEGAL = "legal"


def combinations() -> Iterator[tuple[Combination, str]]:
    """Every combination of one part a slot (defenses: none, one, or two in order), with LEGAL or the reason."""
    defenses = [(), *product(_kinds("defense")), *product(_kinds("defense"), repeat=2)]
    threats = product(get_args(Vantage), get_args(Threat.model_fields["viewpoint"].annotation))
    for learner, curation, chain, aggregation, attack, (sees, viewpoint) in product(
        _kinds("learner"), [None, *_kinds("curation")], defenses, _kinds("aggregation"),
        [None, *_kinds("attack")], list(threats),
    ):  # fmt: skip
        if len(chain) != len(set(chain)):
            continue
        combination = {
            "learner": learner,
            "curation": curation or "none",
            "defenses": " > ".join(chain) or "none",
            "aggregation": aggregation,
            "attack": attack or "none",
            "threat": f"{viewpoint} sees {sees}",
        }
        section = {
            "every_s": 60,
            "data": data_for(learner),
            "learner": _example("learner", learner),
            "curation": [_example("curation", curation)] if curation else [],
            "defenses": [_example("defense", d) for d in chain],
            "aggregation": _example("aggregation", aggregation),
            "threat": threat(sees, viewpoint),
            "attacks": [_example("attack", attack)] if attack else [],
        }
        yield combination, verdict(section)


def data_for(learner: str) -> dict[str, Any]:
    """An example of data that a learner can learn from."""
    needs = set(SLOTS["learner"].parts[learner].needs)
    kind = next(kind for kind, part in SLOTS["data"].parts.items() if needs <= part.offers)
    return _example("data", kind)


def threat(sees: str, viewpoint: str) -> dict[str, Any]:
    """An example of a threat; an eavesdropper has a place."""
    return {"sees": sees, "viewpoint": viewpoint} | ({"at_m": [0, 0]} if viewpoint == "eavesdropper" else {})


def verdict(section: dict[str, Any]) -> str:
    """LEGAL, or the first reason why a learning section is refused."""
    try:
        Learning.model_validate_json(json.dumps(section), strict=True)
    except ValidationError as error:
        return error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
    return LEGAL


def matrix_text() -> str:
    """The matrix for people: how many combinations are legal, and every reason with what it concerns."""
    found = list(combinations())
    reasons: dict[str, list[Combination]] = {}
    for combination, reason in found:
        reasons.setdefault(reason, []).append(combination)
    legal = reasons.pop(LEGAL, [])
    lines = [f"{len(legal)} of {len(found)} combinations are legal (one part a slot, up to two defenses in order)"]
    lines += ["", *_crossing("attack", "threat", found), "", *_crossing("learner", "defenses", found), ""]
    lines += ["Refused, because:"]
    for reason, them in sorted(reasons.items(), key=lambda item: -len(item[1])):
        common = {k: v for k, v in them[0].items() if all(c[k] == v for c in them)}
        where = ", ".join(f"{k} {v}" for k, v in common.items()) or "several"
        lines += [f"  {len(them):5d}  {reason}", f"         ({where})"]
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


def _crossing(down: str, across: str, found: list[tuple[Combination, str]]) -> list[str]:
    """Which of two slots' words ever meet in a legal combination."""
    rows, columns = dict.fromkeys(c[down] for c, _ in found), dict.fromkeys(c[across] for c, _ in found)
    meet = {(c[down], c[across]) for c, reason in found if reason == LEGAL}
    left = max(len(r) for r in (*rows, down))
    lines = [f"{down} x {across}", "  " + " " * left + "".join(f"  {c}" for c in columns)]
    for r in rows:
        marks = "".join(f"  {'yes' if (r, c) in meet else '-':^{len(c)}}" for c in columns)
        lines.append(f"  {r:<{left}}{marks}")
    return lines


def _kinds(slot: str) -> list[str]:
    return list(SLOTS[slot].parts)


def _example(slot: str, kind: str) -> dict[str, Any]:
    return SLOTS[slot].parts[kind].example
