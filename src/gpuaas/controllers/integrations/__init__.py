"""Jobs under Kueue: for each kind a controller that makes its workload and starts and stops it as that one says.

`controller` is the loop all kinds share, over gpuaas.admission.integrations; `workloads` finds and writes workloads.
Pods and pod groups, which are stopped by deletion, have their own in `pods`.
"""
