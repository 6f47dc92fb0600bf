"""Jobs under Kueue: for each kind a controller that makes its workload and starts and stops it as that one says.

Over gpuaas.kueue.integrations, by what a kind can do: `held` is what all share, sets that are held by their pods no
more than that; `queueable` has the steps of whatever has a workload; `controller` those of jobs that can be suspended.
Pods and pod groups, which are stopped by deletion, have their own in `pods`; `workloads` finds and writes workloads.
"""
