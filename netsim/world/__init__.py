"""The world: its setting, base stations, and one SimPy environment in which UEs move and
measure.
"""
