"""exec, attach and port-forward: connections that become streams in both directions.

Framing is pure: `spdy_frames` (SPDY/3.1, of older kubectl and of port-forward) and `base.websocket_frames`. `spdy` and
`channels` turns frames into a set of streams over one connection (`duplex`); `remote_commands` and `port_forwards` use the
streams and do not know which it was. `connect` is the handler: who may, what was asked, and the limits (`sessions`).
What runs a command beside a pod's own is an executor's: a `PodStreams` that the cluster is given.
"""
