"""Where results go that nobody has named a folder for: what was changed in the scenario stands in the name.

The same command has the same folder, in which it goes on or plays again; a scenario as written has `runs/NAME/SEED`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scenarios.app.study.describe import flow
from scenarios.app.study.study import Study

_LONGEST = 60  # characters of what was changed
_SAFE = re.compile(r"-?[A-Za-z0-9][A-Za-z0-9.+-]{0,29}")
_TABLE = re.compile(r"\.csv(\.gz)?", re.IGNORECASE)


def run_folder(name: str, study: Study, changes: Mapping[str, Any]) -> Path:
    """Of a run of the scenario `name`; changes: dotted path -> value, the seed among them or not."""
    return Path("runs") / name / f"{study.seed}{suffix(study, changes)}"


def sweep_folder(name: str, study: Study, changes: Mapping[str, Any]) -> Path:
    """Of a sweep of the scenario `name`."""
    return Path("runs") / f"{name}-sweep{suffix(study, changes, seed=True)}"


def tuning_folder(name: str, study: Study, changes: Mapping[str, Any]) -> Path:
    """Of a tuning of the scenario `name`."""
    return Path("runs") / f"{name}-tune{suffix(study, changes, seed=True)}"


def replay_folder(
    trace: str, study: Study, shown: Mapping[str, Any], options: Mapping[str, Any], changes: Mapping[str, Any]
) -> Path:
    """Of a replay; shown: options whose values say enough by themselves, as the cell; options: others that are given.

    A trace that lies elsewhere, or whose name is not shown whole, is told from others by a digest of its path.
    """
    path = Path(trace)
    stem = _TABLE.sub("", path.name)
    here = path.resolve().parent == Path.cwd().resolve()
    words = [stem if _SAFE.fullmatch(stem) and here else f"{_slug(stem, 40)}-{_digest(str(path.resolve()))}"]
    words += [f"{value}" if _SAFE.fullmatch(f"{value}") else _digest(value) for value in shown.values()]
    return Path("runs") / "replay" / f"{'-'.join(words)}{suffix(study, {**options, **changes}, seed=True)}"


def training_folder(name: str, study: Study, seeds: Sequence[int], changes: Mapping[str, Any]) -> Path:
    """Of a training on the scenario `name`, with seeds of its own."""
    seed = {} if list(seeds) == [0] else {"seed": "+".join(map(str, seeds))}
    return Path("runs") / "train" / f"{name}{suffix(study, {**changes, **seed}, seed=True)}"


def suffix(study: Study, changes: Mapping[str, Any], seed: bool = False) -> str:
    """What is changed, as `-uplink-ideal-rounds-3`, in the order of names; a digest where that does not say all.

    It does not where a value is no plain word or number, where another key of the study has the same last name, and
    where the text is too long. Empty where nothing is changed; the seed counts only if asked.
    """
    texts = {path: _text(value) for path, value in sorted(changes.items()) if seed or path != "seed"}
    if not texts:
        return ""
    values = study.model_dump(mode="json", exclude={"vary"})
    names = Counter(_short(path) for path in _paths(values) if not path.endswith(".kind"))  # it has its slot's name
    text = "-".join(f"{_short(path)}-{value}" for path, value in texts.items())
    clear = len(text) <= _LONGEST and all(
        names[_short(path)] <= 1 and _SAFE.fullmatch(value) and names.keys().isdisjoint(value.split("-")[1:])
        for path, value in texts.items()
    )
    return f"-{text}" if clear else f"-{_slug(text, _LONGEST - 20)}-{_digest(texts)}"


def _text(value: Any) -> str:
    """A value as the command line has it; `none` for an empty list."""
    return value if isinstance(value, str) else "none" if value in ([], {}) else flow(value)


def _short(path: str) -> str:
    """The last name of a dotted path; of a part's `kind` the name of its slot."""
    *before, last = path.split(".")
    return re.sub(r"\W+", "", before[-1] if last == "kind" and before else last)


def _paths(value: Any, path: str = "") -> Iterator[str]:
    """Dotted paths of all values of a study, as --set writes them."""
    if path:
        yield path
    inner = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, one in inner:
        yield from _paths(one, f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}".lstrip("."))


def _slug(text: str, longest: int) -> str:
    """A text as part of the name of a folder."""
    return re.sub(r"([^A-Za-z0-9.+]|\.\.)+", "-", text).strip("-.+")[:longest].rstrip("-.") or "x"


def _digest(of: Any) -> str:
    return hashlib.sha256(repr(of).encode()).hexdigest()[:8]
