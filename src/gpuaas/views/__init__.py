"""Read models: what the commands and the pages show of jobs, queues, GPUs and nodes, as typed rows.

A `Snapshot` (module snapshot) keeps the rows of one cluster. It is fed one object at a time: by lists (module lists)
when a command asks a real cluster, by the store's change feed inside the embedded server, which serves the rows as
`views.gpuaas.dev` (apiserver's module views; module served is its client). One module for each kind of row holds its
type, its filter and its collection. Nothing here writes.
"""
