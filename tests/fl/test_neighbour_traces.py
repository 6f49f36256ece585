"""Traces with and without each of their users: what noise at the server covers, and what the run
says that it does not.

Nothing here knows which values follow from the rows: the same study is played on the whole trace,
and again without the rows of one user, and the sums before noise are compared with the sensitivity
that was booked. Either no user moves them further, in the same rounds, or the run names what
follows from the data of all.
"""

import numpy as np
import pytest
from arrays import read_array
from noticed import by_key, of_run
from pytest import mark
from rows import read_cells, read_yaml

from fl.defenses.gaussian import CentralGaussian
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table

C = 2e-3
DAYS = range(19, 26)  # of April 2021, all of the stated extent
STATED = read_yaml("""
    extent: stated, area_deg: [52.0, 4.0, 52.02, 4.03], since: '2021-04-19',
    until: '2021-04-26', absent_after_s: 600, users: id, cell: x, timezone: Europe/Amsterdam
""")
USERS = ["once", "many", "late", "far", "ill"]
HEADER = "time_s,user,lat,lon,rsrp_dbm,cell,accuracy_m"


def make_rows(user, cells="xyz"):
    """Rows of one user: few on a day of its own, many and mostly of cell y, late in the week, far
    away, or in error."""
    x, y, z = cells
    draw = np.random.default_rng(USERS.index(user))
    days = read_yaml("once: [20], many: [20, 21, 22], late: [24], far: [20, 21], ill: [21]")[user]
    for day in days:
        for hour in range(6, 20, 1 if user == "many" else 2):
            lat, lon = read_array("52.01 4.015") + 2e-3 * draw.normal(size=2)
            if user == "far" and hour == 12:
                lat, lon = 52.4, 4.8
            if user == "late" or (user == "many" and hour % 3):
                cell = y
            else:
                cell = x
            if user == "ill" and hour == 8:
                cell = z
            error_m = "" if user == "ill" else f"{draw.uniform(5, 60):.0f}"
            level = draw.normal(-80 + 3 * USERS.index(user), 5)
            yield f"2021-04-{day}T{hour:02d}:00:00Z,{user},{lat:.6f},{lon:.6f},{level:.1f},{cell},{error_m}"


STUDY = f"""
    world.duration_s: null, world.tick_s: 3600, world.city: {{kind: open-field}},
    world.base_stations: [], world.radio.shadowing: {{kind: none}},
    learning.round_s: 86400, learning.attacks: [], learning.references: {{central: false, kriging_samples: 0}},
    learning.aggregation: {{kind: uniform, clients: 5}}, learning.data: {{kind: measured}},
    learning.learner.labels: standardised, learning.defenses: [
        {{kind: clip, norm: {C}, relation: add-remove}},
        {{kind: central-gaussian, noise_multiplier: 1.0}}]
"""


@pytest.fixture
def played(tiny, tmp_path_factory, monkeypatch):
    """Play changes of the study on the rows of some users, in this order: sums of rounds,
    sensitivity, what was said.

    Models stay at their first values, as composition takes it.
    """

    def play(changes, users, cells="xyz", columns=None):
        sums = {}

        def record_sum(part, total, n, facts, state, rng):
            same, after, spends = finish(part, total, n, facts, state, rng)
            sums[facts.round] = total / facts.weight
            return np.zeros_like(same), after, spends

        out = tmp_path_factory.mktemp("run")
        lines = [HEADER, *(row for user in users for row in make_rows(user, cells))]
        cut = [",".join(line.split(",")[:columns]) + "\n" for line in lines]
        (out / "t.csv").write_text("".join(cut))
        answers = {"kind": "replay", "trace": str(out / "t.csv"), **STATED}
        stated = {k: v for k, v in answers.items() if f"world.ues.mobility.{k}" not in changes}
        study = tiny(read_yaml(STUDY) | {"world.ues": {"mobility": stated}} | changes)
        finish = CentralGaussian.finish
        with monkeypatch.context() as patch:
            patch.setattr(CentralGaussian, "finish", record_sum)
            run(study, out / "run")
        estimates = by_key(of_run(out / "run"))
        booked = read_record_table(out / "run", "spends")["sensitivity"].max()
        keys = ("values-of-all-users", "data-published")
        return sums, booked, " ".join(estimates.get(key, "") for key in keys).strip()

    return play


def measure_move(first, second):
    """Largest distance of two runs' sums, of a round and a model; infinite where rounds or models
    are others."""
    shapes = [{number: total.shape for number, total in run.items()} for run in (first, second)]
    if shapes[0] != shapes[1]:
        return np.inf
    return max(np.linalg.norm(first[r] - second[r], axis=1).max() for r in first)


WITHIN = """
days, stated  -
a day  learning.data: {kind: measured, hold_out_by: day}
a day and a block  learning.data: {kind: measured, hold_out_by: [day, block], hold_out: 0.4}
a session  learning.data: {kind: measured, hold_out_by: session, memory: all, participants: holding}
a block  learning.data: {kind: measured, hold_out_by: block}
the strongest of all cells  MOBILITY.cell: all, learning.data: {kind: measured, cell: strongest}
farthest  learning.curation: [{kind: farthest-batch, eps_m: 50, num: 3}]
random  learning.curation: [{kind: random, num: 3}]
cooldown  learning.withholding: [{kind: cooldown, time_s: 100000}]
silence  learning.withholding: [{kind: random-silence, probability: 0.5}]
coins  learning.participation: 0.5, learning.sampling: poisson, learning.aggregation: COINS
rarely  MOBILITY.sample_s: 10000
segments  learning.data: {kind: segments, campaign_rounds: 3}
errors  world.ues.position_error_m: 20
places  MOBILITY.cell: null, world.radio.shadowing: {kind: correlated, std_db: 6}
places at regular times  MOBILITY.cell: null, MOBILITY.resample_s: 900, MOBILITY.gap_s: 8000
positions  learning.data: {kind: positions}, learning.learner: {kind: density, bandwidth_m: [300]}
late deadlines  learning.server: {kind: synchronous, deadline_s: 172800}
"""
NAMED = """
MOBILITY.users: auto  what a user is (MOBILITY.users: id)
MOBILITY.extent: rows  the area, the middle of the plane, the first day, the number of rounds
MOBILITY.extent: rows, BY_DAY  which days are held out (MOBILITY.extent: stated)
MOBILITY.cell: null  the busiest cell (MOBILITY.cell)
MOBILITY.cell: all, BUSIEST  the cell with most measurements (learning.data.cell)
MOBILITY.cell: all  which cells there are (MOBILITY.cell)
MOBILITY.outlier_sigmas: 1.0, WIDE  which rows are outliers (MOBILITY.outlier_sigmas: none)
ERROR: recorded  the error of rows that state none (ERROR)
learning.learner.standardise_by: dataset  every UE receives the mean and deviation of all true
NEIGHBOURS  every UE receives how near the true positions are to each other
"""
WORDS = {
    "COINS": "{kind: uniform, clients: 5, participation: 0.5}",
    "BUSIEST": "learning.data: {kind: measured, cell: busiest}",
    "BY_DAY": "learning.data: {kind: measured, hold_out_by: day}",
    "ERROR": "world.ues.position_error_m",
    "NEIGHBOURS": "learning.data: {kind: positions}, learning.learner: {kind: density, neighbours: 1}",
    "WIDE": "MOBILITY.area_deg: [51.0, 3.0, 53.0, 6.0]",
    "MOBILITY": "world.ues.mobility",
}


def read_long(text):
    """The cells of a table with its words written out."""
    for word, meaning in WORDS.items():
        text = text.replace(word, meaning)
    return read_cells(text)


@mark.parametrize("case, changes", read_long(WITHIN))
def test_no_user_of_a_trace_moves_a_sum_by_more_than_is_booked(played, case, changes):
    worst = 0.0
    changes = read_yaml(changes.removeprefix("-"))
    columns = 4 if case.startswith("places") else None  # without signals
    for user in USERS if case in ("days, stated", "a day") else ("many", "late"):
        rest = [first for first in USERS if first != user]
        whole, booked, estimates = played(changes, [*rest, user], columns=columns)
        fewer, _, _ = played(changes, rest, columns=columns)
        assert estimates == ""
        assert booked == C
        assert measure_move(whole, fewer) <= booked * (1 + 1e-9), user
        worst = max(worst, measure_move(whole, fewer) / booked)
    assert worst > 0.5


@mark.parametrize("changes, named", read_long(NAMED))
def test_what_follows_from_all_rows_is_named(played, changes, named):
    changes = read_yaml(changes)
    users = ["once", "late", "ill", "many"] if "what a user is" in named else USERS
    worst = 0.0
    for user in users:
        rest = [first for first in users if first != user]
        whole, booked, estimates = played(changes, [*rest, user])
        assert named in estimates
        worst = max(worst, measure_move(whole, played(changes, rest)[0]) / booked)
        if worst > 1 + 1e-9:
            return
    raise AssertionError(f"nothing moves further than is booked: {worst:g}")


def test_held_out_days_of_a_stated_extent_are_drawn_whoever_has_rows(played):
    """One in seven days, among them such as nobody has rows on: by the rows, a user's own day would
    move others'."""
    worst = 0.0
    for seed in range(4, 8):
        data = read_yaml("kind: measured, hold_out_by: day, hold_out: 0.15")
        few = {"learning.data": data, "seed": seed}
        whole, booked, estimates = played(few, ["once", "far", "many"])
        fewer, _, _ = played(few, ["once", "far"])
        assert estimates == ""
        assert measure_move(whole, fewer) <= booked * (1 + 1e-9)
        worst = max(worst, measure_move(whole, fewer) / booked)
    assert worst > 0.9


def test_one_user_decides_whether_0_is_a_cell_of_all_and_the_run_says_so(played):
    """A name above 255 makes the others numbers of a network, of which 0 is unknown."""
    changes = read_yaml("""
        world.ues.mobility.cell: all, learning.data: {kind: measured, cell: strongest}
    """)
    whole, booked, estimates = played(changes, USERS, ["0", "7", "300"])
    fewer, _, also = played(changes, USERS[:-1], ["0", "7", "300"])
    assert measure_move(whole, fewer) > 1.5 * booked
    assert "whether 0 is a cell (world.ues.mobility.cell)" in estimates
    assert estimates == also
