"""Notices: what a person should know of a scenario before it is played, or of its results.

Each package has a catalogue of its own, `notices.toml`: key, severity, sentence and remedy. A
plug-in makes `Notice`.
"""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

Severity = Literal["void", "doubt", "note"]
SEVERITIES = get_args(Severity)
"""figures mean nothing; figures may mislead; good to know"""


@dataclass(frozen=True)
class Notice:
    """A sentence about a scenario or a run.

    key : its name, never renamed. says, remedy : what is so, and what helps against it; a remedy
    may be empty. place : dotted key of the scenario, or the label of the part that it is about;
    empty for the whole.
    """

    key: str
    severity: Severity
    says: str
    remedy: str = ""
    place: str = ""

    @property
    def line(self) -> str:
        """Sentence and remedy."""
        return "; ".join(filter(None, (self.says, self.remedy)))

    @property
    def text(self) -> str:
        """The line for a terminal, with a word for its severity."""
        return f"{'note' if self.severity == 'note' else 'warning'}: {self.line}"


Notices = Iterator[Notice]
"""Notices as a part makes them."""


def sort_by_severity(notices: Iterable[Notice]) -> list[Notice]:
    """Each notice once: void, doubt, note; within a severity in the order of making."""
    return sorted(dict.fromkeys(notices), key=lambda notice: SEVERITIES.index(notice.severity))


def list_doubts(notices: Iterable[Notice]) -> list[str]:
    """Lines of those by which figures may mislead."""
    return [notice.line for notice in notices if notice.severity == "doubt"]


class Catalogue:
    """The notices that a package can give: `notices.toml` beside one of its modules.

    A call fills the words in braces of a sentence and its remedy; `place` is one of them. KeyError:
    no such notice, or a value is missing.
    """

    def __init__(self, module: str) -> None:
        self.file = Path(module).with_name("notices.toml")

    @cached_property
    def entries(self) -> dict[str, dict[str, str]]:
        """Key -> severity, says, remedy."""
        return tomllib.loads(self.file.read_text(encoding="utf-8"))

    def __call__(self, key: str, /, place: str = "", **values: object) -> Notice:
        texts = {
            name: text.format(place=place, **values) for name, text in self.entries[key].items()
        }
        return Notice(key, **{"place": place} | texts)  # type: ignore[arg-type]


notice = Catalogue(__file__)


@dataclass(frozen=True)
class Built:
    """What parts of a world can say something about: names of its base stations, and the height of
    the highest floor with UEs, m; None: no UE is in a building; number of buildings.
    """

    stations: tuple[str, ...]
    floor_m: float | None
    n_buildings: int = 0
