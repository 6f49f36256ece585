"""What a person should know of a study before it is played, and of its results at the end of a
run.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fl.aggregation import Uniform
from netsim.errors import counted
from netsim.maps import on_globe
from netsim.notice import Notice
from netsim.traces.home_work import FEWEST_NIGHTS
from netsim.traces.trace import Trace
from netsim.world.world import World
from scenarios.app.results.summary_keys import BY_KEY
from scenarios.app.study import Fields
from scenarios.app.study.notice import notice
from scenarios.app.study.study import Study


def of_study(study: Study, world: World) -> Iterator[Notice]:
    """What only the whole study shows: its trace, its rounds, and its weights."""
    if world.trace is not None:
        yield from of_trace(study, world.trace)
        yield from _homes(world)
    if study.learning is None:
        return
    if study.world.duration_s is not None and study.round_s > world.duration_s:
        yield notice("round-cut-short", round_s=study.round_s, duration_s=world.duration_s)
    if isinstance(study.learning.aggregation, Uniform):
        clients = study.learning.aggregation.clients
        n_ue = len(world.ues)
        most = min(n_ue, study.learning.server.waits_for or n_ue)
        if not most <= clients <= 2 * n_ue:  # somewhat more is a public bound on their number
            yield notice(
                "weights-of-other-ues", clients=clients, most=most, total=n_ue, sum=most / clients
            )


_WIDE_M = 10_000.0


def of_trace(study: Study, trace: Trace) -> Iterator[Notice]:
    """How the rows of a trace are used, whether it is too wide for attacks, or too short for
    rounds.
    """
    data = None if study.learning is None else study.learning.data
    if share := getattr(data, "hold_out", 0.0):
        by = getattr(data, "held_out_by", ("sample",))
        what = " and of the ".join({"sample": "rows"}.get(word, f"{word}s") for word in by)
        yield notice("hold-out-drawn", percent=100 * share, what=what)
    if data is None:
        return
    if min(trace.area.side_m) > _WIDE_M and trace.origin_deg is not None:
        corners = on_globe(np.quantile(trace.position_m, [0.025, 0.975], axis=0), trace.origin_deg)
        yield notice(
            "trace-wide", box=",".join(f"{value:.3f}" for value in corners[:, ::-1].ravel())
        )
    span_s = np.ptp(trace.time_s)
    if span_s < 2 * study.round_s:
        yield notice("trace-short", span_s=span_s, round_s=study.round_s)


def _homes(world: World) -> Iterator[Notice]:
    """How many UEs of a trace have no home, and how many of these too few nights."""
    none = np.isnan(world.places.home_m[:, 0])
    nights = world.places.nights
    if nights is not None and none.any():
        few = (none & (nights < FEWEST_NIGHTS)).sum()
        yield notice(
            "homes-missing", number=none.sum(), total=len(none), nights=FEWEST_NIGHTS, few=few
        )


def of_summary(summary: Fields) -> Iterator[Notice]:
    """Why results of a run mean little."""
    rounds = summary.get("rounds.played") or 0
    refused = summary.get("refused.everybody_rounds")
    if summary.get("rounds.stopped_by_budget") and rounds == 0:
        yield notice("budget-admits-nothing")
    elif summary.get("samples.count") == 0:
        yield notice("nothing-measured")
    elif summary.get("samples.selected") == 0 and refused != rounds:
        n = summary.get("rounds.held_out")
        held_out = f": in {n} of them all data were held out" if n else ""
        yield notice("nothing-sent", rounds=counted(rounds, "round"), held_out=held_out)
    for key, value in summary.items():
        if value == 100 and (step := BY_KEY["curation.NAME.fallback.percent"].name_in(key)):
            yield notice("curation-without-cluster", step=step)
        if value and (mechanism := BY_KEY["audit.NAME.violated"].name_in(key)):
            yield notice("canaries-violated", mechanism=mechanism, rows=counted(value, "row"))
    if overflowed := summary.get("updates.non_finite"):
        yield notice(
            "updates-overflowed",
            number=overflowed,
            updates=counted(summary["updates.sent"], "update"),
        )
    if refused:
        names = ", ".join(filter(None, map(BY_KEY["refused.reason.NAME"].name_in, summary)))
        reasons = f" ({names})" if names else ""
        yield notice(
            "everybody-refused", number=refused, rounds=counted(rounds, "round"), reasons=reasons
        )
    if summary.get("updates.sent") and summary.get("updates.decoded.percent") == 0:
        yield notice("nothing-decoded")
    if summary.get("utility.useful") is False:
        yield notice("model-not-useful")
    if summary.get("radio.samples", 1) == 0:
        yield notice("nobody-present")
