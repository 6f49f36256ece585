"""Parts from outside: a wrong return is told with part, file and line, and the contract tests that
packages import find what breaks the contract."""

import json
import re
import tomllib
from dataclasses import replace
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from fl.defenses.clip import Clip
from netsim.columns import ByKey
from netsim.contract import BUNDLED
from netsim.errors import BadInput
from scenarios.app.result import run
from scenarios.app.study.slots import SLOTS
from scenarios.testing import check_declaration, check_part, check_resumption

KEYS = {
    "query": "request_policy",
    "server-optimiser": "server_optimiser",
    "defense": "defenses",
    "attack": "attacks",
}
SEVERAL = ("defense", "attack", "curation", "withholding")


def rows(result):
    return result[0].rows(slice(None))


def change_values(result, values):
    return (result[0].with_values(values, None), *result[1:])


WRONG = [
    ("defense", "clip", "protect", lambda r: r[:2], "DenseUpdates, LastFigures", "Updates, a st"),
    ("defense", "clip", "protect", lambda r: (rows(r), *r[1:]), "float64(", "Updates, a state"),
    (
        "defense",
        "clip",
        "protect",
        lambda r: (*r[:2], None),
        "",
        "Updates, a state and a list of Spend",
    ),
    (
        "defense",
        "clip",
        "protect",
        lambda r: (r[0].to_dense().select(slice(1)), *r[1:]),
        "DenseUpdates",
        "its 5 rows as they were",
    ),
    (
        "defense",
        "clip",
        "protect",
        lambda r: change_values(r, rows(r)[:, :3]),
        "DenseUpdates",
        "51 numbers per row",
    ),
    (
        "defense",
        "clip",
        "protect",
        lambda r: change_values(r, rows(r).astype(object)),
        "DenseUpdates",
        "finite numbers (n, d), n = 5",
    ),
    ("defense", "clip", "protect", lambda r: change_values(r, rows(r) * np.nan), "", "finite numb"),
    ("defense", "clip", "finish", lambda r: r[0], "float64(2, 51), expected", "an array, a state"),
    ("learner", "rsrp-net", "train_locally", lambda r: r.rows(slice(None)), "float64(5, 51)", "Up"),
    ("learner", "rsrp-net", "train_locally", lambda r: r.select([0]), "DenseUpdates", "its 5 rows"),
    (
        "learner",
        "rsrp-net",
        "train_with_state",
        lambda r: r[0],
        "DenseUpdates",
        "Updates and a state",
    ),
    ("learner", "rsrp-net", "step", lambda r: r.parameters, "float64(2, 51)", "shape (2, 51)"),
    ("learner", "rsrp-net", "evaluate", lambda r: 3.0, "float", "figures by their names"),
    ("attack", "closed-form", "run", lambda r: r[0], "Estimates", "Estimates and a state"),
    (
        "attack",
        "closed-form",
        "run",
        lambda r: (replace(r[0], weight=r[0].weight[:1]), None),
        "Estimates, NoneType",
        "as many entries in each column",
    ),
    ("curation", "random", "apply", lambda r: r.local, "Local", "Curated"),
    (
        "curation",
        "random",
        "apply",
        lambda r: replace(r, local=r.local.select([0])),
        "Curated",
        "its 5 rows as they were, not 1",
    ),
    ("withholding", "random-silence", "keep", lambda r: r[1:], "bool(34,)", "array of shape (35,)"),
    ("withholding", "random-silence", "keep", lambda r: r * 1, "int64(35,)", "a boolean array"),
    ("aggregation", "fedavg", "compute_weights", lambda r: r[0], "float64(5,)", "weights and a st"),
    ("aggregation", "fedavg", "compute_weights", lambda r: (r[0][1:], None), "float64(4,)", "(5,)"),
    ("aggregation", "fedavg", "compute_weights", lambda r: (r[0] * np.nan, None), "", "finite wei"),
    ("aggregation", "fedavg", "merge_rows", lambda r: r[:, 1:], "float64(2, 50)", "(2, 51)"),
    ("availability", "always", "find_available", lambda r: (r[0][1:], None), "bool(3,)", "4 UEs"),
    ("query", "off", "accept", lambda r: r[0], "bool(5,)", "whether each UE answers, and a state"),
    ("data", "measured", "take", lambda r: r[0], "TakenData", "TakenData and a state"),
    ("server-optimiser", "fedavg", "compute_change", lambda r: (r[0][:, :2], None), "", "(2, 51)"),
]


@pytest.mark.parametrize("slot, kind, name, spoil, found, expected", WRONG)
def test_a_wrong_return_names_part_and_line(
    slot, kind, name, spoil, found, expected, tiny, tmp_path
):
    base = SLOTS[slot].parts[kind]
    original = getattr(base, name)

    def method(self, *arguments):
        return spoil(original(self, *arguments))

    line = method.__code__.co_firstlineno
    method.__name__ = name
    outside = type("Outside", (base,), {"__module__": __name__, name: method})
    keys = {"random": {"num": 3}, "random-silence": {"probability": 0.4}}.get(kind, {})
    keys |= {"hidden": [6, 4], "activation": "tanh"} if slot == "learner" else {}
    part = outside.model_validate_json(json.dumps({"kind": kind, **keys}))
    study = tiny()
    key = KEYS.get(slot, slot)
    learning = study.learning.model_copy(update={key: (part,) if slot in SEVERAL else part})
    with pytest.raises(BadInput) as caught:
        run(study.model_copy(update={"learning": learning}), tmp_path / "run")
    (text,) = caught.value.lines
    assert text.startswith(f"plug-in {kind} ({__file__}:{line}): {name} returned {found}")
    assert expected in text.partition(", expected ")[2]
    assert not list((tmp_path / "run").glob("summary.json"))


def test_tables_of_returns_are_about_methods_that_are_there_and_bundled_parts_are_not_wrapped():
    methods = 0
    for package in sorted(BUNDLED):
        file = Path(import_module(package).__file__).with_name("returns.toml")
        tables = tomllib.loads(file.read_text()) if file.exists() else {}
        bases = {
            base.__name__: base
            for union in SLOTS.values()
            for part in union.parts.values()
            for base in part.__mro__
            if base.__module__.startswith(f"{package}.")
        }
        for name, expected in tables.items():
            for method, texts in expected.items():
                assert isfunction(vars(bases[name])[method]), (name, method)
                assert not hasattr(vars(bases[name])[method], "__wrapped__")
                for expression in texts.values():
                    compile(expression, name, "eval")
                methods += 1
    assert methods == 21


class Sound(Clip):
    """Cuts as the bundled one does."""

    kind: Literal["clip"] = "clip"

    def protect(self, updates, local, facts, state, rng):
        return super().protect(updates, local, facts, state, rng)


def with_defense(tiny, part):
    """The tiny study, whose defense of this kind is that part, also where it is read again."""
    study = tiny({"learning.defenses": [{"kind": "clip", "norm": 1.0}]})
    learning = study.learning.model_copy(update={"defenses": (part(norm=1.0),)})
    return study.model_copy(update={"learning": learning})


class Changing(Sound):
    """Writes into what it gets."""

    def protect(self, updates, local, facts, state, rng):
        updates.values[:] = 0.0
        return super().protect(updates, local, facts, state, rng)


class Forgetful(Sound):
    """Remembers beside its state."""

    def protect(self, updates, local, facts, state, rng):
        LATER.append(1)
        noise = len(LATER) * np.ones((len(updates.ue), updates.n_parameters))
        return updates.plus(noise), state, []


class Unnamed(Sound):
    """Says nothing of its key."""

    other: float = 1.0


LATER = []
BROKEN = {
    "changes inputs": Changing,
    "differs": Forgetful,
    "no text below ['other']": Unnamed,
}


def test_a_sound_part_keeps_the_contract(tiny, tmp_path):
    before = vars(Sound)["protect"]
    check_part(Sound, tmp_path, with_defense(tiny, Sound))
    assert vars(Sound)["protect"] is before


@pytest.mark.parametrize("text, part", BROKEN.items(), ids=BROKEN)
def test_a_part_that_breaks_the_contract_is_found(text, part, tiny, tmp_path):
    with pytest.raises(AssertionError, match=re.escape(text)):
        check_part(part, tmp_path, with_defense(tiny, part))


def test_what_a_part_has_to_declare():
    class Bare(Sound):
        reference = ""

    with pytest.raises(AssertionError, match="no reference"):
        check_declaration(Bare)


def test_a_defense_with_memory_goes_on_where_its_state_keeps_its_type(tiny, tmp_path):
    """Rows of d numbers, of which `start` knows nothing."""

    class Remembers(Sound):
        """Adds half of the update before."""

        def start(self, n_ue):
            return ByKey.empty(0)

        def protect(self, updates, local, facts, state, rng):
            values = updates.rows(slice(None))
            if len(state.key):
                values = values + 0.5 * np.nan_to_num(state.look_up(updates.row))
            after = state.overwrite_values(updates.row, values)
            return updates.with_values(values, None), after, []

        def collect_figures(self, state):
            return {"rows": float(len(state.key))}

        def promise_norm(self, state):
            return None

    class Untyped(Remembers):
        """Begins with None."""

        def start(self, n_ue):
            return None

        def protect(self, updates, local, facts, state, rng):
            return super().protect(updates, local, facts, state or ByKey.empty(0), rng)

        def collect_figures(self, state):
            return {}

    check_resumption(with_defense(tiny, Remembers), tmp_path / "typed")
    with pytest.raises(BadInput, match="checkpoint"):
        check_resumption(with_defense(tiny, Untyped), tmp_path / "untyped")
