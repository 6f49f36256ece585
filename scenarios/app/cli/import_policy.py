"""The command `netsim import-policy`: a policy of stable-baselines3 becomes one that scenarios play."""

from __future__ import annotations

import argparse
from pathlib import Path

from netsim.errors import BadInput
from netsim.safe import what_is
from scenarios.app.cli.options import overrides_of
from scenarios.app.cli.output import say


def main(args: argparse.Namespace) -> None:
    """Read the weights, fit them to the scenario, write the policy."""
    from rl.policy import save_policy
    from scenarios.app.study.load import load
    from scenarios.app.training.sb3_model import imported

    out = Path(args.out)
    if what_is(out) and not (what_is(out) == "folder" and not any(out.iterdir())):
        raise BadInput(f"--out {out}: something is there; give a new or an empty folder")
    study = load(args.scenario, overrides_of(args))
    if study.train is None:
        raise BadInput(f"{args.scenario}: has no `train:` section, so no policy is for it; see power/paper")
    cache = None if args.cache is None else Path(args.cache)
    save_policy(imported(study, Path(args.file), cache), out)
    say("observations are played as they are: a model that was trained under VecNormalize does not fit")
    say(f"{out}: play it with --set 'power={{kind: ddpg, policy: {out}}}'")
