"""Kueue's feature gates as of 0.19, by what they are without being set: behaviour here is that of the defaults.

The few that can be set to the other value are `configuration_file`'s; for all others that is worth a warning.
"""

from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ON: Final = _names(
    """
    HierarchicalCohorts ObjectRetentionPolicies ManagedJobsNamespaceSelectorAlwaysRespected
    PropagateBatchJobLabelsToWorkload SkipFinalizersForPodsSuspendedByParent MultiKueueWaitForWorkloadAdmitted
    MultiKueueRedoAdmissionOnEvictionInWorker PartialAdmission FlavorFungibility VisibilityOnDemand
    PrioritySortingWithinCohort FairSharingPreemptWithinNominal FairSharingPrioritizeNonBorrowing MultiKueue
    TopologyAwareScheduling LocalQueueMetrics TASProfileMixed AdmissionFairSharing TASFailedNodeReplacement
    TASFailedNodeReplacementFailFast ElasticJobsViaWorkloadSlices TASReplaceNodeOnPodTermination
    SkipReassignmentForPodOwnedWorkloads TASAssignmentsEncodingByHostnamePrefix KueueDRAIntegration
    KueueDRAIntegrationExtendedResource KueueDRAIntegrationPartitionableDevices
    KueueDRARejectWorkloadsWhenDRADisabled MultiKueueAdaptersForCustomJobs ReclaimablePods TLSOptions
    RemoveFinalizersWithStrictPatch TASReplaceNodeOnNodeTaints AssignQueueLabelsForPods TASMultiLayerTopology
    SchedulingEquivalenceHashing AdmissionGatedBy FinishOrphanedWorkloads MultiKueueIncrementalDispatcherConfig
    MultiKueueIncrementalDispatcherRespectConfigOrder QuotaCheckStrategy MetricForWorkloadCreationLatency
    WorkloadIdentifierAnnotations MetricsForCohorts CleanupProvisioningRequestsOnEviction
    TASHandleOverlappingFlavors TASRecomputeAssignmentWithinSchedulingCycle
    DeferRayServiceFinalizationForRedisCleanup TASCacheNodeMatchResults TASCachingRemainingResources
    VectorizedResourceRequests WorkloadValidateResourcesAreNonNegative TASValidateWorkloadSliceSize
    WorkloadValidationForPodSetMetadata LWSImmutableGroupSize FlavorFungibilityPreserveScanProgress
    SkipAncestorCheckForDeletedWorkloads MultiKueueRemoteSpecSync PodIntegrationValidateGroupOwner
    ValidateRayAndSparkJobUpdates
    """
)
OFF: Final = _names(
    """
    DisableWaitForPodsReady ElasticJobsViaWorkloadSlicesWithTAS TASReplaceNodeDueToNotReadyOverFixedTime
    TASBalancedPlacement KueueDRAIntegrationConsumableCapacity WorkloadRequestUseMergePatch
    MultiKueueAllowInsecureKubeconfigs MultiKueueKubeConfigPathValidation MultiKueueClusterProfile
    FailureRecoveryPolicy SchedulerLongRequeueInterval SchedulerTimestampPreemptionBuffer CustomMetricLabels
    SparkApplicationIntegration MultiKueueOrchestratedPreemption PriorityBoost ShortWorkloadNames
    FastQuotaReleaseInPodIntegration RejectUpdatesToCQWithInvalidOnFlavors ConcurrentAdmission
    TASRespectNodeAffinityPreferred MultiKueueManagerQuotaAutomation WorkloadPriorityClassDefaulting
    UnadmittedWorkloadsObservability UnadmittedWorkloadsExplicitStatus TASCacheTopologyTree
    SchedulerLibraryIntegration PrioritizePreemptorWorkloads RecomputeAssignmentUponPreemptionTargetsOverlap
    """
)
