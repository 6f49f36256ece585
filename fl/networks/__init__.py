"""Networks: image classifiers and regressors on flat parameter rows."""

from fl.networks.cnn import Cnn
from fl.networks.perceptron import Perceptron
from netsim.part import OneOf

NETWORKS = OneOf("network", Cnn, Perceptron)
