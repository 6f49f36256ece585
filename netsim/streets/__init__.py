"""Streets: a directed graph with travel speeds, routes on it, and the doors of buildings along
it.
"""
