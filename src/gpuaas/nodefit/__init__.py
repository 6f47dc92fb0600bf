"""What a node offers and which pods it can take: resources, selectors, taints, affinity, spreading, preference.

Pure: objects in, a decision with its reasons out. Binding is the pod scheduler's (controllers), running the executors'.
"""
