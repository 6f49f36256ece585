"""Run folders: what is in them, reading them back, the summary, statistics over seeds."""
