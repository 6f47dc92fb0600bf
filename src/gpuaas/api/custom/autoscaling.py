"""Requests for nodes that a cluster autoscaler answers: ProvisioningRequest."""

from typing import Annotated

from msgspec import field

from gpuaas.api.crds import Condition, Int32, Part, Resource, says
from gpuaas.api.kueue.quotas import SUBDOMAIN

_IMMUTABLE = ("self == oldSelf", "Value is immutable")


class Reference(Part):
    name: Annotated[str, says(maxLength=253, pattern=SUBDOMAIN)]


class RequestedPods(Part):
    pod_template_ref: Annotated[Reference, says("What the pods look like: a PodTemplate of this namespace.")]
    count: Annotated[Int32, says("How many of them.", minimum=1)]


class ProvisioningRequestSpec(Part):
    pod_sets: Annotated[
        tuple[RequestedPods, ...], says("The pods there must be room for.", minItems=1, maxItems=32, rules=[_IMMUTABLE])
    ]
    provisioning_class_name: Annotated[
        str,
        says("In which way the autoscaler makes room.", maxLength=253, pattern=SUBDOMAIN, rules=[_IMMUTABLE]),
    ]
    parameters: Annotated[
        dict[str, Annotated[str, says(maxLength=255)]],
        says("Whatever else the class wants to know.", maxProperties=100, rules=[_IMMUTABLE]),
    ] = field(default_factory=dict)


class ProvisioningRequestStatus(Part):
    conditions: Annotated[tuple[Condition, ...], says("What has become of it.", keys=["type"])] = ()
    provisioning_class_details: Annotated[
        dict[str, Annotated[str, says(maxLength=32768)]],
        says("What the class has to say to the pods.", maxProperties=64),
    ] = field(default_factory=dict)


class ProvisioningRequest(Resource):
    """Room for pods that are not there yet."""

    spec: ProvisioningRequestSpec
    status: ProvisioningRequestStatus = ProvisioningRequestStatus()
