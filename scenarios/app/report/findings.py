"""What each attack of a run found, and what privacy was spent, in sentences beside the figures."""

from __future__ import annotations

import numpy as np

from scenarios.app.report.series import TimeGrid
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import audits, made_estimates
from scenarios.app.results.location_text import home_text, verdict
from scenarios.app.results.membership_text import baseline_text
from scenarios.app.results.named_text import all_named_text
from scenarios.app.results.over_seeds import value_text
from scenarios.app.results.run import Run, where
from scenarios.app.results.statistics import MEANINGFUL, counted, figure_text
from scenarios.app.results.summary import with_home


def leakage_findings(run: Run) -> list[str]:
    """A sentence for each attack, on location and on membership."""
    lines = []
    for name in run.attacks:
        clauses = (
            _error_clause(run, name), _named_clause(run, name), _home_clause(run, name), _sw1_clause(run, name),
        )  # fmt: skip
        lines.append(f"{name}: {'; '.join(c for c in clauses if c)}.")
    for name in audits(run.summary):
        auc, low, high = (value_text(run.summary.get(k.of(name))) for k in (keys.AUC_LAST, keys.AUC_LOW, keys.AUC_HIGH))
        lines.append(f"{name}: membership AUC {auc} [{low}, {high}]; {baseline_text(run.summary, name)}.")
    return lines


def privacy_findings(run: Run) -> list[str]:
    """A sentence for each mechanism that spent epsilon."""
    spent = (keys.EPSILON_MAX.name_in(key) for key in run.summary)
    lines = [_privacy_sentence(run, name) for name in spent if name is not None]
    if run.summary.get(keys.ROUNDS_STOPPED.of()):
        lines.append("Training stopped because the next round would have exceeded the privacy budget.")
    return lines


def _privacy_sentence(run: Run, name: str) -> str:
    """The epsilon of the UE of an account that spent most, and what it holds for."""
    account = run.tables["privacy"]
    mine = np.array([m == name for m in account["mechanism"]], dtype=bool) & ~np.isnan(account["ue"])
    rows = where(account, mine)
    if not mine.any():
        return f"{name} drew noise, but its privacy account is missing."
    worst = int(np.argmax(np.nan_to_num(rows["epsilon"], nan=np.inf)))
    row = {k: v[worst] for k, v in rows.items()}
    whom = "every UE" if row["ue"] < 0 else "the UE that spent most"
    accountants = ", ".join(f"{word} {figure_text(row[word.lower()])}" for word in ("naive", "zCDP", "RDP"))
    text = (
        f"{name} spent epsilon {figure_text(row['epsilon'])} at delta {row['delta']:g} of {whom} (unit {row['unit']}, "
        f"{row['relation']}; {row['accountant']} over {counted(int(row['draws']), 'draw')}; {accountants})"
    )
    if np.isfinite(row["with_channel"]):
        text += f", {figure_text(row['with_channel'])} if the channel's noise counts"
    if row["epsilon"] > MEANINGFUL:
        text += f"; above {MEANINGFUL:.0f} it is no meaningful guarantee"
    if row["ue"] < 0:
        text += "; it covers the published model, not what the server receives"
    return text + "."


def _error_clause(run: Run, name: str) -> str:
    """The centroid error of an attack, and how many of its estimates diverged."""
    median, diverged = (run.summary.get(key.of(name)) for key in (keys.ERROR_MEDIAN, keys.DIVERGED))
    if median is None and diverged is None:  # of one that only answers, the places that it names are told
        return "" if _named_clause(run, name) else "no estimate"
    lost = f"{value_text(diverged)} % of the estimates diverged"
    if median is None:
        return f"centroid error infinite (median), {lost}"
    n_ue = run.summary.get(keys.UES_COUNT.of()) or 1
    compared = run.summary.get(keys.COMPARED_ROUNDS.of(name)) or 0
    played = run.summary.get(keys.ROUNDS_PLAYED.of()) or 0
    over = counted(compared, "round") + (f" of {n_ue} UEs" if n_ue > 1 else "")
    some = f"; {compared} of {counted(played, 'round')} were compared" if compared != played else ""
    text = f"centroid error {value_text(median, 'm')} m (median over {over}{some})"
    return f"{text}, {lost}" if diverged else text


def _named_clause(run: Run, name: str) -> str:
    """Of how many UEs an attack names places at the end, beside chance; empty where none has any."""
    return all_named_text(run.summary, name)


def _home_clause(run: Run, name: str) -> str:
    """How near home an attack came; empty where no attacked UE has one."""
    rows = run.rows("leakage", "attack", name)
    n = len(np.intersect1d(rows["ue"], with_home(run.tables["ues"])))
    if run.summary.get(keys.HOME_NEAR_PERCENT.of(name)) is None or not n or not made_estimates(run.summary, name):
        return ""
    return f"home: {home_text(run.summary, name)} ({counted(n, 'UE')} with a home)"


def _sw1_clause(run: Run, name: str) -> str:
    """Whether the estimates are better than random guesses, at the end and on average over UEs."""
    rows = run.rows("leakage", "attack", name)
    columns = ("sw1_m", "guess_sw1_m_q05", "guess_sw1_m_q95")
    if not all(np.isfinite(rows[c]).any() for c in columns):
        return ""
    grid = TimeGrid.of(rows)
    own, low, high = (float(np.nanmean(grid.so_far(c)[-1])) for c in columns)
    return (
        f"sliced Wasserstein distance {figure_text(own, 'm')} m, {verdict(own, low, high)} the same number of random "
        f"guesses ({figure_text(low, 'm')} to {figure_text(high, 'm')} m)"
    )
