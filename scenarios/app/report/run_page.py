"""The page of a run: the answer, what leaked, what it was worth, and what it holds for."""

from __future__ import annotations

from scenarios.app.report.figures.run import run_chapters
from scenarios.app.report.html import answers, headings, page, paragraphs
from scenarios.app.report.replay.chapter import SCRIPTS, STYLES, replay_chapter
from scenarios.app.report.settings import configuration, run_facts, run_warnings
from scenarios.app.report.summary_tables import summary_chapter
from scenarios.app.results.glance import glance
from scenarios.app.results.run import Run
from scenarios.app.results.summary_warnings import warnings


def single(run: Run) -> str:
    """The page of one run."""
    manifest = run.manifest
    said = glance(run.summary, run.tables["privacy"], run.study, str(manifest.get("command") or ""))
    top = (
        headings(manifest["title"], str(run.study.get("paper") or ""))
        + answers(said)
        + paragraphs([*warnings(run.summary), *run_warnings(manifest)], "warns")
    )
    replay, data = replay_chapter(run)
    chapters = [replay, *run_chapters(run), summary_chapter(run), configuration(run, run_facts(run))]
    return page(manifest["title"], top, chapters, data, *((SCRIPTS, STYLES) if data else ()))
