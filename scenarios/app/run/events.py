"""The one stream of progress: what run, sweep, training and tuning report while they work.

Work gets a `Watch` and calls it with an `Event` at each step; the terminal and `--json` are its only readers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from scenarios.app.results.failures import Failed

Name = Literal["round", "window", "run", "failed", "played", "world", "step"]
"""a round; a window of time of a radio study; a run of several; one that failed; a trial or a training of several; a
recorded world; an evaluation of a policy"""


@dataclass(frozen=True)
class Event:
    """A step of work that ended.

    done, of : steps that are done, and of how many; both count steps of one name. last : no step of this name follows.
    values : what the step found, as plain data, by the key that it has in a line of JSON. part : of the work that the
    step belongs to, in words, as `seed 3`; empty for the whole.
    """

    name: Name
    done: int
    of: int
    last: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)
    part: str = ""

    def line(self, title: str) -> dict[str, Any]:
        """The event as an object of JSON; title : of the whole work."""
        title = f"{title}, {self.part}" if self.part else title
        steps = {"event": self.name, "title": title, "done": self.done, "of": self.of}
        return {**steps, **self.values, "last": self.last}


Watch = Callable[[Event], None]
RETRIES = 2
"""attempts after the first one, unless stated"""


def ignore(event: Event) -> None:
    """The watch of work that nobody looks at."""


def failed(done: int, of: int, why: Failed) -> Event:
    """A piece of several that failed."""
    return Event("failed", done, of, done == of, asdict(why))
