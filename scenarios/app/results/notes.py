"""What a reader of results must know of how they were made."""

from __future__ import annotations

from scenarios.app.study.study import Study


def hold_out_notes(study: Study) -> tuple[str, ...]:
    """What a person should know of how the rows of a trace are used."""
    share = 0.0 if study.learning is None else getattr(study.learning.data, "hold_out", 0.0)
    if not share:
        return ()
    return (
        f"hold-out: {100 * share:g} % of the rows score the map and train nothing; the seed draws which, so seeds "
        "learn from different rows and their figures spread: compare several",
    )
