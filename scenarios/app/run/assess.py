"""Defenses on frozen suites: read, fitted to a suite, and played against attackers that are tuned
to them.
"""

import hashlib
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pandas

from fl.curation import CURATIONS
from fl.defenses import DEFENSES
from fl.withholding import WITHHOLDINGS
from netsim import __version__
from netsim.errors import BadInput, RunsFailed
from netsim.part import find_entry_points, load_plugins
from scenarios.app.results.assessment import keep_figures
from scenarios.app.results.folder import RUNS, read_failures, refuse_failures
from scenarios.app.results.goals import parse_aims
from scenarios.app.results.read import get_section, list_finished_runs, open_finished_run
from scenarios.app.results.shown import describe_accounts
from scenarios.app.run.adapt import ATTACKS_KEY, TUNING, UNUSED, play_adapted_sweep
from scenarios.app.run.sweep import Sweep, make_folder_name, resolve_points
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
    "Defense": ("learning.defenses", DEFENSES),
    "Curation": ("learning.curation", CURATIONS),
    "Withholding": ("learning.withholding", WITHHOLDINGS),
}
"""base class of a plug-in -> the key of its parts, and their union"""
_CLASS = re.compile(
    r"^class (\w+)\((Defense|Curation|Withholding)\):.*?^    kind: Literal\[\"([\w-]+)",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Defended:
    """A row to be played: its label, and what it changes in a suite, by dotted path.

    content : digest of the file of its plug-in, in the name of its folder. doubt : why attackers
    were not given all that the server has. Both may be empty.
    """

    label: str
    changes: Record
    content: str = ""
    doubt: str = ""


def parse_defense(text: str, scratch: Path) -> Defended:
    """Parse FILE.py[:CLASS], a scenario, a kind, or parts with settings; before a study is read.

    scratch : a folder that is kept while runs are played, for what says where a plug-in is.
    """
    if file := re.fullmatch(r"(.+\.py):?(\w*)", text):
        return install_plugin(Path(file[1]), file[2], scratch)
    if text.endswith(".yaml") or text in list_bundled():
        learning = Scenario.from_source(text).document.data.get("learning", {})
        brought = {f"learning.{key}": learning[key] for key in BROUGHT.split() if key in learning}
        if not brought:
            raise BadInput(f"{text}: brings no defense; its learning has none of {BROUGHT}")
        return Defended(Path(text).stem, brought)
    value = parse_value(text, "assess")
    changes = dict[str, list[Value]]()
    for item in value if isinstance(value, list) else [value]:
        part = item if isinstance(item, dict) else {"kind": item}
        keys = [key for key, slot in _SLOTS.values() if part.get("kind") in slot.parts]
        if not keys:
            raise BadInput(
                f"assess {text}: neither FILE.py, a scenario, nor a kind of defense, curation or "
                "withholding; netsim list has them"
            )
        changes.setdefault(keys[0], []).append(part)
    return Defended(re.sub(r"[{}\[\]]|kind: ", "", text), changes)


def install_plugin(file: Path, wanted: str, scratch: Path) -> Defended:
    """Make the class of a file a plug-in of this process, and of those that it starts.

    wanted : its class; empty: the only one that derives from a base class of a slot.
    """
    text = read_file_text(file)
    classes = [found for found in _CLASS.findall(text) if wanted in ("", found[0])]
    if len(classes) != 1 or not file.stem.isidentifier():
        raise BadInput(
            f"{file}: needs a name as my_defense.py, and one class of a Defense, a Curation or a "
            f"Withholding with its kind, not {len(classes)}; give FILE.py:CLASS where it has more"
        )
    ((name, base, kind),) = classes
    key, slot = _SLOTS[base]
    info = scratch / f"{file.stem}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {file.name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[netsim.{slot.slot}]\npart = {file.stem}:{name}\n")
    sys.path += [str(file.resolve().parent), str(scratch)]  # last: they take the place of nothing
    find_entry_points.cache_clear()
    load_plugins.cache_clear()
    doubt = "what its server half takes out of a sum, the server may take out of an update"
    return Defended(
        kind,
        {key: [{"kind": kind}]},
        hashlib.sha256(text.encode()).hexdigest()[:8],
        doubt if "def finish(" in text else "",
    )


def list_rows(suite: Scenario) -> list[Defended]:
    """List the rows that a suite has of its own. BadInput: it is no suite."""
    vary = get_section(suite.text.data, "vary")
    variants = vary.get("variants")
    if not variants or not vary.get("seed"):
        raise BadInput(
            f"{suite.text.path}: a suite needs vary.seed, and vary.variants, one labelled nothing"
        )
    return [Defended(variant["label"], variant["set"]) for variant in variants]


def fit_row(suite: Scenario, row: Defended) -> Scenario:
    """Return the suite with this row alone, and those of its attacks that fit. BadInput: the row
    does not fit.
    """

    def set_attacks(attacks: Sequence[Value]) -> Scenario:
        variant = {"label": row.label, "set": {**row.changes, ATTACKS_KEY: attacks}}
        return suite.with_changes({"vary": {**suite.text.data["vary"], "variants": [variant]}})

    resolve_points(set_attacks([]))
    attacks = []
    for attack in row.changes.get(
        ATTACKS_KEY, get_section(suite.text.data, "learning").get("attacks", ())
    ):
        with suppress(BadInput):
            resolve_points(set_attacks([attack]))
            attacks.append(attack)
    return set_attacks(attacks)


def play_row(suite: str, row: Defended, evaluations: int, sweep: Sweep) -> pandas.DataFrame:
    """Play a row of a suite; returns its runs. sweep : of the suite, with the folder of all.

    Raises
    ------
    BadInput : the row does not fit the suite.
    RunsFailed : with the first error, and the line of a plug-in that it passed.
    """
    out = sweep.out / suite / f"{make_folder_name(row.label)}{row.content}"
    scored = fit_row(sweep.scenario, replace(row, changes={**row.changes, **UNATTACKED}))
    attacked = replace(sweep, scenario=fit_row(sweep.scenario, row), out=out)
    try:
        play_adapted_sweep(evaluations, attacked, parse_aims("homes"), at_most=True)
        replace(sweep, scenario=scored, out=out / PLACE).play()
        refuse_failures(out, out / PLACE)
    except RunsFailed as error:
        folders = (out / TUNING, out, out / PLACE)
        first = next(failed.error for folder in folders for failed in read_failures(folder))
        raise RunsFailed(f"{error}; {first}") from None
    runs = (open_finished_run(path) for _, path in list_finished_runs(out))
    return keep_figures(pandas.read_csv(out / RUNS), pandas.read_csv(out / PLACE / RUNS)).assign(
        suite=suite,
        accounts=["; ".join(describe_accounts(run.tables["privacy"])) for run in runs],
        doubt=row.doubt,
        command=f"netsim assess '{row.label}' --on {suite}",
        version=__version__,
    )
