"""GPU as a Service: quotas, queues, tiers and preemption over the Kubernetes objects people already have."""

__version__ = "0.1.0"
KUBERNETES_VERSION = "1.36"
