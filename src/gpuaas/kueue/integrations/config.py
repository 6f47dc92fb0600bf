"""Which jobs are held: the few knobs of the configuration that the integrations ask for."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpuaas.base.selectors import NOT_IN, LabelSelector, Requirement

MANAGED_NAMESPACE = "kueue.openshift.io/managed"
NOTEBOOK = "kubeflow.org/notebook"
STATEFUL_SET = "statefulset"

ALL_BUT_SYSTEM = LabelSelector((Requirement("kubernetes.io/metadata.name", NOT_IN, ("kube-system", "kueue-system")),))


@dataclass(frozen=True, slots=True)
class JobsConfig:
    """Upstream's defaults, with every integration on."""

    manage_without_queue: bool = False
    """Hold jobs that name no queue, in every selected namespace."""
    manage_labelled: bool = True
    """Hold them in namespaces that are labelled as managed."""
    namespaces: LabelSelector = ALL_BUT_SYSTEM
    """Where jobs are looked at at all."""
    frameworks: frozenset[str] | None = None
    """The kinds of jobs that are held, by the names of their integrations; None: all there are."""
    wait_for_pods_ready: bool = True
    label_keys_to_copy: tuple[str, ...] = ()
    annotation_keys_to_copy: tuple[str, ...] = ()
    default_class: bool = False
    """Jobs that name no priority class get the one called `default`, if there is one."""
    elastic: bool = True
    """Whether jobs may be elastic; otherwise their word for it is not heard."""
    checks_whoever_was_held: bool = True
    """A Ray job that leaves its queue is looked at once more."""
    delete_deactivated_after: float | None = None
    """Seconds after which a job that Kueue itself gave up on is deleted."""

    def enables(self, framework: str) -> bool:
        """A notebook counts as the stateful set it would be elsewhere, besides by its own name."""
        if self.frameworks is None or framework in self.frameworks:
            return True
        return framework == NOTEBOOK and STATEFUL_SET in self.frameworks

    def selects(self, labels: Mapping[str, str]) -> bool:
        return self.namespaces.matches(labels)

    def holds_without_queue(self, labels: Mapping[str, str]) -> bool:
        """Whether a job in a namespace with these labels waits although it names no queue."""
        managed = self.manage_without_queue or (self.manage_labelled and labels.get(MANAGED_NAMESPACE) == "true")
        return managed and self.selects(labels)
