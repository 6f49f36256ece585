"""Modules that tests attack."""

import torch
from torch import nn


class Perceptron(nn.Module):
    """The architecture of rsrp-net with its usual keys; `norm` is a layer between."""

    def __init__(self, activation="ELU", norm=None, sizes=(256, 128)):
        super().__init__()
        a, b = sizes
        activate = getattr(nn, activation)
        between = [] if norm is None else [getattr(nn, norm)(a)]
        layers = [nn.Linear(2, a), *between, activate(), nn.Linear(a, b), activate()]
        self.stack = nn.Sequential(*layers, nn.Linear(b, 1))

    def forward(self, x):
        return self.stack(x).squeeze(-1)


class Waves(nn.Module):
    """No fully connected layer: a sum of waves."""

    def __init__(self):
        super().__init__()
        self.wave = nn.Parameter(torch.randn(2, 64))
        self.size = nn.Parameter(torch.randn(64))

    def forward(self, x):
        return 3.0 + torch.sin(1.0 + x @ self.wave) @ self.size
