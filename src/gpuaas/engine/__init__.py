"""The admission engine: given quotas, queues and workloads, who runs, where, at whose expense, and why not.

Pure: values in, plans out. Start at `engine.Engine`: `apply` tells it what is so (`values`, `changes`), `cycle` decides
and returns a `plan.Plan`, `explain` says why, `what_if` tries things out, `standing` reports. A cycle is `cycle`, over
`nominate` (what a head could be given), `assign` (flavors), `preempt` and `preempt_fair` (victims), `order` (whose turn),
on `tree` (quota), `pending` (what waits) and `topology` (places). A workload's life outside the cycle is `lifecycle` and
`supervise`. Decisions are Kueue 0.19's.
"""
