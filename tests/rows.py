"""Tables of tests as blocks of text: a row a line, cells two blanks or more apart."""

import re

from ruamel.yaml import YAML


def read_cells(block):
    """Read the cells of a block of text, row by row."""
    return [re.split(r" {2,}", line.strip()) for line in block.strip().splitlines()]


def read_yaml(text):
    """Read the settings of a cell: `a: 1, b: [2, 3]`."""
    return YAML(typ="safe", pure=True).load(f"{{{text}}}")
