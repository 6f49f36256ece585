"""The page of a training: answers, a curve over seeds, a table of policies that sorts by its
figures."""

import re
import shutil

import numpy as np
import pytest
from pages import change_json, figures, find_missing
from refused import catch_line
from rows import read_yaml
from tabled import cases

from netsim.errors import BadInput
from netsim.record import write_json
from scenarios.app.report.report import write_report
from scenarios.app.report.training_page import Seeds, build_training_outcome
from scenarios.app.results.folder import CURVE, EVALUATIONS, KIND, TRAINING, Failed, write_failures
from scenarios.app.results.screen import lay_out_screen
from scenarios.app.results.trainings import read_trainings

EVIL = "<script>alert(1)</script>"
COSTS = read_yaml("ddpg: 1.1, optimum: 1.0, average: 2.0, random: 1.5")


def train(folder, seed, scores, steps=(10, 20, 30), shift=0.0, **options):
    """The folder of a training, made up."""
    folder.mkdir(parents=True)
    manifest = read_yaml("finished: true, task: offline, steps: 30, learning_starts: 5")
    manifest |= {"kind": KIND, "title": EVIL, "seed": seed}
    write_json(folder / TRAINING, manifest | options)
    write_json(folder / "summary.json", {"steps.best": 20, "cases": 2})
    rows = [f"{step},{score},{-score},{-score}" for step, score in zip(steps, scores, strict=True)]
    (folder / CURVE).write_text("\n".join(["step,score,reward,best_reward", *rows]) + "\n")
    heads = "policy,case,cost,t_th,noise,loss,leakage,energy_j,lost,leak,named,epsilon,with_channel,evaluations"
    lines = [
        f"{name},{case},{cost + shift},3,,,,,,,,,,"
        for name, cost in COSTS.items()
        for case in (0, 1)
    ]
    (folder / EVALUATIONS).write_text("\n".join([heads, *lines]) + "\n")
    return folder


@pytest.fixture
def several(tmp_path):
    """Three seeds; one evaluated only twice."""
    train(tmp_path / "t/seed-0", 0, [3.0, 2.0, 1.0])
    train(tmp_path / "t/seed-1", 1, [5.0, 4.0, 1.4], shift=0.1)
    train(tmp_path / "t/seed-2", 2, [9.0, 6.0], steps=(10, 20), shift=0.2)
    return tmp_path / "t"


def curve(page):
    drawn = figures(page)["curve"]["data"]
    return {t["name"]: t for t in drawn if t.get("fill") is None}, drawn


@pytest.mark.parametrize(
    "name, text, message",
    [
        (CURVE, "step;score\n1;2\n", r"curve\.csv: has no column 'step'; train again"),
        (CURVE, "step,score,reward,best_reward\n", r"curve\.csv: has no rows; train again"),
        (
            CURVE,
            "step,score,reward,best_reward\n1,x,2,3\n",
            r"curve\.csv: could not convert string to float: 'x'",
        ),
        (EVALUATIONS, None, r"evaluations\.csv: damaged \(No such file"),
    ],
)
def test_damaged_tables_are_refused_with_their_file(tmp_path, name, text, message):
    folder = train(tmp_path / "t", 7, [3.0, 2.0, 1.0])
    (folder / name).unlink() if text is None else (folder / name).write_text(text)
    with pytest.raises(BadInput, match=message) as error:
        write_report(folder)
    assert len(error.value.lines) == 1


def test_policies_of_other_cases_are_refused(tmp_path):
    folder = train(tmp_path / "t", 7, [3.0, 2.0, 1.0])
    (folder / EVALUATIONS).write_text(
        (folder / EVALUATIONS).read_text().replace("average,1,", "average,5,")
    )
    with pytest.raises(
        BadInput, match=r"evaluations\.csv: average and ddpg are not judged in the same cases"
    ):
        write_report(folder)


def test_the_folder_of_several_seeds_takes_no_single_training(several):
    from scenarios.app.study.load import load
    from scenarios.app.training.train import train_agents

    with pytest.raises(
        BadInput, match=r"holds trainings of other seeds \(seed-0, seed-1, seed-2\); name them too"
    ):
        train_agents(load("power/paper"), [3], several, lambda current: None)


def test_one_seed_has_one_line_and_baselines(tmp_path):
    lines, everything = curve(write_report(train(tmp_path / "t", 7, [3.0, 2.0, 1.0])))
    assert set(lines) == {"seed 7", "baseline: optimum"}
    assert lines["seed 7"]["y"] == [3.0, 2.0, 1.0]
    assert lines["baseline: optimum"]["y"] == [1.0, 1.0]
    assert not any(t.get("fill") for t in everything)


def test_several_seeds_have_a_median_and_a_band(several):
    lines, everything = curve(write_report(several))
    assert lines["median over seeds"]["x"] == [10.0, 20.0, 30.0]
    np.testing.assert_allclose(lines["median over seeds"]["y"], [5.0, 4.0, 1.2])
    (band,) = [t for t in everything if t.get("fill")]
    assert band["y"][:3] == [4.0, 3.0, 1.1]
    assert set(lines) == {"median over seeds", "baseline: optimum"}


def test_policies_sort_by_their_means(several):
    rows = re.findall(
        r"<tr><td class=\"text\">(\w+)</td><td data-value=\"([\d.]+)\">([^<]+)</td>",
        write_report(several).read_text(),
    )
    shown = [f"{name} {float(value):g}" for name, value, _ in rows]
    assert shown == ["optimum 1.1", "ddpg 1.2", "random 1.6", "average 2.1"]
    assert all("±" in shown for *_, shown in rows)


def test_the_answer_is_what_the_terminal_prints(several):
    page = strip_links(write_report(several))
    text = train_lines(several)
    assert "above the best known optimum" in text[0]
    assert text[0] in page
    assert " ".join(line.split()[0] for line in text[1:]) == "policy optimum ddpg random average"
    assert EVIL not in page
    assert "&lt;script&gt;" in page


def test_in_a_browser_nothing_is_cut_off(several, show):
    shown = show(write_report(several), width=400)
    shown.evaluate("netsim.drawAll()")
    shown.wait_for_selector("#plot-curve .main-svg")
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shown.locator("#policies thead th", has_text="cost").get_by_role("button").click(click_count=1)
    names = shown.locator("#policies tbody td:first-child").all_inner_texts()
    assert names == ["optimum", "ddpg", "random", "average"]


def train_lines(folder):
    """What the terminal says below the heading, without the last lines."""
    outcome = build_training_outcome(Seeds.from_folder(folder))
    return "\n".join(lay_out_screen(outcome, {"page": "-"})[1:-1]).replace("\n  ", " ").split("\n")


def strip_links(page):
    """The text of a page without links to the meanings of words."""
    return re.sub("<a class=[^>]*>|</a>", "", page.read_text())


OTHERS = read_yaml("""
    fractional: 2.0, oracle: 1.0, random search: 1.2, "best response, 9 a UE": 1.1
""")


def compare_beside(folder):
    """The cells of the rows beside the best rule, by policy, and their heads."""
    lines = train_lines(folder)
    heads, *rows = lines[: next(i for i, line in enumerate(lines) if line.startswith("policy "))]
    return re.split(" {2,}", heads), {
        name: cells for name, *cells in (re.split(" {2,}", row) for row in rows)
    }


@pytest.mark.parametrize(
    "cost, text, wins",
    cases("""
1.5, ["-0.5 (-25 %)", "better", "50"], "2 of 2 (1.00, 0.34 to 1.00)"
2.25, ["0.25 (12.5 %)", "worse", "-25"], "0 of 2 (0.00, 0.00 to 0.66)"
"""),
)
def test_the_agent_stands_beside_the_best_rule_and_the_oracle(cost, text, wins, tmp_path):
    heads, rows = compare_beside(judge_policies(tmp_path / "t", {"mine": cost, **OTHERS}))
    assert heads == ["beside fractional", "difference, 2 worlds", "verdict", "of the gap, %"]
    assert rows["mine"] == text
    assert rows["oracle"] == ["-1 (-50 %)", "better", "100"]
    assert rows["best response, 9 a UE"] == ["-0.9 (-45 %)", "better", "90"]
    assert len(rows) == 3
    assert any(
        line.startswith("fractional ") and line.endswith(wins)
        for line in train_lines(tmp_path / "t")
    )
    page = write_report(tmp_path / "t").read_text()
    assert all(cell in page for cell in (*heads, *text))


@pytest.mark.parametrize(
    "oracle, text",
    cases("""
(2.2, 2.4), ["0.3 ± 1.27 (15 %)", "not distinguishable"]
(2.2, 2.2), ["0.2 (10 %)", "worse"]
(2.0, 2.0), ["0 (0 %)", "not distinguishable"]
(1.0, 2.0), ["-0.5 ± 6.35 (-25 %)", "not distinguishable"]
(1.99, 1.99), ["-0.01 (-0.5 %)", "better"]
"""),
)
def test_an_oracle_that_is_not_better_says_nothing_of_an_optimum_and_hides_no_agent(
    oracle, text, tmp_path
):
    """Of two worlds t is 12.7: gaps of 0.2 and 0.4 are 0.3 +- 12.7 * 0.1."""
    _, rows = compare_beside(
        judge_policies(tmp_path / "t", {"mine": 1.5, **OTHERS, "oracle": oracle})
    )
    assert rows["oracle"] == text
    assert rows["mine"] == ["-0.5 (-25 %)", "better"]


def test_an_agent_is_not_told_from_the_best_rule_where_the_interval_of_the_difference_has_zero(
    tmp_path,
):
    """Differences of -1 and -0.5 over two worlds: -0.75 +- 12.7 * 0.25, and of one world no
    interval at all."""
    folder = judge_policies(tmp_path / "t", {"mine": (1.0, 1.5), **OTHERS, "oracle": 0.5})
    _, rows = compare_beside(folder)
    assert rows["mine"] == ["-0.75 ± 3.18 (-37.5 %)", "not distinguishable"]
    assert rows["oracle"] == ["-1.5 (-75 %)", "better", "100"]
    table = folder / EVALUATIONS
    table.write_text(
        "".join(line for line in table.read_text().splitlines(True) if ",1," not in line)
    )
    heads, rows = compare_beside(folder)
    assert heads[1] == "difference, 1 world"
    assert rows["mine"] == [
        "-1 (-50 %)",
        "not distinguishable",
    ]


def judge_policies(folder, costs):
    """A training whose policies have these costs: one in both worlds, or one in each."""
    folder = train(folder, 1, [3.0, 2.0, 1.0], task="online", agent="mine")
    heads, *_ = (folder / EVALUATIONS).read_text().splitlines()
    lines = [
        f'"{name}",{case},{value},3,,,,,,,,,,'
        for name, own_rows in costs.items()
        for case, value in enumerate(np.broadcast_to(own_rows, 2).tolist())
    ]
    (folder / EVALUATIONS).write_text("\n".join([heads, *lines]) + "\n")
    return folder


def test_the_time_of_a_decision_stands_on_the_page_and_on_the_terminal(tmp_path):
    for seed, ms in ((1, 2.0), (2, 4.0)):
        folder = judge_policies(tmp_path / "t" / f"seed-{seed}", {"mine": 1.5, **OTHERS})
        timing = {"decision_ms": {"mine": ms, "fractional": 0.5}}
        change_json(folder / TRAINING, seed=seed, timing=timing)
    lines = train_lines(tmp_path / "t")
    heads = next(line for line in lines if line.startswith("policy "))
    ends = {line.split("  ")[0]: line.split()[-1] for line in lines[lines.index(heads) + 1 :]}
    assert heads.endswith("decision, ms")
    assert ends["mine"] == "3"
    assert ends["fractional"] == "0.5"
    assert ends["oracle"] == "–"
    assert "<th" in (text := write_report(tmp_path / "t").read_text())
    assert "decision, ms" in text


WHY = Failed("seed-2", "training", 2, 3, "MemoryError", f"no room {EVIL}")


def test_a_seed_that_failed_is_shown_and_intervals_say_on_how_many_they_stand(several):
    write_failures(several, [WHY])
    page = strip_links(write_report(several))
    text = train_lines(several)
    assert "mean over 2 of 3 seeds (1 failed) with a 95 % interval" in text[0]
    assert (
        find_missing(
            page,
            text[0],
            "Comparison with baseline policies, mean over 2 of 3 seeds (1 failed) with a 95 % interval",
            "1 run failed:",
            "training, seed 2: MemoryError: no room",
        )
        == []
    )
    assert EVIL not in page


def test_a_copy_of_a_training_is_no_other_seed(tmp_path):
    for seed in (1, 2):
        train(tmp_path / "t" / f"seed-{seed}", seed, [9.0, 6.0, 5.0])
    assert len(read_trainings(tmp_path / "t")) == 2
    shutil.copytree(tmp_path / "t/seed-1", tmp_path / "t/seed-3")
    assert "seed-3: holds the training of seed 1, as " in catch_line(read_trainings, tmp_path / "t")
