"""The `multiKueue` part of the Configuration file as `MultiKueueRules`."""

from __future__ import annotations

from gpuaas.base.fielderrors import invalid
from gpuaas.base.names import is_label_value
from gpuaas.kueue.configuration.fields import Section
from gpuaas.kueue.multikueue.rules import MultiKueueRules


def read_multikueue(top: Section) -> MultiKueueRules:
    section = top.section("multiKueue")
    if section is None:
        return MultiKueueRules()
    usual = MultiKueueRules()
    gc_interval, lost = section.seconds("gcInterval"), section.seconds("workerLostTimeout")
    origin = section.text("origin") or usual.origin
    if problems := is_label_value(origin):
        section.error(invalid(section.path("origin"), origin, "; ".join(problems)))
    step_size = None
    incremental = section.section("incrementalDispatcherConfig")
    if incremental is not None:
        step_size = incremental.count("stepSize")
        if step_size == 0:
            incremental.error(invalid(incremental.path("stepSize"), 0, "must be greater than 0"))
        incremental.done()
    section.without_effect("clusterProfile", "clusters are named by Secrets and files")
    section.without_effect("externalFrameworks", "only jobs of the integrations are dispatched")
    made = MultiKueueRules(
        origin,
        usual.gc_interval if gc_interval is None else gc_interval,
        usual.worker_lost_timeout if lost is None else lost,
        section.text("dispatcherName"),
        step_size or usual.step_size,
    )
    section.done()
    return made
