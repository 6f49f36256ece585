"""All slots of a scenario, joined here because their parts live on several floors; and which parts
fit together.

What fits is asked of the very validator that refuses a scenario, so the answer cannot drift from
it.
"""

import json
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import permutations, product
from pkgutil import resolve_name
from typing import Any, get_args

from pydantic import ValidationError

from fl.attacks.base import Vantage
from fl.attacks.threat import Threat
from fl.round.learning import Learning, refuse_unmet
from netsim.contract import BUNDLED
from netsim.fit import PartRule, read_rules
from netsim.part import CODE_NAME, FILE_NAME, OneOf, find_entry_points
from scenarios.app.study import Fields

SLOTS: dict[str, OneOf] = {
    union.slot: union
    for place in (
        "netsim.city:CITIES",
        "netsim.mobility:MOBILITIES",
        "netsim.trace_files.formats:TRACE_FORMATS",
        "netsim.radio:PATH_LOSSES",
        "netsim.radio:SIGHTS",
        "netsim.radio:SHADOWINGS",
        "netsim.radio:PENETRATIONS",
        "netsim.radio:FADINGS",
        "netsim.radio:UPLINKS",
        "netsim.radio.rate:RATES",
        "netsim.radio.schedulers:SCHEDULERS",
        "netsim.world.setting:COMPUTE_SPREADS",
        "scenarios.app.study.study:POWERS",
        "netsim.world.base_stations:LAYOUTS",
        "netsim.radio.antenna:ANTENNAS",
        "fl.data:DATA",
        "fl.data.partitions:PARTITIONS",
        "fl.availability:AVAILABILITIES",
        "fl.query:QUERIES",
        "fl.withholding:WITHHOLDINGS",
        "fl.curation:CURATIONS",
        "fl.learners:LEARNERS",
        "fl.encodings:ENCODINGS",
        "fl.priors:PRIORS",
        "fl.optimisers:OPTIMISERS",
        "fl.round.malicious:MALICIOUS",
        "fl.defenses:DEFENSES",
        "fl.aggregation:AGGREGATIONS",
        "fl.server:SERVERS",
        "fl.server_optimiser:SERVER_OPTIMISERS",
        "fl.tracking.pseudonyms:PSEUDONYMS",
        "fl.tracking.population:POPULATIONS",
        "fl.attacks:ATTACKS",
        "fl.membership:INFERENCES",
        "rl.settings:TASKS",
        "rl.settings:AGENTS",
        "rl.reward:REWARDS",
    )
    if (union := resolve_name(place))
}


def collect_all_rules() -> list[PartRule]:
    """Return all rules of fit: ours, and those of packages that bring parts."""
    brought = (entry.module.partition(".")[0] for entry in find_entry_points())
    return [rule for package in dict.fromkeys((*BUNDLED, *brought)) for rule in read_rules(package)]


Combination = dict[str, str]
Verdicts = Iterable[tuple[Combination, str]]
LEGAL = "legal"
SLOT_NAMES = ("data", "learner", "curation", "defenses", "aggregation", "attack", "threat")
_NARROWEST = 60


OPENED = "opened sums"
"""what a server sees of secure sums with a threshold"""


def judge_combinations(legal: bool = False) -> Iterator[tuple[Combination, str]]:
    """Yield every combination of one part per slot (defenses: none, one, or two in order), with
    LEGAL or the reason.

    Of data, each learner has the first kind that it can learn from; a learner that needs a file is
    left out. Every part is built and checked
    once, by itself; a combination is then only asked whether its parts fit together.

    legal : only those that are; about a tenth of the work, since no attack is tried where all are
    refused.
    """
    single = SLOTS["defense"].parts
    offers = {kind: _build_example("data", kind).offers for kind in SLOTS["data"].parts}
    needs = {
        kind: set(_build_example("learner", kind).needs)
        for kind, learner in SLOTS["learner"].parts.items()
        if not any(
            field.is_required() and {FILE_NAME, CODE_NAME} & {*field.metadata}
            for field in learner.model_fields.values()
        )
    }
    data = {
        learner: next(kind for kind, has in offers.items() if need <= has)
        for learner, need in needs.items()
    }
    chains = ["none", *single, *(f"{a} > {b}" for a, b in permutations(single, 2))]
    threats = [
        f"{viewpoint} sees {sees}"
        for sees, viewpoint in product(
            get_args(Vantage), get_args(Threat.model_fields["viewpoint"].annotation)
        )
    ]
    threats.append(f"server sees {OPENED}")
    curations = ("none", *SLOTS["curation"].parts)
    attacks = ("none", *SLOTS["attack"].parts)
    for learner, *words in product(
        data, curations, chains, SLOTS["aggregation"].parts, ("none",), threats
    ):
        combination = dict(zip(SLOT_NAMES, (data[learner], learner, *words), strict=True))
        verdict, offered = _judge_combination(combination)
        for attack in attacks:  # asked last: what is refused without one is refused with any
            judged = verdict
            if attack != "none" and offered is not None:
                judged = _judge_attack(attack, offered)
            if judged == LEGAL or not legal:
                yield combination | {"attack": attack}, judged


def build_threat_example(sees: str, viewpoint: str) -> Fields:
    """Return an example of a threat; an eavesdropper has a place, noise in shares needs sums of
    several, and others are granted what a network measures.
    """
    if sees == OPENED:
        return {"observes": "aggregate", "viewpoint": viewpoint, "secagg_threshold": 2}
    return {"observes": sees, "viewpoint": viewpoint, "operator": ["cell"]} | (
        {"position_m": [0, 0]} if viewpoint == "eavesdropper" else {}
    )


def format_matrix(width: int) -> str:
    """Return how many combinations are legal, what ever meets in a legal one, and every reason with
    its cases.
    """
    width = max(width, _NARROWEST)
    verdicts = list(judge_combinations())
    reasons = Counter(reason for _, reason in verdicts)
    lines = textwrap.wrap(
        f"{reasons.pop(LEGAL)} of {len(verdicts)} combinations are legal (one part per slot, "
        f"up to 2 defenses)",
        width,
    )
    for slot, partner in (("attack", "threat"), ("defenses", "learner")):
        lines += _tabulate_crossing(slot, partner, verdicts, width)
    lines += ["", "refused, because:"]
    for reason, number in reasons.most_common():
        lines += textwrap.wrap(f"{number:7d}  {reason}", width, subsequent_indent=" " * 9)
    return "\n".join(lines)


def _tabulate_crossing(slot: str, partner: str, verdicts: Verdicts, width: int) -> list[str]:
    meet = defaultdict[str, dict[str, None]](dict)
    for combination, reason in verdicts:
        if reason == LEGAL:
            meet[combination[slot]][combination[partner]] = None
    rows = (f"  {word}: {', '.join(words)}" for word, words in meet.items())
    wrapped = (
        line for row in rows for line in textwrap.wrap(row, width, subsequent_indent=" " * 6)
    )
    return ["", f"{slot}: {partner} that it goes with", *wrapped]


def _judge_combination(combination: Combination) -> tuple[str, set[str] | None]:
    """Return LEGAL and what attacks may need, or the first reason why parts that are each well do
    not fit together.
    """
    chain = combination["defenses"].split(" > ")
    viewpoint, sees = combination["threat"].split(" sees ")
    curation = combination["curation"]
    seen = _build_threat(sees, viewpoint)
    if isinstance(seen, str):
        return seen, None
    parts = _collect_defaults() | {
        "data": _build_example("data", combination["data"]),
        "learner": _build_example("learner", combination["learner"]),
        "curation": () if curation == "none" else (_build_example("curation", curation),),
        "defenses": tuple(_build_example("defense", kind) for kind in chain if kind != "none"),
        "aggregation": _build_example("aggregation", combination["aggregation"]),
        "threat": seen,
    }
    try:
        return LEGAL, Learning.model_construct(**parts).collect_offers()
    except ValueError as error:
        return str(error), None


def _judge_attack(attack: str, offered: set[str]) -> str:
    """Return LEGAL, or why an attack does not fit to parts that offer those words."""
    try:
        refuse_unmet("attacks[0]", _build_example("attack", attack), offered)
    except ValueError as error:
        return str(error)
    return LEGAL


@cache
def _build_threat(sees: str, viewpoint: str) -> Threat | str:
    """Return that threat, or why there is none such."""
    try:
        return Threat.model_validate_json(
            json.dumps(build_threat_example(sees, viewpoint)), strict=True
        )
    except ValidationError as error:
        return error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")


@cache
def _collect_defaults() -> Fields:
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in Learning.model_fields.items()
    } | {"round_s": 60}


@cache
def _build_example(slot: str, kind: str) -> Any:
    part = SLOTS[slot].parts[kind]
    return part.model_validate_json(json.dumps(part.example), strict=True)
