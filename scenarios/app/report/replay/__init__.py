"""The replay: a map on which a run can be played, and the arrays behind it."""
