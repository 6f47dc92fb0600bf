"""The hub's loops of MultiKueue: connections to workers, the checks, the workloads, and what comes back from workers.

What is decided stands in `kueue.multikueue`; hub and worker talk only through a kubeconfig.
"""
