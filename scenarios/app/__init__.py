"""The application, in the order of the life of a study: study, results, run, training, claims,
report, cli.
"""
