"""Conformance vectors: inputs with what the original decided, run through our own decisions and compared.

A vector is a JSON object; its keys name its kind. Running one is pure and uses virtual time.
"""
