"""The page of a training: the learning curve of the agent, and its cost beside baseline policies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl.agents import AGENT
from rl.settings import ONE_STEP, OPTIMUM, ORACLE, RANDOM, VISITED
from scenarios.app.report.episode_page import SCRIPTS, STYLES, episode_chapter
from scenarios.app.report.html import Cell as TableCell
from scenarios.app.report.html import Chapter, Mark, answers, facts, headings, page, paragraphs, table
from scenarios.app.report.plot import DARK, GREY, PALETTE, Cell, Figure, Look, Panel, line, looks, mosaic
from scenarios.app.report.series import median_line
from scenarios.app.report.training_answer import answer, between, over_seeds, untrained
from scenarios.app.report.training_bounds import bounds_table
from scenarios.app.report.training_seeds import seeds_table
from scenarios.app.results.failures import Failed, failure_lines
from scenarios.app.results.trainings import METRICS, Training, means_of, paired, summaries_of

_HEADS = {
    "cost": "cost", "t_th": "T_th, rounds", "noise": "noise", "loss": "final loss", "leakage": "leakage",
    "lost": "lost updates", "leak": "leak",
    "energy_j": "energy, J", "evaluations": "evaluations",
}  # fmt: skip


def train_page(trained: list[Training], failed: Sequence[Failed] = ()) -> str:
    """The page of one training, or of several that differ in their seed. failed : seeds that have none."""
    first = trained[0].manifest
    seconds = sum(float(t.manifest.get("timing", {}).get("trained_s", 0.0)) for t in trained) / len(trained)
    pairs = {
        "task": str(first.get("task")), "steps": f"{first.get('steps'):,}",
        "seeds": ", ".join(str(t.manifest.get("seed")) for t in trained), "training, mean": f"{seconds:.0f} s",
    }  # fmt: skip
    planned_s = [float(s) for t in trained if (s := t.manifest.get("timing", {}).get("planned_round_s")) is not None]
    if planned_s:
        pairs[f"{ONE_STEP}, time a round"] = f"{1000 * np.mean(planned_s):.0f} ms"
    title = str(first.get("title"))
    header = (
        headings(title, str(first.get("paper") or ""))
        + answers(answer(trained, len(failed)))
        + paragraphs([*untrained(trained), *([" ".join(failure_lines(failed))] if failed else [])], "warns")
    )
    episode, data = episode_chapter(trained[0].episode, first.get("seed"))
    chapters = [
        Chapter("training", "Training", [_curves(trained), seeds_table(trained, failed)]),
        episode,
        Chapter(
            "policies-all",
            "Policies",
            [_table(trained, len(failed)) + bounds_table(summaries_of(trained), list(means_of(trained)))],
        ),
        Chapter("configuration", "Configuration", [facts(pairs)]),
    ]
    return page(title, header, chapters, data, *((SCRIPTS, STYLES) if data else ()))


def _differences(trained: list[Training], name: str) -> list[TableCell]:
    """Cost of the agent less that of a policy, with its interval over worlds, and in how many pairs it is lower."""
    if not trained[0].online or name == trained[0].agent:
        return ["", ""]
    costs, others = paired(trained, name)
    gaps = costs - others
    wins = int((gaps < 0).sum())
    return [
        Mark(between(gaps.mean(axis=0)), float(gaps.mean())), Mark(f"{wins} of {gaps.size}", float(wins)),
    ]  # fmt: skip


_STEPS: Figure = {"title": {"text": "steps"}}
_MEDIAN = Look("median over seeds", PALETTE[0])


def _curves(trained: list[Training]) -> Panel:
    """Cost of the policy over the steps of its training: a line per seed, and of several their median and quartiles."""
    seeds, alone = [f"seed {t.manifest.get('seed')}" for t in trained], len(trained) == 1
    drawn: list[Figure] = []
    for look, t in zip(looks(seeds), trained, strict=True):
        steps, score = t.curve["step"].tolist(), t.curve["score"]
        thin = Look(look.name, GREY, dash=look.dash)
        drawn.append(line(look, steps, score) if alone else line(thin, steps, score, mode="lines", opacity=0.55))
    if not alone:
        at = np.unique(np.concatenate([t.curve["step"] for t in trained]))
        grid = np.full((len(at), len(trained)), np.nan)
        for k, t in enumerate(trained):
            grid[np.searchsorted(at, t.curve["step"]), k] = t.curve["score"]
        drawn += median_line(_MEDIAN, at.tolist(), grid, "")
    means = means_of(trained)
    ends = [float(trained[0].curve["step"].min()), float(trained[0].curve["step"].max())]
    if not trained[0].online:
        for name, dash in (("average", "dot"), ("random", "longdash"), (OPTIMUM, "dashdot")):
            level = float(means[name]["cost"].mean())
            drawn.append(line(Look(f"baseline: {name}", DARK, dash=dash), ends, np.array([level, level]), mode="lines"))
    caption = (
        "Lower is better: cost of an episode (minus the sum of its rewards) of the policy without exploration, in the "
        "evaluation worlds."
        if trained[0].online
        else "Lower is better: bound L at the power of the policy without exploration over that at average power."
    ) + ("" if alone else " A line per seed; the thick one is their median, the band their quartiles.")
    return Panel("curve", "Learning curve", caption, mosaic([Cell("cost", drawn, near=True)], _STEPS))


def _table(trained: list[Training], failed: int) -> str:
    """Every policy's mean figures, with intervals over seeds where there are several."""
    means = means_of(trained)
    columns = [f for f in METRICS if any(np.isfinite(m[f]).any() for m in means.values())]
    rows, online = list[list[TableCell]](), trained[0].online
    for name, figures in sorted(means.items(), key=lambda m: float(m[1]["cost"].mean())):
        cells = [
            Mark("–", np.nan) if f == "t_th" and (figures[f] < 0).any()
            else Mark(between(figures[f]), float(figures[f].mean()))
            for f in columns
        ]  # fmt: skip
        rows.append([name, cells[0], *(_differences(trained, name) if online else []), *cells[1:], _description(name)])
    beside = ["agent less this", "lower in"] if online else []
    heads = ["policy", _HEADS[columns[0]], *beside, *(_HEADS[f] for f in columns[1:]), "description"]
    over = f", mean over {over_seeds(len(trained), failed)}" if len(trained) + failed > 1 else ""
    interval = " with its 95 % interval" if len(trained) > 1 else ""
    return table(f"Comparison with baseline policies{over}{interval}", heads, rows, "policies")


def _description(name: str) -> str:
    """What a policy is."""
    words = {
        AGENT: "the learned policy, without exploration",
        **dict.fromkeys(
            ("td3", "sac", "score-function"),
            "the learned policy, without exploration: a network for each UE, added to the best rule",
        ),
        ORACLE: "the best powers that a search finds for each recorded round with everything known, played live",
        RANDOM: "the log-linear rule with the best of random parameters, as many as tuning tried",
        ONE_STEP: "a search in every round by gains and the requirement of the last round; evaluations: of an episode",
        "constant": "the same power for all",
        "equal SNR": "the same received power from all",
        "inverse amplitude": "falls with the amplitude of the channel",
        "required SNR": "a multiple of the SNR that budgets asked for last",
        "capped inversion": "the same received power, as far as a cap on power allows",
        "rank ladder": "received powers in steps, by rank in the cell",
        "log-linear": "a linear rule of six features",
        VISITED: "the best power vector of all training steps",
        OPTIMUM: "the better of plateaus and evolution",
        "amplitude": "the best s G / ||h||: the weight of a UE over the amplitude of its channel",
        "average": "equal split of the middle of the allowed total power",
        "full": "equal split of the largest allowed total power",
        "random": "the best of as many random vectors as training steps",
        "plateaus": "SLSQP on the smooth problem of every T_th",
        "evolution": "differential evolution over log power",
    }
    return words.get(name, "compensates a share of the path loss")
