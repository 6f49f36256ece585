"""What holds for every engine."""

RETRIES = 2
"""attempts after the first one, where nobody says"""
HIDDEN, SHARED = ".slurm", ".shared-"
"""how names begin that an engine gives to its own files, in the folder of all runs while it works"""
