"""A key of a summary."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

NAME = "NAME"
"""stands for a part of the study in a pattern of keys"""


@dataclass(frozen=True)
class Key:
    """A key of a summary, or a pattern of keys in which NAME stands for a part of the study.

    places : whether it says nothing where samples have no place.
    """

    pattern: str
    unit: str
    meaning: str
    places: bool = False

    def of(self, name: str = "") -> str:
        """The key itself, of the part `name` if it is a pattern. Raises ValueError for a name too many or missing."""
        if bool(name) != self.named:
            raise ValueError(f"{self.pattern}: {'needs' if self.named else 'takes no'} name")
        return self.pattern.replace(NAME, name)

    def name_in(self, key: str) -> str | None:
        """NAME in a key of this pattern (empty for a single key); None for a key of another one."""
        if not self.named:
            return "" if key == self.pattern else None
        return _name_in(self, key) if key.startswith(f"{self.group}.") else None

    @cached_property
    def named(self) -> bool:
        """Whether it is a pattern."""
        return NAME in self.pattern.split(".")

    @cached_property
    def group(self) -> str:
        """What stands before NAME; empty for a single key."""
        return self.pattern.partition(f".{NAME}")[0] if self.named else ""

    @property
    def rest(self) -> str:
        """What stands after NAME; the whole key where there is none."""
        return self.pattern.partition(f"{NAME}.")[2] if self.named else self.pattern

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """Matches the keys of a pattern."""
        name = r"(.+\..+)" if self.group == "metric" else r"([^.]+)"  # PART.METRIC
        return re.compile(re.escape(self.pattern).replace(NAME, name))


@lru_cache(maxsize=65_536)
def _name_in(pattern: Key, key: str) -> str | None:
    """NAME in a key; the summaries of many runs have the same keys."""
    match = pattern.regex.fullmatch(key)
    return match[1] if match else None
