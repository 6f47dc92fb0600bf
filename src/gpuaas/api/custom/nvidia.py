"""NVIDIA GPU operator's ClusterPolicy: which parts of the GPU stack run on the nodes, and how GPUs are shared.

What others act on: `mig`, `migManager.config`, `devicePlugin.config` (time-slicing), `dcgmExporter`.
"""

from typing import Annotated, Literal

from msgspec import field

from gpuaas.api.crds import (
    Condition,
    Int32,
    Int64,
    IntOrString,
    Part,
    Quantity,
    Resource,
    StringMap,
    Toleration,
    says,
)
from gpuaas.api.custom.embedded import PodSecurityContext
from gpuaas.api.custom.monitoring import Duration, Relabeling


class EnvValue(Part):
    name: str
    value: str = ""


class Amounts(Part):
    limits: dict[str, Quantity] = field(default_factory=dict)
    requests: dict[str, Quantity] = field(default_factory=dict)


class Image(Part):
    repository: str = ""
    image: Annotated[str, says(pattern=r"[a-zA-Z0-9\-]+")] = ""
    version: str = ""
    image_pull_policy: str = ""
    image_pull_secrets: tuple[str, ...] = ()


class DriverManager(Image):
    env: tuple[EnvValue, ...] = ()


class Extra(DriverManager):
    args: tuple[str, ...] = ()
    enabled: bool = False


class Component(Extra):
    """A part of the stack that runs as a daemon on GPU nodes."""

    host_network: bool = False
    resources: Amounts | None = None


class ConfigMapName(Part):
    name: str = ""


class ConfigMapChoice(Part):
    name: str = ""
    default: str = ""


# -- the parts --------------------------------------------------------------------------------------------------------


class RollingUpdate(Part):
    max_unavailable: str = ""


class Daemonsets(Part):
    annotations: StringMap = field(default_factory=dict)
    labels: StringMap = field(default_factory=dict)
    pod_security_context: PodSecurityContext | None = None
    priority_class_name: str = ""
    rolling_update: RollingUpdate | None = None
    tolerations: tuple[Toleration, ...] = ()
    update_strategy: Annotated[Literal["RollingUpdate", "OnDelete"], says(default="RollingUpdate")] = "RollingUpdate"


class Dcgm(Component):
    host_port: Int32 | None = None


class JobMapping(Part):
    directory: str = ""
    enabled: bool = False


class ExporterService(Part):
    internal_traffic_policy: str = ""
    type: str = ""


class MetricRelabeling(Relabeling):
    modulus: Annotated[Int64, says(minimum=0)] | None = None
    source_labels: tuple[str, ...] = ()


class ExporterMonitor(Part):
    additional_labels: StringMap = field(default_factory=dict)
    enabled: bool = False
    honor_labels: bool = False
    interval: Duration = ""
    relabelings: tuple[MetricRelabeling, ...] = ()
    scrape_timeout: Duration = ""


class DcgmExporter(Component):
    annotations: StringMap = field(default_factory=dict)
    config: ConfigMapName | None = None
    enable_pod_labels: bool = False
    enable_pod_uid: bool = field(name="enablePodUID", default=False)
    host_pid: bool = field(name="hostPID", default=False)
    hpc_job_mapping: JobMapping | None = None
    pod_label_allowlist_regex: tuple[str, ...] = ()
    service: ExporterService | None = None
    service_monitor: ExporterMonitor | None = None


class Mps(Part):
    root: Annotated[str, says(default="/run/nvidia/mps")] = "/run/nvidia/mps"


class DevicePlugin(Component):
    """Offers the GPUs to Kubernetes; its config map holds the time-slicing settings."""

    config: ConfigMapChoice | None = None
    mps: Mps | None = None


class Licensing(Part):
    config_map_name: str = ""
    nls_enabled: bool = False
    secret_name: str = ""


class ProbeTimes(Part):
    failure_threshold: Annotated[Int32, says(minimum=1)] | None = None
    initial_delay_seconds: Int32 | None = None
    period_seconds: Annotated[Int32, says(minimum=1)] | None = None
    success_threshold: Annotated[Int32, says(minimum=1)] | None = None
    timeout_seconds: Annotated[Int32, says(minimum=1)] | None = None


class Rdma(Part):
    enabled: bool = False
    use_host_mofed: bool = False


class RepoConfig(Part):
    config_map_name: str = ""


class Drain(Part):
    delete_empty_dir: Annotated[bool, says(default=False)] = False
    enable: Annotated[bool, says(default=False)] = False
    force: Annotated[bool, says(default=False)] = False
    pod_selector: str = ""
    timeout_seconds: Annotated[int, says(default=300, minimum=0)] = 300


class PodDeletion(Part):
    delete_empty_dir: Annotated[bool, says(default=False)] = False
    force: Annotated[bool, says(default=False)] = False
    timeout_seconds: Annotated[int, says(default=300, minimum=0)] = 300


class WaitForCompletion(Part):
    pod_selector: str = ""
    timeout_seconds: Annotated[int, says(default=0, minimum=0)] = 0


class UpgradePolicy(Part):
    auto_upgrade: Annotated[bool, says(default=False)] = False
    drain: Drain | None = None
    max_parallel_upgrades: Annotated[int, says(default=1, minimum=0)] = 1
    max_unavailable: Annotated[IntOrString, says(default="25%")] | None = None
    pod_deletion: PodDeletion | None = None
    wait_for_completion: WaitForCompletion | None = None


class VirtualTopology(Part):
    config: str = ""


class Driver(Component):
    cert_config: ConfigMapName | None = None
    kernel_module_config: ConfigMapName | None = None
    kernel_module_type: Annotated[Literal["auto", "open", "proprietary"], says(default="auto")] = "auto"
    licensing_config: Licensing | None = None
    liveness_probe: ProbeTimes | None = None
    manager: DriverManager | None = None
    rdma: Rdma | None = None
    readiness_probe: ProbeTimes | None = None
    repo_config: RepoConfig | None = None
    secret_env: str = ""
    startup_probe: ProbeTimes | None = None
    upgrade_policy: UpgradePolicy | None = None
    use_nvidia_driver_crd: bool = field(name="useNvidiaDriverCRD", default=False)
    use_open_kernel_modules: bool = False
    use_precompiled: bool = False
    virtual_topology: VirtualTopology | None = None


class OperatorMetrics(Part):
    service_monitor: ExporterMonitor | None = None


class Operator(Part):
    annotations: StringMap = field(default_factory=dict)
    default_runtime: str = ""
    init_container: Image | None = None
    labels: StringMap = field(default_factory=dict)
    metrics: OperatorMetrics | None = None
    runtime_class: Annotated[str, says(default="nvidia")] = "nvidia"
    use_ocp_driver_toolkit: bool = field(name="use_ocp_driver_toolkit", default=False)


class Toolkit(Component):
    install_dir: Annotated[str, says(default="/usr/local/nvidia")] = "/usr/local/nvidia"


class ConfidentialManager(Component):
    default_mode: Literal["on", "off", "devtools"] | None = None


class Cdi(Part):
    default: Annotated[bool, says(default=False)] = False
    enabled: Annotated[bool, says(default=True)] = True
    nri_plugin_enabled: Annotated[bool, says(default=False)] = False


class HostPaths(Part):
    driver_install_dir: str = ""
    kubelet_root_dir: Annotated[str, says(default="/var/lib/kubelet")] = "/var/lib/kubelet"
    root_fs: str = field(name="rootFS", default="")


class Artifacts(Part):
    url: str
    pull_secret: str = ""


class KataRuntimeClass(Part):
    artifacts: Artifacts
    name: str
    node_selector: StringMap = field(default_factory=dict)


class KataConfig(Part):
    artifacts_dir: Annotated[str, says(default="/opt/nvidia-gpu-operator/artifacts/runtimeclasses")] = (
        "/opt/nvidia-gpu-operator/artifacts/runtimeclasses"
    )
    runtime_classes: tuple[KataRuntimeClass, ...] = ()


class KataManager(Component):
    config: KataConfig | None = None


class Mig(Part):
    """How the parts of split GPUs are offered: not at all, all alike, or mixed."""

    strategy: Literal["none", "single", "mixed"] | None = None


class MigConfig(Part):
    default: Annotated[Literal["all-disabled", ""], says(default="all-disabled")] = "all-disabled"
    name: str = ""


class MigManager(Component):
    config: MigConfig | None = None
    gpu_clients_config: ConfigMapName | None = None


class Switch(Part):
    enabled: bool = False


class SandboxWorkloads(Part):
    default_workload: Annotated[Literal["container", "vm-passthrough", "vm-vgpu"], says(default="container")] = (
        "container"
    )
    enabled: bool = False
    mode: Annotated[Literal["kubevirt", "kata"], says(default="kubevirt")] = "kubevirt"


class CheckEnv(Part):
    env: tuple[EnvValue, ...] = ()


class Validator(DriverManager):
    args: tuple[str, ...] = ()
    cuda: CheckEnv | None = None
    driver: CheckEnv | None = None
    host_network: bool = False
    plugin: CheckEnv | None = None
    resources: Amounts | None = None
    toolkit: CheckEnv | None = None
    vfio_pci: CheckEnv | None = field(name="vfioPCI", default=None)
    vgpu_devices: CheckEnv | None = None
    vgpu_manager: CheckEnv | None = None


class VfioManager(Component):
    driver_manager: DriverManager | None = None


class VgpuDeviceConfig(Part):
    default: Annotated[str, says(default="default")] = "default"
    name: str = ""


class VgpuDeviceManager(Component):
    config: VgpuDeviceConfig | None = None


class VgpuManager(VfioManager):
    kernel_module_config: ConfigMapName | None = None


# -- ClusterPolicy ----------------------------------------------------------------------------------------------------


class ClusterPolicySpec(Part):
    daemonsets: Daemonsets
    dcgm: Dcgm
    dcgm_exporter: DcgmExporter
    device_plugin: DevicePlugin
    driver: Driver
    gfd: Component
    node_status_exporter: Component
    operator: Operator
    toolkit: Toolkit
    cc_manager: ConfidentialManager | None = None
    cdi: Cdi | None = None
    gdrcopy: Extra | None = None
    gds: Extra | None = None
    host_paths: HostPaths | None = None
    kata_manager: KataManager | None = None
    kata_sandbox_device_plugin: Component | None = None
    mig: Mig | None = None
    mig_manager: MigManager | None = None
    psa: Switch | None = None
    psp: Switch | None = None
    sandbox_device_plugin: Component | None = None
    sandbox_workloads: SandboxWorkloads | None = None
    validator: Validator | None = None
    vfio_manager: VfioManager | None = None
    vgpu_device_manager: VgpuDeviceManager | None = None
    vgpu_manager: VgpuManager | None = None


class ClusterPolicyStatus(Part):
    state: Literal["ignored", "ready", "notReady"]
    conditions: tuple[Condition, ...] = ()
    namespace: str = ""


class ClusterPolicy(Resource):
    """The GPU stack of the whole cluster."""

    spec: ClusterPolicySpec | None = None
    status: ClusterPolicyStatus | None = None
