"""Benchmarks: `python -m bench [apiserver|lifecycle|engine] [--json FILE] [--against REV]`; see docs/benchmarks.md."""
