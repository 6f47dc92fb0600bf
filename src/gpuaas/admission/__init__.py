"""Between objects and the engine: Kubernetes objects become engine values, plans become status.

Translation only. Whatever chooses belongs to `gpuaas.engine`.
"""
