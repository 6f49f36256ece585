"""How soon attacks first name the homes of UEs."""

from __future__ import annotations

import numpy as np

from scenarios.app.report.plot import DARK, GREY, Cell, Figure, Look, Panel, line, looks, mosaic, numbers
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.run import Run
from scenarios.app.results.statistics import counted
from scenarios.app.results.summary import with_home
from scenarios.app.results.survival import first_home, kaplan_meier

_UNIFORM = Look("chance: two random places", GREY, dash="dot")
_OTHERS = Look("chance: others' density", DARK, dash="dash")


def first_home_panel(run: Run) -> list[Panel]:
    """Share of UEs whose home has been named, over the time for which they were attacked; nothing without homes."""
    homes, traces = with_home(run.tables["ues"]), list[Figure]()
    seen = run.rows("leakage")
    span_s = float(np.ptp(seen["time_s"])) + run.manifest["round_s"] if len(seen["time_s"]) else 0.0
    unit, second = ("days", 86_400.0) if span_s >= 3 * 86_400 else ("hours", 3600.0)
    n_ue = 0
    for look in looks(run.attacks):
        rows = run.rows("leakage", "attack", look.name)
        time_s, happened = first_home(rows, homes, run.near_m, float(run.manifest["round_s"]))
        if not len(time_s) or not np.isfinite(rows["home_named_m"]).any():
            continue
        at_s, share = kaplan_meier(time_s, happened)
        n_ue = max(n_ue, len(time_s))
        x = np.concatenate([[0.0], at_s, [span_s]]) / second
        y = 100.0 * np.concatenate([[0.0], share, share[-1:] if len(share) else [0.0]])
        drawn = line(look, numbers(x), y, mode="lines", hovertemplate=f"%{{y:.3~r}} % after %{{x:.3~r}} {unit}")
        traces.append(drawn | {"line": drawn["line"] | {"shape": "hv"}})
    if not traces:
        return []
    for look, key in ((_UNIFORM, keys.UNIFORM[0]), (_OTHERS, keys.OTHERS[0])):
        value = run.summary.get(key.of())
        if value is not None:
            ends = np.array([0.0, span_s]) / second
            traces.append(
                line(look, numbers(ends), np.full(2, float(value)), mode="lines", hovertemplate="%{y:.3~r} %")
            )
    figure = mosaic([Cell("UEs with a home (%)", traces, percent=True)], {"title": {"text": f"{unit} of attack"}}, 320)
    figure["layout"]["hovermode"] = "closest"
    caption = (
        f"The share of {counted(n_ue, 'UE')} with a home of which the attack has at least once named a place within "
        f"{run.near_m:g} m of it: the steeper, the sooner homes are known. A UE counts from its first attacked round "
        "until its last (Kaplan and Meier), and the first time counts even if the attack changes its mind later. An "
        "attack that states probabilities names a place only where it is confident. Chance: places named once, at "
        "random and by the density of all others."
    )
    return [Panel("tracking-first-home", "Time until home is first named", caption, figure)]
