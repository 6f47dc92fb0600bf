"""The store: every object of one cluster, durable, versioned, watchable. It knows keys and bytes, not kinds.

A write gets its revision at once and is acknowledged after its commit (`store`); the SQLite file is `log` and
`format`; reads come from memory (`tables`); watchers are synced, catching up, or ended with `Compacted` (`watch`).
"""

from gpuaas.store.entries import Compacted, Entry, Event, FutureRevision, StoreError
from gpuaas.store.snapshots import restore
from gpuaas.store.store import Store
from gpuaas.store.watch import Watch

__all__ = ["Compacted", "Entry", "Event", "FutureRevision", "Store", "StoreError", "Watch", "restore"]
