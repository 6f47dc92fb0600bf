"""Kinds of the platforms people come from (OpenShift, OLM, Argo CD, gateway API …): accepted, stored, and given back.

Nothing acts on them here. They are served so that applying a whole folder of manifests does not stop at the first
operator subscription. One line for a kind: group/version (or versions, the stored one first), kind, plural, scope
(`ns`, `cluster`; with `!` where the kind has no status subresource), short names.
"""

from functools import partial

from gpuaas.api.crds import Bundled, Version
from gpuaas.api.kinds import Object

_TABLE = """
operators.coreos.com/v1                     OperatorGroup              operatorgroups               ns      og
operators.coreos.com/v1                     Operator                   operators                    cluster
operators.coreos.com/v1alpha1               Subscription               subscriptions                ns      sub,subs
operators.coreos.com/v1alpha1               ClusterServiceVersion      clusterserviceversions       ns      csv,csvs
operators.coreos.com/v1alpha1               InstallPlan                installplans                 ns      ip
operators.coreos.com/v1alpha1               CatalogSource              catalogsources               ns      catsrc
operators.coreos.com/v2,v1                  OperatorCondition          operatorconditions           ns
argoproj.io/v1alpha1                        Application                applications                 ns!     app,apps
argoproj.io/v1alpha1                        ApplicationSet             applicationsets              ns      appset,appsets
argoproj.io/v1alpha1                        AppProject                 appprojects                  ns!     appproj,appprojs
argoproj.io/v1beta1,v1alpha1                ArgoCD                     argocds                      ns
config.openshift.io/v1                      OAuth                      oauths                       cluster
config.openshift.io/v1                      ClusterVersion             clusterversions              cluster
config.openshift.io/v1                      ClusterOperator            clusteroperators             cluster
config.openshift.io/v1                      Infrastructure             infrastructures              cluster
config.openshift.io/v1                      Ingress                    ingresses                    cluster
config.openshift.io/v1                      Proxy                      proxies                      cluster
config.openshift.io/v1                      FeatureGate                featuregates                 cluster
config.openshift.io/v1                      Scheduler                  schedulers                   cluster
user.openshift.io/v1                        Group                      groups                       cluster!
user.openshift.io/v1                        User                       users                        cluster!
user.openshift.io/v1                        Identity                   identities                   cluster!
oauth.openshift.io/v1                       OAuthClient                oauthclients                 cluster!
project.openshift.io/v1                     Project                    projects                     cluster!
project.openshift.io/v1                     ProjectRequest             projectrequests              cluster!
route.openshift.io/v1                       Route                      routes                       ns
image.openshift.io/v1                       ImageStream                imagestreams                 ns      is
build.openshift.io/v1                       BuildConfig                buildconfigs                 ns      bc
template.openshift.io/v1                    Template                   templates                    ns!
security.openshift.io/v1                    SecurityContextConstraints securitycontextconstraints   cluster! scc
console.openshift.io/v1                     ConsoleLink                consolelinks                 cluster!
console.openshift.io/v1                     ConsolePlugin              consoleplugins               cluster!
console.openshift.io/v1                     ConsoleNotification        consolenotifications         cluster!
operator.openshift.io/v1                    Console                    consoles                     cluster
operator.openshift.io/v1                    IngressController          ingresscontrollers           ns
operator.openshift.io/v1                    JobSetOperator             jobsetoperators              cluster
operator.openshift.io/v1                    LeaderWorkerSetOperator    leaderworkersetoperators     cluster
machine.openshift.io/v1beta1                Machine                    machines                     ns
machine.openshift.io/v1beta1                MachineSet                 machinesets                  ns
machine.openshift.io/v1beta1                MachineHealthCheck         machinehealthchecks          ns      mhc,mhcs
autoscaling.openshift.io/v1                 ClusterAutoscaler          clusterautoscalers           cluster ca
autoscaling.openshift.io/v1beta1            MachineAutoscaler          machineautoscalers           ns      ma
machineconfiguration.openshift.io/v1        MachineConfig              machineconfigs               cluster! mc
machineconfiguration.openshift.io/v1        MachineConfigPool          machineconfigpools           cluster mcp
machineconfiguration.openshift.io/v1        KubeletConfig              kubeletconfigs               cluster
nfd.openshift.io/v1                         NodeFeatureDiscovery       nodefeaturediscoveries       ns
nfd.openshift.io/v1alpha1                   NodeFeatureRule            nodefeaturerules             cluster!
nfd.k8s-sigs.io/v1alpha1                    NodeFeature                nodefeatures                 ns!
nfd.k8s-sigs.io/v1alpha1                    NodeFeatureRule            nodefeaturerules             cluster
nvidia.com/v1alpha1                         NVIDIADriver               nvidiadrivers                cluster nvd,nvdriver,nvdrivers
datasciencecluster.opendatahub.io/v1,v2     DataScienceCluster         datascienceclusters          cluster dsc
dscinitialization.opendatahub.io/v1,v2      DSCInitialization          dscinitializations           cluster dsci
components.platform.opendatahub.io/v1alpha1 Kueue                      kueues                       cluster
components.platform.opendatahub.io/v1alpha1 Dashboard                  dashboards                   cluster
components.platform.opendatahub.io/v1alpha1 Workbenches                workbenches                  cluster
components.platform.opendatahub.io/v1alpha1 Ray                        rays                         cluster
components.platform.opendatahub.io/v1alpha1 Kserve                     kserves                      cluster
components.platform.opendatahub.io/v1alpha1 TrainingOperator           trainingoperators            cluster
services.platform.opendatahub.io/v1alpha1   Auth                       auths                        cluster
services.platform.opendatahub.io/v1alpha1   Monitoring                 monitorings                  cluster
services.platform.opendatahub.io/v1alpha1   GatewayConfig              gatewayconfigs               cluster
operator.open-cluster-management.io/v1      MultiClusterHub            multiclusterhubs             ns      mch
operator.open-cluster-management.io/v1      ClusterManager             clustermanagers              cluster
operator.open-cluster-management.io/v1      Klusterlet                 klusterlets                  cluster
multicluster.openshift.io/v1                MultiClusterEngine         multiclusterengines          cluster mce
agent.open-cluster-management.io/v1         KlusterletAddonConfig      klusterletaddonconfigs       ns
addon.open-cluster-management.io/v1alpha1   AddOnDeploymentConfig      addondeploymentconfigs       ns!
policy.open-cluster-management.io/v1        Policy                     policies                     ns      plc
policy.open-cluster-management.io/v1        ConfigurationPolicy        configurationpolicies        ns
policy.open-cluster-management.io/v1        PlacementBinding           placementbindings            ns      pb
policy.open-cluster-management.io/v1beta1   PolicySet                  policysets                   ns      plcset
apps.open-cluster-management.io/v1          Channel                    channels                     ns
apps.open-cluster-management.io/v1          PlacementRule              placementrules               ns
apps.open-cluster-management.io/v1          Subscription               subscriptions                ns      appsub
observability.open-cluster-management.io/v1beta2 MultiClusterObservability multiclusterobservabilities cluster mco
gateway.networking.k8s.io/v1,v1beta1        Gateway                    gateways                     ns      gtw
gateway.networking.k8s.io/v1,v1beta1        GatewayClass               gatewayclasses               cluster gc
gateway.networking.k8s.io/v1,v1beta1        HTTPRoute                  httproutes                   ns
gateway.networking.k8s.io/v1                GRPCRoute                  grpcroutes                   ns
gateway.networking.k8s.io/v1beta1           ReferenceGrant             referencegrants              ns!     refgrant
monitoring.coreos.com/v1                    Prometheus                 prometheuses                 ns      prom
monitoring.coreos.com/v1                    Alertmanager               alertmanagers                ns      am
monitoring.coreos.com/v1                    Probe                      probes                       ns!     prb
cert-manager.io/v1                          Certificate                certificates                 ns      cert,certs
cert-manager.io/v1                          Issuer                     issuers                      ns
cert-manager.io/v1                          ClusterIssuer              clusterissuers               cluster
maistra.io/v2                               ServiceMeshControlPlane    servicemeshcontrolplanes     ns      smcp
maistra.io/v1                               ServiceMeshMember          servicemeshmembers           ns      smm
sparkoperator.k8s.io/v1beta2                SparkApplication           sparkapplications            ns      sparkapp
"""

# Kubernetes serves kinds of its own groups only with a word about their approval; these are not its own.
_PROTECTED = (".k8s.io", ".kubernetes.io")
_APPROVAL = {"api-approved.kubernetes.io": "unapproved, accepted and stored only"}

_ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _schema(status: bool) -> Object:
    properties: Object = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": _ANYTHING,
    }
    if status:
        properties["status"] = _ANYTHING
    return {"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": True}


def _row(line: str) -> Bundled:
    api, kind, plural, scope, *short = line.split()
    group, _, versions = api.partition("/")
    status = not scope.endswith("!")
    stored, *others = versions.split(",")
    return Bundled(
        group=group,
        kind=kind,
        plural=plural,
        namespaced=scope.startswith("ns"),
        short_names=tuple(short[0].split(",")) if short else (),
        annotations=_APPROVAL if group.endswith(_PROTECTED) else None,
        versions=tuple(
            Version(name, partial(_schema, status), storage=name == stored, status=status) for name in (stored, *others)
        ),
    )


KINDS: tuple[Bundled, ...] = tuple(map(_row, _TABLE.strip().splitlines()))
