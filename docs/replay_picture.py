"""Draw the moving picture of the README: ``python docs/replay_picture.py runs/city/1 docs/_static/replay.webp``.

The run is ``netsim run city``. Needs playwright and a Chromium of this machine (tests/browser.py), and pillow.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from runpy import run_path

import numpy as np
from PIL import Image

from scenarios.app.report.report import report

WIDTH, FRAMES, LAST_MS, FRAME_MS = 760, 56, 3000, 140
SHARES = np.concatenate([np.linspace(0.0, 0.18, FRAMES * 5 // 8), np.linspace(0.2, 1.0, FRAMES * 3 // 8)])
"""moments of the run: its first days slowly, since then most is known"""


def draw(folder: Path, out: Path) -> None:
    """Frames of the map and its curve, from the first round to the end."""
    tools = run_path(str(Path(__file__).parents[1] / "tests" / "browser.py"))
    with tools["started"]() as browser:
        page = tools["Pages"](browser)(report(folder), width=1180, height=1000, device_scale_factor=1)
        end_s = page.evaluate("netsim.replay.then((r) => r.state().end_s)")
        place = page.locator("#replay")
        frames = []
        for share in SHARES:
            page.evaluate("([s]) => netsim.replay.then((r) => r.seek(s))", [float(share * end_s)])
            page.wait_for_timeout(60)
            picture = Image.open(io.BytesIO(place.screenshot())).convert("RGB")
            frames.append(picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)), Image.LANCZOS))
    durations = [FRAME_MS] * (len(frames) - 1) + [LAST_MS]
    frames[0].save(out, save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=45, method=6)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
