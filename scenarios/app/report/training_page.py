"""The page of a training: the learning curve of the agent, and its cost beside baseline policies."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.safe import what_is
from netsim.units import FloatArray
from rl.agents import AGENT
from rl.settings import ONE_STEP, OPTIMUM, ORACLE, RANDOM, VISITED
from scenarios.app.report.episode_page import SCRIPTS, STYLES, episode_chapter
from scenarios.app.report.html import Cell as TableCell
from scenarios.app.report.html import Chapter, Mark, answers, facts, headings, page, paragraphs, table
from scenarios.app.report.plot import DARK, GREY, PALETTE, Cell, Figure, Look, Panel, line, looks, mosaic
from scenarios.app.report.series import median_line
from scenarios.app.report.training_bounds import bounds_line, bounds_table, breaks_none
from scenarios.app.results.episode import EpisodeRead, read_episode
from scenarios.app.results.failures import read_failures
from scenarios.app.results.folder import SUMMARY, read_json, text_of
from scenarios.app.results.improvement import probability_of_improvement
from scenarios.app.results.statistics import figure_text, half_width, interquartile_mean
from scenarios.app.results.training_folder import CURVE, EVALUATIONS, KIND, TRAINING
from scenarios.app.study.yaml_document import one_line

_METRICS = ("cost", "t_th", "noise", "loss", "leakage", "lost", "leak", "energy_j", "evaluations")
_HEADS = {
    "cost": "cost", "t_th": "T_th, rounds", "noise": "noise", "loss": "final loss", "leakage": "leakage",
    "lost": "lost updates", "leak": "leak",
    "energy_j": "energy, J", "evaluations": "evaluations",
}  # fmt: skip


@dataclass(frozen=True)
class Training:
    """The folder of a training, read back."""

    manifest: dict[str, Any]
    summary: dict[str, Any]
    curve: dict[str, FloatArray]
    evaluations: list[dict[str, Any]]
    episode: EpisodeRead | None

    @property
    def agent(self) -> str:
        """What comparisons call the agent."""
        return str(self.manifest.get("agent", AGENT))

    @property
    def online(self) -> bool:
        return bool(self.manifest.get("task") == "online")


def trainings(folder: Path) -> list[Training]:
    """Those of a folder: its own, or one in each folder inside that did not fail; none where nothing was trained."""
    trained = [folder] if what_is(folder / TRAINING) else sorted(p.parent for p in folder.glob(f"seed-*/{TRAINING}"))
    failed = {one.folder for one in read_failures(folder)}
    return [_read(p) for p in trained if p.name not in failed]


def _read(folder: Path) -> Training:
    manifest = read_json(folder / TRAINING)
    if manifest.get("kind") != KIND or not manifest.get("finished"):
        raise BadInput(one_line(f"{folder}: this training is not finished; start it again and it goes on"))
    try:
        curve = _columns(folder / CURVE, ("step", "score", "reward", "best_reward"))
        with text_of(folder / EVALUATIONS) as f:
            rows = list(csv.DictReader(f))
        evaluations = [{"policy": r["policy"], **{k: float(r[k] or "nan") for k in ("case", *_METRICS)}} for r in rows]
        if not evaluations:
            raise ValueError("empty")
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise BadInput(one_line(f"{folder}: damaged ({error!r}); train again")) from None
    return Training(manifest, read_json(folder / SUMMARY), curve, evaluations, read_episode(folder))


def _columns(path: Path, names: tuple[str, ...]) -> dict[str, FloatArray]:
    with text_of(path) as f:
        rows = list(csv.DictReader(f))
    return {name: np.array([float(r[name] or "nan") for r in rows]) for name in names}


def train_lines(folder: Path) -> list[str]:
    """The result of a training in sentences, for the terminal."""
    trained = trainings(folder)
    return [*_untrained(trained), *(text for _, text in _answer(trained))]


def train_page(trained: list[Training]) -> str:
    """The page of one training, or of several that differ in their seed."""
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
        + answers(_answer(trained))
        + paragraphs(_untrained(trained), "warns")
    )
    episode, data = episode_chapter(trained[0].episode, first.get("seed"))
    chapters = [
        Chapter("training", "Training", [_curves(trained)]),
        episode,
        Chapter(
            "policies-all", "Policies", [_table(trained) + bounds_table(_summaries(trained), list(_means(trained)))]
        ),
        Chapter("configuration", "Configuration", [facts(pairs)]),
    ]
    return page(title, header, chapters, data, *((SCRIPTS, STYLES) if data else ()))


def _summaries(trained: list[Training]) -> list[dict[str, Any]]:
    return [t.summary for t in trained]


def _means(trained: list[Training]) -> dict[str, dict[str, FloatArray]]:
    """Policy -> metric -> its mean over cases, one entry per training."""
    names = list(dict.fromkeys(r["policy"] for t in trained for r in t.evaluations))
    return {
        n: {
            f: np.array([np.mean([r[f] for r in t.evaluations if r["policy"] == n]) for t in trained]) for f in _METRICS
        }
        for n in names
    }


def _gaps(trained: list[Training], name: str, other: str) -> FloatArray:
    """Cost of a policy over that of another minus 1, in percent: mean over cases, one entry per training."""
    gaps = []
    for t in trained:
        costs = {(r["policy"], r["case"]): r["cost"] for r in t.evaluations}
        cases = [c for p, c in costs if p == name]
        gaps.append(np.mean([100 * (costs[name, c] / costs[other, c] - 1) for c in cases if (other, c) in costs]))
    return np.array(gaps)


def _between(values: FloatArray) -> str:
    """A mean, with its 95 % interval where there are several values."""
    mean = figure_text(float(values.mean()))
    return mean if len(values) < 2 else f"{mean} ± {figure_text(half_width(values))}"


def _untrained(trained: list[Training]) -> list[str]:
    """What must be known of a training in which no gradient step was made, or none that helped."""
    first = trained[0].manifest
    steps, starts = first.get("steps", 0), first.get("learning_starts", 0)
    if steps <= starts:
        return [
            f"The policy is untrained: all {steps:,} steps were random, since learning starts after {starts:,} "
            "(train.agent.learning_starts). Take more steps."
        ]
    if all(t.summary.get("steps.best") == 0 for t in trained) and first.get("residual"):
        return ["The policy is the rule that training began with: nothing that it found is better."]
    if all(t.summary.get("steps.best") == 0 for t in trained):
        return ["The policy is untrained: no evaluation after the first was better. Take more steps."]
    return []


def _answer(trained: list[Training]) -> list[tuple[str, str]]:
    """How good the policy is, beside what it is compared with: what is asked, and a sentence."""
    names, lines = list(_means(trained)), list[tuple[str, str]]()
    many = f", mean over {len(trained)} seeds with a 95 % interval" if len(trained) > 1 else ""
    if OPTIMUM in names:
        gap = _gaps(trained, trained[0].agent, OPTIMUM)
        most = figure_text(float(gap.max()))
        text = f"The policy is {_between(gap)} % above the best known optimum (max {most}){many}."
        lines.append(("How good it is", text))
        if VISITED in names:
            seen = _gaps(trained, VISITED, OPTIMUM)
            text = (
                f"The best power vector of the training is {_between(seen)} % above the optimum, "
                f"random search with the same number of evaluations {_between(_gaps(trained, 'random', OPTIMUM))} %."
            )
            lines.append(("Beside random search", text))
        text = f"Against average power the bound changes by {_between(_gaps(trained, trained[0].agent, 'average'))} %."
        lines.append(("Beside average power", text))
    if ORACLE in names:
        lines.append(("How good it is", _closed(trained)))
    lines += bounds_line(_summaries(trained), trained[0].agent)
    return [*lines, *(_beside(trained, name) for name in names if trained[0].online and name != trained[0].agent)]


def _closed(trained: list[Training]) -> str:
    """How much of what the best rule leaves to the oracle the agent gets."""
    means = {name: figures["cost"] for name, figures in _means(trained).items()}
    others = [name for name in means if name not in (ORACLE, RANDOM, ONE_STEP, trained[0].agent)]
    rules = [name for name in others if breaks_none(_summaries(trained), name)] or others
    best = min(rules, key=lambda name: float(means[name].mean()))
    gap = means[best] - means[ORACLE]
    if not (gap > 0).all():
        return f"Nothing is left between the best rule ({best}) and the oracle: a rule is the optimum here."
    share = 100 * (means[best] - means[trained[0].agent]) / gap
    many = f", mean over {len(trained)} seeds with a 95 % interval" if len(trained) > 1 else ""
    if share.mean() < 0:
        return (
            f"The best rule ({best}) is better than the agent, by {_between(-share)} % of the gap between it and the "
            f"oracle{many}."
        )
    return f"The agent closes {_between(share)} % of the gap between the best rule ({best}) and the oracle{many}."


def _beside(trained: list[Training], name: str) -> tuple[str, str]:
    """The agent's cost against that of a baseline policy in the same worlds; intervals over worlds and seeds apart."""
    costs, others = (np.array([_costs(t, of, t.agent) for t in trained]) for of in (trained[0].agent, name))
    gaps = costs - others  # (seeds, worlds)
    over = [f"± {figure_text(half_width(gaps.mean(axis=0)))} over worlds"] if gaps.shape[1] > 1 else []
    if len(gaps) > 1:
        over.append(f"± {figure_text(half_width(gaps.mean(axis=1)))} over {len(gaps)} seeds")
    said = f" ({', '.join(over)}; 95 %)" if over else ""
    middle = figure_text(interquartile_mean(gaps))
    chance, low, high = (f"{value:.2f}" for value in probability_of_improvement(costs, others))
    among = f" (95 % {low} to {high})" if gaps.size > 1 else ""
    worlds = "1 unseen world" if gaps.shape[1] == 1 else f"{gaps.shape[1]} unseen worlds"
    return f"Beside {name} power", (
        f"In {worlds} the agent's cost differs from that of {name} power by "
        f"{figure_text(float(gaps.mean()))}{said}, interquartile mean {middle}; it is lower in "
        f"{int((gaps < 0).sum())} of {gaps.size}, with probability {chance}{among}."
    )


def _costs(trained: Training, name: str, agent: str) -> FloatArray:
    """Cost of a policy in each world of the agent's."""
    costs = {(r["policy"], r["case"]): r["cost"] for r in trained.evaluations}
    return np.array([costs[name, case] for policy, case in costs if policy == agent])


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
    means = _means(trained)
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
    return Panel("curve", "Learning curve", caption, mosaic([Cell("cost", drawn)], {"title": {"text": "steps"}}))


def _table(trained: list[Training]) -> str:
    means = _means(trained)
    columns = [f for f in _METRICS if any(np.isfinite(m[f]).any() for m in means.values())]
    rows: list[list[TableCell]] = []
    for name, figures in sorted(means.items(), key=lambda m: float(m[1]["cost"].mean())):
        cells = [
            Mark("–", np.nan) if f == "t_th" and (figures[f] < 0).any()
            else Mark(_between(figures[f]), float(figures[f].mean()))
            for f in columns
        ]  # fmt: skip
        rows.append([name, *cells, _description(name)])
    heads = ["policy", *(_HEADS[f] for f in columns), "description"]
    return table("Comparison with baseline policies", heads, rows, "policies")


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
