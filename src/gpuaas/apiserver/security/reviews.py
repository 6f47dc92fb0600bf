"""Questions about permission and identity: an object comes in, the same object with its status goes out.

SelfSubjectAccessReview, SubjectAccessReview, LocalSubjectAccessReview, SelfSubjectRulesReview, TokenReview and
SelfSubjectReview. Nothing is stored.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from gpuaas.apiserver.security.authn import Authenticator
from gpuaas.apiserver.security.identity import Asked, User
from gpuaas.apiserver.security.rbac import Rbac, aggregate
from gpuaas.base.clock import Clock, rfc3339
from gpuaas.base.errors import BadRequest, Invalid
from gpuaas.base.fielderrors import FieldError, invalid, required

Object = Mapping[str, Any]
Answer = dict[str, Any]

Spec = TypeVar("Spec")

_AUTHORIZATION = "authorization.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"


class _Selector(msgspec.Struct):
    rawSelector: str = ""  # noqa: N815 - the wire's name
    requirements: list[Any] | None = None


class _Resource(msgspec.Struct):
    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    fieldSelector: _Selector | None = None  # noqa: N815 - the wire's name
    labelSelector: _Selector | None = None  # noqa: N815 - the wire's name


class _Path(msgspec.Struct):
    path: str = ""
    verb: str = ""


class _Access(msgspec.Struct):
    resourceAttributes: _Resource | None = None  # noqa: N815 - the wire's name
    nonResourceAttributes: _Path | None = None  # noqa: N815 - the wire's name
    user: str = ""
    groups: list[str] | None = None
    uid: str = ""
    extra: dict[str, list[str]] | None = None


class _Token(msgspec.Struct):
    token: str = ""
    audiences: list[str] | None = None


class _Rules(msgspec.Struct):
    namespace: str = ""


class Reviews:
    def __init__(self, rbac: Rbac, authenticator: Authenticator, clock: Clock) -> None:
        self._rbac = rbac
        self._authenticator = authenticator
        self._clock = clock
        self._answers: dict[str, Callable[[User, str, Object], Answer]] = {
            "selfsubjectaccessreviews": self._self_access,
            "subjectaccessreviews": self._access,
            "localsubjectaccessreviews": self._local_access,
            "selfsubjectrulesreviews": self._rules,
            "tokenreviews": self._token,
            "selfsubjectreviews": self._identity,
        }

    def answer(self, plural: str, body: Object, user: User, namespace: str) -> Answer:
        """The review with its status; raises BadRequest or Invalid."""
        return self._answers[plural](user, namespace, body)

    def _self_access(self, user: User, _namespace: str, body: Object) -> Answer:
        spec = _spec(body, _Access)
        _refuse(_attribute_errors(spec) + _selector_errors(spec) + _metadata_errors(body, ()))
        return self._decided(user, spec, body, "SelfSubjectAccessReview")

    def _access(self, _user: User, _namespace: str, body: Object) -> Answer:
        spec = _spec(body, _Access)
        errors = _attribute_errors(spec) + _subject_errors(spec) + _selector_errors(spec)
        _refuse(errors + _metadata_errors(body, ()))
        return self._decided(_subject(spec), spec, body, "SubjectAccessReview")

    def _local_access(self, _user: User, namespace: str, body: Object) -> Answer:
        spec = _spec(body, _Access)
        errors = _attribute_errors(spec) + _subject_errors(spec) + _selector_errors(spec)
        errors += _metadata_errors(body, ("namespace",))
        own = _metadata(body).get("namespace") or namespace
        if own != namespace:
            raise BadRequest(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
        resource = spec.resourceAttributes
        if resource is not None and resource.namespace != own:
            path = "spec.resourceAttributes.namespace"
            errors.append(invalid(path, resource.namespace, "must match metadata.namespace"))
        if spec.nonResourceAttributes is not None:
            path = "spec.nonResourceAttributes"
            errors.append(invalid(path, _shown(spec), "disallowed on this kind of request"))
        _refuse(errors)
        return self._decided(_subject(spec), spec, body, "LocalSubjectAccessReview", {"namespace": namespace})

    def _decided(self, user: User, spec: _Access, body: Object, kind: str, metadata: Object | None = None) -> Answer:
        decision = self._rbac.authorize(user, _asked(spec))
        status: Answer = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        return _review(_AUTHORIZATION, kind, {**(metadata or {}), **_metadata(body)}, body["spec"], status)

    def _rules(self, user: User, _namespace: str, body: Object) -> Answer:
        namespace = _spec(body, _Rules).namespace
        if not namespace:
            raise BadRequest("no namespace on request")
        grants, errors = self._rbac.grants(user, namespace)
        resources: list[Answer] = []
        paths: list[Answer] = []
        for rule, _ in grants:
            if rule.resources:
                names = {"resourceNames": list(rule.names)} if rule.names else {}
                resources.append(
                    {
                        "verbs": list(rule.verbs),
                        "apiGroups": list(rule.groups),
                        "resources": list(rule.resources),
                        **names,
                    }
                )
            if rule.urls:
                paths.append({"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)})
        status: Answer = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
        if errors:
            status["evaluationError"] = aggregate(errors)
        return _review(_AUTHORIZATION, "SelfSubjectRulesReview", {}, {}, status)

    def _token(self, _user: User, _namespace: str, body: Object) -> Answer:
        spec = _spec(body, _Token)
        if not spec.token:
            raise BadRequest("token is required for TokenReview in authentication")
        verified, error = self._authenticator.review(spec.token, spec.audiences or ())
        if verified is None:
            status: Answer = {"user": {}, "error": error}
        else:
            status = {"authenticated": True, "user": verified.user.info(), "audiences": list(verified.audiences)}
        return _review(_AUTHENTICATION, "TokenReview", _metadata(body), body["spec"], status)

    def _identity(self, user: User, _namespace: str, _body: Object) -> Answer:
        metadata = {"creationTimestamp": rfc3339(self._clock.now())}
        answer = _review(_AUTHENTICATION, "SelfSubjectReview", metadata, {}, {"userInfo": user.info()})
        del answer["spec"]
        return answer


def _review(group: str, kind: str, metadata: Object, spec: Object, status: Answer) -> Answer:
    return {
        "kind": kind,
        "apiVersion": f"{group}/v1",
        "metadata": dict(metadata),
        "spec": dict(spec),
        "status": status,
    }


def _spec(body: Object, kind: type[Spec]) -> Spec:
    try:
        return msgspec.convert(body.get("spec") or {}, kind)
    except msgspec.ValidationError as error:
        name = body.get("kind", "review")
        raise BadRequest(f'{name} in version "v1" cannot be handled as a {name}: spec: {error}') from None


def _subject(spec: _Access) -> User:
    extra = {key: tuple(values) for key, values in (spec.extra or {}).items()}
    return User(spec.user, spec.uid, tuple(spec.groups or ()), extra)


def _asked(spec: _Access) -> Asked:
    resource, path = spec.resourceAttributes, spec.nonResourceAttributes
    if resource is None:
        return Asked(path.verb, path=path.path) if path else Asked("")
    return Asked(
        resource.verb, resource.group, resource.resource, resource.subresource, resource.namespace, resource.name
    )


def _attribute_errors(spec: _Access) -> list[FieldError]:
    if spec.resourceAttributes is not None and spec.nonResourceAttributes is not None:
        why = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", _shown(spec), why)]
    if spec.resourceAttributes is None and spec.nonResourceAttributes is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, why)]
    return []


def _shown(spec: _Access) -> Answer:
    """The attributes as the real server's message spells them."""
    path = spec.nonResourceAttributes or _Path()
    return {"Path": path.path, "Verb": path.verb}


def _subject_errors(spec: _Access) -> list[FieldError]:
    if spec.user or spec.groups:
        return []
    return [invalid("spec.user", "", "at least one of user or group must be specified")]


def _selector_errors(spec: _Access) -> list[FieldError]:
    errors = []
    resource = spec.resourceAttributes
    for field in ("fieldSelector", "labelSelector") if resource is not None else ():
        selector, path = getattr(resource, field), f"spec.resourceAttributes.{field}"
        if selector is None:
            continue
        if selector.rawSelector and selector.requirements:
            why = "may not specified at the same time as requirements"
            errors.append(invalid(f"{path}.rawSelector", selector.rawSelector, why))
        if not selector.rawSelector and not selector.requirements:
            why = f"when {path} is specified, requirements or rawSelector is required"
            errors.append(required(f"{path}.requirements", why))
    return errors


def _metadata_errors(body: Object, allowed: tuple[str, ...]) -> list[FieldError]:
    metadata = _metadata(body)
    if not any(value for key, value in metadata.items() if key not in (*allowed, "managedFields")):
        return []
    why = "must be empty except for namespace" if allowed else "must be empty"
    return [invalid("metadata", metadata, why)]


def _metadata(body: Object) -> Object:
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise BadRequest("metadata: an object is expected")
    return metadata


def _refuse(errors: list[FieldError]) -> None:
    if errors:
        raise Invalid(_AUTHORIZATION, "", "", errors)  # the real server does not name the kind here either
