"""RBAC: who may do what, answered from the roles and bindings there are, in Kubernetes' words.

The evaluator is fed objects as they change (`follow` a store, or `put` and `remove`) and keeps, for each user it has
seen, the answers it gave; any change of a role or binding drops them all, which is rare, and rebuilding one is cheap.
Aggregated cluster roles count as the union of the roles they select, at once; a controller writes that union into
their rules so that people see the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpuaas.apiserver.security.identity import MASTERS, Attributes, User, service_account_name
from gpuaas.apiserver.security.rules import Rule, parse_rules, quoted
from gpuaas.base.errors import ApiError, Forbidden
from gpuaas.base.selectors import LabelSelector, from_label_selector
from gpuaas.runtime.quarantine import Aside
from gpuaas.store import Entry, Event, Store

GROUP = "rbac.authorization.k8s.io"
PLURALS = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")

# Answers kept; what a client can make up (paths, namespaces) must not grow without bound.
_MAX_USERS = 2_000
_MAX_ANSWERS = 4_000


class Decision(NamedTuple):
    allowed: bool
    reason: str = ""


class Grant(NamedTuple):
    """One rule of a subject, and through which binding."""

    rule: Rule
    source: str


class Rbac:
    def __init__(self) -> None:
        self._roles: dict[tuple[str, str], _Role] = {}  # (namespace, "" for cluster roles, name)
        self._bindings: dict[str, dict[str, _Binding]] = {"": {}}  # namespace ("" for cluster bindings) -> name
        self._resolved: dict[str, tuple[Rule, ...]] = {}  # aggregated cluster roles
        self._aside = Aside()
        self._answers: dict[tuple[str, tuple[str, ...]], dict[tuple[str, ...], tuple[_Answer, ...]]] = {}

    def follow(self, store: Store, aside: Aside | None = None) -> None:
        """Take over the store's roles and bindings, and every change of them from now on. One that cannot be read
        grants nothing."""
        self._aside = aside or self._aside
        for plural in PLURALS:
            prefix = f"{GROUP}/{plural}/"
            for entry in store.list(prefix):
                self._take_over(plural, entry)
            store.watch(prefix, store.revision, self._on_events).resume()

    def put(self, plural: str, obj: Mapping[str, Any]) -> None:
        """A role or binding is new or has changed."""
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if plural.endswith("roles"):
            self._roles[namespace, name] = _Role.of(obj)
        else:
            self._bindings.setdefault(namespace, {})[name] = _Binding.of(obj)
        self._forget()

    def remove(self, plural: str, namespace: str, name: str) -> None:
        if plural.endswith("roles"):
            self._roles.pop((namespace, name), None)
        else:
            self._bindings.get(namespace, {}).pop(name, None)
        self._forget()

    def authorize(self, user: User, request: Attributes) -> Decision:
        if MASTERS in user.groups:
            return _ALLOWED
        if request.resource:
            question: tuple[str, ...] = (
                request.verb, request.group, request.resource, request.subresource, request.namespace,
            )  # fmt: skip
        else:
            question = (request.verb, request.path)
        who = (user.name, user.groups)
        known = self._answers.get(who)
        if known is None:
            if len(self._answers) >= _MAX_USERS:
                self._answers.clear()
            known = self._answers[who] = {}
        answers = known.get(question)
        if answers is None:
            if len(known) >= _MAX_ANSWERS:
                known.clear()
            answers = known[question] = tuple(self._evaluate(user, question))
        for names, decision in answers:
            if names is None or request.name in names:
                return decision
        raise AssertionError("the last answer holds for every name")

    def require(self, user: User, request: Attributes) -> None:
        """Raise Forbidden, in the real server's words, unless the request is allowed."""
        decision = self.authorize(user, request)
        if not decision.allowed:
            raise forbidden(user, request, decision.reason)

    def grants(self, user: User, namespace: str) -> tuple[list[Grant], list[str]]:
        """All rules a user has in a namespace ("" for the cluster), and what could not be resolved."""
        found: list[Grant] = []
        errors: list[str] = []
        for scope in ("", namespace) if namespace else ("",):
            bindings = self._bindings.get(scope, {})
            for name in sorted(bindings):
                binding = bindings[name]
                subject = binding.subject_of(user)
                if subject is None:
                    continue
                rules = self.role_rules(binding.role_kind, binding.role_name, scope)
                if rules is None:
                    errors.append(f"{binding.role_kind.lower()}.{GROUP} {quoted(binding.role_name)} not found")
                    continue
                source = binding.describe(subject)
                found.extend(Grant(rule, source) for rule in rules)
        return found, errors

    def role_rules(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...] | None:
        """The rules a binding in a namespace refers to; None if there is no such role."""
        if kind == "ClusterRole":
            return self._cluster_rules(name, ())
        role = self._roles.get((namespace, name)) if namespace else None
        return role.rules if role else None

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            _, plural, namespace, name = event.key.split("/", 3)
            if event.type == "DELETED":
                self.remove(plural, namespace, name)
            else:
                self._take_over(plural, event.entry)

    def _take_over(self, plural: str, entry: Entry) -> None:
        try:
            self.put(plural, entry.obj)
        except Exception as error:
            _, _, namespace, name = entry.key.split("/", 3)
            self.remove(plural, namespace, name)  # what it granted before it became unreadable holds no longer
            self._aside.note("rbac", entry.obj, error)

    def _forget(self) -> None:
        self._answers.clear()
        self._resolved.clear()

    def _evaluate(self, user: User, question: tuple[str, ...]) -> "Iterator[_Answer]":
        """Answers in order of the rules: for some names, then, at last, for all."""
        resource_request = len(question) == 5
        grants, errors = self.grants(user, question[4] if resource_request else "")
        for rule, source in grants:
            if not (rule.allows(*question[:4]) if resource_request else rule.allows_path(*question)):
                continue
            names = frozenset(rule.names) if resource_request and rule.names else None
            yield names, Decision(True, f"RBAC: allowed by {source}")
            if names is None:
                return
        yield None, Decision(False, f"RBAC: {aggregate(errors)}") if errors else _DENIED

    def _cluster_rules(self, name: str, asking: tuple[str, ...]) -> tuple[Rule, ...] | None:
        role = self._roles.get(("", name))
        if role is None:
            return None
        if role.selectors is None:
            return role.rules
        known = self._resolved.get(name)
        if known is not None:
            return known
        rules: dict[Rule, None] = {}
        for other in self._selected(name, role.selectors):
            if other not in asking:
                rules.update(dict.fromkeys(self._cluster_rules(other, (*asking, name)) or ()))
        if not asking:  # inside a cycle the union is not complete yet
            self._resolved[name] = tuple(rules)
        return tuple(rules)

    def _selected(self, name: str, selectors: Sequence[LabelSelector]) -> Iterator[str]:
        cluster_roles = sorted(key[1] for key in self._roles if not key[0])
        for selector in selectors:
            for other in cluster_roles:
                if other != name and selector.matches(self._roles["", other].labels):
                    yield other


_Answer = tuple[frozenset[str] | None, Decision]  # for these names, or for all
_ALLOWED = Decision(True)
_DENIED = Decision(False)


class _Role(NamedTuple):
    rules: tuple[Rule, ...]
    labels: Mapping[str, str]
    selectors: tuple[LabelSelector, ...] | None  # None: not aggregated

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> "_Role":
        aggregation = obj.get("aggregationRule")
        selectors = None
        if aggregation is not None:
            selectors = tuple(_selectors(aggregation.get("clusterRoleSelectors") or ()))
        return cls(parse_rules(obj.get("rules")), obj["metadata"].get("labels") or {}, selectors)


def _selectors(objects: Sequence[Mapping[str, Any]]) -> Iterator[LabelSelector]:
    for obj in objects:
        try:
            selector = from_label_selector(obj)
        except ValueError:
            continue  # an unreadable one selects nothing; it must not keep other roles from counting
        if selector is not None:
            yield selector


class _Binding(NamedTuple):
    namespace: str
    name: str
    role_kind: str
    role_name: str
    subjects: tuple["_Subject", ...]

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> "_Binding":
        metadata, reference = obj["metadata"], obj.get("roleRef") or {}
        namespace = metadata.get("namespace", "")
        subjects = tuple(_Subject.of(subject, namespace) for subject in obj.get("subjects") or ())
        return cls(namespace, metadata["name"], reference.get("kind", ""), reference.get("name", ""), subjects)

    def subject_of(self, user: User) -> "_Subject | None":
        """The first subject that means this user."""
        for subject in self.subjects:
            if subject.user is not None and subject.user == user.name:
                return subject
            if subject.group is not None and subject.group in user.groups:
                return subject
        return None

    def describe(self, subject: "_Subject") -> str:
        name = f"{self.name}/{self.namespace}" if self.namespace else self.name
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        return f"{kind} {quoted(name)} of {self.role_kind} {quoted(self.role_name)} to {subject.text}"


class _Subject(NamedTuple):
    """A user (service accounts are users, too) or a group; neither, if no subject can match."""

    user: str | None
    group: str | None
    text: str

    @classmethod
    def of(cls, subject: Mapping[str, Any], binding_namespace: str) -> "_Subject":
        kind, name = subject.get("kind", ""), subject.get("name", "")
        match kind:
            case "User":
                return cls(name, None, f"User {quoted(name)}")
            case "ServiceAccount":
                namespace = subject.get("namespace") or binding_namespace
                user = service_account_name(namespace, name) if namespace else None
                return cls(user, None, f"ServiceAccount {quoted(f'{name}/{namespace}')}")
            case "Group":
                return cls(None, name, f"Group {quoted(name)}")
            case _:
                return cls(None, None, f"{kind} {quoted(name)}")


def forbidden(user: User, request: Attributes, reason: str) -> ApiError:
    """403 in the words of the real server."""
    if not request.resource:
        text = f"User {quoted(user.name)} cannot {request.verb} path {quoted(request.path)}"
    else:
        resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
        where = f"in the namespace {quoted(request.namespace)}" if request.namespace else "at the cluster scope"
        text = (
            f"User {quoted(user.name)} cannot {request.verb} resource {quoted(resource)}"
            f" in API group {quoted(request.group)} {where}"
        )
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if reason:
        text = f"{text}: {reason}"
    if not request.resource:
        return ForbiddenPath(text)
    return Forbidden(request.group, request.resource, request.name, text)


class ForbiddenPath(ApiError):
    code, reason = 403, "Forbidden"

    def __init__(self, why: str) -> None:
        super().__init__(f"forbidden: {why}")

    def status(self) -> dict[str, Any]:
        status = super().status()
        code = status.pop("code")
        return {**status, "details": {}, "code": code}  # the real server names no details, but says so


def aggregate(errors: Sequence[str]) -> str:
    """Several errors in one text, as Kubernetes writes them."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]"
