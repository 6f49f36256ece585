"""Networks: image classifiers and regressors on flat parameter rows."""

from netsim.part import OneOf

NETWORKS = OneOf(
    "network",
    places={
        "cnn": "fl.networks.classifiers:Cnn",
        "mlp": "fl.networks.classifiers:Perceptron",
    },
)
