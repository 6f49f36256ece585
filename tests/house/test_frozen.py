"""What version 0.7.0 could do is still there, or was dropped for a stated reason."""

from fnmatch import fnmatch
from pathlib import Path

import frozen

DROPPED = Path(frozen.__file__).with_name("dropped.txt")


def test_what_is_missing_was_dropped_for_a_reason():
    missing = frozen.missing(frozen.KEPT.read_text().splitlines(), frozen.offered())
    patterns = [line.partition(" | ")[0] for line in DROPPED.read_text().splitlines()]
    assert [
        line for line in missing if not any(fnmatch(line, pattern) for pattern in patterns)
    ] == []
    assert [
        pattern for pattern in patterns if not any(fnmatch(line, pattern) for line in missing)
    ] == []
