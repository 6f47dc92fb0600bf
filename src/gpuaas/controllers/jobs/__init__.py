"""Job → pods: enough of them at a time, until enough have succeeded or too much has failed.

`tally` counts what the pods say, `verdict` judges whether the job is over, `policies` are the user's own rules of
failure and success, `indexes` the numbers of an indexed job, `controller` is the loop. Each pod counts exactly once:
it keeps a finalizer until the job's status has its uid, and the status keeps the uid until the finalizer is gone.
"""

from gpuaas.controllers.jobs.controller import JobController

__all__ = ["JobController"]
