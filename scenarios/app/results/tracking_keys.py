"""Keys of a summary about attackers who track UEs, in order of who is asked and of what."""

from __future__ import annotations

from scenarios.app.results.key import NAME, Key

WHO = {
    "filter": "what the attack believes after each round",
    "smoother": "what it believes of each round after the last one",
    "plain": "the estimates of the tracked attack alone",
    "prior": "baseline: the best answer without any estimate",
}


def _key(rest: str, unit: str, meaning: str) -> Key:
    return Key(f"tracking.{NAME}.{rest}", unit, meaning)


def _of(who: str) -> dict[tuple[str, str], Key]:
    """Keys of one of WHO, by quantity."""
    of = f"{WHO[who]}; over UEs and rounds in which they measured"
    some, none = (" and that have an estimate", "; a round without one is none of them") if who == "plain" else ("", "")
    keys = {
        "error_median": _key(
            f"{who}_error_m.median", "m", f"distance of the answer from the truth, median; {of}{some}"
        ),
        "error_mean": _key(f"{who}_error_m.mean", "m", f"the same, mean; {of}{some}"),
        "near": _key(f"{who}_near.percent", "%", f"share of answers within leakage.near_m of the truth; {of}{none}"),
        "known_h": _key(f"{who}_known_h.mean", "h", f"time during which that holds, mean over UEs; {of}"),
    }
    if who != "plain":
        keys["privacy"] = _key(
            f"{who}_expected_distance_m.mean", "m", f"location privacy: expected distance from the truth; {of}"
        )
    if who in ("filter", "smoother"):
        keys |= {
            "stated_near": _key(f"{who}_stated_near.percent", "%", f"the share within leakage.near_m as stated; {of}"),
            "stated_error": _key(f"{who}_stated_error_m.mean", "m", f"the mean error as stated; {of}"),
            "reliability": _key(
                f"{who}_reliability_error",
                "",
                f"difference of stated and true shares in ten bins of stated probability, weighted mean; {of}",
            ),
            "in50": _key(f"{who}_in_half.percent", "%", f"share of truths in the area of 50 %; {of}"),
            "in90": _key(f"{who}_in_ninety.percent", "%", f"share of truths in the area of 90 %; {of}"),
            "area90": _key(f"{who}_ninety_area_m2.median", "m2", f"smallest area that holds 90 % of the belief; {of}"),
            "entropy": _key(f"{who}_entropy_bits.mean", "bit", f"entropy of the belief over cells; {of}"),
        }
    return {(who, name): key for name, key in keys.items()}


TRACKING = {pair: key for who in WHO for pair, key in _of(who).items()} | {
    ("prior", "draw_near"): _key(
        "prior_draw_near.percent",
        "%",
        "baseline: probability that a place drawn from the prior is within leakage.near_m",
    )
}


def _less(who: str) -> tuple[Key, Key, Key]:
    """Mean difference to the plain attack, and its interval."""
    meaning = f"mean error of the {who} less that of the plain attack, over the same rounds, mean over UEs"
    return (
        _key(f"{who}_less_plain_m.mean", "m", meaning),
        _key(
            f"{who}_less_plain_m.low",
            "m",
            "lower end of its 95 % interval (Student; of UEs, or of their days if UEs are fewer than five)",
        ),
        _key(f"{who}_less_plain_m.high", "m", "upper end of its 95 % interval"),
    )


FILTER_LESS_PLAIN, SMOOTHER_LESS_PLAIN = _less("filter"), _less("smoother")
TRACKING_GATED = _key("filter_error_m.gated.median", "m", "filter_error_m.median if the model is useful, else null")
