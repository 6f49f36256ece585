"""Networks: what classifies images."""

from fl.networks.cnn import Cnn
from fl.networks.perceptron import Perceptron
from netsim.part import OneOf

NETWORKS = OneOf("network", Cnn, Perceptron)
