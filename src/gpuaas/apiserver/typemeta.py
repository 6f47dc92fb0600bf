"""What an object says it is: it must agree with the path it is sent to, and what it does not say is taken from there.

Kubernetes reads an object as what it calls itself before it asks whether that is what belongs here, so mistakes of an
object of another kind are reported first. A custom resource must name its kind; another one than its definition's is found
out only when everything else about the request is right.
"""

from typing import Final

from gpuaas.api.kinds import Object
from gpuaas.apiserver.bodies import SCHEME, summary
from gpuaas.apiserver.operation import Operation
from gpuaas.base.errors import ApiError, BadRequest, Invalid
from gpuaas.base.fielderrors import invalid

_PACKAGES: Final = {
    "Binding": "core",
    "Eviction": "policy",
    "Scale": "autoscaling",
    "TokenRequest": "authentication",
}  # where Go keeps the types that subresources take


def check_type(op: Operation, obj: Object) -> Object:
    """The object with kind and version. That of a custom resource may be another one: see `check_custom_kind`."""
    kind = op.kind
    api_version, name = obj.get("apiVersion"), obj.get("kind")
    if api_version == kind.api_version and name == kind.kind:
        return obj
    problem = _unnamed(op, obj, op.body.decode(errors="replace")) if op.body else ""
    if problem:
        what = f"the object provided is unrecognized (must be of type {kind.kind})"
        raise BadRequest(f"{what}: {problem} ({summary(op.body)})")
    if op.resource.custom:
        _read_as_itself(op, obj)
        if op.body and api_version != kind.api_version:
            raise BadRequest(
                f"the API version in the data ({api_version or ''}) does not match "
                f"the expected API version ({kind.api_version})"
            )
    return _named(op, obj)


def check_patched_type(op: Operation, form: str, obj: Object, text: str) -> Object:
    """The same for what a patch leaves, which reads as `text`; a strategic one is never asked what it makes of kind and version."""
    kind = op.kind
    if obj.get("apiVersion") == kind.api_version and obj.get("kind") == kind.kind:
        return obj
    if form == "strategic":
        return {**obj, "kind": kind.kind, "apiVersion": kind.api_version}
    problem = _unnamed(op, obj, text)
    if problem:
        raise BadRequest(f"unrecognized: {problem}")
    if op.resource.custom:
        _read_as_itself(op, obj)
    return _named(op, obj)


def check_custom_kind(op: Operation, obj: Object) -> None:
    """Once a custom resource could be read and has the name of the path."""
    kind, name, api_version = op.kind, obj.get("kind"), obj.get("apiVersion")
    if not op.resource.custom or (name == kind.kind and api_version == kind.api_version):
        return
    if not api_version:
        raise BadRequest("Object 'apiVersion' is missing in 'object has no apiVersion field'")
    group = str(api_version).rpartition("/")[0]
    errors = [invalid("kind", name, f"must be {kind.kind}")] if name != kind.kind else []
    if api_version != kind.api_version:
        errors.append(invalid("apiVersion", api_version, f"must be {kind.api_version}"))
    raise Invalid(group, str(name), (obj.get("metadata") or {}).get("name") or "", errors)


def check_kind(obj: Object, kind: str) -> None:
    """The same for what a subresource takes."""
    name = obj.get("kind")
    if name in (None, "", kind):
        return
    version = str(obj.get("apiVersion", "")).rpartition("/")[2]
    raise BadRequest(
        f'{name} in version "{version}" cannot be handled as a {kind}: '
        f"converting ({version}.{name}) to ({_PACKAGES[kind]}.{kind}): unknown conversion"
    )


def _unnamed(op: Operation, obj: Object, text: str) -> str:
    """Why the kind cannot be determined."""
    api_version = obj.get("apiVersion")
    if api_version and str(api_version).count("/") > 1:
        return f"unexpected GroupVersion string: {api_version}"
    if op.resource.custom and not obj.get("kind"):
        return f"Object 'Kind' is missing in '{text}'"
    return ""


def _named(op: Operation, obj: Object) -> Object:
    kind, api_version, name = op.kind, obj.get("apiVersion"), obj.get("kind")
    if not api_version or not name:
        rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
        said = api_version if op.resource.custom and op.verb == "patch" else api_version or kind.api_version
        obj = {"kind": name or kind.kind, "apiVersion": said, **rest}
    if not op.resource.custom and (obj["apiVersion"] != kind.api_version or obj["kind"] != kind.kind):
        raise _of_another_kind(op, obj)
    return obj


def _of_another_kind(op: Operation, obj: Object) -> ApiError:
    """A built-in kind is read as what it says it is, if there is such a thing, and then is not what belongs here."""
    kind, api_version, name = op.kind, str(obj["apiVersion"]), str(obj["kind"])
    version = api_version.rpartition("/")[2]
    refused = f'{name} in version "{version}" cannot be handled as a {kind.kind}: '
    found = op.cluster.catalogue.for_kind(api_version, name)
    if found is None:
        return BadRequest(f'{refused}no kind "{name}" is registered for version "{api_version}" in scheme "{SCHEME}"')
    try:
        found[1].read(obj)
    except BadRequest as problem:
        return BadRequest(refused + _why(problem))
    if name != kind.kind:
        ours = f"{kind.group.partition('.')[0] or 'core'}.{kind.kind}"
        return BadRequest(f"{refused}converting ({version}.{name}) to ({ours}): unknown conversion")
    return BadRequest(
        f"the API version in the data ({api_version}) does not match the expected API version ({kind.api_version})"
    )


def _read_as_itself(op: Operation, obj: Object) -> None:
    """Metadata comes before everything else."""
    try:
        op.version.read(obj)
    except BadRequest as problem:
        version = str(obj.get("apiVersion") or "").rpartition("/")[2]
        name = obj.get("kind") or op.kind.kind
        words = f'{name} in version "{version}" cannot be handled as a {op.kind.kind}: {_why(problem)}'
        raise BadRequest(words) from None


def _why(problem: BadRequest) -> str:
    """The reason, without what it is said of."""
    return problem.message.partition(" cannot be handled as a ")[2].partition(": ")[2]
