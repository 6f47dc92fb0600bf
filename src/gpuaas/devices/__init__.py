"""GPUs with identity: products, cards, MIG geometry, sharing, and what a node offers of them.

Pure functions of cards plus NVIDIA's configuration: advertised resources, node labels, allocation, health. NVML and pods
are elsewhere (telemetry, executors). Behaviour and messages are those of NVIDIA's device plugin v0.19.3 and mig-parted
v0.14.4, measured; what the product does better is a layer above and listed as a difference.
"""
