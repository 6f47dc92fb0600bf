"""From a `Status` body back to the `ApiError` it stands for: the border where an answer becomes an exception."""

from collections.abc import Mapping
from typing import Any

from gpuaas.base import errors
from gpuaas.base.errors import ApiError

_MEMBERS: tuple[type[ApiError], ...] = (
    errors.BadRequest,
    errors.Unauthorized,
    errors.Forbidden,
    errors.NotFound,
    errors.MethodNotAllowed,
    errors.NotAcceptable,
    errors.Conflict,
    errors.AlreadyExists,
    errors.Expired,
    errors.TooLarge,
    errors.UnsupportedMediaType,
    errors.Invalid,
    errors.TooManyRequests,
    errors.Internal,
    errors.NotImplementedHere,
    errors.Unavailable,
    errors.Timeout,
)
_BY_REASON = {kind.reason: kind for kind in _MEMBERS} | {"Gone": errors.Expired}
_BY_CODE = {kind.code: kind for kind in reversed(_MEMBERS)}  # of two with one code the first named counts


def to_error(status: Mapping[str, Any], http_code: int = 0) -> ApiError:
    """The error a Status tells of; code and reason are kept even where the family has no member for them."""
    code = int(status.get("code") or http_code or 500)
    reason = status.get("reason") or ""
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code, ApiError)
    details = dict(status.get("details") or {})
    # The members build their messages from parts; here the message is already made.
    error = kind.__new__(kind)
    ApiError.__init__(
        error,
        status.get("message") or reason or f"the server answered {code}",
        details=details,
        retry_after=details.get("retryAfterSeconds"),
    )
    error.code, error.reason = code, reason or kind.reason
    if isinstance(error, errors.Invalid):
        error.errors = ()
    return error
