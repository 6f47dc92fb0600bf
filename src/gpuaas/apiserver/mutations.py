"""MutatingAdmissionPolicies at work: what the policies bound to a write change of it, one after the other.

They see the object as the plugins before them left it; what they leave is read and defaulted as if it had been sent so.
Each is asked once: `reinvocationPolicy` is not followed, since no later step changes the object.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpuaas.api.kinds import Object
from gpuaas.apiserver.catalogue import Version
from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.policies import Bound, Misconfigured, Register, Request
from gpuaas.base.errors import ApiError, Forbidden
from gpuaas.machinery.jsonpatch import PatchRefused, apply_json_patch
from gpuaas.machinery.schema.cel import CelError
from gpuaas.machinery.schema.policies import Mutation
from gpuaas.machinery.ssa.atoms import Atom, ListAtom, MapAtom, TypedError, atom_of
from gpuaas.machinery.ssa.elements import show
from gpuaas.machinery.ssa.merge import merge
from gpuaas.machinery.ssa.typed import validate

if TYPE_CHECKING:
    from gpuaas.apiserver.cluster import Cluster

View = Mapping[str, Any]


class DeniedByMutation(Forbidden):
    def __init__(self, op: Operation, name: str, messages: list[str], reason: str) -> None:
        super().__init__(op.resource.group, op.resource.plural, name, "")
        self.message = messages[0]
        self.reason = reason
        self.details["causes"] = [{"message": text} for text in messages]


class Mutations:
    def __init__(self, cluster: "Cluster") -> None:
        self._register = Register(cluster, "mutatingadmission")

    def change(self, op: Operation, obj: Object, old: View | None) -> None:
        """Changes the object, or raises where a policy that must be followed cannot be."""
        bound = self._register.for_write(op)
        if not bound:
            return
        errors: list[str] = []
        reason = "Forbidden"
        for each in bound:
            version = Request(op, obj, old).matched(each.spec.get("matchConstraints") or {})
            if version is None:
                continue
            for binding in each.bindings:
                for why, invalid in self._follow(each, binding, op, obj, old, version):
                    if each.policy.fails:
                        named = f"policy '{each.name}' with binding '{binding['metadata']['name']}'"
                        reason = "Invalid" if invalid and not errors else reason
                        errors.append(f"{named} denied request: {why}")
        if errors:
            raise DeniedByMutation(op, obj["metadata"].get("name", ""), errors, reason)

    def _follow(
        self, bound: Bound, binding: View, op: Operation, obj: Object, old: View | None, version: Version
    ) -> Iterator[tuple[str, bool]]:
        """What goes wrong on the way, and whether it is the policy itself."""
        where = binding["spec"].get("matchResources")
        if where is not None and Request(op, obj, old).matched(where) is None:
            return
        request = Request(op, obj, old)
        try:
            parameters = self._register.parameters(
                bound.spec.get("paramKind"), binding["spec"].get("paramRef"), request
            )
        except Misconfigured as problem:
            yield f"failed to configure binding: {problem}", False
            return
        for each in parameters:
            meant = bound.policy.is_meant({**request.facts(version), "params": each})
            if isinstance(meant, list):
                yield from ((denial.message, True) for denial in meant)
                continue
            for mutation in bound.policy.mutations if meant else ():
                facts = Request(op, obj, old).facts(version)
                try:
                    patch = bound.policy.patch(mutation, {**facts, "params": each})
                    take_over(op, obj, _patched(version, facts["object"], mutation, patch), version)
                except (CelError, TypedError, _Atomic) as problem:
                    yield str(problem), True
                except PatchRefused as problem:
                    yield f"JSON Patch: {problem.why}", True


def _patched(version: Version, obj: Object, mutation: Mutation, patch: Any) -> Object:
    if mutation.kind == "JSONPatch":
        patched: Object = apply_json_patch(obj, patch)
        return patched
    kind = version.kind
    atom = atom_of(version.schema)
    config = {**patch, "apiVersion": kind.api_version, "kind": kind.kind}
    validate(atom, config)
    atomic = list(_atomics(atom, config, ""))
    if atomic:
        raise _Atomic(
            "error applying patch: invalid ApplyConfiguration: "
            f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        )
    merged: Object = merge(atom, obj, config)
    return merged


class _Atomic(Exception):
    """A configuration that would replace a whole where it names a part."""


def _atomics(atom: Atom, value: Any, path: str) -> Iterator[str]:
    node = atom.for_value(value)
    if isinstance(node, MapAtom) and isinstance(value, dict):
        if node.atomic:
            yield path
        for key, item in value.items():
            yield from _atomics(node.child(key)[1], item, f"{path}.{key}")
    elif isinstance(node, ListAtom) and isinstance(value, list):
        if not node.associative:
            yield path
            return
        for item in value:
            yield from _atomics(node.item, item, path + show(node.element(item)))


def take_over(op: Operation, obj: Object, patched: Object, version: Version) -> None:
    """Puts what a policy or webhook left in the place of the object, read as if it had been sent."""
    try:
        fresh, _ = version.read(patched)
    except ApiError as error:
        raise CelError(f"error applying patch: {error.message}") from None
    fresh = op.resource.to_hub(fresh, version)
    op.hub.behaviour.default(fresh)
    obj.clear()
    obj.update(fresh)
