"""Every numeric key of the laws of radio at the ends of what it takes: a run, or one line; never a
raw warning."""

import copy
import json
import warnings

from conftest import TINY
from pytest import mark
from thinned import one_in

from netsim.radio import FADINGS, PATH_LOSSES, PENETRATIONS, SHADOWINGS, SIGHTS, UPLINKS
from netsim.radio.downlink import Downlink
from scenarios.app.cli.commands import main

SLOTS = {
    "path_loss": PATH_LOSSES,
    "shadowing": SHADOWINGS,
    "line_of_sight": SIGHTS,
    "penetration": PENETRATIONS,
    "fading": FADINGS,
    "uplink": UPLINKS,
}
ODD = (1e-300, -1e308, 1e308)


def ends(field):
    """The bounds of a number, and what no bound may let through."""
    result = []
    for bound in field.metadata:
        result += [
            getattr(bound, name) for name in ("ge", "le") if getattr(bound, name, None) is not None
        ]
    return [float(x) for x in (*result, *ODD)]


def cases():
    for slot, union in SLOTS.items():
        for kind, part in union.parts.items():
            yield from ((slot, {**part.example, "kind": kind}, *case) for case in numbers(part))
    yield from (("downlink", {}, *case) for case in numbers(Downlink))


def numbers(part):
    for name, field in part.model_fields.items():
        if field.annotation in (float, float | None):
            yield from ((name, value) for value in ends(field))


@mark.parametrize("slot, part, name, value", one_in(4, cases()))
def test_a_law_of_radio_at_its_ends_is_played_or_refused(slot, part, name, value, tmp_path, capsys):
    study = copy.deepcopy(TINY)
    study["world"] |= {"duration_s": 60, "radio": {slot: {**part, name: value}}}
    if slot not in ("fading", "uplink"):
        del study["learning"]
    if slot == "line_of_sight":
        study["world"]["radio"]["path_loss"] = {"kind": "umi"}
    (tmp_path / "s.yaml").write_text(json.dumps(study))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        code = main(["run", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "r"), "--quiet"])
    message = capsys.readouterr().err
    assert (code == 0 and not message) or (
        code == 2 and message.startswith("netsim: ") and message.count("\n") == 1
    ), message
