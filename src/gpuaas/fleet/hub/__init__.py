"""The hub's side of Open Cluster Management and its Kueue add-on, one module for each intent.

Registration: `clusters`, `sets`. Choice: `placements`. The add-on: `addons`, `permissions`, `connections`, `checks`. What
an agent does on each spoke, done from the hub through the worker's kubeconfig: `joining`, `heartbeat`, `accounts`,
`mirror`, `dependencies`, `publish`, `quotas`. `hub` starts them. Which workers run a job is MultiKueue's decision, not made here.
"""
