"""Rules of fit: the example of each breaks that rule, and every word of one is a word of something."""

import re

import pytest
from refused import line_of

from netsim.fit import read_rules

PACKAGES = ("netsim", "fl", "rl", "scenarios")
RULES = [rule for package in PACKAGES for rule in read_rules(package)]
PLAYED = [rule for rule in RULES if rule.example]


def says(rule, line):
    """Whether a line is the sentence of a rule, whatever its parts are called."""
    pieces = re.split(r"<[\w.]+>", rule.pattern)
    return re.search(".*".join(map(re.escape, pieces)), line) is not None


@pytest.mark.parametrize("rule", PLAYED, ids=lambda rule: rule.key)
def test_a_rule_is_broken_by_its_example(rule, tiny):
    changes = {path: None if value == "none" else value for path, value in rule.example.items()}
    line = line_of(tiny, changes)
    assert rule.key in [one.key for one in RULES if says(one, line)], line
