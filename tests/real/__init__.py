"""The original as judge: real Kubernetes parts, started on a laptop, and a differential run against them.

`parts` says which real programs there are and builds them into a cache outside the repository; `plane` starts a
control plane from them; `sides` gives two servers one shape; `scripts/` (kubectl) and `requests/` (raw HTTP) are what
is run against both; `normal` makes uids, times and revisions alike; `judge` compares, and `differences.toml` is the one
list of the differences that stay, each with its reason. `python -m tests.real --help` is the front door.
"""
