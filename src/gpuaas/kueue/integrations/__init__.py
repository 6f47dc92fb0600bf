"""Kinds of jobs Kueue can hold: how each maps to pod sets, is suspended, started, stopped and judged finished.

Pure: plain objects in, plain objects out. `integration` has the interfaces; one module a kind fills
it in. The loop that drives them is gpuaas.controllers.integrations; the refusals at the API are `rules`' and each
kind's own.
"""
