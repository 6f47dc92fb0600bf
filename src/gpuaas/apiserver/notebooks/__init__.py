"""Notebooks behind the control plane: who may open one, its own origin, and the proxy to its server.

`proxy` answers requests, `sessions` knows links and cookies, `headers` decides what passes, `upstream` speaks to a
notebook's server over its socket, `tunnel` joins WebSockets. A notebook's pages are a tenant's code: none of the control
plane's credentials reach them, and their origin is refused by everything else.
"""
