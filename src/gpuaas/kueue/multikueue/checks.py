"""The AdmissionChecks of MultiKueue: which configuration they name, and whether its clusters can be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gpuaas.client.kueue import GROUP
from gpuaas.kueue.multikueue.names import CONFIG_KIND, CONTROLLER
from gpuaas.kueue.provisioning import parameters_problem
from gpuaas.kueue.workload_state import holds

View = Mapping[str, Any]
Find = Callable[[str], "View | None"]


class Active(NamedTuple):
    status: bool
    reason: str
    message: str


def is_ours(check: View | None) -> bool:
    return check is not None and (check.get("spec") or {}).get("controllerName") == CONTROLLER


def config_named(check: View) -> str:
    """The configuration a check of this controller names; empty if its parameters are wrong."""
    return (
        "" if not is_ours(check) or parameters_problem(check, CONFIG_KIND) else str(check["spec"]["parameters"]["name"])
    )


def active(check: View, config: Find, cluster: Find) -> Active:
    """The condition `Active` of the check, in upstream's words."""
    problem = parameters_problem(check, CONFIG_KIND)
    found = None if problem else config(check["spec"]["parameters"]["name"])
    if not problem and found is None:
        problem = f'{CONFIG_KIND}.{GROUP} "{check["spec"]["parameters"]["name"]}" not found'
    if found is None:
        return Active(False, "BadConfig", f"Cannot load the AdmissionChecks parameters: {problem}")
    missing, inactive, names = [], [], clusters_of(found)
    for name in names:
        known = cluster(name)
        if known is None:
            missing.append(name)
        elif not holds(known, "Active"):
            inactive.append(name)
    if not missing and not inactive:
        return Active(True, "Active", "The admission check is active")
    words = []
    if missing:
        words.append(f"Missing clusters: [{' '.join(missing)}]")
    if inactive:
        words.append(f"Inactive clusters: [{' '.join(inactive)}]")
    usable = len(missing) + len(inactive) < len(names)
    return Active(usable, "SomeActiveClusters" if usable else "NoUsableClusters", ", ".join(words))


def clusters_of(config: View) -> tuple[str, ...]:
    return tuple((config.get("spec") or {}).get("clusters") or ())
