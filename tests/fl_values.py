"""Updates, data and contexts of a round for tests of parts, and tables as text."""

from ast import literal_eval
from pathlib import Path

import numpy as np
import pandas as pd
from ruamel.yaml import YAML

from fl.types import DenseUpdates, Local, Public, RoundContext
from netsim.geometry import Area

PUBLIC = Public(Area(0.0, 0.0, 1.0, 1.0), 1)


def read_rows(text):
    """Return the lines of a text as tuples of its words: of numbers, None, True, False, or text."""
    return [tuple(map(read_word, line.split())) for line in text.strip().splitlines()]


def read_word(word):
    """Return what Python makes of a word, or else the word."""
    try:
        return literal_eval(word)
    except (SyntaxError, ValueError):
        return word


def read_table(folder, name):
    """Return a table of a run folder."""
    return pd.read_csv(Path(folder) / f"{name}.csv")


def build_updates(values, ue=None, model=None, bound=None):
    """Return updates (n, d) of UEs 0 to n - 1, all of model 0 and of one sample, unless told."""
    n = len(values)
    ue = np.arange(n) if ue is None else np.asarray(ue)
    model = np.zeros(n, int) if model is None else np.asarray(model)
    return DenseUpdates(ue, model, np.ones(n), values, bound=bound)


def build_local(ue=()):
    """Return data of these UEs without a sample."""
    ue = np.asarray(ue, dtype=int)
    n = len(ue)
    ptr = np.zeros(n + 1, int)
    return Local(ue, np.zeros(n, int), ptr, np.zeros((0, 2)), np.zeros(0), np.zeros(0))


def build_context(public=PUBLIC, **facts):
    """Return the context of round 1, at time 0."""
    return RoundContext(1, 0.0, public, **facts)


def read_changes(text):
    """Return changes of a study that are written as YAML."""
    return YAML(typ="safe", pure=True).load(text)
