"""Several pieces of work of one folder, played by whatever engine; failures are kept and told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from netsim.record import write_text
from scenarios.app.results.failures import Failed, write_failures
from scenarios.app.results.folder import ERROR, SUMMARY, ours
from scenarios.app.results.marker import held
from scenarios.app.run.executors.executor import Engine, played
from scenarios.app.run.executors.work import Failure, Work
from scenarios.app.study.yaml_document import one_line


def play_all(
    works: Sequence[Work], engine: Engine, jobs: int, place: Path, tell: Callable[[int, Any | Failed], None]
) -> None:
    """Play all work; what fails stays open, is written down in failures.csv of `place`, and stops nothing else.

    jobs : pieces at once; 0: as many as the engine has room for. place : the folder in which all folders lie. tell :
    told of each piece as it ends: its number, and its answer, or why it has none.
    """
    write_failures(place, [])
    failed: dict[int, Failed] = {}
    if not works:
        return
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(one_line(f"{place}: cannot be written ({error.strerror}); give --out another place")) from None
    for k, end in played(engine.executor(works, min(jobs, len(works)), place), len(works), engine.retries):
        if not isinstance(end, Failure):
            tell(k, end.value)
            continue
        _keep_error(works[k], end)
        failed[k] = _failed(works[k], end, place)
        write_failures(place, [failed[i] for i in sorted(failed)])
        tell(k, failed[k])


def _failed(work: Work, failure: Failure, place: Path) -> Failed:
    """A row of the table of failures."""
    folder = str(work.folder.relative_to(place))
    return Failed(folder, work.label, work.seed, failure.attempts, failure.kind, failure.line)


def _keep_error(work: Work, failure: Failure) -> None:
    """Write `error.txt`. What an earlier study left as a finished run goes: it is not what was asked for."""

    def admit() -> None:
        ours(work.folder, work.kind.mark, lambda _: False)

    try:
        with held(work.folder, work.kind.mark, admit):
            (work.folder / SUMMARY).unlink(missing_ok=True)
            write_text(work.folder / ERROR, failure.trace)
    except (BadInput, OSError):
        pass  # the folder is not ours, or the disk is full: the table of failures has the line all the same
