"""What Kueue's webhooks refuse of flavors, cluster queues and cohorts, in their order and words.

These rules run after the schema and its CEL rules have passed, on the storage version, so the shapes can be trusted.
Their errors reach the user as the denial of the webhook named in `webhook`. Workloads have a module of their own,
`validation_workload`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, not_supported, required
from gpuaas.base.names import is_label_value, is_qualified_name
from gpuaas.base.quantity import Quantity, parse_quantity

FINALIZER = "kueue.x-k8s.io/resource-in-use"
NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"

MAX_FLAVORS = MAX_RESOURCES = 256  # of a cluster queue, over all its groups
MAX_COMBINATIONS = 512  # of one group

Fields = Mapping[str, Any]


class ResourceFlavorRules(Behaviour):
    webhook = "vresourceflavor.kb.io"

    def prepare_create(self, obj: Object) -> None:
        hold(obj)
        obj.setdefault("spec", {})  # Kueue's defaulter writes it even where nothing is said

    def validate(self, obj: Fields) -> list[FieldError]:
        spec = obj.get("spec") or {}
        return [
            *labels(spec.get("nodeLabels"), "spec.nodeLabels"),
            *_taints(spec.get("nodeTaints") or (), "spec.nodeTaints"),
            *tolerations(spec.get("tolerations") or (), "spec.tolerations"),
        ]


class CohortRules(Behaviour):
    webhook = "vcohort.kb.io"

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {}  # there from the start, though nothing is said in it without fair sharing

    def validate(self, obj: Fields) -> list[FieldError]:
        spec = obj.get("spec") or {}
        parent = None if spec.get("parentName") else "parent"
        return [
            *_weight(spec.get("fairSharing"), "spec.fairSharing"),
            *_resource_groups(spec.get("resourceGroups") or (), parent, lends_at_most_nominal=False),
        ]


class ClusterQueueRules(Behaviour):
    """Kueue's gate for concurrent admission is off by default; then only its immutability is checked."""

    webhook = "vclusterqueue.kb.io"

    def prepare_create(self, obj: Object) -> None:
        hold(obj)
        spell_amounts(obj)

    def validate(self, obj: Fields) -> list[FieldError]:
        return [*_cluster_queue(obj.get("spec") or {}), *_on_flavors(obj.get("spec") or {}, {})]

    def check_update(self, obj: Fields, old: Fields) -> list[FieldError]:
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        return [
            *_cluster_queue(spec),
            *_on_flavors(spec, _tolerated_rules(spec, before)),
            *unchanged(spec, before, "concurrentAdmissionPolicy"),
        ]


# -- ClusterQueue -----------------------------------------------------------------------------------------------------


def _cluster_queue(spec: Fields) -> Iterator[FieldError]:
    groups = spec.get("resourceGroups") or ()
    yield from _resource_groups(groups, None if spec.get("cohortName") else "cohort", lends_at_most_nominal=True)
    yield from label_selector(spec.get("namespaceSelector"), "spec.namespaceSelector")
    yield from _preemption(spec.get("preemption") or {})
    yield from _fungibility(spec.get("flavorFungibility") or {})
    yield from _weight(spec.get("fairSharing"), "spec.fairSharing")
    yield from _sizes(groups)


def _preemption(preemption: Fields) -> Iterator[FieldError]:
    borrowing = preemption.get("borrowWithinCohort")
    if preemption.get("reclaimWithinCohort") != "Never" or borrowing is None:
        return
    if borrowing.get("policy") != "Never":
        yield invalid("spec.preemption", preemption, "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never")


def _fungibility(fungibility: Fields) -> Iterator[FieldError]:
    preference = fungibility.get("preference")
    if preference is None:
        return
    if {fungibility.get("whenCanBorrow"), fungibility.get("whenCanPreempt")} != {"TryNextFlavor"}:
        yield invalid(
            "spec.flavorFungibility.preference",
            preference,
            f'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor',
        )


def _sizes(groups: Sequence[Fields]) -> Iterator[FieldError]:
    path = "spec.resourceGroups"
    flavors = sum(len(group["flavors"]) for group in groups)
    if flavors > MAX_FLAVORS:
        yield invalid(path, flavors, f"total number of flavors across all resourceGroups must be ≤ 256, got {flavors}")
    covered = sum(len(group["coveredResources"]) for group in groups)
    if covered > MAX_RESOURCES:
        yield invalid(
            path, covered, f"total number of covered resources across all resourceGroups must be ≤ 256, got {covered}"
        )
    for i, group in enumerate(groups):
        pairs = sum(len(flavor["resources"]) for flavor in group["flavors"])
        if pairs > MAX_COMBINATIONS:
            yield invalid(
                child(path, i),
                pairs,
                f"number of flavor-resource combinations in a resourceGroup must be ≤ 512, got {pairs}",
            )


def _on_flavors(spec: Fields, tolerated: Mapping[str, frozenset[str]]) -> Iterator[FieldError]:
    """Checks may only be limited to flavors the queue has."""
    known = _flavors(spec)
    rules = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    for i, rule in enumerate(rules):
        flavors = rule.get("onFlavors") or ()
        if tolerated.get(rule["name"]) == frozenset(flavors):
            continue
        for j, flavor in enumerate(flavors):
            if flavor not in known:
                path = child("spec.admissionChecksStrategy.admissionChecks", i, "onFlavors", j)
                yield not_supported(path, flavor, sorted(known))


def _tolerated_rules(spec: Fields, before: Fields) -> dict[str, frozenset[str]]:
    """An old queue may carry a rule that is no longer valid; updates that touch neither it nor the flavors may pass."""
    if _flavors(spec) != _flavors(before):
        return {}
    rules = (before.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    return {rule["name"]: frozenset(rule.get("onFlavors") or ()) for rule in rules}


def _flavors(spec: Fields) -> set[str]:
    return {flavor["name"] for group in spec.get("resourceGroups") or () for flavor in group["flavors"]}


# -- quota ------------------------------------------------------------------------------------------------------------


def _resource_groups(
    groups: Sequence[Fields], missing: str | None, *, lends_at_most_nominal: bool
) -> Iterator[FieldError]:
    """`missing` names what must be there for limits to make sense, where it is not."""
    seen_resources: set[str] = set()
    seen_flavors: set[str] = set()
    for i, group in enumerate(groups):
        path = child("spec.resourceGroups", i)
        for j, name in enumerate(group["coveredResources"]):
            place = child(path, "coveredResources", j)
            yield from (invalid(place, name, text) for text in _resource_name(name))
            if name in seen_resources:
                yield duplicate(place, name)
            seen_resources.add(name)
        for j, flavor in enumerate(group["flavors"]):
            place = child(path, "flavors", j)
            yield from _flavor_quotas(flavor, group["coveredResources"], place, missing, lends_at_most_nominal)
            if flavor["name"] in seen_flavors:
                yield duplicate(child(place, "name"), flavor["name"])
            seen_flavors.add(flavor["name"])


def _resource_name(name: str) -> list[str]:
    return [text.replace("a qualified name must", "a valid label key must") for text in is_qualified_name(name)]


def _flavor_quotas(
    flavor: Fields, covered: Sequence[str], path: str, missing: str | None, lends_at_most_nominal: bool
) -> Iterator[FieldError]:
    for i, (resource, name) in enumerate(zip(flavor["resources"], covered, strict=False)):
        place = child(path, "resources", i)
        if resource["name"] != name:
            yield invalid(child(place, "name"), resource["name"], "must match the name in coveredResources")
        nominal = quantity(resource["nominalQuota"])
        yield from not_negative(nominal, child(place, "nominalQuota"))
        if resource.get("borrowingLimit") is not None:
            limit, at = quantity(resource["borrowingLimit"]), child(place, "borrowingLimit")
            yield from _needs(missing, limit, at)
            yield from not_negative(limit, at)
        if resource.get("lendingLimit") is not None:
            limit, at = quantity(resource["lendingLimit"]), child(place, "lendingLimit")
            yield from not_negative(limit, at)
            yield from _needs(missing, limit, at)
            if lends_at_most_nominal and limit.nano > nominal.nano:
                yield invalid(at, str(limit), "must be less than or equal to the nominalQuota")


def _needs(missing: str | None, limit: Quantity, path: str) -> Iterator[FieldError]:
    if missing:
        yield invalid(path, str(limit), f"must be nil when {missing} is empty")


def not_negative(value: Quantity, path: str) -> Iterator[FieldError]:
    if value.nano < 0:
        yield invalid(path, str(value), NEGATIVE)


def quantity(value: Any) -> Quantity:
    """A quantity the schema has let through; what its pattern cannot see (an exponent without end) counts as zero."""
    try:
        return parse_quantity(value)
    except ValueError:
        return Quantity(0)


def _weight(sharing: Fields | None, path: str) -> Iterator[FieldError]:
    if not sharing or sharing.get("weight") is None:
        return
    weight = quantity(sharing["weight"])
    yield from not_negative(weight, path)
    if 0 < weight.nano <= 1:
        yield invalid(path, str(weight), "When not 0, weight must be > 10e-9")


# -- Kubernetes' own shapes -------------------------------------------------------------------------------------------


def _taints(taints: Sequence[Fields], path: str) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        place = child(path, i)
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        yield from (invalid(child(place, "key"), key, text) for text in is_qualified_name(key))
        if texts := is_label_value(value):
            yield invalid(child(place, "value"), value, ";".join(texts))
        if (key, effect) in seen:
            again = duplicate(place, {name: taint[name] for name in ("key", "value", "effect") if taint.get(name)})
            yield FieldError(again.reason, again.path, f"{again.body}: taints must be unique by key and effect pair")
        seen.add((key, effect))


def tolerations(entries: Sequence[Fields], path: str) -> Iterator[FieldError]:
    for i, entry in enumerate(entries):
        if key := entry.get("key"):
            yield from (invalid(child(path, i, "key"), key, text) for text in is_qualified_name(key))


def labels(entries: Mapping[str, str] | None, path: str) -> Iterator[FieldError]:
    for key, value in sorted((entries or {}).items()):
        yield from (invalid(path, key, text) for text in is_qualified_name(key))
        yield from (invalid(path, value, text) for text in is_label_value(value))


def label_selector(selector: Fields | None, path: str) -> Iterator[FieldError]:
    if selector is None:
        return
    yield from labels(selector.get("matchLabels"), child(path, "matchLabels"))
    for i, expression in enumerate(selector.get("matchExpressions") or ()):
        yield from _requirement(expression, child(path, "matchExpressions", i))


def _requirement(expression: Fields, path: str) -> Iterator[FieldError]:
    values = expression.get("values") or ()
    match expression.get("operator", ""):
        case "In" | "NotIn":
            if not values:
                yield required(child(path, "values"), "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                yield forbidden(
                    child(path, "values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                )
        case operator:
            yield invalid(child(path, "operator"), operator, "not a valid selector operator")
    key = expression.get("key", "")
    yield from (invalid(child(path, "key"), key, text) for text in is_qualified_name(key))
    for i, value in enumerate(values):
        yield from (invalid(child(path, "values", i), value, text) for text in is_label_value(value))


def unchanged(spec: Fields, before: Fields, name: str) -> Iterator[FieldError]:
    if spec.get(name) != before.get(name):
        yield invalid(f"spec.{name}", spec.get(name), IMMUTABLE)


def hold(obj: Object) -> None:
    """The finalizer that keeps an object until nothing uses it; Kueue's defaulter adds it on create only."""
    metadata = obj.setdefault("metadata", {})
    finalizers: Iterable[str] = metadata.get("finalizers") or ()
    if FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, FINALIZER]


def spell_amounts(obj: Object) -> None:
    """Amounts as Kueue's defaulter leaves them on create, 4 as "4" and 1000m as "1"; what is wrong stays as it is."""
    spec = obj.get("spec")
    groups = spec.get("resourceGroups") if isinstance(spec, dict) else None
    for group in groups or ():
        for flavor in group.get("flavors") or ():
            for quota in flavor.get("resources") or ():
                for name in ("nominalQuota", "borrowingLimit", "lendingLimit"):
                    _spell(quota, name)
    if isinstance(spec, dict) and isinstance(spec.get("fairSharing"), dict):
        _spell(spec["fairSharing"], "weight")


def _spell(place: Object, name: str) -> None:
    try:
        if place.get(name) is not None:
            place[name] = str(parse_quantity(place[name]))
    except (TypeError, ValueError):
        return
