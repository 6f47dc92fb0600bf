"""Kubernetes' own types as they stand inside custom kinds: dictionaries to us, written out in full in the CRD."""

from typing import Annotated, Any

from gpuaas.api.crds import builtin

_Dict = dict[str, Any]

Affinity = Annotated[_Dict, builtin("api.core.v1.Affinity")]
Container = Annotated[_Dict, builtin("api.core.v1.Container")]
ContainerState = Annotated[_Dict, builtin("api.core.v1.ContainerState")]
EnvFromSource = Annotated[_Dict, builtin("api.core.v1.EnvFromSource")]
EnvVar = Annotated[_Dict, builtin("api.core.v1.EnvVar")]
EnvVarSource = Annotated[_Dict, builtin("api.core.v1.EnvVarSource")]
HorizontalPodAutoscalerBehavior = Annotated[_Dict, builtin("api.autoscaling.v2.HorizontalPodAutoscalerBehavior")]
JobTemplateSpec = Annotated[_Dict, builtin("api.batch.v1.JobTemplateSpec")]
LocalObjectReference = Annotated[_Dict, builtin("api.core.v1.LocalObjectReference")]
MetricSpec = Annotated[_Dict, builtin("api.autoscaling.v2.MetricSpec")]
PersistentVolumeClaim = Annotated[_Dict, builtin("api.core.v1.PersistentVolumeClaim")]
PodResourceClaim = Annotated[_Dict, builtin("api.core.v1.PodResourceClaim")]
PodSecurityContext = Annotated[_Dict, builtin("api.core.v1.PodSecurityContext")]
PolicyRule = Annotated[_Dict, builtin("api.rbac.v1.PolicyRule")]
ResourceRequirements = Annotated[_Dict, builtin("api.core.v1.ResourceRequirements")]
SecretKeySelector = Annotated[_Dict, builtin("api.core.v1.SecretKeySelector")]
SecurityContext = Annotated[_Dict, builtin("api.core.v1.SecurityContext")]
Service = Annotated[_Dict, builtin("api.core.v1.Service")]
Volume = Annotated[_Dict, builtin("api.core.v1.Volume")]
VolumeMount = Annotated[_Dict, builtin("api.core.v1.VolumeMount")]
