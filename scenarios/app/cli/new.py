"""The command `netsim new`: a scenario file to begin with."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from scenarios.app.cli.options import Commands
from scenarios.app.cli.output import say

_ENDINGS = (".yaml", ".yml")


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("new", help="write a scenario file with comments, to begin with")
    command.add_argument("name", metavar="NAME", help="name of the scenario; the file is NAME.yaml")
    command.add_argument(
        "--from", dest="source", metavar="SCENARIO", help="copy this scenario with its comments instead"
    )


def main(args: argparse.Namespace) -> None:
    """Write the file, and say what comes next."""
    path = Path(args.name if args.name.endswith(_ENDINGS) else f"{args.name}.yaml")
    if path.name in _ENDINGS or not path.name.isprintable():
        raise BadInput(f"new {args.name!r}: give the name of a file, such as mine")
    text = _beginning(path.stem) if args.source is None else _copy(args.source)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadInput(f"{path}: exists; give another name, or move it away") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror}); give another name") from None
    say(f"{path}: written; edit it, then")
    steps = (
        (f"netsim validate {path}", "one line for each mistake, with its place in the file"),
        (f"netsim run {path}", "play it, and draw its page"),
        ("netsim list learner", "every key of a part with its unit and bounds; netsim list: all slots"),
    )
    wide = max(len(command) for command, _ in steps)
    for command, what in steps:
        say(f"  {command:<{wide}}  {what}")


def _beginning(name: str) -> str:
    """A small study that runs as it is, each key with its meaning."""
    from scenarios.app.study.template import template

    values = {"title": f"{name} - ten people map the signal of a small town for two weeks", **BEGINNING}
    heading = [
        "A scenario of netsim. Keys that are left out keep their defaults; netsim list SLOT shows all keys of a part,",
        "netsim list all slots. To have the lines with a defense, take away the `# ` before them.",
    ]
    return "".join(f"# {line}\n" for line in heading) + "\n" + template(values, left_out=("defenses",))


def _copy(source: str) -> str:
    """The text of a scenario; names of files in it lead to the same files from anywhere."""
    from scenarios.app.study.file_fields import file_fields
    from scenarios.app.study.load import find
    from scenarios.app.study.study import Study
    from scenarios.app.study.yaml_document import file_text, read

    path = find(source)
    document, lines = read(path), file_text(path).splitlines()
    for place in file_fields(Study, document.data):
        value: Any = document.data
        for step in place:
            value = value[step]
        if not value.startswith(("$", "/")):
            at = document.line(place) - 1
            lines[at] = lines[at].replace(value, str((path.parent / value).resolve()))
    return "\n".join(lines) + "\n"


BEGINNING: dict[str, Any] = {
    "seed": 1,
    "world": {
        "duration_s": 1_209_600,
        "tick_s": 900,
        "city": {"kind": "town", "width_m": 900, "height_m": 800},
        "base_stations": {"kind": "hexagonal", "inter_site_m": 500, "sectors": 3, "rings": 1},
        "ues": {"count": 10, "mobility": {"kind": "resident"}, "measure_every_s": 900},
        "radio": {
            "carrier_hz": 3.5e9,
            "path_loss": {"kind": "uma"},
            "measurement_noise_db": 2.5,
            "uplink": {"kind": "ideal"},
        },
    },
    "learning": {
        "round_s": 86_400,
        "data": {"kind": "measured", "cell": "strongest", "hold_out": 0.2},
        "learner": {
            "kind": "rsrp-net",
            "profile": "useful",
            "public_rsrp_mean_dbm": -95,
            "public_rsrp_std_db": 15,
        },
        "server_optimiser": {"kind": "fedavgm", "learning_rate": 3, "momentum": 0.7},
        "attacks": [{"kind": "span", "rank": 4}],
        "defenses": [{"kind": "clip", "norm": 0.3}, {"kind": "gaussian", "noise_multiplier": 0.02}],
    },
}
"""a small town, one attack; the defense is written as a comment"""
