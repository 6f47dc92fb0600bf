"""The preemption ledger: one `Preemption` for each time a workload had to make room for another.

Events are forgotten after an hour and conditions are overwritten; this is what `gpuaas audit` and an SLA report stand on.
"""

from typing import Annotated, Literal

from msgspec import field

from gpuaas.api.crds import Bundled, Int32, Int64, Part, Resource, Time, Version, says, schema_of
from gpuaas.api.kinds import Column

GROUP = "gpuaas.dev"


class Party(Part):
    """One of the two workloads."""

    namespace: str
    name: str
    uid: str = ""
    cluster_queue: str = ""
    priority: Int32 = 0
    owner: Annotated[str, says("What the workload was made for: Job/train, RayCluster/dev.")] = ""
    user: Annotated[str, says("Who created it, as its annotation gpuaas.dev/owner says.")] = ""


class PreemptionSpec(Part):
    at: Time
    victim: Party
    preemptor: Party
    rule: Literal["InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing", "InCohortFairSharing"]
    message: str = ""
    freed: Annotated[dict[str, str], says("What the victim gave back, by resource.")] = field(default_factory=dict)
    ran_seconds: Annotated[Int64, says("How long the victim had been admitted.")] = 0
    gpu_seconds_lost: Annotated[Int64, says("GPUs of the victim times how long it had run.")] = 0


class Preemption(Resource):
    """A workload made room for another: who, whom, by which rule, when, and what it cost."""

    spec: PreemptionSpec


KIND = Bundled(
    group=GROUP,
    kind="Preemption",
    plural="preemptions",
    namespaced=True,
    versions=(
        Version(
            name="v1alpha1",
            schema=lambda: schema_of(Preemption),
            columns=(
                Column("Victim", path=".spec.victim.name"),
                Column("Preemptor", path=".spec.preemptor.name"),
                Column("Rule", path=".spec.rule"),
                Column("GPU Seconds Lost", "integer", path=".spec.gpuSecondsLost"),
                Column("Age", "date", path=".spec.at"),
            ),
        ),
    ),
)
