"""What is accepted and says little is told before the first round: far base stations, long rounds,
silent attacks."""

from noticed import lines
from pytest import mark

from scenarios.app.run.setup import prepare_run
from scenarios.app.study.load import parse_value

HOUR_S = 3600.0
DWELL = {"kind": "dwell", "shadow_ues": 8, "cell_m": 50}


def notes(study, tmp_path, word):
    return [note for note in lines(prepare_run(study, tmp_path)[0].notices) if word in note]


@mark.parametrize(
    "away_m, message",
    [
        (0, []),
        (399, []),
        (4000, ["stands 4,000 m outside of the area of 400 x 300 m; give position_m in"]),
    ],
)
def test_a_base_station_far_outside_is_told(away_m, message, tiny, tmp_path):
    """The longer side of the area is 400 m; laws of path loss reach much farther."""
    stations = [
        {"name": "near", "position_m": [200, 150]},
        {"name": "far", "position_m": [400 + away_m, 100]},
    ]
    result = notes(tiny({"world.base_stations": stations}), tmp_path, "outside of the area")
    assert len(result) == len(message)
    assert all("base station far" in f and s in f for f, s in zip(result, message, strict=True))


@mark.parametrize(
    "hours, attack, message",
    [
        (48, {}, None),
        (4, {}, "work in 10 to 16 o'clock on a workday"),
        (
            8,
            parse_value("{home_hours: [20, 22], work_hours: [10, 16]}"),
            "home in 20 to 22 o'clock or work in 10 to 16",
        ),
        (48, {"home_hours": [3.1, 3.4]}, "home in 3.1 to 3.4 o'clock"),
    ],
)
def test_an_attack_that_can_name_nothing_is_told(hours, attack, message, tiny, tmp_path):
    """Rounds of an hour have their middles at half past, on a Monday."""
    study = tiny(
        {
            "world.duration_s": hours * HOUR_S,
            "world.first_day": "2026-01-05",
            "world.ues.measurement_period_s": HOUR_S,
            "learning.round_s": HOUR_S,
            "learning.attacks": [DWELL | attack],
        }
    )
    result = notes(study, tmp_path, "no round has its middle")
    assert len(result) == (message is not None)
    assert all(message in f and "attack dwell" in f for f in result)
    wrapped = tiny(
        {"learning.attacks": [{"kind": "re-identify", "of": DWELL | {"home_hours": [3, 4]}}]}
    )
    assert notes(wrapped, tmp_path, "no round has its middle")
