"""References: maps without federated learning, with which a run's final model is compared."""
