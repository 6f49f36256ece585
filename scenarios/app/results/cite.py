"""BibTeX of the methods of studies, from references.bib."""

import re
from importlib import resources
from pathlib import Path

from netsim.part import collect_nested_parts
from scenarios.app.results.folder import STUDY
from scenarios.app.study.load import load
from scenarios.app.study.slots import SLOTS

_ENTRY = re.compile(r"(@.*\n)(?:  cited = \{(.*)\},\n)?((?:  .*\n)+\}\n)")
"""head, words by which it is cited, and the rest; without words it is always cited"""

_SEED = re.compile(r"(?m)^seed:.*")


def cite(source: str) -> str:
    """Cite what a scenario, or the studies in a folder, use: a comment with the `reference` of each
    part and its slot, or the `paper` of a study, and the entries of which these have a word.
    """
    studies = {_SEED.sub("", path.read_text()): path for path in Path(source).rglob(STUDY)}
    words = set()
    for part in collect_nested_parts(*map(load, studies.values() or [source])):
        if word := part.reference or getattr(part, "paper", None):
            kind = getattr(part, "kind", "paper")
            slots = [f" ({k})" for k, union in SLOTS.items() if union.parts.get(kind) is type(part)]
            word += ": no entry; give a reference" * (word == "this paper")
            words.add(f"% {kind}{''.join(slots)}: {word}".replace("@", "(at)"))
    said = "\n".join(sorted(words))
    text = resources.files("scenarios").joinpath("references.bib").read_text("utf-8")
    entries = (
        head + rest
        for head, cited, rest in _ENTRY.findall(text)
        if any(word in said.lower() for word in cited.lower().split("; "))
    )
    return "\n".join([said, "", *entries])
