"""BibTeX of the methods of studies, from references.bib."""

import re
from importlib import resources
from pathlib import Path

from netsim.part import Part, collect_parts
from scenarios.app.results.folder import STUDY
from scenarios.app.study.load import load
from scenarios.app.study.slots import SLOTS

_ENTRY = re.compile(r"(@.*\n)(?:  cited = \{(.*)\},\n)?((?:  .*\n)+\}\n)")
"""head, words by which it is cited, and the rest; without words it is always cited"""

_UNKNOWN = ": no entry; give a reference that has one, or your own BibTeX"
_SEED = re.compile(r"(?m)^seed:.*")


def cite(source: str) -> str:
    """Cite what a scenario, or the studies in a folder, use: a comment with the `reference` of each
    part and its slot, or the `paper` of a study, and the entries of which these have a word. What
    has neither an entry nor begins with `netsim: ` asks for one.
    """
    text = resources.files("scenarios").joinpath("references.bib").read_text("utf-8")
    entries = _ENTRY.findall(text)
    files = {_SEED.sub("", path.read_text()): path for path in Path(source).rglob(STUDY)}
    parts: list[Part] = [load(path) for path in files.values() or [source]]
    comments = set()
    cited = set()
    for part in parts:
        parts += collect_parts(part)
        if said := part.reference or getattr(part, "paper", None):
            kind = getattr(part, "kind", "paper")
            slots = [f" ({k})" for k, union in SLOTS.items() if union.parts.get(kind) is type(part)]
            found = {e for e in entries if any(w in said.lower() for w in e[1].lower().split("; "))}
            is_unknown = len(found) == 1 and not said.startswith("netsim: ")
            comment = f"% {kind}{''.join(slots)}: {said}{_UNKNOWN * is_unknown}"
            comments.add(comment.replace("@", "(at)"))
            cited |= found
    listed = [head + rest for head, words, rest in entries if (head, words, rest) in cited]
    return "\n".join([*sorted(comments), "", *listed])
