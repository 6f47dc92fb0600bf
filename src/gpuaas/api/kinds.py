"""What the API server must know of a kind: its names, its schema, its columns and its behaviour.

A `Kind` is one served version of one resource. Its `Behaviour` holds what Kubernetes calls a strategy: defaulting,
preparation and semantic validation, as pure functions on plain objects. Built-in kinds bring theirs from the modules
of this room; custom resources get one from their definition (and, for the groups we know, a behaviour of ours too).

Ownership: `default` and `prepare_*` may change the new object in place (the server hands over a fresh tree); the old
object is shared with the store and is never changed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuaas.base.fielderrors import FieldError
from gpuaas.base.names import is_dns1123_subdomain

Object = dict[str, Any]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`. `path` is a JSONPath for custom resources; built-in kinds compute rows in code."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0  # above 0: only with -o wide
    path: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """Where the scale subresource reads and writes."""

    spec_path: str = ".spec.replicas"
    status_path: str = ".status.replicas"
    selector_path: str = ".status.selector"


class Behaviour:
    """The strategy of a kind that has none of its own; kinds with more override what differs."""

    generation = True  # metadata.generation counts changes of anything but metadata and status
    annotations_count = False  # ... and of annotations (Deployment)
    graceful = False  # deletion with a grace period (pods)
    allow_create_on_update = False  # PUT to a name that does not exist creates it (Lease, Event, …)
    keep_status_on_create = False  # the registering client brings its status (Node)
    orphan_by_default = False  # deletion without a propagation policy leaves the dependents (Job, for old clients)
    unconditional_update = True  # PUT without a resourceVersion overwrites
    webhook = ""  # custom kinds: the name of the validating webhook whose part this plays; its errors are `Denied`
    free_numbers: tuple[str, ...] = ()  # custom kinds: paths in a status to whole numbers that no rule of it asks for
    name_messages: Callable[[str], list[str]] = staticmethod(is_dns1123_subdomain)

    def default(self, obj: Object) -> None:
        """Fill in defaults that the schema cannot say (they depend on other fields)."""

    def prepare_create(self, obj: Object) -> None:
        """Drop or set what a user may not decide on create (status is already gone for kinds with that subresource)."""

    def prepare_update(self, obj: Object, old: Mapping[str, Any]) -> None:
        """The same on update; status and generation are already taken care of."""

    def validate(self, obj: Mapping[str, Any]) -> list[FieldError]:
        return []

    def validate_update(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        """Only what depends on the old object; `validate` has run as well."""
        return []

    def check_update(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        """Everything wrong with an update. Kinds that let an old fault pass override this."""
        return self.validate(obj) + self.validate_update(obj, old)

    def prepare_status_update(self, obj: Object, old: Mapping[str, Any]) -> None: ...

    def validate_status_update(self, obj: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
        return []

    def warnings(self, obj: Mapping[str, Any], old: Mapping[str, Any] | None) -> Sequence[str]:
        """Texts for the Warning header of an accepted write."""
        return ()

    def fields(self, obj: Mapping[str, Any]) -> Mapping[str, str]:
        """Values of the field selectors this kind supports beyond metadata.name and metadata.namespace."""
        return {}

    field_selectors: tuple[str, ...] = ()  # the paths `fields` gives, so that an unknown one is refused with words


@dataclass(frozen=True, slots=True)
class Kind:
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    schema: str  # name in the SchemaSet, e.g. io.k8s.api.core.v1.Pod
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False  # has the status subresource
    scale: Scale | None = None
    subresources: tuple[str, ...] = ()  # others: log, eviction, binding, token, …
    verbs: tuple[str, ...] = ALL_VERBS
    columns: tuple[Column, ...] = ()  # without the leading Name; Age included where the kind shows it
    row: Callable[[Mapping[str, Any], float], list[Any]] | None = None  # (object, now) -> cells after Name
    whole_row: bool = False  # `columns` and `row` hold the Name column too (events end with it)
    behaviour: Behaviour = field(default_factory=Behaviour)
    deprecated: str = ""  # the Warning header of this version, "" if it is current
    stored_only: bool = False  # no rules of its own: unknown fields survive
    virtual: bool = False  # a question rather than an object: answered, never stored (access reviews)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"
