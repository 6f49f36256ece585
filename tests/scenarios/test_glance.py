"""The answer at a glance: what leaks, in words, where homes are named, and where none is."""

from scenarios.app.results.glance import leak_text

SERVER = {"learning": {"threat": {"viewpoint": "server"}}}


def summary(home, work, error_m=37.4):
    """One UE with a home and a workplace, attacked by two attacks of which the second estimates mean positions."""
    places = ("home", "work", "both", "first")
    shares = dict(zip(places, (home, work, min(home, work), home), strict=True))
    return {
        "leakage.near_m": 100.0, "baseline.area_centre.error_m.median": 68.2, "ues.count": 1,
        "attack.dlg.centroid_error_m.median": error_m,
        **{f"attack.dlg.{place}_named_within_near.percent": share for place, share in shares.items()},
        **{f"attack.dlg.{count}.count": 1 for count in ("homes", "workplaces", "commuters")},
    }  # fmt: skip


def test_named_places_are_told_first():
    assert leak_text(summary(100.0, 0.0), SERVER) == (
        "The server learns, by the attack dlg: home named within 100 m, work not named."
    )


def test_where_no_place_is_named_the_error_of_mean_positions_is_told():
    assert leak_text(summary(0.0, 0.0), SERVER) == (
        "The server learns no home or workplace (attack dlg: home not named within 100 m, work not named). Mean "
        "positions of a round, by the attack dlg: centroid error 37.4 m; baseline: always guess the map centre 68.2 m."
    )


def test_an_attack_that_estimates_nothing_has_no_error():
    told = leak_text(summary(0.0, 0.0, None), SERVER)
    assert told.startswith("The server learns no home or workplace") and "Mean" not in told
