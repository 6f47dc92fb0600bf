from __future__ import annotations
def placed_by(assignment, frs): return ()
def place(assignment, plan, queue, places): pass
def place_after(assignment, plan, queue, places, leaving): pass
def wanted_places(assignment, plan, queue, places): return []
