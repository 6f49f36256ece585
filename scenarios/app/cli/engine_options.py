"""Options that say where many runs are played."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from netsim.errors import BadInput
from scenarios.app.run.events import RETRIES

if TYPE_CHECKING:
    from scenarios.app.run.executor import Engine


def engine_of(args: argparse.Namespace) -> Engine:
    """The engine, of --on and its options."""
    for option, given, on in (("--address", args.address is not None, "ray"), ("--slurm", args.slurm, "slurm")):
        if given and args.on != on:
            raise BadInput(f"{option}: needs --on {on}")
    if args.on == "ray":
        from scenarios.app.run.clusters import OnRay

        return OnRay(_address(args.address), args.retries)
    if args.on == "slurm":
        from scenarios.app.run.clusters import OnSlurm

        return OnSlurm(_slurm(args.slurm), args.retries)
    from scenarios.app.run.executor import OnProcesses

    return OnProcesses(args.retries)


def check_engine_needed(args: argparse.Namespace, played: bool, needs: str) -> None:
    """Refuse options of how runs are played where nothing is played; needs : what would play something."""
    given = {
        "--on": args.on != "processes", "--jobs": args.jobs is not None, "--retries": args.retries != RETRIES,
        "--records": args.records != "csv", "--memory-gb": args.memory_gb is not None,
    }  # fmt: skip
    if not played and (options := [option for option, is_given in given.items() if is_given]):
        raise BadInput(f"{', '.join(options)}: nothing is played without {needs}; add it, or leave {options[0]} out")


def jobs_of(args: argparse.Namespace, usual: int | None = None) -> int:
    """Runs at a time, of --jobs; 0: as many as the engine of --on has room for."""
    if args.jobs is not None or getattr(args, "on", "processes") != "processes":
        return int(args.jobs or 0)
    return usual or os.cpu_count() or 1


def _address(text: str | None) -> str:
    host, colon, port = (text or "").rpartition(":")
    if text is not None and text != "auto" and not (host and colon and port.isdigit()):
        raise BadInput(f"--address {text}: write auto, or HOST:PORT of the head of a Ray cluster, as 10.0.0.5:6379")
    return text or ""


_MUST = {
    bool: "true or false", str: "text that can be printed", int: "a whole number above 0 and below 1,000,000",
    float: "a number above 0 and below 1,000,000",
}  # fmt: skip


def _slurm(texts: list[str]) -> dict[str, Any]:
    """Parameters of submitit by name, checked."""
    from scenarios.app.run.clusters import OPTIONS
    from scenarios.app.study.error_messages import nearest
    from scenarios.app.study.load import parse_value

    options: dict[str, Any] = {}
    for text in texts:
        key, _, word = text.partition("=")
        if not word:
            raise BadInput(f"--slurm {text}: write KEY=VALUE, for example timeout_min=60")
        if key not in OPTIONS:
            raise BadInput(f"--slurm {text}: no such key{nearest(key, list(OPTIONS))}; there are {', '.join(OPTIONS)}")
        kind = OPTIONS[key]
        value: Any = word if kind is str else parse_value(word)
        if kind is str:
            good = word.isprintable()
        else:
            good = isinstance(value, bool) == (kind is bool) and isinstance(value, int | kind)
            good = good and (kind is bool or 0 < value < 1e6)
        if not good:
            raise BadInput(f"--slurm {key}={word!a}: must be {_MUST[kind]}")
        options[key] = kind(value)
    return options
