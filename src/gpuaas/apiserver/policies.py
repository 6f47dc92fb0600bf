"""ValidatingAdmissionPolicies at work: every write and deletion is asked about by the policies bound to it.

`Register` and `Request` say which policies are meant, for those that change objects (module mutations) as well. Which there are is kept, compiled, until one of them or a binding changes; without bindings a write pays for
one look at a number. What an expression means is gpuaas.machinery.schema.policies' business. The configuration of
admission itself is exempt, so that a bad policy can always be taken away.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuaas.apiserver.catalogue import Version
from gpuaas.apiserver.operation import Operation
from gpuaas.base.errors import Forbidden, Invalid
from gpuaas.base.selectors import from_label_selector
from gpuaas.machinery.schema.cel.library_authorization import Answer, Authorizer, Question, ResourceCheck
from gpuaas.machinery.schema.policies import AUTHORIZER_OF_REQUEST, Denial, Policy, compile_policy, condition_errors
from gpuaas.store import Entry

if TYPE_CHECKING:
    from gpuaas.apiserver.cluster import Cluster

View = Mapping[str, Any]
_GROUP = "admissionregistration.k8s.io"
_COMPONENT = "admission"
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}
CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"
_OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}


class DeniedByPolicy(Forbidden):
    def __init__(self, op: Operation, name: str, words: str, reason: str) -> None:
        super().__init__(op.resource.group, op.resource.plural, name, words)
        self.reason = reason or "Invalid"
        self.code = _CODES.get(self.reason, 422)
        self.details["causes"] = [{"message": words}]


class Misconfigured(Exception):
    """A binding that cannot be followed; the text says why."""


@dataclass(frozen=True, slots=True)
class Bound:
    name: str
    spec: View
    policy: Policy
    bindings: Sequence[View]


class Register:
    """The policies of one kind that are bound to something, and what they are given."""

    def __init__(self, cluster: "Cluster", kind: str) -> None:
        self._cluster = cluster
        self._policies, self._bindings = f"{_GROUP}/{kind}policies/", f"{_GROUP}/{kind}policybindings/"
        self._known: tuple[Bound, ...] = ()
        self._seen = (-1, -1)

    def for_write(self, op: Operation) -> tuple[Bound, ...]:
        bound = self._bound()
        return bound if bound and op.resource.group != _GROUP else ()

    def _bound(self) -> tuple[Bound, ...]:
        store = self._cluster.store
        bindings = store.changed(self._bindings)
        if not bindings:
            return ()
        seen = bindings, store.changed(self._policies)
        if seen != self._seen:
            self._known, self._seen = tuple(self._compiled()), seen
        return self._known

    def _compiled(self) -> Iterator[Bound]:
        store = self._cluster.store
        aside = self._cluster.aside
        bindings: dict[str, list[View]] = {}
        for entry in store.list(self._bindings):
            with aside.guard(_COMPONENT, entry.obj):
                check_matching(entry.obj["spec"].get("matchResources") or {})
                bindings.setdefault(entry.obj["spec"].get("policyName", ""), []).append(entry.obj)

        def bound(policy: View) -> Bound | None:
            name, spec = policy["metadata"]["name"], policy["spec"]
            if name not in bindings:
                return None
            check_matching(spec.get("matchConstraints") or {})
            return Bound(name, spec, compile_policy(spec), bindings[name])

        policies = (entry.obj for entry in store.list(self._policies))
        yield from (each for each in aside.each(_COMPONENT, policies, bound) if each is not None)

    def parameters(self, kind: View | None, reference: View | None, request: "Request") -> list[View | None]:
        if kind is None or reference is None:
            return [None]
        found = self._cluster.catalogue.for_kind(kind["apiVersion"], kind["kind"])
        if found is None:
            raise Misconfigured(f"paramKind kind `{kind['apiVersion']}, Kind={kind['kind']}` not known")
        resource, version = found
        namespace = reference.get("namespace") or ""
        if namespace and not resource.namespaced:
            raise Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        if resource.namespaced and not namespace:
            namespace = request.op.namespace
            if not namespace:
                text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                raise Misconfigured(text)
        store = self._cluster.store
        if reference.get("name"):
            one = store.latest(resource.key(namespace, reference["name"]))
            entries = [one] if one is not None else []
        else:
            selector = from_label_selector(reference.get("selector"))
            entries = [
                entry
                for entry in store.list(resource.range(namespace))
                if selector is not None and selector.matches(entry.obj["metadata"].get("labels") or {})
            ]
        if not entries and reference.get("parameterNotFoundAction") == "Deny":
            raise Misconfigured("no params found for policy binding with `Deny` parameterNotFoundAction")
        return [resource.from_hub(entry.obj, version) for entry in entries]


class Policies:
    def __init__(self, cluster: "Cluster") -> None:
        self._register = Register(cluster, "validatingadmission")

    def judge(self, op: Operation, obj: View | None, old: View | None) -> None:
        """Raises where a policy denies; adds the warnings of those that only warn."""
        bound = self._register.for_write(op)
        if not bound:
            return
        request = Request(op, obj, old)
        denied = [words for each in bound for words in self._denials(each, request)]
        if denied:
            raise DeniedByPolicy(op, request.name, *denied[0])

    def judge_deletion(self, op: Operation, entry: Entry) -> None:
        if self._register.for_write(op):
            self.judge(op, None, entry.obj)

    def refuse_unreadable(self, op: Operation, obj: dict[str, Any], old: View | None) -> None:
        """A policy whose expressions do not compile is refused when it comes."""
        if op.subresource or (old is not None and old.get("spec") == obj.get("spec")):
            return
        problems = compile_policy(obj.get("spec") or {}).problems
        if problems:
            raise Invalid(op.resource.group, op.kind.kind, obj["metadata"].get("name", ""), problems)

    def refuse_unreadable_conditions(self, op: Operation, obj: dict[str, Any], old: View | None) -> None:
        """The same for webhooks, whose conditions are expressions too."""
        if old is not None and old.get("webhooks") == obj.get("webhooks"):
            return
        hooks = enumerate(obj.get("webhooks") or ())
        problems = [error for index, hook in hooks for error in condition_errors(hook, f"webhooks[{index}]")]
        if problems:
            raise Invalid(op.resource.group, op.kind.kind, obj["metadata"].get("name", ""), problems)

    def _denials(self, bound: Bound, request: "Request") -> Iterator[tuple[str, str]]:
        """(words, reason) of what is denied."""
        version = request.matched(bound.spec.get("matchConstraints") or {})
        if version is None:
            return
        for binding in bound.bindings:
            where = binding["spec"].get("matchResources")
            if where is not None and request.matched(where) is None:
                continue
            actions = binding["spec"].get("validationActions") or ()
            named = f"ValidatingAdmissionPolicy '{bound.name}' with binding '{binding['metadata']['name']}'"
            for denial in self._judged(bound, binding, request, version):
                if "Warn" in actions:
                    request.op.warnings.append(f"Validation failed for {named}: {denial.message}")
                if "Deny" in actions:
                    yield f"{named} denied request: {denial.message}", denial.reason

    def _judged(self, bound: Bound, binding: View, request: "Request", version: Version) -> Iterator[Denial]:
        try:
            parameters = self._register.parameters(
                bound.spec.get("paramKind"), binding["spec"].get("paramRef"), request
            )
        except Misconfigured as problem:
            if bound.policy.fails:
                yield Denial(f"failed to configure binding: {problem}")
            return
        facts = request.facts(version) if parameters else {}
        for each in parameters:
            yield from bound.policy.decide({**facts, "params": each})


class Request:
    """One write, as policies are matched with it and see it."""

    def __init__(self, op: Operation, obj: View | None, old: View | None) -> None:
        self.op = op
        self._obj, self._old = obj, old
        self._operation = DELETE if obj is None else CREATE if old is None else UPDATE
        self.name = op.name or ((obj or old or {}).get("metadata") or {}).get("name", "")

    def matched(self, resources: View) -> Version | None:
        """The version in which the request meets the rules; None where it is not meant."""
        if not (self._in_namespace(resources) and self._has_labels(resources)):
            return None
        exact = resources.get("matchPolicy") == "Exact"
        if self._by_rules(resources.get("excludeResourceRules") or (), exact=exact) is not None:
            return None
        rules: Sequence[View] = resources.get("resourceRules") or ()
        if not rules:
            return self.op.version
        return self._by_rules(rules, exact=exact)

    def _by_rules(self, rules: Sequence[View], *, exact: bool) -> Version | None:
        own = self.op.version
        others = [] if exact else [each for each in self.op.resource.versions.values() if each is not own]
        versions: list[Version] = [own, *others]
        return next((each for each in versions if any(self._meets(rule, each) for rule in rules)), None)

    def _meets(self, rule: View, version: Version) -> bool:
        names = rule.get("resourceNames")
        return (
            _one_of(self._operation, rule.get("operations"))
            and _one_of(self.op.resource.group, rule.get("apiGroups"))
            and _one_of(version.kind.version, rule.get("apiVersions"))
            and any(self._is_resource(*text.partition("/")) for text in rule.get("resources") or ())
            and rule.get("scope", "*") in ("*", "Namespaced" if self.op.resource.namespaced else "Cluster")
            and (not names or self.name in names)
        )

    def _is_resource(self, plural: str, _slash: str, subresource: str) -> bool:
        return plural in ("*", self.op.resource.plural) and subresource in ("*", self.op.subresource)

    def _in_namespace(self, resources: View) -> bool:
        selector = from_label_selector(resources.get("namespaceSelector"))
        is_namespace = self.op.resource.prefix == "/namespaces/"
        if not selector or not (self.op.resource.namespaced or is_namespace):
            return True
        if is_namespace:
            return selector.matches(_labels(self._obj or self._old))
        return selector.matches(_labels(self._namespace()))

    def _has_labels(self, resources: View) -> bool:
        selector = from_label_selector(resources.get("objectSelector"))
        if not selector:
            return True
        return any(selector.matches(_labels(one)) for one in (self._obj, self._old) if one is not None)

    def _namespace(self) -> View | None:
        if not self.op.resource.namespaced:
            return None
        entry = self.op.cluster.store.latest(f"/namespaces//{self.op.namespace}")
        return entry.obj if entry is not None else None

    def facts(self, version: Version) -> dict[str, Any]:
        return {
            "object": self._shown(self._obj, version),
            "oldObject": self._shown(self._old, version),
            "request": self._request(version),
            "namespaceObject": self._namespace(),
            "authorizer": Authorizer(self._may),
            AUTHORIZER_OF_REQUEST: ResourceCheck(self._may, self._own_question()),
        }

    def _may(self, question: Question) -> Answer:
        return self.op.cluster.admission.decide(self.op.user, question)

    def _own_question(self) -> Question:
        op = self.op
        return Question("", op.resource.group, op.resource.plural, op.subresource, op.namespace, self.name)

    def _shown(self, obj: View | None, version: Version) -> View | None:
        if obj is None:
            return None
        kind = self.op.hub
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
        return self.op.resource.from_hub(whole, version)

    def _request(self, version: Version) -> dict[str, Any]:
        op, asked = self.op, self.op.version
        named = {
            "kind": _kind(version),
            "resource": _resource(version),
            "requestKind": _kind(asked),
            "requestResource": _resource(asked),
            "name": self.name,
            "operation": self._operation,
            "userInfo": op.user.info(),
            "dryRun": op.dry_run,
            "options": self._options(),
        }
        more = {"namespace": op.namespace, "subResource": op.subresource, "requestSubResource": op.subresource}
        return named | {key: value for key, value in more.items() if value}

    def _options(self) -> dict[str, Any]:
        op = self.op
        options = {key: op.query[key] for key in ("fieldManager", "fieldValidation") if op.query.get(key)}
        kind = {"kind": _OPTIONS[self._operation], "apiVersion": "meta.k8s.io/v1"}
        return {**kind, **({"dryRun": ["All"]} if op.dry_run else {}), **options}


def check_matching(resources: View) -> None:
    """Raises where it cannot be read which requests are meant: asked once, when a policy or webhook is taken up, and not
    in the middle of everybody's writes."""
    for name in ("namespaceSelector", "objectSelector"):
        from_label_selector(resources.get(name))
    for rule in (*(resources.get("resourceRules") or ()), *(resources.get("excludeResourceRules") or ())):
        for name in ("operations", "apiGroups", "apiVersions", "resources", "resourceNames"):
            if not all(isinstance(each, str) for each in rule.get(name) or ()):
                raise ValueError(f"{name} of a rule are not strings")


def _kind(version: Version) -> dict[str, str]:
    kind = version.kind
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(version: Version) -> dict[str, str]:
    kind = version.kind
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def _one_of(value: str, allowed: Sequence[str] | None) -> bool:
    return allowed is not None and ("*" in allowed or value in allowed)


def _labels(obj: View | None) -> Mapping[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}
