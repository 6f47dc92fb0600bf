"""Every component in every state, for developers of pages: served where GPUAAS_DEVELOPMENT is set."""

from __future__ import annotations

from gpuaas.web import svg
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.pages.job import Phase
from gpuaas.web.pages.nodes import Cell

STATES = ("Pending", "Reserved", "Admitted", "Running", "Succeeded", "Failed", "Evicted", "Inactive", "Stopped", "")
LONG = "a-name-as-long-as-kubernetes-allows-which-is-sixty-three-letters"
EVIL = '<script>alert("a name from a user")</script>'


def _load(visit: Visit) -> Context:
    parts = [("used", 5), ("borrowed", 3), ("lent", 2), ("pending", 4)]
    bars = [
        ("nothing", [], 8, None),
        ("used of its own", parts[:1], 8, None),
        ("borrowed", [("used", 8), ("borrowed", 3)], 8, 14),
        ("lent", [("used", 2), ("lent", 4)], 8, None),
        ("pending", [("used", 8), ("pending", 4)], 8, None),
        ("pending beyond the scale", [("used", 8), ("pending", 400)], 8, None),
    ]
    hour = [
        svg.Series(f"team-{tone}", f"s{tone}", [tone % 3 + (step // 20) % 3 for step in range(120)])
        for tone in range(1, 8)
    ]
    moves = [
        svg.Move(0.3, 0.2, "research", "vision", 8, "one"),
        svg.Move(0.6, 0.05, "vision", "vision", 2, "in one queue"),
        svg.Move(0.9, 0.5, "vision", "research", 4, "three"),
    ]
    cells = [
        *(Cell("held", f"s{tone}", chr(64 + tone), f"held by team {chr(64 + tone)}") for tone in range(1, 9)),
        Cell("held", "others", "O", "held by another"),
        Cell("idle", "s2", "B", "held by team B, idle"),
        Cell("free", "", "", "free"),
        Cell("out", "", "", "takes no pods"),
        Cell("ill", "", "×", "ill: XID 79"),
    ]
    phases = [
        Phase("Submitted", "Succeeded", "2026-11-19T23:40:00Z", done=True),
        Phase("Preempted", "Evicted", "2026-11-19T23:50:00Z", "made room for vision/train", done=True),
        Phase("Quota", "Pending", "", "2 more GPUs are needed", now=True),
        Phase("Admitted", ""),
        Phase("Finished", ""),
    ]
    return {
        "states": STATES,
        "bars": [
            (name, svg.bar([svg.Part(*each) for each in given], 16, tick=tick, limit=limit, label=name))
            for name, given, tick, limit in bars
        ],
        "thin": svg.bar([svg.Part("used", 12)], 16, label="thin", thin=True),
        "strip": svg.strip(hour, 24, [svg.Mark(0.2, "a"), svg.Mark(0.7, "b")], label="an hour of seven teams"),
        "nothing": svg.strip([], 24, [], label="an hour of nothing"),
        "timeline": svg.timeline(["research", "vision"], moves, label="three preemptions"),
        "cells": cells,
        "phases": phases,
        "long": LONG,
        "evil": EVIL,
        "here": visit.url("/gallery"),
    }


PAGE = Page("gallery", "/gallery", "Gallery", "gallery.html", _load, nav="Gallery")
