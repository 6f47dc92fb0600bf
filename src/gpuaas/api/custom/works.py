"""Work for managed clusters: objects to apply there (ManifestWork) and templates of add-ons that do so."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from gpuaas.api.crds import Condition, Int32, Int64, Part, Resource, Says, says


class ResourceIdentifier(Part):
    name: str
    resource: str
    group: str = ""
    namespace: str = ""


class SelectivelyOrphan(Part):
    orphaning_rules: tuple[ResourceIdentifier, ...] = ()


class DeletePolicy(Part):
    propagation_policy: Annotated[Literal["Foreground", "Orphan", "SelectivelyOrphan"], says(default="Foreground")] = (
        "Foreground"
    )
    selectively_orphans: SelectivelyOrphan | None = None
    ttl_seconds_after_finished: Int64 | None = None


class ServiceAccount(Part):
    name: Annotated[
        str,
        says(
            maxLength=253, minLength=1, pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$"
        ),
    ]
    namespace: Annotated[
        str,
        says(
            maxLength=253, minLength=1, pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$"
        ),
    ]


class Subject(Part):
    type: Literal["ServiceAccount"]
    service_account: ServiceAccount | None = None


class Executor(Part):
    subject: Subject | None = None


class ConditionRule(Part):
    SCHEMA: ClassVar[Says] = says(
        rules=[("self.type != 'CEL' || self.condition != \"\"", "Condition is required for CEL rules")]
    )

    condition: str
    type: Literal["WellKnownConditions", "CEL"]
    cel_expressions: tuple[str, ...] = ()
    message: str = ""
    message_expression: str = ""


class JsonPath(Part):
    name: str
    path: str
    version: str = ""


class FeedbackRule(Part):
    type: Literal["WellKnownStatus", "JSONPaths"]
    json_paths: Annotated[tuple[JsonPath, ...], says(keys=["name"])] = ()


class IgnoreField(Part):
    condition: Annotated[Literal["OnSpokePresent", "OnSpokeChange"], says(default="OnSpokePresent")]
    json_paths: Annotated[tuple[str, ...], says(minItems=1)]


class ServerSideApply(Part):
    field_manager: Annotated[str, says(default="work-agent", pattern="^work-agent")] = "work-agent"
    force: bool = False
    ignore_fields: Annotated[tuple[IgnoreField, ...], says(keys=["condition"])] = ()


class UpdateStrategy(Part):
    type: Annotated[Literal["Update", "CreateOnly", "ServerSideApply", "ReadOnly"], says(default="Update")]
    server_side_apply: ServerSideApply | None = None


class ManifestConfig(Part):
    resource_identifier: ResourceIdentifier
    condition_rules: Annotated[tuple[ConditionRule, ...], says(keys=["condition"])] = ()
    feedback_rules: tuple[FeedbackRule, ...] = ()
    update_strategy: UpdateStrategy | None = None


class Manifests(Part):
    manifests: tuple[
        Annotated[dict[str, Any], says(**{"x-kubernetes-embedded-resource": True}, preserve=True)], ...
    ] = ()


class ManifestWorkSpec(Part):
    delete_option: DeletePolicy | None = None
    executor: Executor | None = None
    manifest_configs: tuple[ManifestConfig, ...] = ()
    workload: Manifests | None = None


class ResourceMeta(Part):
    ordinal: Int32
    group: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    resource: str = ""
    version: str = ""


class FieldValue(Part):
    type: Literal["Integer", "String", "Boolean", "JsonRaw"]
    boolean: bool = False
    integer: Int64 | None = None
    json_raw: Annotated[str, says(maxLength=1024)] = ""
    string: str = ""


class FeedbackValue(Part):
    field_value: FieldValue
    name: str


class StatusFeedback(Part):
    values: Annotated[tuple[FeedbackValue, ...], says(keys=["name"])] = ()


class ManifestStatus(Part):
    conditions: tuple[Condition, ...]
    resource_meta: ResourceMeta
    status_feedback: StatusFeedback | None = None


class ResourceStatus(Part):
    manifests: tuple[ManifestStatus, ...] = ()


class ManifestWorkStatus(Part):
    conditions: tuple[Condition, ...] = ()
    resource_status: ResourceStatus | None = None


class ManifestWork(Resource):
    """Objects to keep applied on one managed cluster."""

    spec: ManifestWorkSpec | None = None
    status: ManifestWorkStatus | None = None


class SigningCA(Part):
    name: str
    namespace: str = ""


class CustomSignerSubject(Part):
    groups: tuple[str, ...] = ()
    organization_unit: tuple[str, ...] = ()
    user: str = ""


class CustomSigner(Part):
    signer_name: Annotated[
        str, says(maxLength=571, minLength=5, pattern="^([a-z0-9][a-z0-9-]*[a-z0-9]\\.)+[a-z]+\\/[a-z0-9-\\.]+$")
    ]
    signing_ca: SigningCA = field(name="signingCA")
    subject: CustomSignerSubject | None = None


class CurrentCluster(Part):
    cluster_role_name: str


class RoleRef(Part):
    SCHEMA: ClassVar[Says] = says(map_type="atomic")

    api_group: str
    kind: str
    name: str


class SingleNamespace(Part):
    namespace: str
    role_ref: RoleRef


class HubPermission(Part):
    type: Literal["CurrentCluster", "SingleNamespace"]
    current_cluster: CurrentCluster | None = None
    single_namespace: SingleNamespace | None = None


class KubeClient(Part):
    hub_permissions: tuple[HubPermission, ...] = ()


class Registration(Part):
    type: Literal["KubeClient", "CustomSigner"]
    custom_signer: CustomSigner | None = None
    kube_client: KubeClient | None = None


class AddOnTemplateSpec(Part):
    addon_name: str
    agent_spec: ManifestWorkSpec
    registration: tuple[Registration, ...] = ()


class AddOnTemplate(Resource):
    """What an add-on installs on each cluster it is enabled for."""

    spec: AddOnTemplateSpec
