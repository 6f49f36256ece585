"""Pages of reports as texts and figures, and sweeps of fakes to draw them of."""

import csv
import json
import re
import shutil
from pathlib import Path

from netsim.record import write_json


def read_json(path):
    """Read a file of JSON."""
    return json.loads(path.read_text())


def read_csv(path):
    """Read the rows of a CSV, as text by column."""
    return list(csv.DictReader(path.read_text().splitlines()))


def change_json(path, **changes):
    """Change values of a JSON object in a file."""
    write_json(path, read_json(path) | changes)


def read_page(page):
    if isinstance(page, str):
        return page
    return page.read_text(encoding="utf-8")


def body(page):
    """What is read on a page: without scripts, style and links to the meanings of words."""
    return re.sub(
        r'<a class="term"[^>]*>(.*?)</a>',
        r"\1",
        re.sub(r"(?s)<(script|style)\b.*?</\1>", "", read_page(page)),
    )


def find_missing(text, *words):
    """Find the words that a text lacks."""
    return [word for word in words if word not in text]


def figures(page):
    """The figures of a page by key."""
    return json.loads(re.search(r'(?s)id="drawn">(.*?)</script>', read_page(page))[1])


def fake_sweep(run, folder, rows, **options):
    """A sweep of copies r0, r1, … of a run, of (label, seed, changes of the summary) each."""
    lines = ["folder,label,seed"]
    for k, (label, seed, changes) in enumerate(rows):
        copy = Path(shutil.copytree(run, folder / f"r{k}"))
        change_json(copy / "summary.json", **changes)
        change_json(copy / "manifest.json", seed=seed)
        quoted = label.replace('"', '""')
        lines.append(f'r{k},"{quoted}",{seed}')
    (folder / "runs.csv").write_text("\n".join(lines) + "\n")
    write_json(folder / "sweep.json", {"kind": "sweep", "title": "tiny", **options})
    return folder
