"""MultiKueue's decisions: which worker clusters get a copy of a workload, which one runs it, and what comes back.

Pure: the loops that connect to workers and write objects are `fleet.multikueue`'s.
"""
