"""What `metadata` may hold, for every kind alike: names, labels, annotations, owners, finalizers.

`validate_metadata` checks an object by itself, `validate_metadata_update` what an update may not change, and
`validate_label_selector` the selector objects that many kinds hold. Paths and words are Kubernetes'.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, required, too_long, too_many
from gpuaas.base.names import is_dns1123_label, is_label_value, is_qualified_name

NameMessages = Callable[[str], list[str]]
View = Mapping[str, Any]

IMMUTABLE: Final = "field is immutable"
NEGATIVE: Final = "must be greater than or equal to 0"
_ANNOTATIONS_LIMIT: Final = 256 * 1024
_MOST_OWNERS: Final = 10_000  # each is looked up when one of them goes
_OWNERS_TOLD: Final = 1_000  # in all messages about several controllers
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_REMEMBERED: Final = 320  # longer ones are wrong anyway, and would only fill memory
_STANDARD_FINALIZERS: Final = ("kubernetes", _ORPHAN, _FOREGROUND)


def validate_metadata(
    obj: View, namespaced: bool, name_messages: NameMessages, path: str = "metadata", *, builtin: bool = False
) -> list[FieldError]:
    """Everything wrong with an object's metadata as it stands. Built-in kinds are stricter with finalizers' names."""
    metadata = obj.get("metadata") or {}
    errors = _names(metadata, name_messages, path)
    errors += _namespace(metadata, namespaced, path)
    if metadata.get("generation", 0) < 0:
        errors.append(invalid(child(path, "generation"), metadata["generation"], NEGATIVE))
    errors += validate_labels(metadata.get("labels"), child(path, "labels"))
    errors += validate_annotations(metadata.get("annotations"), child(path, "annotations"))
    errors += _owners(metadata.get("ownerReferences") or (), child(path, "ownerReferences"))
    finalizers = metadata.get("finalizers") or ()
    errors += _finalizers(finalizers, child(path, "finalizers"))
    for index, name in enumerate(finalizers if builtin else ()):
        errors += unknown_finalizer(name, child(path, "finalizers", index))
    return errors


def unknown_finalizer(name: str, path: str) -> list[FieldError]:
    if "/" in name or name in _STANDARD_FINALIZERS:
        return []
    return [invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")]


def finalizer_warnings(obj: View, old: View | None) -> list[str]:
    """What a custom resource hears of a new finalizer whose name others may use as well."""
    finalizers = (obj.get("metadata") or {}).get("finalizers")
    if not finalizers:
        return []
    before = ((old or {}).get("metadata") or {}).get("finalizers") or ()
    texts: list[str] = []
    for name in sorted(set(finalizers).difference(before)):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            path = " including a path (/)" if "." in name else ""
            advice = f"prefer a domain-qualified finalizer name{path} to avoid accidental conflicts"
            texts.append(f'metadata.finalizers: "{name}": {advice} with other finalizer writers')
    return texts


def validate_metadata_update(obj: View, old: View, path: str = "metadata") -> list[FieldError]:
    """What an update may not do to metadata; the caller has already compared resource versions."""
    metadata, before = obj.get("metadata") or {}, old.get("metadata") or {}
    errors: list[FieldError] = []
    if before.get("deletionTimestamp"):
        new = sorted(set(metadata.get("finalizers") or ()) - set(before.get("finalizers") or ()))
        if new:
            listed = ", ".join(f'"{name}"' for name in new)
            errors.append(
                forbidden(
                    child(path, "finalizers"),
                    "no new finalizers can be added if the object is being deleted, found new finalizers"
                    f" []string{{{listed}}}",
                )
            )
    if metadata.get("generation", 0) < before.get("generation", 0):
        errors.append(invalid(child(path, "generation"), metadata.get("generation", 0), "must not be decremented"))
    for key in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        empty = "" if key in ("name", "namespace", "uid") else None
        if metadata.get(key, empty) != before.get(key, empty):
            errors.append(invalid(child(path, key), metadata.get(key, empty), IMMUTABLE))
    errors += validate_labels(metadata.get("labels"), child(path, "labels"))
    errors += validate_annotations(metadata.get("annotations"), child(path, "annotations"))
    errors += _owners(metadata.get("ownerReferences") or (), child(path, "ownerReferences"))
    return errors


def validate_labels(labels: Mapping[str, str] | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in (labels or {}).items():
        if wrong := qualified_messages(key):
            errors += [invalid(path, key, message) for message in wrong]
        if wrong := label_messages(value):
            errors += [invalid(path, value, message) for message in wrong]
    return errors


def qualified_messages(value: str) -> Sequence[str]:
    """`is_qualified_name`, remembered: the same few keys come with every object."""
    return _qualified(value) if len(value) < _REMEMBERED else is_qualified_name(value)


def label_messages(value: str) -> Sequence[str]:
    return _label_value(value) if len(value) < _REMEMBERED else is_label_value(value)


@lru_cache(maxsize=8_192)
def _qualified(value: str) -> tuple[str, ...]:
    return tuple(is_qualified_name(value))


@lru_cache(maxsize=8_192)
def _label_value(value: str) -> tuple[str, ...]:
    return tuple(is_label_value(value))


def validate_annotations(annotations: Mapping[str, str] | None, path: str) -> list[FieldError]:
    annotations = annotations or {}
    errors = [invalid(path, key, message) for key in annotations for message in qualified_messages(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        errors.append(too_long(path, _ANNOTATIONS_LIMIT))
    return errors


def validate_label_selector(selector: View | None, path: str) -> list[FieldError]:
    if selector is None:
        return []
    errors = validate_labels(selector.get("matchLabels"), child(path, "matchLabels"))
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        errors += _expression(expression, child(path, "matchExpressions", index))
    return errors


def prefix_as_name(prefix: str) -> str:
    """A generateName is checked as a name it may become, without the dash at its end (and, as Kubernetes does, what is before it)."""
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _names(metadata: View, name_messages: NameMessages, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    prefix, name = metadata.get("generateName", ""), metadata.get("name", "")
    if prefix:
        messages = name_messages(prefix_as_name(prefix))
        errors += [invalid(child(path, "generateName"), prefix, message) for message in messages]
    if not name:
        return [*errors, required(child(path, "name"), "name or generateName is required")]
    return errors + [invalid(child(path, "name"), name, message) for message in name_messages(name)]


def _namespace(metadata: View, namespaced: bool, path: str) -> list[FieldError]:
    namespace, path = metadata.get("namespace", ""), child(path, "namespace")
    if not namespaced:
        return [forbidden(path, "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(path)]
    return [invalid(path, namespace, message) for message in is_dns1123_label(namespace)]


def _owners(owners: Sequence[View], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(owners) > _MOST_OWNERS:
        return [too_many(path, len(owners), _MOST_OWNERS)]
    controller, several = "", 0
    for owner in owners:
        errors += _owner(owner, path)
        if not owner.get("controller"):
            continue
        name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
        several += bool(controller)
        if controller and (several == 1 or several * len(owners) <= _OWNERS_TOLD):  # each time with the whole list
            errors.append(
                invalid(
                    path,
                    list(owners),
                    'Only one reference can have Controller set to true. Found "true" in references for'
                    f" {controller} and {name}",
                )
            )
        controller = controller or name
    return errors


def _owner(owner: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    api_version = owner.get("apiVersion", "")
    if not api_version.rpartition("/")[2]:
        errors.append(invalid(child(path, "apiVersion"), api_version, "version must not be empty"))
    errors += [
        invalid(child(path, key), "", "must not be empty") for key in ("kind", "name", "uid") if not owner.get(key)
    ]
    if api_version == "v1" and owner.get("kind") == "Event":
        errors.append(invalid(path, dict(owner), "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _finalizers(finalizers: Sequence[str], path: str) -> list[FieldError]:
    errors = [invalid(path, name, message) for name in finalizers for message in is_qualified_name(name)]
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        both = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        errors.append(invalid(path, list(finalizers), both))
    return errors


def _expression(expression: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    values = expression.get("values") or ()
    match expression.get("operator", ""):
        case "In" | "NotIn":
            if not values:
                text = "must be specified when `operator` is 'In' or 'NotIn'"
                errors.append(required(child(path, "values"), text))
        case "Exists" | "DoesNotExist":
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(forbidden(child(path, "values"), text))
        case other:
            errors.append(invalid(child(path, "operator"), other, "not a valid selector operator"))
    key = expression.get("key", "")
    errors += [invalid(child(path, "key"), key, message) for message in is_qualified_name(key)]
    for index, value in enumerate(values):
        errors += [invalid(child(path, "values", index), value, message) for message in is_label_value(value)]
    return errors
