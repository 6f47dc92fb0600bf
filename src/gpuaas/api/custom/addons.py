"""Add-ons of Open Cluster Management, and the accounts and permissions they need on managed clusters."""

from typing import Annotated, ClassVar, Literal

from gpuaas.api.crds import Condition, Int32, Int64, IntOrString, LabelSelector, Part, Resource, Says, Time, says
from gpuaas.api.custom.embedded import PolicyRule


class AddOnConfiguration(Part):
    cr_name: str = ""
    crd_name: str = ""
    last_observed_generation: Int64 | None = None


class AddOnMeta(Part):
    description: str = ""
    display_name: str = ""


class ConfigChoice(Part):
    name: Annotated[str, says(minLength=1)]
    resource: Annotated[str, says(minLength=1)]
    group: Annotated[str, says(default="")] = ""
    namespace: str = ""


class RolloutAll(Part):
    max_failures: Annotated[IntOrString, says(default=0, pattern="^((100|[0-9]{1,2})%|[0-9]+)$")] | None = None
    min_success_time: Annotated[str, says(default="0")] = "0"
    progress_deadline: Annotated[str, says(default="None", pattern="^(([0-9])+[h|m|s])|None$")] = "None"


class MandatoryDecisionGroup(Part):
    group_index: Int32 | None = None
    group_name: str = ""


class RolloutProgressive(Part):
    mandatory_decision_groups: tuple[MandatoryDecisionGroup, ...] = ()
    max_concurrency: Annotated[IntOrString, says(pattern="^((100|[0-9]{1,2})%|[0-9]+)$")] | None = None
    max_failures: Annotated[IntOrString, says(default=0, pattern="^((100|[0-9]{1,2})%|[0-9]+)$")] | None = None
    min_success_time: Annotated[str, says(default="0")] = "0"
    progress_deadline: Annotated[str, says(default="None", pattern="^(([0-9])+[h|m|s])|None$")] = "None"


class RolloutPerGroup(Part):
    mandatory_decision_groups: tuple[MandatoryDecisionGroup, ...] = ()
    max_failures: Annotated[IntOrString, says(default=0, pattern="^((100|[0-9]{1,2})%|[0-9]+)$")] | None = None
    min_success_time: Annotated[str, says(default="0")] = "0"
    progress_deadline: Annotated[str, says(default="None", pattern="^(([0-9])+[h|m|s])|None$")] = "None"


class RolloutStrategy(Part):
    all: RolloutAll | None = None
    progressive: RolloutProgressive | None = None
    progressive_per_group: RolloutPerGroup | None = None
    type: Annotated[Literal["All", "Progressive", "ProgressivePerGroup"], says(default="All")] = "All"


class PlacementStrategy(Part):
    name: Annotated[str, says(minLength=1)]
    namespace: Annotated[str, says(minLength=1)]
    configs: tuple[ConfigChoice, ...] = ()
    rollout_strategy: Annotated[RolloutStrategy, says(default={"type": "All"})] | None = None


class InstallStrategy(Part):
    placements: Annotated[tuple[PlacementStrategy, ...], says(keys=["namespace", "name"])] = ()
    type: Annotated[Literal["Manual", "Placements"], says(default="Manual")] = "Manual"


class DefaultConfig(Part):
    name: Annotated[str, says(minLength=1)]
    namespace: str = ""


class SupportedConfig(Part):
    resource: Annotated[str, says(minLength=1)]
    default_config: DefaultConfig | None = None
    group: Annotated[str, says(default="")] = ""


class ClusterManagementAddOnSpec(Part):
    add_on_configuration: AddOnConfiguration | None = None
    add_on_meta: AddOnMeta | None = None
    install_strategy: Annotated[InstallStrategy, says(default={"type": "Manual"})] | None = None
    supported_configs: Annotated[tuple[SupportedConfig, ...], says(keys=["group", "resource"])] = ()


class DesiredConfig(Part):
    name: Annotated[str, says(minLength=1)]
    namespace: str = ""
    spec_hash: str = ""


class DefaultConfigReference(Part):
    resource: Annotated[str, says(minLength=1)]
    desired_config: DesiredConfig | None = None
    group: Annotated[str, says(default="")] = ""


class ConfigReference(Part):
    resource: Annotated[str, says(minLength=1)]
    desired_config: DesiredConfig | None = None
    group: Annotated[str, says(default="")] = ""
    last_applied_config: DesiredConfig | None = None
    last_known_good_config: DesiredConfig | None = None


class InstallProgression(Part):
    name: Annotated[str, says(minLength=1)]
    namespace: Annotated[str, says(minLength=1)]
    conditions: tuple[Condition, ...] = ()
    config_references: tuple[ConfigReference, ...] = ()


class ClusterManagementAddOnStatus(Part):
    defaultconfig_references: tuple[DefaultConfigReference, ...] = ()
    install_progressions: tuple[InstallProgression, ...] = ()


class ClusterManagementAddOn(Resource):
    """An add-on the hub offers, and where it is installed."""

    spec: ClusterManagementAddOnSpec
    status: ClusterManagementAddOnStatus | None = None


class ManagedClusterAddOnSpec(Part):
    configs: tuple[ConfigChoice, ...] = ()
    install_namespace: Annotated[
        str,
        says(default="open-cluster-management-agent-addon", maxLength=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
    ] = "open-cluster-management-agent-addon"


class AddOnConfigReference(Part):
    name: Annotated[str, says(minLength=1)]
    resource: Annotated[str, says(minLength=1)]
    desired_config: DesiredConfig | None = None
    group: Annotated[str, says(default="")] = ""
    last_applied_config: DesiredConfig | None = None
    last_observed_generation: Int64 | None = None
    namespace: str = ""


class HealthCheck(Part):
    mode: Annotated[Literal["Lease", "Customized"], says(default="Lease")] = "Lease"


class Subject(Part):
    groups: tuple[str, ...] = ()
    organization_unit: tuple[str, ...] = ()
    user: str = ""


class Registration(Part):
    signer_name: Annotated[
        str, says(maxLength=571, minLength=5, pattern="^([a-z0-9][a-z0-9-]*[a-z0-9]\\.)+[a-z]+\\/[a-z0-9-\\.]+$")
    ]
    subject: Subject | None = None


class RelatedObject(Part):
    group: str
    name: str
    resource: str
    namespace: str = ""


class SupportedConfigKind(Part):
    resource: Annotated[str, says(minLength=1)]
    group: Annotated[str, says(default="")] = ""


class ManagedClusterAddOnStatus(Part):
    add_on_configuration: AddOnConfiguration | None = None
    add_on_meta: AddOnMeta | None = None
    conditions: tuple[Condition, ...] = ()
    config_references: tuple[AddOnConfigReference, ...] = ()
    health_check: HealthCheck | None = None
    namespace: str = ""
    registrations: tuple[Registration, ...] = ()
    related_objects: tuple[RelatedObject, ...] = ()
    supported_configs: Annotated[tuple[SupportedConfigKind, ...], says(keys=["group", "resource"])] = ()


class ManagedClusterAddOn(Resource):
    """An add-on on one managed cluster."""

    spec: ManagedClusterAddOnSpec
    status: ManagedClusterAddOnStatus | None = None


class Rotation(Part):
    enabled: Annotated[bool, says(default=True)] = True
    validity: Annotated[str, says(default="8640h0m0s")] = "8640h0m0s"


class ManagedServiceAccountSpec(Part):
    rotation: Rotation
    ttl_seconds_after_creation: Annotated[Int32, says(exclusiveMinimum=True, minimum=0)] | None = None


class TokenSecretRef(Part):
    last_refresh_timestamp: Time
    name: str


class ManagedServiceAccountStatus(Part):
    conditions: tuple[Condition, ...] = ()
    expiration_timestamp: Time = ""
    token_secret_ref: TokenSecretRef | None = None


class ManagedServiceAccount(Resource):
    """A service account on a managed cluster, its token kept on the hub."""

    spec: ManagedServiceAccountSpec | None = None
    status: ManagedServiceAccountStatus | None = None


class ClusterRole(Part):
    rules: tuple[PolicyRule, ...]


class RoleRef(Part):
    SCHEMA: ClassVar[Says] = says(map_type="atomic")

    api_group: str
    kind: str
    name: str


class ClusterRoleBindingSubject(Part):
    SCHEMA: ClassVar[Says] = says(map_type="atomic")

    kind: str
    name: str
    api_group: str = ""
    namespace: str = ""


class ClusterRoleBinding(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[
            ("has(self.subject) || has(self.subjects)", "Either subject or subjects has to exist in clusterRoleBinding")
        ]
    )

    name: str = ""
    role_ref: RoleRef | None = None
    subject: ClusterRoleBindingSubject | None = None
    subjects: tuple[ClusterRoleBindingSubject, ...] = ()


class ClusterRoleBindingEntry(Part):
    name: str = ""
    role_ref: RoleRef | None = None
    subject: ClusterRoleBindingSubject | None = None
    subjects: tuple[ClusterRoleBindingSubject, ...] = ()


class RoleBindingRoleRef(Part):
    kind: str
    api_group: str = ""
    name: str = ""


class RoleBinding(Part):
    role_ref: RoleBindingRoleRef
    name: str = ""
    namespace: str = ""
    namespace_selector: LabelSelector | None = None
    subject: ClusterRoleBindingSubject | None = None
    subjects: tuple[ClusterRoleBindingSubject, ...] = ()


class Role(Part):
    rules: tuple[PolicyRule, ...]
    namespace: str = ""
    namespace_selector: LabelSelector | None = None


class ClusterPermissionSpec(Part):
    cluster_role: ClusterRole | None = None
    cluster_role_binding: ClusterRoleBinding | None = None
    cluster_role_bindings: Annotated[
        tuple[ClusterRoleBindingEntry, ...],
        says(
            rules=[
                (
                    "self.all(i, has(i.subject) || has(i.subjects))",
                    "Either subject or subjects has to exist in every clusterRoleBinding",
                )
            ]
        ),
    ] = ()
    role_bindings: Annotated[
        tuple[RoleBinding, ...],
        says(
            rules=[
                (
                    "self.all(i, has(i.subject) || has(i.subjects))",
                    "Either subject or subjects has to exist in every roleBinding",
                )
            ]
        ),
    ] = ()
    roles: tuple[Role, ...] = ()
    validate: bool = False


class ClusterResourceStatus(Part):
    name: str
    condition: tuple[Condition, ...] = ()


class NamespacedResourceStatus(Part):
    name: str
    namespace: str
    condition: tuple[Condition, ...] = ()


class PermissionResourceStatus(Part):
    cluster_role_bindings: tuple[ClusterResourceStatus, ...] = ()
    cluster_roles: tuple[ClusterResourceStatus, ...] = ()
    role_bindings: tuple[NamespacedResourceStatus, ...] = ()
    roles: tuple[NamespacedResourceStatus, ...] = ()


class ClusterPermissionStatus(Part):
    conditions: tuple[Condition, ...] = ()
    resource_status: PermissionResourceStatus | None = None


class ClusterPermission(Resource):
    """Roles and bindings to keep on a managed cluster."""

    spec: ClusterPermissionSpec | None = None
    status: ClusterPermissionStatus | None = None
