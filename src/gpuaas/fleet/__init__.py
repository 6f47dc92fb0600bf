"""The hub side of many clusters. Hub and worker talk only through a kubeconfig."""
