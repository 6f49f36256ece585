"""Commands that play nothing: `create_from_options`, `validate_from_options`, `list`,
`print_schema`, `print_epsilons`, `inspect_from_options`.
"""

from __future__ import annotations

import json
import keyword
import math
import re
import shutil
import textwrap
import tomllib
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from netsim.errors import BadInput, suggest_nearest, to_one_line
from netsim.notice import sort_by_severity
from netsim.safe import describe_file_kind
from scenarios.app.cli.options import WIDTH, collect_overrides, format_text_table, say
from scenarios.app.results.statistics import MEANINGFUL
from scenarios.app.study import Fields
from scenarios.app.study.load import (
    Scenario,
    find_file_places,
    find_scenario,
    list_bundled,
    read_title,
)
from scenarios.app.study.notice import find_delta_notices, notice
from scenarios.app.study.yaml_document import (
    dump_yaml,
    parse_document,
    read_document,
    read_file_text,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

PACKAGES = Path(__file__).with_name("packages.toml")
NEXT_PACKAGE = """\
{0}: written; edit {1}.py, then in that folder
  python -m pip install --no-deps --no-build-isolation -e .
  netsim {3} scenario.yaml   play the {2}
  python -m pytest           test it"""
STUDIES = Path(__file__).with_name("studies.toml")
PARTS = """\
Times are CPU time of one core, roughly. Files are data in the folder that
NETSIM_DATA names; docs/reference/references.md says where they come from.
`netsim list NAME`: a study, a folder of studies, a slot, or a kind of part.

Slots of a scenario, and the kinds of part of each"""
BEGINNING = Path(__file__).with_name("beginning.yaml")
NEXT = """\
{0}: written; edit it, then
  netsim validate {0}  one line per mistake, with its place in the file
  netsim run {0}       play it, and draw its page
  netsim list learner  every key of a part with its unit and bounds"""


def create_from_options(args: Namespace) -> None:
    """Write a scenario file or a package to begin with, and print what comes next."""
    if (
        args.package is not None
        or args.like
        or args.name in ("attack", "defense", "learner", "reward")
    ):
        _write_package(args.name, args.package or "", args.source, args.like)
        return
    path = Path(args.name if args.name.endswith((".yaml", ".yml")) else f"{args.name}.yaml")
    if path.name in (".yaml", ".yml") or not path.name.isprintable():
        raise BadInput(f"new {args.name!r}: give the name of a file, such as mine")
    if args.source:
        text = _copy_scenario(args.source)
    else:
        text = BEGINNING.read_text(encoding="utf-8").replace("NAME -", f"{path.stem} -", 1)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadInput(f"{path}: exists; give another name, or move it away") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror}); give another name") from None
    say(NEXT.format(path))


def _write_package(slot: str, name: str, source: str | None, like: str | None) -> None:
    """Write the folder of a package with a part: the files of packages.toml."""
    from scenarios.app.study.slots import SLOTS

    # never the name of the folder: where that was made, Python would take the folder for the module
    module = name.replace("-", "_") if "-" in name else f"{name}_part"
    text = PACKAGES.read_text("utf-8").replace("NAME", name).replace("MODULE", module)
    text = text.replace("CLASS", name.title().replace("-", "")).replace("SLOT", slot)
    templates = tomllib.loads(text)
    slots = templates["own"] | templates["like"]
    if slot not in slots or source:
        raise BadInput(
            f"new {slot}: a package has a part of a slot, without --from; slots here: "
            f"{', '.join(slots)}; others: docs/extending.md"
        )
    problem = ""
    if not name:
        problem = f"give a name for the package: netsim new {slot} NAME"
    elif not re.fullmatch(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", name) or keyword.iskeyword(name):
        problem = (
            "a name has 1 to 40 small letters, digits and dashes, a letter first, and is no "
            "Python word; give another"
        )
    elif describe_file_kind(Path(name)):
        problem = "a file or folder of this name exists here; give another"
    elif name in SLOTS[slot].parts or find_spec(name):
        problem = "a kind or a module has this name; give another"
    if problem:
        raise BadInput(f"new {slot} {name}: {problem}, such as my-{slot}".replace(" :", ":"))
    files = templates["own"].get(slot)
    if like or not files:
        files = _derive_files(templates, slot, name, like)
    try:
        Path(name).mkdir()
        for file, content in (templates["both"] | files).items():
            Path(name, file).write_text(content, encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"{name}: cannot be written ({error.strerror}); give another name, or move it away"
        ) from None
    say(NEXT_PACKAGE.format(name, module, slot, "train" if slot == "reward" else "run"))


def _derive_files(templates: Fields, slot: str, name: str, like: str | None) -> dict[str, str]:
    """Return the files of a part that derives from the bundled kind `like`, by their names."""
    from scenarios.app.study.slots import SLOTS

    rows = {kind: row for row in templates["like"].get(slot, ()) for kind in row["kinds"]}
    kind = like or next(iter(rows))
    if kind not in rows:
        raise BadInput(
            f"new {slot} {name} --like {kind}: no such kind, or one without a template; "
            f"kinds here: {', '.join(rows)}"
        )
    part = SLOTS[slot].parts[kind]
    keys = json.dumps({**part.example, "kind": name})[1:-1]
    changes = json.loads(json.dumps(rows[kind]["set"]).replace('"PART": 0', keys))
    scenario = Scenario(parse_document(dump_yaml(templates["scene"])), changes)
    words = {
        "KIND": kind,
        "HOME": part.__module__,
        "PARENT": part.__name__,
        "BODY": templates["body"][slot],
        "SCENARIO": dump_yaml(scenario.document.data),
    }
    return {
        file: Template(content).substitute(words) for file, content in templates["derived"].items()
    }


def _copy_scenario(source: str) -> str:
    """Return the text of a scenario; names of files in it lead to the same files from anywhere."""
    path = find_scenario(source)
    document = read_document(path)
    lines = read_file_text(path).splitlines()
    for place in find_file_places(document.data):
        value = document.get_value(place)
        if not value.startswith(("$", "/")):
            index = document.find_line(place) - 1
            lines[index] = lines[index].replace(value, str((path.parent / value).resolve()))
    return "\n".join(lines) + "\n"


def validate_from_options(args: Namespace) -> None:
    """Check the scenario, and every point of its sweep."""
    from scenarios.app.run.setup import check_study
    from scenarios.app.run.sweep import check_prepared, resolve_points

    scenario = Scenario.from_source(args.scenario, collect_overrides(args))
    study = scenario.study
    points = resolve_points(scenario) if study.vary is not None else []
    with scenario.locate_errors():
        notices = check_study(study, args.all)
        if study.train is not None and study.train.task.kind == "online":
            from scenarios.app.training.environments import get_online_task
            from scenarios.app.training.train import check_admitted

            check_admitted(study, get_online_task(study))
    notices = (*notices, *check_prepared(scenario, points, args.all))
    runs = ""
    if len(points) > 1:
        runs = f"; a sweep of it has {len(points):,} runs"
    say(f"{args.scenario}: valid ({to_one_line(study.title)}){runs}")
    for warning in sort_by_severity(notices):
        say(warning.text)


def print_schema(args: Namespace) -> None:
    """Print the JSON schema of scenario files."""
    from scenarios.app.study.describe import build_json_schema
    from scenarios.app.study.study import Study

    say(json.dumps(build_json_schema(Study), indent=1))


def print_parts(args: Namespace) -> None:
    """Print studies and slots, those of a name, parts of a slot or kind, rules of fit, one of them,
    or the matrix.
    """
    from rl.settings import Train
    from scenarios.app.cli.commands import START
    from scenarios.app.study.describe import (
        describe_keys,
        read_part_title,
        walk_sections,
    )
    from scenarios.app.study.slots import SLOTS, collect_all_rules, format_matrix
    from scenarios.app.study.study import Study

    asked = args.slot

    for one_of in SLOTS.values():
        one_of.check()
    if args.matrix:
        say(format_matrix(shutil.get_terminal_size((100, 24)).columns))
        return
    if of_fit := [rule for rule in collect_all_rules() if asked in ("rules", rule.key)]:
        say("\n".join(_wrap_text(f"{rule.key}: {rule.pattern}", 4) for rule in of_fit))
        return
    if asked is None:
        slots = [
            _wrap_text(f"{name:17} {', '.join(slot.parts)}", 20) for name, slot in SLOTS.items()
        ]
        say("\n".join([START, *_list_studies(), f"\n{PARTS}", *slots]))
        return
    names = [(slot, kind) for slot, one_of in SLOTS.items() for kind in one_of.parts]
    entries: list[tuple[str, type[BaseModel]]] = [
        (f"{slot} {kind}", SLOTS[slot].parts[kind]) for slot, kind in names if asked in (slot, kind)
    ]
    studies = _list_studies(asked)
    if asked == "train":
        entries = [("train (see also: netsim list power-task, power-agent, reward)", Train)]
    if not entries and not studies:  # a section of a scenario, or a key of one
        parts = [(path or "top level", part) for path, part in walk_sections(Study, "")]
        entries = [(path, part) for path, part in parts if f".{path}".endswith(f".{asked}")]
        entries = entries or [(path, part) for path, part in parts if asked in part.model_fields]
    if not entries and not studies:
        near = suggest_nearest(
            asked, [*SLOTS, *dict.fromkeys(kind for _, kind in names), *list_bundled()], 3
        )
        raise BadInput(
            f"list: no slot, kind, study, section or key {asked!r}{near}; slots are: "
            f"{', '.join(SLOTS)}"
        )
    say("\n".join(studies[1:]), end="\n\n" if studies and entries else "\n" * bool(studies))
    for name, part in entries:
        say("\n".join(textwrap.wrap(f"{name}: {read_part_title(part)}", WIDTH)))
        say(
            format_text_table(
                ("", ""), [(f"  {key}", text) for key, text in describe_keys(part)], left=2
            )
            + "\n"
        )


def _list_studies(folder: str = "") -> list[str]:
    """Return lines on bundled studies in their groups, or on those of a name or folder: run times,
    files of data, title.

    Of all studies the title ends at its first dash.
    """
    from scenarios.app.report.plot import render_template

    files = list_bundled()
    text = render_template(
        "studies.txt",
        groups=tomllib.loads(STUDIES.read_text(encoding="utf-8"))["group"],
        folder=folder,
        read_title=lambda name: read_title(files[name]),
        wrap=_wrap_text,
    )
    return str(text)[1:].splitlines()


def _wrap_text(text: str, indent: int) -> str:
    """Return a text at 80 columns; what goes on is indented."""
    return textwrap.fill(text, 80, subsequent_indent=" " * indent, break_on_hyphens=False)


ASSUMED = """\
Noise multiplier: noise std / sensitivity; the sensitivity is the clip norm (add-remove; zero-out
where UEs draw the noise) or twice the clip norm (replace). Epsilon covers all data of one user. A
sampling rate below 1 needs secret random sampling and add-remove; several models or phases per
round are draws (--draws), not rounds."""


def print_epsilons(args: Namespace) -> None:
    """Print a table of epsilons, and what each accountant does."""
    from fl.privacy.compose import RoundKinds, compose_rounds

    if (args.noise_multiplier is None) == (args.target_epsilon is None):
        raise BadInput("epsilon: give either --noise-multiplier or --target-epsilon, and not both")
    if args.target_epsilon is None:
        cases = [(z, n) for z in args.noise_multiplier for n in args.rounds]
    else:
        cases = [(_find_least_multiplier(args, n), n) for n in args.rounds]
    rate = args.sampling_rate
    draws = args.draws
    # draws of a round that share one coin are one Gaussian of 1 / z^2 times their number
    statements = [
        compose_rounds(RoundKinds.from_rounds([(z / math.sqrt(draws), rate, n)]), args.delta)
        for z, n in cases
    ]
    last = "exact" if rate == 1 else "PLD"
    rows = []
    for (z, n), c in zip(cases, statements, strict=True):
        exact = _format_epsilon(c.best.epsilon) if c.best.accountant == last else "-"
        rows.append(
            [
                f"{z:.7g}",
                str(n),
                *(_format_epsilon(f.epsilon) for f in (c.naive, c.zcdp, c.rdp)),
                exact,
            ]
        )
    coin = ""
    if draws > 1:
        coin = f", {draws} draws of noise per round on one coin"
    say(f"epsilon of one user at delta {args.delta:g}, sampling rate {rate:g}{coin}")
    say(
        format_text_table(
            ["noise multiplier", "rounds", "naive", "zCDP", "RDP", last], rows, left=0
        )
    )
    words = {f.accountant: f.words for c in statements for f in c.figures}
    best = " or ".join(dict.fromkeys(c.best.accountant for c in statements))
    say(
        format_text_table(
            ["accountant", f"law (all are upper bounds; state {best})"], list(words.items()), left=2
        )
    )
    say(ASSUMED)
    largest = max(c.best.epsilon for c in statements)
    notices = [notice("epsilon-too-large", most=MEANINGFUL)] if largest > MEANINGFUL else []
    for warning in (*notices, *find_delta_notices("--delta", args.delta, args.people or 0, "user")):
        say(warning.text)


def _find_least_multiplier(args: Namespace, rounds: int) -> float:
    """Return the smallest multiplier, rounded up to the digits that are known."""
    from fl.privacy.compose import find_noise_multiplier

    target = args.target_epsilon
    delta = args.delta
    q = args.sampling_rate
    case = (
        f"--target-epsilon {target:g} with {rounds} rounds at delta {delta:g} and sampling "
        f"rate {q:g}"
    )
    try:
        z = find_noise_multiplier(target, delta, rounds, q) * math.sqrt(args.draws)
    except ValueError as error:
        raise BadInput(f"{case}: {error}") from None
    if z == 0:
        raise BadInput(
            f"{case}: holds without noise, since a user takes part at all with less than delta"
        )
    if not 1e-100 < z < 1e100:
        raise BadInput(f"{case}: out of reach of floating point (noise multiplier {z:g})")
    unit = 10.0 ** (math.floor(math.log10(z)) - (6 if q == 1 else 4))
    return math.ceil(z / unit) * unit


def _format_epsilon(epsilon: float) -> str:
    from fl.privacy.compose import NO_DIGITS

    if not epsilon <= NO_DIGITS:
        return f"> {NO_DIGITS:.0f}"
    if epsilon >= 1:
        return f"{epsilon:.3f}"
    return f"{epsilon:.3g}"


def inspect_from_options(args: Namespace) -> None:
    """Print what the trace holds."""
    from netsim.trace_files.inspect import inspect_trace

    if args.trace.endswith((".yaml", ".yml")) or (
        not describe_file_kind(args.trace) and args.trace in list_bundled()
    ):
        raise BadInput(
            f"{args.trace}: a scenario, and no trace; `netsim validate` checks it, "
            f"`netsim run` plays it"
        )
    reading = {
        k: v
        for k in ("format", "crs", "timezone", "survey", "columns", "dates")
        if (v := getattr(args, k))
    }
    say(inspect_trace(args.trace, **reading))
