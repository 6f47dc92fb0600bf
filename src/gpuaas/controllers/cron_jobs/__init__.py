"""CronJob → Jobs, at the times its schedule names. `schedule` reads and follows schedules, `controller` is the loop."""

from gpuaas.controllers.cron_jobs.controller import CronJobController

__all__ = ["CronJobController"]
