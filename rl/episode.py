"""An episode as an animated picture: SVG without scripts, in which rounds follow one another."""

from pathlib import Path

import gymnasium
import numpy as np

from netsim.errors import BadInput
from netsim.record import write_text
from netsim.world.base_stations import collect_positions_m
from rl.env import OnlinePower
from rl.policy import Act
from rl.problem import Seen, convert_to_action

_MOST_ROUNDS = 200
_MOST_UES = 100
_FAR_M = 1e9  # where UEs are drawn that are away
_PAGE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 -10 500 680"
 font-family="sans-serif" font-size="13">
<rect x="-10" y="-10" width="500" height="680" fill="white"/>
<text y="12">{drawn[1]} of {env.n_ue} UEs (radius: power, {env.task.limits.each_min_w:.3g} to \
{env.task.limits.each_max_w:.3g} W), base stations (squares), eavesdropper (red)</text>
<g transform="translate(0 504) scale(1 -1)" fill="#06c" fill-opacity="0.6">
<svg width="480" height="480" viewBox="{env.world.area.x_min_m} {env.world.area.y_min_m} \
{env.world.area.side_m[0]} {env.world.area.side_m[1]}">
<rect x="{env.world.area.x_min_m}" y="{env.world.area.y_min_m}" width="100%" height="100%"
 fill="#eee"/>
<path d="{stations}" stroke="black" stroke-width="8" stroke-linecap="square"
 vector-effect="non-scaling-stroke"/>
<path d="{listener}" stroke="red" stroke-width="8" stroke-linecap="round"
 vector-effect="non-scaling-stroke"/>{circles}
</svg></g>
<style>@keyframes rounds {{to {{transform: translateY(calc({drawn[0]} * -20px))}}}}</style>
<svg x="330" y="515" width="160" height="20"><text y="-5" \
style="animation: rounds 12s steps({drawn[0]}) infinite">{captions}
</text></svg>
<text y="530">reward in {drawn[0]} of {env.steps} rounds: {low:.4g} to {high:.4g}</text>
<g transform="translate(0 655) scale(1 -1)">
<svg width="480" height="110" viewBox="0 {low} {drawn[0]} {span}" preserveAspectRatio="none">
<path d="M0 {low}V{curve}h1V{low}z" fill="#c60"/></svg></g>
<rect y="545" width="1" height="110"><animate attributeName="x" from="0" to="480" dur="12s"
 repeatCount="indefinite"/></rect>
</svg>
"""
_HOW = 'dur="12s" calcMode="discrete" repeatCount="indefinite"'
_SPOT = "M{0[0]} {0[1]}h0"
_CAPTION = """
<tspan x="0" dy="20">after {0.steps} rounds, {1:.1f} h</tspan>"""
_CIRCLE = f"""
<circle><animate attributeName="cx" values="{{}}" {_HOW}/>
<animate attributeName="cy" values="{{}}" {_HOW}/>
<animate attributeName="r" values="{{}}" {_HOW}/></circle>"""


def draw_episode(env: gymnasium.Env[Seen, Seen], act: Act, path: str | Path, seed: int = 0) -> None:
    """Play an episode, and write it as an animated picture: UEs, base stations, powers and an
    eavesdropper on the map, rewards below; at most the first 200 rounds and 100 UEs.

    env : OnlinePower, in wrappers or without. act : observation (n,) -> action (K,). Radii grow by
    equal steps of decibels, up to 2.4 % of the longer side of the area; hours are of the wall
    clock. BadInput: another environment, ending or no folder; OSError: it cannot be written.
    """
    played = env.unwrapped
    path = Path(path)
    if not isinstance(played, OnlinePower) or path.suffix != ".svg" or not path.parent.is_dir():
        raise BadInput(
            f"draw_episode: {type(played).__name__}, {path}; give netsim/OnlinePower-v0, and a "
            "name that ends in .svg, in a folder that exists"
        )
    seen, _ = env.reset(seed=seed)
    world = played.world
    rounds = []
    while not played.over:
        position_m = world.locate_ues()
        said = _CAPTION.format(played, world.clock.wall_s(world.env.now) / 3600 % 24)
        seen, reward, *_ = env.step(np.asarray(act(seen)))
        rounds.append((position_m, played.last_w, reward, said))
    position_m, power_w, rewards, captions = map(np.array, zip(*rounds[:_MOST_ROUNDS], strict=True))
    scale_m = 0.011 * world.area.side_m.max()
    radius_m = scale_m * (1.2 + convert_to_action(power_w, played.task.limits))
    tracks = np.nan_to_num(np.dstack([position_m, radius_m]), nan=_FAR_M)[:, :_MOST_UES]
    # (n_ue, 3, n_round)
    texts = tracks.round(1).astype(str).transpose(1, 2, 0)
    listener_m = played.setup.learning.threat.position_m
    text = _PAGE.format(
        env=played,
        drawn=tracks.shape,
        stations="".join(map(_SPOT.format, collect_positions_m(world.stations))),
        listener=_SPOT.format(listener_m) if listener_m else "",
        captions="".join(captions),
        circles="".join(_CIRCLE.format(*map(";".join, rows)) for rows in texts),
        low=rewards.min(),
        high=rewards.max(),
        span=np.ptp(rewards) or 1,
        curve="h1V".join(map(str, rewards)),
    )
    write_text(path, text)
