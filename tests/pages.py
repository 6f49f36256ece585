"""Pages of reports as texts and figures, and sweeps of fakes to draw them of."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from netsim.record import write_json


def change_json(path: Path, **changes: Any) -> None:
    write_json(path, json.loads(path.read_text()) | changes)


def text_of(page: Path | str) -> str:
    if isinstance(page, str):
        return page
    return page.read_text(encoding="utf-8")


def body(page: Path | str) -> str:
    """What is read on a page: without scripts, style and links to the meanings of words."""
    text = re.sub(r"<(script|style)\b.*?</\1>", "", text_of(page), flags=re.DOTALL)
    return re.sub(r'<a class="term"[^>]*>(.*?)</a>', r"\1", text)


def figures(page: Path | str) -> Any:
    """The figures of a page by key."""
    return json.loads(re.search(r'id="drawn">(.*?)</script>', text_of(page), flags=re.DOTALL)[1])


def fake_sweep(
    run: Path, folder: Path, rows: list[tuple[str, int, dict[str, Any]]], **more: Any
) -> Path:
    """A sweep of copies r0, r1, … of a run, of (label, seed, changes of the summary) each."""
    lines = ["folder,label,seed"]
    for k, (label, seed, changes) in enumerate(rows):
        copy = Path(shutil.copytree(run, folder / f"r{k}"))
        change_json(copy / "summary.json", **changes)
        change_json(copy / "manifest.json", seed=seed)
        quoted = label.replace('"', '""')
        lines.append(f'r{k},"{quoted}",{seed}')
    (folder / "runs.csv").write_text("\n".join(lines) + "\n")
    write_json(folder / "sweep.json", {"kind": "sweep", "title": "tiny", **more})
    return folder
