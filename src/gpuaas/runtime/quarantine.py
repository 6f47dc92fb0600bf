"""Objects that a part of the control plane cannot handle: they are set aside, with an event, and the rest goes on.

No stored object may stop a start or the work on other objects. A reader that meets one it cannot read (an informer's index, a
controller's reconcile, a cache of the API server) notes it here and continues with the next. The first time, the log
gets the traceback and the object a Warning event `SetAside` that names the part and the reason; the same fault again is
silent. When the object is handled after all, or is gone, `clear` forgets it, so that a new fault is reported again.
"""

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

SET_ASIDE = "SetAside"
_REMEMBERED = 10_000
_UNTOLD = 1_000  # faults found before anybody listens
_WORDS = 300  # of an error's text: it may quote the object

_log = logging.getLogger(__name__)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Fault:
    component: str
    obj: Mapping[str, Any]
    message: str


class Aside:
    """One for each cluster. `listen` gives it who writes the events; faults from before then are kept until then."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, tuple[str, ...]], str] = OrderedDict()
        self._untold: list[Fault] = []
        self._tell: Callable[[Fault], None] | None = None

    def listen(self, tell: Callable[[Fault], None]) -> None:
        self._tell = tell
        untold, self._untold = self._untold, []
        for fault in untold:
            tell(fault)

    def note(self, component: str, obj: Mapping[str, Any], error: BaseException) -> None:
        """`component` cannot handle `obj`, because of `error`."""
        key, why = (component, _identity(obj)), described(error)
        if self._known.get(key) == why:
            return
        self._known[key] = why
        self._known.move_to_end(key)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        trace = None if hasattr(error, "code") else error  # a refusal by the API says all it has to say
        _log.error("%s sets %s aside: %s", component, " ".join(filter(None, key[1])), why, exc_info=trace)
        message = f"{component} cannot handle this object and does nothing with it until it changes: {why}"
        fault = Fault(component, obj, message)
        if self._tell is not None:
            self._tell(fault)
        elif len(self._untold) < _UNTOLD:
            self._untold.append(fault)

    def clear(self, component: str, obj: Mapping[str, Any]) -> None:
        """`component` could handle it, or it is gone."""
        if self._known:
            self._known.pop((component, _identity(obj)), None)

    @contextlib.contextmanager
    def guard(self, component: str, obj: Mapping[str, Any]) -> Iterator[None]:
        """Whatever goes wrong inside concerns this object alone."""
        try:
            yield
        except Exception as error:
            self.note(component, obj, error)

    def each(
        self, component: str, objects: Iterable[Mapping[str, Any]], read: Callable[[Any], _Value]
    ) -> Iterator[_Value]:
        """What `read` makes of each object, without those it cannot read."""
        for obj in objects:
            try:
                value = read(obj)
            except Exception as error:
                self.note(component, obj, error)
            else:
                yield value


def described(error: BaseException) -> str:
    """For people: an ApiError speaks for itself, of other errors the type belongs to the words."""
    code = getattr(error, "code", None)
    words = str(error) if code is not None else f"{type(error).__name__}: {error}"
    return words if len(words) <= _WORDS else f"{words[:_WORDS]}…"


def _identity(obj: Mapping[str, Any]) -> tuple[str, ...]:
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, Mapping) else {}
    named = (obj.get("kind"), meta.get("namespace"), meta.get("name"), meta.get("uid"))
    return tuple(str(each or "") for each in named)
