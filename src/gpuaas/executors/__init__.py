"""Making bound pods real: simulated nodes that only keep time, and this machine's own processes.

They speak the client protocol like any kubelet. Which node a pod gets is not decided here.
"""
