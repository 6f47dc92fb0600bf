"""The gate: clients' sockets and TLS in a process of their own, where there is a processor for it (docs/adr/0005)."""
