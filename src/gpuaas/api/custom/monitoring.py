"""Prometheus operator's monitors and rules."""

from typing import Annotated, Literal

from msgspec import field

from gpuaas.api.crds import Int32, Int64, IntOrString, LabelSelector, Part, Quantity, Resource, StringMap, Time, says
from gpuaas.api.custom.embedded import SecretKeySelector

DURATION = "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"
Duration = Annotated[str, says(pattern=DURATION)]
ScrapeProtocol = Literal[
    "PrometheusProto",
    "OpenMetricsText0.0.1",
    "OpenMetricsText1.0.0",
    "PrometheusText0.0.4",
    "PrometheusText1.0.0",
]
TlsVersion = Literal["TLS10", "TLS11", "TLS12", "TLS13"]


class Authorization(Part):
    credentials: SecretKeySelector | None = None
    type: str = ""


class BasicAuth(Part):
    password: SecretKeySelector | None = None
    username: SecretKeySelector | None = None


class Relabeling(Part):
    action: Annotated[
        Literal[
            "replace",
            "Replace",
            "keep",
            "Keep",
            "drop",
            "Drop",
            "hashmod",
            "HashMod",
            "labelmap",
            "LabelMap",
            "labeldrop",
            "LabelDrop",
            "labelkeep",
            "LabelKeep",
            "lowercase",
            "Lowercase",
            "uppercase",
            "Uppercase",
            "keepequal",
            "KeepEqual",
            "dropequal",
            "DropEqual",
        ],
        says(default="replace"),
    ] = "replace"
    modulus: Int64 | None = None
    regex: str = ""
    replacement: str = ""
    separator: str = ""
    source_labels: tuple[Annotated[str, says(pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")], ...] = ()
    target_label: str = ""


class SecretOrConfigMap(Part):
    config_map: SecretKeySelector | None = None
    secret: SecretKeySelector | None = None


class TlsConfig(Part):
    ca: SecretOrConfigMap | None = None
    cert: SecretOrConfigMap | None = None
    insecure_skip_verify: bool = False
    key_secret: SecretKeySelector | None = None
    max_version: TlsVersion | None = None
    min_version: TlsVersion | None = None
    server_name: str = ""


class OAuth2(Part):
    client_id: SecretOrConfigMap
    client_secret: SecretKeySelector
    token_url: Annotated[str, says(minLength=1)]
    endpoint_params: StringMap = field(default_factory=dict)
    no_proxy: str = ""
    proxy_connect_header: Annotated[dict[str, tuple[SecretKeySelector, ...]], says(map_type="atomic")] = field(
        default_factory=dict
    )
    proxy_from_environment: bool = False
    proxy_url: Annotated[str, says(pattern="^(http|https|socks5)://.+$")] = ""
    scopes: tuple[str, ...] = ()
    tls_config: TlsConfig | None = None


class EndpointTlsConfig(Part):
    ca: SecretOrConfigMap | None = None
    ca_file: str = ""
    cert: SecretOrConfigMap | None = None
    cert_file: str = ""
    insecure_skip_verify: bool = False
    key_file: str = ""
    key_secret: SecretKeySelector | None = None
    max_version: TlsVersion | None = None
    min_version: TlsVersion | None = None
    server_name: str = ""


class Endpoint(Part):
    authorization: Authorization | None = None
    basic_auth: BasicAuth | None = None
    bearer_token_file: str = ""
    bearer_token_secret: SecretKeySelector | None = None
    enable_http2: bool = False
    filter_running: bool = False
    follow_redirects: bool = False
    honor_labels: bool = False
    honor_timestamps: bool = False
    interval: Duration = ""
    metric_relabelings: tuple[Relabeling, ...] = ()
    no_proxy: str = ""
    oauth2: OAuth2 | None = None
    params: dict[str, tuple[str, ...]] = field(default_factory=dict)
    path: str = ""
    port: str = ""
    proxy_connect_header: Annotated[dict[str, tuple[SecretKeySelector, ...]], says(map_type="atomic")] = field(
        default_factory=dict
    )
    proxy_from_environment: bool = False
    proxy_url: Annotated[str, says(pattern="^(http|https|socks5)://.+$")] = ""
    relabelings: tuple[Relabeling, ...] = ()
    scheme: Literal["http", "https"] | None = None
    scrape_timeout: Duration = ""
    target_port: IntOrString | None = None
    tls_config: EndpointTlsConfig | None = None
    track_timestamps_staleness: bool = False


class AttachMetadata(Part):
    node: bool = False


class NamespaceSelector(Part):
    any: bool = False
    match_names: tuple[str, ...] = ()


class ServiceMonitorSpec(Part):
    endpoints: tuple[Endpoint, ...]
    selector: LabelSelector
    attach_metadata: AttachMetadata | None = None
    body_size_limit: Annotated[str, says(pattern="(^0|([0-9]*[.])?[0-9]+((K|M|G|T|E|P)i?)?B)$")] = ""
    convert_classic_histograms_to_nhcb: bool = field(name="convertClassicHistogramsToNHCB", default=False)
    fallback_scrape_protocol: ScrapeProtocol | None = None
    job_label: str = ""
    keep_dropped_targets: Int64 | None = None
    label_limit: Int64 | None = None
    label_name_length_limit: Int64 | None = None
    label_value_length_limit: Int64 | None = None
    namespace_selector: NamespaceSelector | None = None
    native_histogram_bucket_limit: Int64 | None = None
    native_histogram_min_bucket_factor: Quantity | None = None
    pod_target_labels: tuple[str, ...] = ()
    sample_limit: Int64 | None = None
    scrape_class: Annotated[str, says(minLength=1)] = ""
    scrape_classic_histograms: bool = False
    scrape_protocols: Annotated[
        tuple[
            ScrapeProtocol,
            ...,
        ],
        says(list_type="set"),
    ] = ()
    selector_mechanism: Literal["RelabelConfig", "RoleSelector"] | None = None
    target_labels: tuple[str, ...] = ()
    target_limit: Int64 | None = None


class BindingCondition(Part):
    last_transition_time: Time
    status: Annotated[str, says(minLength=1)]
    type: Annotated[Literal["Accepted"], says(minLength=1)]
    message: str = ""
    observed_generation: Int64 | None = None
    reason: str = ""


class Binding(Part):
    group: Literal["monitoring.coreos.com"]
    name: Annotated[str, says(minLength=1)]
    namespace: Annotated[str, says(minLength=1)]
    resource: Literal["prometheuses", "prometheusagents"]
    conditions: Annotated[tuple[BindingCondition, ...], says(keys=["type"])] = ()


class ServiceMonitorStatus(Part):
    bindings: tuple[Binding, ...] = ()


class ServiceMonitor(Resource):
    """Which services to scrape, and how."""

    spec: ServiceMonitorSpec
    status: ServiceMonitorStatus | None = None


class PodMetricsEndpoint(Part):
    authorization: Authorization | None = None
    basic_auth: BasicAuth | None = None
    bearer_token_secret: SecretKeySelector | None = None
    enable_http2: bool = False
    filter_running: bool = False
    follow_redirects: bool = False
    honor_labels: bool = False
    honor_timestamps: bool = False
    interval: Duration = ""
    metric_relabelings: tuple[Relabeling, ...] = ()
    no_proxy: str = ""
    oauth2: OAuth2 | None = None
    params: dict[str, tuple[str, ...]] = field(default_factory=dict)
    path: str = ""
    port: str = ""
    port_number: Annotated[Int32, says(maximum=65535, minimum=1)] | None = None
    proxy_connect_header: Annotated[dict[str, tuple[SecretKeySelector, ...]], says(map_type="atomic")] = field(
        default_factory=dict
    )
    proxy_from_environment: bool = False
    proxy_url: Annotated[str, says(pattern="^(http|https|socks5)://.+$")] = ""
    relabelings: tuple[Relabeling, ...] = ()
    scheme: Literal["http", "https"] | None = None
    scrape_timeout: Duration = ""
    target_port: IntOrString | None = None
    tls_config: TlsConfig | None = None
    track_timestamps_staleness: bool = False


class PodMonitorSpec(Part):
    selector: LabelSelector
    attach_metadata: AttachMetadata | None = None
    body_size_limit: Annotated[str, says(pattern="(^0|([0-9]*[.])?[0-9]+((K|M|G|T|E|P)i?)?B)$")] = ""
    convert_classic_histograms_to_nhcb: bool = field(name="convertClassicHistogramsToNHCB", default=False)
    fallback_scrape_protocol: ScrapeProtocol | None = None
    job_label: str = ""
    keep_dropped_targets: Int64 | None = None
    label_limit: Int64 | None = None
    label_name_length_limit: Int64 | None = None
    label_value_length_limit: Int64 | None = None
    namespace_selector: NamespaceSelector | None = None
    native_histogram_bucket_limit: Int64 | None = None
    native_histogram_min_bucket_factor: Quantity | None = None
    pod_metrics_endpoints: tuple[PodMetricsEndpoint, ...] = ()
    pod_target_labels: tuple[str, ...] = ()
    sample_limit: Int64 | None = None
    scrape_class: Annotated[str, says(minLength=1)] = ""
    scrape_classic_histograms: bool = False
    scrape_protocols: Annotated[
        tuple[
            ScrapeProtocol,
            ...,
        ],
        says(list_type="set"),
    ] = ()
    selector_mechanism: Literal["RelabelConfig", "RoleSelector"] | None = None
    target_limit: Int64 | None = None


class PodMonitor(Resource):
    """Which pods to scrape, and how."""

    spec: PodMonitorSpec


class AlertRule(Part):
    expr: IntOrString
    alert: str = ""
    annotations: StringMap = field(default_factory=dict)
    for_: Duration = field(name="for", default="")
    keep_firing_for: Annotated[
        str,
        says(
            minLength=1,
            pattern=DURATION,
        ),
    ] = field(name="keep_firing_for", default="")
    labels: StringMap = field(default_factory=dict)
    record: str = ""


class RuleGroup(Part):
    name: Annotated[str, says(minLength=1)]
    interval: Duration = ""
    labels: StringMap = field(default_factory=dict)
    limit: int | None = None
    partial_response_strategy: Annotated[str, says(pattern="^(?i)(abort|warn)?$")] = field(
        name="partial_response_strategy", default=""
    )
    query_offset: Duration = field(name="query_offset", default="")
    rules: tuple[AlertRule, ...] = ()


class PrometheusRuleSpec(Part):
    groups: Annotated[tuple[RuleGroup, ...], says(keys=["name"])] = ()


class PrometheusRule(Resource):
    """Alerts and recorded series."""

    spec: PrometheusRuleSpec
