"""C sources that run inside a pod's processes, and how they are built."""
