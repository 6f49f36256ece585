"""Rows of suites, each a variant of a sweep: read, fitted to a suite, and played against attackers
that are tuned to them.
"""

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pandas

from fl.curation import CURATIONS
from fl.defenses import DEFENSES
from fl.withholding import WITHHOLDINGS
from netsim import __version__
from netsim.compiled import compute_code_digest
from netsim.errors import BadInput, RunsFailed
from netsim.part import add_plugin_file, describe_plugin_line
from netsim.units import TextPair
from scenarios.app.results.assessment import FIGURES
from scenarios.app.results.folder import ERROR, RUNS, refuse_failures
from scenarios.app.results.goals import parse_aims
from scenarios.app.results.read import get_section, list_finished_runs, open_finished_run
from scenarios.app.results.shown import describe_accounts
from scenarios.app.run.adapt import ATTACKS_KEY, UNUSED, play_adapted_sweep
from scenarios.app.run.sweep import Sweep, resolve_points
from scenarios.app.study import Record, Value
from scenarios.app.study.load import Scenario, list_bundled, parse_value
from scenarios.app.study.yaml_document import read_file_text

PLACE = "place"
"""folder of the runs that hold ground out too, and only score the map"""
UNATTACKED = {ATTACKS_KEY: [], **UNUSED, "learning.data.hold_out_by": ["day", "block"]}
BROUGHT = (
    "participation sampling cohort_rounds privacy_budget availability request_policy withholding "
    "curation defenses aggregation threat"
)
"""keys of `learning` that a scenario brings as a defense"""
_SLOTS = {
    "learning.defenses": DEFENSES,
    "learning.curation": CURATIONS,
    "learning.withholding": WITHHOLDINGS,
}
_UNSAID = r"[{}\[\]]|kind: |^[^{]*/|\.yaml$"
"""what a label leaves out of a text"""
_DOUBT = "what its server half takes out of a sum, the server may take out of an update"


def parse_defense(text: str) -> tuple[Record, str]:
    """Parse FILE.py[:CLASS], a scenario, a kind, or parts with settings, before a study is read:
    a variant, and a digest of the file of its plug-in, empty without one.
    """
    changes = dict[str, list[Value]]()
    digest = ""
    if file := re.fullmatch(r"(.+\.py):?(\w*)", text):
        text, digest = _install_plugin(Path(file[1]), file[2])
    if text.endswith(".yaml") or text in list_bundled():
        learning = get_section(Scenario.from_source(text).document.data, "learning")
        changes = {f"learning.{key}": learning[key] for key in BROUGHT.split() if key in learning}
    else:
        value = parse_value(text, "assess")
        for item in value if isinstance(value, list) else [value]:
            part = item if isinstance(item, dict) else {"kind": item}
            slots = [key for key, slot in _SLOTS.items() if part.get("kind") in slot.parts]
            changes.setdefault("".join(slots), []).append(part)
    if "" in changes or not changes:
        raise BadInput(
            f"assess {text}: brings no defense; it is neither FILE.py, kinds of defense, curation "
            f"or withholding, nor a scenario whose learning has one of {BROUGHT}"
        )
    return {"label": re.sub(_UNSAID, "", text), "set": changes}, digest


def _install_plugin(file: Path, wanted: str) -> TextPair:
    """Make the class of a file a plug-in; returns its kind, and a digest of the file.

    wanted : its name; empty: the only one that derives from a base class of a slot.
    """
    word = wanted or r"\w+"
    pattern = rf"(?m)^class ({word})\((Defense|Curation|Withholding)\):"
    classes = re.findall(pattern, read_file_text(file))
    if len(classes) != 1 or not file.stem.isidentifier():
        raise BadInput(
            f"{file}: needs a name as my_defense.py, and one class of a Defense, a Curation or a "
            f"Withholding, not {len(classes)}; give FILE.py:CLASS where it has more"
        )
    ((name, base),) = classes
    return add_plugin_file(base.lower(), file, name), compute_code_digest(file.stem)[:8]


def list_rows(suite: Scenario) -> list[Record]:
    """List the rows that a suite has of its own. BadInput: it is no suite."""
    vary = get_section(suite.text.data, "vary")
    if not vary.get("variants") or not vary.get("seed"):
        raise BadInput(
            f"{suite.text.path}: a suite needs vary.seed, and vary.variants, one labelled nothing"
        )
    return [{"label": "", "set": {}, **variant} for variant in vary["variants"]]


def fit_row(suite: Scenario, row: Record, more: Record = MappingProxyType({})) -> Scenario:
    """Return the suite with this row alone, with more changes, and those of its attacks that fit.
    BadInput: the row does not fit.
    """
    changes = {**row["set"], **more}
    written = get_section(suite.text.data, "learning").get("attacks", ())
    attacks = []
    for attack in changes.get(ATTACKS_KEY, written) or ():
        with suppress(BadInput):
            suite.with_changes({**changes, ATTACKS_KEY: [attack]}).study  # noqa: B018 - checks it
            attacks.append(attack)
    variant = {**row, "set": {**changes, ATTACKS_KEY: attacks}}
    return suite.with_changes({"vary": {**suite.text.data["vary"], "variants": [variant]}})


def play_row(suite: str, row: Record, evaluations: int, sweep: Sweep) -> pandas.DataFrame:
    """Play a row of a suite; returns its runs. sweep : of the suite, with the folder of the row.

    Raises
    ------
    BadInput : the row does not fit the suite.
    RunsFailed : with the first error, and the line of a plug-in that it passed.
    """
    out = sweep.out
    scored = fit_row(sweep.scenario, row, UNATTACKED)
    study = resolve_points(scored)[0][1]
    attacked = replace(sweep, scenario=fit_row(sweep.scenario, row))
    try:
        play_adapted_sweep(evaluations, attacked, parse_aims("homes"), at_most=True)
        replace(sweep, scenario=scored, out=out / PLACE).play()
        refuse_failures(out, out / PLACE)
    except RunsFailed as error:
        trace = "\n".join(path.read_text("utf-8") for path in sorted(out.rglob(ERROR)))
        reason = "".join(trace.strip().splitlines()[-1:])
        raise RunsFailed(f"{error}; {reason}{describe_plugin_line(trace)}") from None
    accounts = [open_finished_run(path).tables["privacy"] for _, path in list_finished_runs(out)]
    # bundled server halves add noise, count, or wrap whole numbers: they take no noise away
    halves = [type(defense).finish.__module__ for defense in study.learned.defenses]
    is_open = not all(module.startswith("fl.") for module in halves)
    runs = pandas.read_csv(out / RUNS)
    by_place = pandas.read_csv(out / PLACE / RUNS).filter(like=".place")
    figures = runs.filter(regex=FIGURES).join(by_place)
    return figures.assign(
        joules=runs["uplink.energy_j"] / runs["updates.sent"],
        seconds=runs["uplink.latency_s.median"],
        suite=suite,
        accounts=["; ".join(describe_accounts(account)) for account in accounts],
        doubt=_DOUBT if is_open else "",
        command=f"netsim assess '{row['label']}' --on {suite}",
        version=__version__,
    )
