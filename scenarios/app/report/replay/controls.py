"""The map's place on a page and its controls, as HTML; what they do stands in `assets/replay.js`."""

from __future__ import annotations

from collections.abc import Sequence

_KEYS = (
    "Keys, while the map has the focus: space plays and pauses, left and right go to the round before and after (with "
    "shift by a hundredth of the run), Home and End to both ends, + and &minus; zoom, 0 shows the whole area, [ and ] "
    "change the speed, Escape shows all UEs again. Drag to move the map; click a UE to see it alone."
)
_BELIEF_KEY = " b changes between what the attack believes now (filter) and in hindsight (smoother)."
BESIDE = 1.3  # width over height of a map up to which there is room for the curve beside it
_BACK, _NEXT = "M4 4h3v16H4zM20 4v16L8 12z", "M17 4h3v16h-3zM4 4v16l12-8z"
_PLAY, _PAUSE = "M6 3l15 9-15 9z", "M5 4h5v16H5zM14 4h5v16h-5z"


def controls(
    ratio: float,
    layers: Sequence[tuple[str, str, bool]],
    coverage: Sequence[tuple[str, str]],
    attacked: bool,
    believes: bool,
) -> str:
    """Canvases and controls.

    ratio : width over height of the map. layers : key, label, whether it is on. coverage : key and label of what
    the ground can be coloured by. attacked : whether there are attacks to choose from. believes : whether beliefs are
    drawn.
    """
    stage = (
        '<div class="stage" id="replay-stage" tabindex="0" role="application" aria-label="Map with replay" '
        'aria-describedby="replay-keys"><canvas id="replay-ground" role="img" aria-label="Map of the run"></canvas>'
        '<canvas id="replay-known" aria-hidden="true"></canvas><canvas id="replay-moving" aria-hidden="true"></canvas>'
        f'<div class="zoom toolbar">{_button("in", "zoom in", "+")}{_button("out", "zoom out", "&minus;")}'
        f"{_button('fit', 'show the whole area', 'fit')}</div>"
        '<div id="replay-tip" class="tip" hidden></div>'
        '<div id="replay-here" class="here" aria-hidden="true"></div></div>'
    )
    transport = (
        f'<div class="transport toolbar">{_button("back", "previous round", _icon(_BACK))}'
        f"{_button('play', 'play', _icon(_PLAY, 'start') + _icon(_PAUSE, 'stop'), 'play')}"
        f"{_button('next', 'next round', _icon(_NEXT))}"
        '<input type="range" id="replay-time" min="0" max="1000" step="any" aria-label="simulated time">'
        f"{_pick('speed', 'speed')}</div>"
    )
    below = (
        '<p id="replay-now" class="now" aria-live="polite"></p>'
        f'<div class="curve"><div class="toolbar">{_pick("curve", "curve")}</div>'
        '<svg id="replay-line" role="img" aria-label="curve over time"></svg></div>'
        f'<p id="replay-keys" class="keys">{_KEYS}{_BELIEF_KEY if believes else ""}</p>'
    )
    tall = " tall" if ratio < BESIDE else ""
    side = _side(layers, coverage, attacked, believes)
    return f'<div class="replay{tall}" id="replay" style="--ratio: {ratio:.4g}">{stage}{side}{transport}{below}</div>'


def _side(
    layers: Sequence[tuple[str, str, bool]], coverage: Sequence[tuple[str, str]], attacked: bool, believes: bool
) -> str:
    """What is shown, and of whom."""
    boxes = "".join(
        f'<label><input type="checkbox" data-layer="{key}"{" checked" if on else ""}>'
        f'<span class="key" data-key="{key}" aria-hidden="true"></span>{label}</label>'
        for key, label, on in layers
    )
    choices = "".join(f'<option value="{key}">{label}</option>' for key, label in coverage)
    ground = (
        _pick("coverage", "ground", f'<option value="">plain</option>{choices}')
        + '<div id="replay-scale" class="scale" hidden></div>'
    )
    return (
        f'<div class="side toolbar">{_pick("attack", "attack") if attacked else ""}{_pick("ue", "UE")}'
        f"{_belief() if believes else ''}{ground if coverage else ''}"
        f"<fieldset><legend>on the map</legend>{boxes}</fieldset>"
        '<div id="replay-sinr" class="scale" hidden></div><div class="save">'
        f"{_button('svg', 'SVG: the map as it stands', 'SVG')}{_button('png', 'PNG: the map as it stands', 'PNG')}"
        f"{_button('csv', 'CSV: where everybody is now', 'CSV')}"
        "</div></div>"
    )


def _belief() -> str:
    """Which belief is drawn, and the scale of its cells."""
    return (
        '<div class="pick" role="group" aria-label="belief">belief '
        '<button type="button" id="replay-filter" aria-pressed="true" title="known now">filter</button>'
        '<button type="button" id="replay-smoother" aria-pressed="false" title="in hindsight">smoother</button></div>'
        '<div id="replay-cells" class="scale" hidden></div>'
    )


def _pick(key: str, label: str, options: str = "") -> str:
    return f'<label class="pick">{label} <select id="replay-{key}">{options}</select></label>'


def _button(key: str, says: str, inner: str, kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<button type="button" id="replay-{key}"{of_kind} aria-label="{says}">{inner}</button>'


def _icon(path: str, kind: str = "") -> str:
    """A sign on a button, 24 units wide."""
    return f'<svg class="icon {kind}" viewBox="0 0 24 24" aria-hidden="true"><path d="{path}"/></svg>'
