"""Kueue's objects as engine values, and engine plans as object status.

Translation only: the engine chooses. Job kinds are in `integrations`, `why` in `explain`, Kueue's configuration file in
`configuration`, dynamic resource allocation in `dra`. API admission rules live in `api` and `apiserver/admission.py`.
"""
