"""The one adapter to NVIDIA's driver library (NVML): inventory, memory by process, health events."""
