"""What no epsilon of a study covers, in words that stand beside its figures in every run."""

from __future__ import annotations

from collections.abc import Iterator

from fl.learning import Learning


def caveats(learning: Learning, shared_band: bool) -> list[str]:
    """One line each, headed by the part that it is about.

    shared_band: whether UEs share a radio in which one that sends can make the updates of others late, lost or noisier.
    """
    parts = [f"{d.label}: {d.caveat}" for d in learning.defenses if d.caveat]
    parts += [f"{a.label}: the attacker is granted {a.granted}" for a in learning.attacks if a.granted]
    parts += _silence(learning)
    return [*parts, *_told_in_clear(learning), *_who_sends(learning), *_losses(learning, shared_band)]


def _silence(learning: Learning) -> Iterator[str]:
    """What the server learns from who is silent, and what that takes from sampling."""
    yield from (f"{rule.label}: {rule.gives_away}" for rule in learning.withholding)
    why = {
        rule.label: "who is silent depends on who has sent before" for rule in learning.withholding if rule.by_history
    }
    if learning.cohort_rounds > 1:
        why["cohort_rounds"] = f"who is drawn stays for {learning.cohort_rounds} rounds"
    central = any("central noise" in d.offers for d in learning.defenses)
    if why and central and learning.sampling == "poisson" and learning.participation < 1:
        yield (
            f"{', '.join(why)}: {' and '.join(dict.fromkeys(why.values()))}, so the coins of sampling are not "
            "independent from round to round; epsilon counts on no sampling"
        )


def _told_in_clear(learning: Learning) -> Iterator[str]:
    """A bit that only readers of the model do not see; noise on the device promises more than that."""
    for i, defense in enumerate(learning.defenses):
        later = [d.label for d in learning.on_device if d in learning.defenses[i + 1 :]]
        if defense.tells_in_clear and later:
            yield (
                f"{defense.label}: every device tells the server in clear {defense.tells_in_clear}; against "
                f"the server the epsilon of {', '.join(later)} does not cover that bit"
            )


def _who_sends(learning: Learning) -> Iterator[str]:
    """Noise on the numbers of an update hides none of the facts around it."""
    central = any("central noise" in d.offers for d in learning.defenses)
    alone = [d.label for d in learning.defenses if "spend" in d.offers and not central]
    names = alone or [d.label for d in learning.on_device]
    if names:
        yield (
            f"{', '.join(names)}: noise covers the numbers sent; which windows are played, who sends to which model "
            "and how many samples weigh in are public, and no epsilon here covers them"
        )


def _losses(learning: Learning, shared_band: bool) -> Iterator[str]:
    """One row moves the sum by its clip norm only as long as it moves nobody else's in or out of it."""
    for d in learning.defenses:
        if shared_band and "central noise" in d.offers:
            yield (
                f"{d.label}: on a shared band whose updates are lost can hang on who else sends; epsilon takes the "
                "losses as given"
            )
