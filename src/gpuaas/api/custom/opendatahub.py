"""Open Data Hub's hardware profiles, current and legacy, and the settings of its dashboard.

The legacy profile (dashboard.opendatahub.io) is refused by newer operators; here it is accepted with a warning, with
whatever fields people put into it, so that existing manifests keep working.
"""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from gpuaas.api.crds import Int64, IntOrString, Part, Resource, Says, StringMap, Toleration, says

# -- infrastructure.opendatahub.io ------------------------------------------------------------------------------------


class HardwareIdentifier(Part):
    """One resource a workload gets, and how much of it may be asked for."""

    display_name: str
    identifier: Annotated[str, says("The resource, nvidia.com/gpu for example.")]
    min_count: IntOrString
    default_count: IntOrString
    max_count: IntOrString | None = None
    resource_type: Literal["CPU", "Memory", "Accelerator"] | None = None


class QueueScheduling(Part):
    local_queue_name: Annotated[str, says(minLength=1)]
    priority_class: Annotated[str, says("A WorkloadPriorityClass.")] = ""


class NodeScheduling(Part):
    node_selector: StringMap = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


class Scheduling(Part):
    """By queue, or straight to nodes."""

    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "self.type == 'Queue' ? (has(self.kueue) && has(self.kueue.localQueueName) && !has(self.node)) : true",
                "When schedulingType is 'Queue', the 'kueue.localQueueName' field must be specified and non-empty, and"
                " the 'node' field must not be set",
            ),
            (
                "self.type == 'Node' ? (has(self.node) && !has(self.kueue)) : true",
                "When schedulingType is 'Node', the 'node' field must be set, and the 'kueue' field must not be set",
            ),
        ]
    )

    type: Literal["Queue", "Node"]
    kueue: QueueScheduling | None = None
    node: NodeScheduling | None = None


class HardwareProfileSpec(Part):
    identifiers: tuple[HardwareIdentifier, ...] = ()
    scheduling: Scheduling | None = None


class HardwareProfile(Resource):
    """What a team can ask for by name: resources, and where they come from."""

    spec: HardwareProfileSpec
    status: dict[str, Any] = field(default_factory=dict)


# -- dashboard.opendatahub.io -----------------------------------------------------------------------------------------


class LegacyIdentifier(Part):
    SCHEMA: ClassVar[Says] = says(preserve=True)

    display_name: str = ""
    identifier: str = ""
    min_count: IntOrString | None = None
    max_count: IntOrString | None = None
    default_count: IntOrString | None = None
    resource_type: Literal["CPU", "Memory", "Accelerator"] | None = None


class LegacyToleration(Part):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class LegacyHardwareProfileSpec(Part):
    SCHEMA: ClassVar[Says] = says(preserve=True)

    display_name: str = ""
    enabled: bool = True
    description: str = ""
    tolerations: tuple[LegacyToleration, ...] = ()
    identifiers: tuple[LegacyIdentifier, ...] = ()
    node_selector: StringMap = field(default_factory=dict)


class LegacyHardwareProfile(Resource):
    """The older form of a hardware profile; use infrastructure.opendatahub.io instead."""

    spec: LegacyHardwareProfileSpec


# -- opendatahub.io ---------------------------------------------------------------------------------------------------

_USE_PROFILES = (
    "self == oldSelf",
    "This field is DEPRECATED and must either be removed or left unchanged. Please use Hardware Profiles instead.",
)


class CustomEndpoints(Part):
    cluster_domains: tuple[str, ...] = ()
    external_providers: bool = False


class GenAiStudio(Part):
    ai_asset_custom_endpoints: CustomEndpoints | None = None


class GroupsConfig(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "self == oldSelf",
                "Can no longer modify group configurations here, see the Auth resource instead",
            )
        ]
    )

    admin_groups: str
    allowed_groups: str


class SizeAmounts(Part):
    cpu: str = ""
    memory: str = ""


class SizeResources(Part):
    limits: SizeAmounts | None = None
    requests: SizeAmounts | None = None


class Size(Part):
    name: str
    resources: SizeResources


class ModelServing(Part):
    deployment_strategy: Literal["rolling", "recreate"] | None = None
    is_llmd_default: bool = field(name="isLLMdDefault", default=False)


class NotebookTolerations(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            (
                "self == oldSelf",
                "This field is DEPRECATED and must either be removed or left unchanged. Please use Hardware Profiles to"
                " set tolerations instead.",
            )
        ]
    )

    enabled: bool = False
    key: str = ""


class NotebookController(Part):
    enabled: bool
    notebook_namespace: Annotated[
        str, says(rules=[("self == oldSelf", "Can no longer modify notebookNamespace here")])
    ] = ""
    notebook_toleration_settings: NotebookTolerations | None = None
    pvc_size: str = ""
    storage_class_name: str = ""


class OdhDashboardConfigSpec(Part):
    dashboard_config: Annotated[
        dict[str, bool], says("Switches of the dashboard, disableKueue for example; new ones may come at any time.")
    ] = field(default_factory=dict)
    gen_ai_studio_config: GenAiStudio | None = None
    global_mlflow_namespaces: Annotated[tuple[Annotated[str, says(minLength=1)], ...], says(maxItems=1)] = field(
        name="globalMLflowNamespaces", default=()
    )
    groups_config: GroupsConfig | None = None
    hardware_profile_order: tuple[str, ...] = ()
    model_server_sizes: Annotated[tuple[Size, ...], says(rules=[_USE_PROFILES])] = ()
    model_serving: ModelServing | None = None
    notebook_controller: NotebookController | None = None
    notebook_sizes: Annotated[tuple[Size, ...], says(rules=[_USE_PROFILES])] = ()
    template_disablement: tuple[str, ...] = ()
    template_order: tuple[str, ...] = ()


class OdhDashboardConfig(Resource):
    """Settings of the dashboard."""

    spec: OdhDashboardConfigSpec
