"""Which clusters: Open Cluster Management's placement decisions, as pure functions of a fleet's objects.

`schedule` filters the eligible clusters of a Placement by predicates and taints, scores them with its prioritizers, picks
the best and divides them into decision groups. Writing PlacementDecisions and conditions is the fleet controllers'.
"""
