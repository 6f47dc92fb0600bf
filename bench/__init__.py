"""Benchmarks: `python -m bench [apiserver|lifecycle|engine] [--json FILE]`; docs/benchmarks.md says what they measure."""
