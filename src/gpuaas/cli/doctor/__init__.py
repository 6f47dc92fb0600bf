"""`gpuaas doctor`: what is wrong with this machine and this cluster, each finding with its fix as a command.

One module a subject, with checks of two kinds: `LocalCheck` reads this machine and the home, `ClusterCheck` asks a
cluster through its API and so works on a real Kubernetes as well. `command.py` names all checks.
"""
