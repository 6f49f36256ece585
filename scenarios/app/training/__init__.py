"""Training an agent: channels, environments, evaluation, one folder a seed."""
