"""Kueue's Configuration: the file, its fields and what they mean to the engine."""
