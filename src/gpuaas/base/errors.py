"""Errors are answers: one `ApiError` family with HTTP code, Kubernetes reason, message and causes by field.

Everything the API refuses is raised as one of these, at the border it belongs to, and becomes a `Status` object in
one place (`ApiError.status`). The wording is Kubernetes', because people and programs search for it. What is wrong
inside one field is a `FieldError` (module fielderrors); `Invalid` gathers them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuaas.base.fielderrors import FieldError, quote

_MOST_CAUSES: Final = 1_000  # of one refusal
_CAUSES_TEXT: Final = 256 * 1024  # characters of all of them


class ApiError(Exception):
    code = 500
    reason = "InternalError"

    def __init__(
        self, message: str, *, details: Mapping[str, Any] | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = dict(details) if details else {}
        self._shows_details = details is not None
        if retry_after is not None:
            self.details["retryAfterSeconds"] = retry_after
        self.retry_after = retry_after
        self.list_metadata: dict[str, Any] = {}

    def status(self) -> dict[str, Any]:
        """The `Status` object a client gets."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details or self._shows_details:
            status["details"] = self.details
        status["code"] = self.code
        return status


def qualified(group: str, resource: str) -> str:
    """`jobs.batch`, or `pods` for the core group: how messages name a resource or a kind."""
    return f"{resource}.{group}" if group else resource


def _details(name: str, group: str, kind: str, **more: Any) -> dict[str, Any]:
    """The details in the order and with the omissions the real server has."""
    full = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in full.items() if value}


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"

    def __init__(self, message: str = "Unauthorized") -> None:
        super().__init__(message)


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"

    def __init__(self, group: str, resource: str, name: str, why: str) -> None:
        subject = (
            f"{qualified(group, resource)} {quote(name)} is forbidden"
            if name
            else f"{qualified(group, resource)} is forbidden"
        )
        super().__init__(f"{subject}: {why}", details=_details(name, group, resource))


class Denied(ApiError):
    """What a validating webhook refuses: its words, with its name in front."""

    code, reason = 403, "Forbidden"

    def __init__(self, webhook: str, errors: Sequence[FieldError]) -> None:
        texts = list(dict.fromkeys(str(error) for error in errors))
        body = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
        super().__init__(f'admission webhook "{webhook}" denied the request: {body}')
        self.errors = tuple(errors)


class NotFound(ApiError):
    code, reason = 404, "NotFound"

    def __init__(self, group: str, resource: str, name: str) -> None:
        super().__init__(
            f"{qualified(group, resource)} {quote(name)} not found", details=_details(name, group, resource)
        )


class PathNotFound(ApiError):
    """A URL that leads nowhere: no such resource type, or no such path."""

    code, reason = 404, "NotFound"

    def __init__(self) -> None:
        super().__init__("the server could not find the requested resource", details={})


class PageNotFound(PathNotFound):
    """An unknown path: the answer is a line of text, as plain web servers give it."""


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"

    def __init__(self, message: str = "the server does not allow this method on the requested resource") -> None:
        super().__init__(message, details={})


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class Conflict(ApiError):
    code, reason = 409, "Conflict"

    def __init__(self, group: str, resource: str, name: str, why: str) -> None:
        super().__init__(
            f"Operation cannot be fulfilled on {qualified(group, resource)} {quote(name)}: {why}",
            details=_details(name, group, resource),
        )


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"

    def __init__(self, group: str, resource: str, name: str) -> None:
        super().__init__(
            f"{qualified(group, resource)} {quote(name)} already exists", details=_details(name, group, resource)
        )


class ApplyConflict(ApiError):
    """Server-side apply: fields owned by others. `causes` are (field, message) pairs."""

    code, reason = 409, "Conflict"

    def __init__(self, message: str, causes: Sequence[tuple[str, str]]) -> None:
        super().__init__(
            message,
            details={
                "causes": [
                    {"reason": "FieldManagerConflict", "message": text, "field": field} for field, text in causes
                ]
            },
        )


class Expired(ApiError):
    code, reason = 410, "Expired"


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    """422: the object is understood but not acceptable; one cause for each field error."""

    code, reason = 422, "Invalid"

    def __init__(self, group: str, kind: str, name: str, errors: Sequence[FieldError]) -> None:
        shown = _shown(errors)
        more = len(errors) - shown
        errors = errors[:shown]
        texts = list(dict.fromkeys(map(str, errors)))
        if more > 0:
            texts.append(f"and {more} more errors")
        body = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
        causes = [{"reason": error.reason, "message": error.body, "field": error.path} for error in errors]
        super().__init__(
            f"{qualified(group, kind)} {quote(name)} is invalid: {body}",
            details=_details(name, group, kind, causes=causes),
        )
        self.errors = tuple(errors)


def _shown(errors: Sequence[FieldError]) -> int:
    """How many of the errors an answer has room for; the first always is there."""
    size = 0
    for count, error in enumerate(errors[:_MOST_CAUSES]):
        size += len(error.path) + len(error.body)
        if size > _CAUSES_TEXT and count:
            return count
    return min(len(errors), _MOST_CAUSES)


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class Internal(ApiError):
    code, reason = 500, "InternalError"

    def __init__(self, message: str) -> None:
        super().__init__(f"Internal error occurred: {message}", details={"causes": [{"message": message}]})


class NotImplementedHere(ApiError):
    """A part of Kubernetes this server does not offer, said with words."""

    code, reason = 501, "NotImplemented"


class Unavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    code, reason = 504, "Timeout"
