"""The answer at a glance: how good the model is, what leaks, and what protects, a sentence each."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import attacks
from scenarios.app.results.location_text import location_text, positions_text
from scenarios.app.results.membership_text import membership_text
from scenarios.app.results.model_text import classifies, is_density, model_text
from scenarios.app.results.named_text import best_densest_text, most_named, named_text, without_home_text
from scenarios.app.results.privacy_text import Account, privacy_text
from scenarios.app.results.run import part
from scenarios.app.results.statistics import counted


def glance(
    summary: Mapping[str, Any], account: Account, study: Mapping[str, Any], command: str
) -> list[tuple[str, str]]:
    """What is asked, and the answer; command: the one that played the run, by which a sweep is suggested."""
    model = "The model" if classifies(summary) or is_density(summary) else "The map"
    return [
        (model, sentence(model_text(summary))),
        ("What leaks", leak_text(summary, study)),
        ("What protects", protection_text(summary, account, study, command)),
    ]


def leak_text(summary: Mapping[str, Any], study: Mapping[str, Any]) -> str:
    """What the attacker knows at the end, of the attack that knows most, beside chance."""
    who = sentence(attacker(study)).rstrip(".")
    name = most_named(summary)
    if name:
        if not any(summary.get(key.of(name)) for key in (keys.HOME_NAMED_PERCENT, keys.WORK_NAMED_PERCENT)):
            return _unnamed(summary, who, name)
        return sentence(f"{who} learns, by the attack {name}: {named_text(summary, name)}")
    found = location_text(summary) or membership_text(summary)
    if found:
        also = (positions_text(summary), best_densest_text(summary), without_home_text(summary))
        return " ".join(sentence(text) for text in (f"{who} learns, by the attack {found}", *also) if text)
    return (
        "No attack was run, so nothing is known of what leaks." if not attacks(summary) else "No attack found anything."
    )


def _unnamed(summary: Mapping[str, Any], who: str, name: str) -> str:
    """That no attack names a home or workplace, and what else of places is found."""
    found = location_text(summary)
    none = f"{who} learns no home or workplace (attack {name}: {named_text(summary, name)})"
    return " ".join(
        [sentence(none), *([sentence(f"mean positions of a round, by the attack {found}")] if found else [])]
    )


def attacker(study: Mapping[str, Any]) -> str:
    """Who attacks."""
    viewpoint = str(part(study, "learning", "threat").get("viewpoint"))
    return {"server": "the server", "eavesdropper": "an eavesdropper"}.get(viewpoint, "the attacker")


def protection_text(summary: Mapping[str, Any], account: Account, study: Mapping[str, Any], command: str) -> str:
    """What the study hides and how, what it spends, and the command that compares what its scenario suggests."""
    learning = part(study, "learning")
    steps = [p for k in ("withholding", "curation", "defenses") for p in learning.get(k) or ()]
    hidden = [str(p.get("kind")) for p in steps if isinstance(p, dict)]
    threat = part(learning, "threat")
    if threat.get("sees") == "sum":
        hidden.append(f"sums of {threat['sum_of']} updates" if threat.get("sum_of") else "one sum of all updates")
    if threat.get("sees") == "model":
        hidden.append("updates are not seen, only the published model")
    does = (
        f"{', '.join(hidden)}; {privacy_text(summary, account)}" if hidden else "nothing: updates are sent as they are"
    )
    if summary.get(keys.ROUNDS_STOPPED.of()):
        does += "; training stopped at the privacy budget"
    return f"{sentence(does)}{_more(study, command)}"


def _more(study: Mapping[str, Any], command: str) -> str:
    """How to find what helps: the sweep of the scenario, where it has one."""
    variants = part(study, "vary").get("variants")
    words = shlex.split(command) if command else []
    if not isinstance(variants, list) or len(variants) < 2 or words[:2] != ["netsim", "run"] or len(words) < 3:
        return ""
    return (
        f" To see what would help: netsim sweep {shlex.quote(words[2])} compares {counted(len(variants), 'setting')}."
    )


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
