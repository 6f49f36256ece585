"""The application: scenario files, and the modules that read, run, sweep and report them.

From Python: ``from scenarios import load, open_run, run, simulate``. Names are imported when they
are first used, so that a short command pays for nothing else.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scenarios.app.result import open_run, open_sweep, open_training, run
    from scenarios.app.simulation import simulate
    from scenarios.app.study.load import load

__all__ = ["load", "open_run", "open_sweep", "open_training", "run", "simulate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'scenarios' has no attribute {name!r}")
    places = {"load": "study.load", "simulate": "simulation"}
    return resolve_name(f"scenarios.app.{places.get(name, 'result')}:{name}")
