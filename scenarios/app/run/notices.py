"""What a person should know of a study before it is played, and of its results at the end of a
run.
"""

import numpy as np

from fl.aggregation import Uniform
from netsim.errors import format_count
from netsim.maps import unproject_m
from netsim.notice import Notices
from netsim.traces.home_work import FEWEST_NIGHTS
from netsim.traces.trace import Trace
from netsim.world.world import World
from scenarios.app.results.summary_keys import BY_KEY
from scenarios.app.study import Fields
from scenarios.app.study.notice import notice
from scenarios.app.study.study import Study


def find_study_notices(study: Study, world: World) -> Notices:
    """Yield what only the whole study shows: its trace, its rounds, and its weights."""
    if world.trace is not None:
        yield from find_trace_notices(study, world.trace)
        yield from _find_home_notices(world)
    if study.learning is None:
        return
    if study.world.duration_s is not None and study.round_s > world.duration_s:
        yield notice("round-cut-short", round_s=study.round_s, duration_s=world.duration_s)
    if isinstance(study.learning.aggregation, Uniform):
        clients = study.learning.aggregation.clients
        n_ue = len(world.ues)
        max_senders = min(n_ue, study.learning.server.waits_for or n_ue)
        if (
            not max_senders <= clients <= 2 * n_ue
        ):  # somewhat more is a public bound on their number
            yield notice(
                "weights-of-other-ues",
                clients=clients,
                most=max_senders,
                total=n_ue,
                sum=max_senders / clients,
            )


_WIDE_M = 10_000.0
_WHOLES = {
    "sample": "rows",
    "day": "days, mostly of the same roads (--set 'learning.data.hold_out_by=[day, block]' also "
    "scores ground where nobody measured)",
}


def find_trace_notices(study: Study, trace: Trace) -> Notices:
    """Yield how the rows of a trace are used, whether it is too wide for attacks, or too short for
    rounds.
    """
    data = None if study.learning is None else study.learning.data
    if share := getattr(data, "hold_out", 0.0):
        by = getattr(data, "held_out_by", ("sample",))
        held_out = " and of the ".join(_WHOLES.get(word, f"{word}s") for word in by)
        yield notice("hold-out-drawn", percent=100 * share, what=held_out)
    if data is None:
        return
    if min(trace.area.side_m) > _WIDE_M and trace.origin_deg is not None:
        corners = unproject_m(
            np.quantile(trace.position_m, [0.025, 0.975], axis=0), trace.origin_deg
        )
        yield notice(
            "trace-wide", box=",".join(f"{value:.3f}" for value in corners[:, ::-1].ravel())
        )
    span_s = np.ptp(trace.time_s)
    if span_s < 2 * study.round_s:
        yield notice("trace-short", span_s=span_s, round_s=study.round_s)


def _find_home_notices(world: World) -> Notices:
    """Yield how many UEs of a trace have no home, and how many of these too few nights."""
    none = np.isnan(world.places.home_m[:, 0])
    nights = world.places.nights
    if nights is not None and none.any():
        few = (none & (nights < FEWEST_NIGHTS)).sum()
        yield notice(
            "homes-missing", number=none.sum(), total=len(none), nights=FEWEST_NIGHTS, few=few
        )


def find_summary_notices(summary: Fields) -> Notices:
    """Yield why results of a run mean little."""
    rounds = summary.get("rounds.played") or 0
    refused = summary.get("refused.everybody_rounds")
    if summary.get("rounds.stopped_by_budget") and rounds == 0:
        yield notice("budget-admits-nothing")
    elif summary.get("samples.count") == 0:
        yield notice("nothing-measured")
    elif summary.get("samples.selected") == 0 and refused != rounds:
        n = summary.get("rounds.held_out")
        yield notice(
            "nothing-sent",
            rounds=format_count(rounds, "round"),
            held_out=(f": in {n} of them all data were held out" if n else ""),
        )
    for key, value in summary.items():
        if value == 100 and (step := BY_KEY["curation.NAME.fallback.percent"].parse_name(key)):
            yield notice("curation-without-cluster", step=step)
        if value and (mechanism := BY_KEY["audit.NAME.violated"].parse_name(key)):
            yield notice("canaries-violated", mechanism=mechanism, rows=format_count(value, "row"))
    if overflowed := summary.get("updates.non_finite"):
        yield notice(
            "updates-overflowed",
            number=overflowed,
            updates=format_count(summary["updates.sent"], "update"),
        )
    if refused:
        names = ", ".join(filter(None, map(BY_KEY["refused.reason.NAME"].parse_name, summary)))
        yield notice(
            "everybody-refused",
            number=refused,
            rounds=format_count(rounds, "round"),
            reasons=f" ({names})" if names else "",
        )
    if summary.get("updates.sent") and summary.get("updates.decoded.percent") == 0:
        yield notice("nothing-decoded")
    if summary.get("utility.useful") is False:
        yield notice("model-not-useful")
    if summary.get("radio.samples", 1) == 0:
        yield notice("nobody-present")
