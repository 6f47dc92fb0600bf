"""Namespaces: the finalizer that empties one before it goes, the label with its name, its phase."""

from typing import Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.metadata import View, unknown_finalizer
from gpuaas.base.fielderrors import FieldError, child, invalid
from gpuaas.base.names import is_dns1123_label, is_qualified_name

FINALIZER: Final = "kubernetes"
NAME_LABEL: Final = "kubernetes.io/metadata.name"


class Namespace(Behaviour):
    generation = False
    name_messages = staticmethod(is_dns1123_label)
    field_selectors = ("status.phase",)

    def default(self, obj: Object) -> None:
        metadata = obj.setdefault("metadata", {})
        if metadata.get("name"):
            metadata["labels"] = {**(metadata.get("labels") or {}), NAME_LABEL: metadata["name"]}
        obj.setdefault("status", {}).setdefault("phase", "Active")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Active"}
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        if FINALIZER not in finalizers:
            finalizers = [*finalizers, FINALIZER]
        obj["spec"] = {"finalizers": finalizers}
        self.default(obj)

    def prepare_update(self, obj: Object, old: View) -> None:
        """Only the finalize subresource changes the finalizers."""
        obj["spec"] = old.get("spec") or {}

    def validate(self, obj: View) -> list[FieldError]:
        return finalizer_errors(obj, indexed=False)

    def validate_status_update(self, obj: View, old: View) -> list[FieldError]:
        phase = (obj.get("status") or {}).get("phase", "")
        deleting = bool((obj.get("metadata") or {}).get("deletionTimestamp"))
        if phase == ("Terminating" if deleting else "Active"):
            return []
        text = (
            "may only be 'Terminating' if `deletionTimestamp` is not empty"
            if deleting
            else "may only be 'Active' if `deletionTimestamp` is empty"
        )
        return [invalid("status.Phase", phase, text)]

    def fields(self, obj: View) -> dict[str, str]:
        return {"status.phase": (obj.get("status") or {}).get("phase", "")}


def finalizer_errors(obj: View, *, indexed: bool) -> list[FieldError]:
    """What is wrong with spec.finalizers; the finalize subresource names the index too."""
    errors: list[FieldError] = []
    for index, name in enumerate((obj.get("spec") or {}).get("finalizers") or ()):
        path = child("spec.finalizers", index) if indexed else "spec.finalizers"
        errors += [invalid(path, name, message) for message in is_qualified_name(name)]
        errors += unknown_finalizer(name, path)
    return errors
