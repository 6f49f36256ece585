"""Every member of every union keeps the same contract, and every combination runs or is refused
with a reason."""

import heapq
import importlib
import itertools
import json
import math
import pkgutil
from functools import cache
from random import Random
from typing import Annotated

import pytest
from pages import read_csv
from pydantic import TypeAdapter
from rows import read_yaml

import fl
import netsim
import rl
import scenarios
from netsim.part import Named, OneOf, Part
from scenarios.app.result import run
from scenarios.app.study import slots
from scenarios.app.study.slots import LEGAL, SLOTS, build_threat_example, judge_combinations
from scenarios.testing import check_declaration, check_resumption

MEMBERS = [
    (slot, kind, part) for slot, union in SLOTS.items() for kind, part in union.parts.items()
]
IDS = [f"{slot}:{kind}" for slot, kind, _ in MEMBERS]


def unions():
    """All of them, those of other parts among them."""
    for floor in (netsim, fl, rl, scenarios):
        for result in pkgutil.walk_packages(floor.__path__, f"{floor.__name__}."):
            for value in vars(importlib.import_module(result.name)).values():
                if isinstance(value, OneOf):
                    yield value


def test_a_union_knows_each_part_by_its_kind():
    """Places of parts are text, which no type checker reads."""
    result = {id(union): union for union in unions()}
    assert len(result) >= len(SLOTS) + 4
    for union in result.values():
        for kind, part in union.parts.items():
            assert issubclass(part, Part)
            assert part.kind_name() == kind
        assert "no such kind" not in union.parts


FAST = 50


def meetings(combination):
    """Every two parts that meet in it, and its chain of defenses, whose order counts."""
    parts = [
        (slot, kind) for slot, kinds in sorted(combination.items()) for kind in kinds.split(" > ")
    ]
    return {*itertools.combinations(parts, 2), *combination.items()}


def covering(legal):
    """As few combinations as a greedy choice finds in which all meetings of legal ones happen."""
    groups = [meetings(c) for c in legal]
    missing = set().union(*groups)
    waiting = [(-len(g), i) for i, g in enumerate(groups)]
    chosen = []
    heapq.heapify(waiting)
    while missing:
        _, i = heapq.heappop(waiting)
        current = len(groups[i] & missing)
        if waiting and current < -waiting[0][0]:  # it gained more before others were chosen
            heapq.heappush(waiting, (-current, i))
            continue
        chosen.append(legal[i])
        missing -= groups[i]
    return chosen


def pytest_generate_tests(metafunc):
    """Slow tests play combinations that cover every pair: they are only looked for where slow tests
    are asked for."""
    if "combination" in metafunc.fixturenames:
        requested = "not slow" not in metafunc.config.option.markexpr
        metafunc.parametrize(
            "combination", covering(legal_combinations()) if requested else [{}], ids=get_name
        )


@cache
def choose_few():
    """The first of those that cover a sample; looked for when they are played, since each process
    of the tests collects them all."""
    return covering(pick_legal())[:FAST]


def legal_combinations():
    return [combination for combination, _ in judge_combinations(legal=True)]


def pick_legal():
    """One in fifty of the legal combinations but for their attacks; all of them take twenty seconds
    to find."""
    draw = Random(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            slots,
            "product",
            lambda *values: (
                row
                for row in itertools.product(*values)
                if len(values) < 5 or draw.random() < (0.4 if slots.OPENED in row[-1] else 0.02)
            ),
        )
        return legal_combinations()


@pytest.mark.parametrize("slot, kind, part", MEMBERS, ids=IDS)
class TestMember:
    def test_builds_through_its_union_from_its_example_and_is_frozen(self, slot, kind, part):
        built = TypeAdapter(Annotated[Part, SLOTS[slot]]).validate_json(json.dumps(part.example))
        assert type(built) is part
        assert built.kind == kind
        with pytest.raises(ValueError, match="Extra inputs"):
            part.model_validate_json(json.dumps({**part.example, "hiden": 1}), strict=True)
        with pytest.raises(Exception, match="frozen"):
            built.kind = "other"

    def test_keeps_the_contract_of_parts_from_outside(self, slot, kind, part):
        check_declaration(part)


def test_kinds_are_words_and_names_default_to_them():
    for _, kind, part in MEMBERS:
        assert kind == kind.lower()
        assert " " not in kind
        assert "_" not in kind
        if issubclass(part, Named):
            assert part.model_validate_json(json.dumps(part.example), strict=True).label == kind


def test_what_changes_an_update_withdraws_its_bound():
    """Noise after a step that may change norms is refused, unless that step keeps the bound."""
    from fl.defenses import Defense
    from fl.round.learning import Learning

    class Shaky(Defense):
        kind: str = "shaky"

        def protect(self, updates, local, facts, state, rng):
            return updates, state, []

    class Steady(Shaky):
        keeps_bound = True

    clip, noise = (SLOTS["defense"].parts[k] for k in ("clip", "gaussian"))
    learner = SLOTS["learner"].parts["rsrp-net"](hidden=(4,))

    def chain(middle):
        parts = (clip(), middle(), noise(noise_multiplier=1.0))
        return Learning.model_construct(
            **{**Learning(round_s=60, learner=learner).__dict__, "defenses": parts}
        )

    chain(Steady).check()
    with pytest.raises(ValueError, match="needs a bound"):
        chain(Shaky).check()


@pytest.mark.slow
def test_some_combinations_are_refused_and_every_reason_is_a_sentence():
    legal = []
    reasons = set()
    # a million of them: the refused leave their reason only
    for combination, verdict in judge_combinations():
        if verdict == LEGAL:
            legal.append(combination)
        else:
            reasons.add(verdict)
    assert len(reasons) >= 2
    assert all(len(r) > 20 and "\n" not in r for r in reasons)
    assert legal == legal_combinations()


def get_name(combination):
    return "+".join(combination.values()).replace(" ", "_")


@pytest.mark.parametrize("number", range(FAST))
def test_every_part_runs_two_rounds_beside_many_others(number, tiny, tmp_path):
    plays(choose_few()[number], tiny, tmp_path)


def test_the_few_combinations_have_every_part():
    few = choose_few()
    for slot in ("attack", "learner", "curation", "aggregation", "defenses"):
        kinds = SLOTS[slot.removesuffix("s")].parts
        missing = {"learner": {"recorded", "flower"}, "aggregation": {"wasserstein"}}
        # files that are not at hand; classes, which the first data of no learner have
        expected = set(kinds) - missing.get(slot, set())
        assert {kind for item in few for kind in item[slot].split(" > ")} >= expected


@pytest.mark.slow
def test_every_two_parts_that_may_meet_run_two_rounds(combination, tiny, tmp_path):
    plays(combination, tiny, tmp_path)


@pytest.mark.slow
def test_every_two_parts_that_may_meet_go_on_to_the_same_bytes(combination, tiny, tmp_path):
    """Interrupted after the second of three rounds; what every part remembers comes back from the
    checkpoint."""
    study = build_study(combination, tiny, **{"world.duration_s": 180})
    check_resumption(study, tmp_path, 2)


@pytest.mark.slow
def test_every_two_parts_run_where_devices_hold_updates_back(combination, tiny, tmp_path):
    """Rounds with few UEs and with none; interrupted, a run goes on to the same bytes."""
    study = build_study(
        combination,
        tiny,
        **read_yaml("""
            learning.withholding: [{kind: cooldown, rounds: 1, jitter: 1.0}, {kind:
            random-silence, probability: 0.4}], learning.round_s: 20
        """),
    )
    check_resumption(study, tmp_path, 4)
    ues = [int(row["ues"]) for row in read_csv(tmp_path / "whole/rounds.csv")]
    assert len(ues) == 6
    assert 0 < sum(ues) < 20
    assert min(ues) <= 1


ON_THE_AIR = read_yaml("""
    synchronous: {kind: synchronous, merge_after_updates: 3, deadline_s: 90}, fedbuff:
    {kind: fedbuff, buffer: 2}, fedasync: {kind: fedasync}
""")


@pytest.mark.slow
@pytest.mark.parametrize("server", ON_THE_AIR)
def test_every_two_parts_over_the_air_run_or_are_refused_in_one_line(
    server, combination, tiny, tmp_path
):
    """UEs train for longer than a window; interrupted, with uploads in flight, a run goes on to the
    same bytes."""
    from netsim.errors import BadInput

    options = {
        "learning.server": ON_THE_AIR[server],
        "world.radio.dynamic_uplink": read_yaml("""
            scheduler: {kind: round-robin}, block_s: 5, client_dropout_per_s: 0.0001
        """),
        "world.duration_s": 300,
        "world.ues.training_s_per_sample": 3.0,
    }
    try:
        check_resumption(build_study(combination, tiny, **options), tmp_path, 3)
    except BadInput as error:
        text = str(error)
        without = any(
            words in text
            for words in (
                "rounds",
                "merges updates",
                "one update at a time",
                "merges one at a time",
                "merges those of",
                "no weights that could fall with staleness",
            )
        )
        assert "\n" not in text
        unknown = any(words in text for words in ("it is not known then", "hides one update only"))
        assert unknown or (server != "synchronous" and without)
        return

    assert len((tmp_path / "whole/transmissions.csv").read_text().splitlines()) > 1


def build_study(combination, tiny, **options):
    """The tiny study with these parts."""

    def example(slot, kind):
        return SLOTS[slot].parts[kind].example

    def several(slot):
        if combination[slot] == "none":
            return []
        return [example(slot, combination[slot])]

    viewpoint, observes = combination["threat"].split(" sees ")
    chain = [] if combination["defenses"] == "none" else combination["defenses"].split(" > ")
    changes = {
        f"learning.{slot}": example(slot, combination[slot])
        for slot in ("data", "learner", "aggregation")
    }
    changes |= {
        "learning.curation": several("curation"),
        "learning.defenses": [example("defense", d) for d in chain],
        "learning.threat": build_threat_example(observes, viewpoint),
        "learning.attacks": several("attack"),
    }
    if viewpoint == "eavesdropper":
        clear = {"decoding": "error-free"} if "central-gaussian" in chain else {"norm_bound": 1.0}
        changes["world.radio.uplink"] = {"kind": "noma", **clear}
    return tiny(changes | options)


def plays(combination, tiny, tmp_path):
    summary = run(build_study(combination, tiny), tmp_path / "run")
    assert summary["rounds.played"] == 2
    assert summary["updates.sent"] > 0
    assert summary["updates.decoded.percent"] == 100
    second = combination["learner"] == "density" or combination["data"] == "images"
    for row in read_csv(tmp_path / "run/rounds.csv"):
        assert math.isfinite(float(row["update_norm"]))
        assert second or math.isfinite(float(row["rmse_db"]))
    if combination["learner"] == "density":
        assert math.isfinite(summary["utility.rank_correlation"])
    assert combination["data"] != "images" or math.isfinite(summary["utility.accuracy_percent"])
    if combination["attack"] != "none":
        rows = read_csv(tmp_path / "run/leakage.csv")
        text = read_csv(tmp_path / "run/estimates.csv")
        # it names places after all rounds, and no round's centroid
        if {r["quantity"] for r in text} == {"answer"}:
            named, compared = (
                {(r["ue"], r["model"], r["round"]) for r in table} for table in (text, rows)
            )
            assert named == compared
            assert all(
                r["status"] in ("no gradient", "unsure") or math.isfinite(float(r["x_m"]))
                for r in text
            )
            return
        assert rows
        is_clear = "central-gaussian" in combination["defenses"]  # an eavesdropper loses some
        assert is_clear or all(r["heard"] == "1" for r in rows)
        assert any(r["error_m"] for r in rows) or all(r["diverged"] == "1" for r in rows)
