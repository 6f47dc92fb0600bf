"""Get and list. Reads see what is committed and answer with stored bytes wherever they can."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpuaas.apiserver.codec import LINE_END, PLAIN, Wanted, encode, encode_as
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.apiserver.options import check_list
from gpuaas.apiserver.present import outcome_body, package, partial, table
from gpuaas.apiserver.requestinfo import whole_number
from gpuaas.apiserver.select import predicate
from gpuaas.base.errors import BadRequest, Expired, NotAcceptable, Timeout
from gpuaas.base.fielderrors import invalid
from gpuaas.base.numbers import is_digits
from gpuaas.machinery.gojson import json_problem
from gpuaas.store import Compacted, Entry, FutureRevision

_TOKEN_VERSION = "meta.k8s.io/v1"
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_KEPT_LISTS = 4
_KEPT_BYTES = 32 << 20
_WORTH_KEEPING = 64 * 1024


def get(op: Operation) -> Outcome:
    return _outcome(op, _entry(op))


def get_body(op: Operation, wanted: Wanted) -> bytes:
    """The object as the client wants it; as it is stored, it need not even be decoded."""
    entry = _entry(op)
    if wanted is PLAIN and op.version is op.resource.hub and not op.pretty and entry.revision > op.resource.since:
        return entry.raw + LINE_END
    return outcome_body(op, _outcome(op, entry), wanted)


def _outcome(op: Operation, entry: Entry) -> Outcome:
    if entry.revision > op.resource.since:
        return Outcome(entry.obj, entry.raw)
    return Outcome(op.resource.now(entry.obj))


def _entry(op: Operation) -> Entry:
    entry = op.cluster.store.get(op.key)
    if entry is None:
        raise op.not_found()
    wanted = op.query.get("resourceVersion")
    if wanted and wanted != "0":
        not_newer_than_now(op, revision_number(wanted))
    return entry


class ListCache:
    """The last few long list bodies, good until something they show changes: many clients list the same thing."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[str, str], tuple[int, bytes]] = {}

    def find(self, key: tuple[str, str], revision: int) -> bytes | None:
        known = self._bodies.get(key)
        return known[1] if known is not None and known[0] == revision else None

    def keep(self, key: tuple[str, str], revision: int, body: bytes) -> None:
        if len(body) < _WORTH_KEEPING:
            return
        self._bodies.pop(key, None)
        self._bodies[key] = (revision, body)
        kept = sum(len(each) for _, each in self._bodies.values())
        while len(self._bodies) > 1 and (len(self._bodies) > _KEPT_LISTS or kept > _KEPT_BYTES):
            kept -= len(self._bodies.pop(next(iter(self._bodies)))[1])


def list_body(op: Operation, wanted: Wanted) -> bytes:
    """The list as the client wants it."""
    if "timeoutSeconds" in op.query:
        whole_number(op.query["timeoutSeconds"])
    store = op.cluster.store
    plain = not wanted.form and wanted.media == "json" and op.version is op.resource.hub and not op.pretty
    simple = plain and not op.query.keys() - {"resourceVersion", "resourceVersionMatch", "timeoutSeconds", "timeout"}
    simple = simple and op.query.get("resourceVersion", "") in ("", "0") and not op.name
    cache_key = (op.resource.range(op.namespace), f"{op.kind.version}/{op.resource.since}")
    if simple:
        body = op.cluster.lists.find(cache_key, store.changed(cache_key[0]))
        if body is not None:
            return body
    entries, metadata = page(op)
    if plain:
        body = _joined(op, entries, metadata)
        if simple:
            op.cluster.lists.keep(cache_key, store.changed(cache_key[0]), body)
        return body
    return encode_as(
        wanted,
        shaped_list(op, [_outcome(op, entry).obj for entry in entries], metadata, wanted),
        pretty=op.pretty,
    )


def page(op: Operation) -> tuple[Sequence[Entry], dict[str, Any]]:
    """The entries meant, and the list's metadata: revision, and how to go on."""
    limit = _limit(op)
    token = op.query.get("continue", "")
    entries, revision, first = _snapshot(op, token)
    matches = predicate(op)
    if first:
        entries = [entry for entry in entries if entry.key >= first]
    if matches is not None:
        entries = [entry for entry in entries if matches(entry.obj)]
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if limit and len(entries) > limit:
        metadata["continue"] = _continue_token(revision, entries[limit].key)
        if matches is None:
            metadata["remainingItemCount"] = len(entries) - limit
        entries = entries[:limit]
    return entries, metadata


def _snapshot(op: Operation, token: str) -> tuple[Sequence[Entry], int, str]:
    """The entries of the range at the revision asked for, that revision, and the key to begin with."""
    store = op.cluster.store
    where = op.resource.range(op.namespace)
    wanted, match = op.query.get("resourceVersion", ""), op.query.get("resourceVersionMatch", "")
    check_list(op.query, watches=False)
    if token:
        if wanted and wanted != "0":
            raise BadRequest("specifying resource version is not allowed when using continue")
        revision, first = _read_token(token)
        if revision < 0:
            revision = store.revision
        try:
            return store.list_at(where, revision), revision, first
        except FutureRevision:
            raise BadRequest(
                "invalid continue token: continue key is not valid: its revision has not happened yet"
            ) from None
        except Compacted:
            raise _too_old(store.revision, first) from None
    if wanted and wanted != "0":
        try:
            number = revision_number(wanted)
        except BadRequest as problem:
            raise BadRequest(f"invalid resource version: {problem.message}") from None
        not_newer_than_now(op, number)
        if match == "Exact":
            try:
                return store.list_at(where, number), number, ""
            except Compacted:
                raise Expired("The resourceVersion for the provided list is too old.") from None
    return store.list(where), store.revision, ""


def revision_number(text: str) -> int:
    if not is_digits(text):
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise BadRequest(str(invalid("resourceVersion", text, why)))
    if len(text) > 20 or int(text) >= 1 << 64:
        why = f'strconv.ParseUint: parsing "{text}": value out of range'
        raise BadRequest(str(invalid("resourceVersion", text, why)))
    return int(text)


def not_newer_than_now(op: Operation, number: int) -> None:
    current = op.cluster.store.revision
    if number > current:
        error = Timeout(f"Timeout: Too large resource version: {number}, current: {current}", retry_after=1)
        error.details["causes"] = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        raise error


def _limit(op: Operation) -> int:
    text = op.query.get("limit")
    if text is None:
        return 0
    number = max(whole_number(text), 0)
    # Any revision will do: then the answer comes out of memory, where there is no reason to stop.
    return 0 if op.query.get("resourceVersion") == "0" and not op.query.get("continue") else number


def _continue_token(revision: int, key: str) -> str:
    token = json.dumps({"v": _TOKEN_VERSION, "rv": revision, "start": key}, separators=(",", ":"))
    return base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    """The revision and the key to go on with; a negative revision means whatever is there now."""
    odd = next((at for at, char in enumerate(token) if char not in _BASE64), len(token) if len(token) % 4 == 1 else -1)
    if odd >= 0:
        raise _bad_token(f"illegal base64 data at input byte {odd}")
    text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    why = json_problem(text)
    if why:
        raise _bad_token(why)
    try:
        read = msgspec.json.decode(text, type=_Token | None) or _Token()
    except (ValueError, RecursionError):
        raise _bad_token("it was not made by this server") from None
    if read.v != _TOKEN_VERSION:
        raise _bad_token(f"server does not recognize this encoded version {read.v}")
    if not read.rv:
        raise _bad_token(f"incorrect encoded start resourceVersion (version {read.v})")
    if not read.start:
        raise _bad_token(f"encoded start key empty (version {read.v})")
    if any(part in (".", "..") for part in read.start.split("/")):
        raise _bad_token(read.start)
    return read.rv, read.start


class _Token(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


def _bad_token(why: str) -> BadRequest:
    return BadRequest(f"invalid continue token: continue key is not valid: {why}")


def _too_old(revision: int, first: str) -> Expired:
    error = Expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    error.list_metadata = {"continue": _continue_token(revision, first)}
    return error


def list_item(op: Operation, obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object as an item of a list: the list says what built-in kinds are, custom resources say it themselves."""
    shown = op.resource.seen(dict(obj), op.version)
    return shown if op.resource.custom else {key: shown[key] for key in shown if key not in ("kind", "apiVersion")}


def _joined(op: Operation, entries: Sequence[Entry], metadata: dict[str, Any]) -> bytes:
    kind = op.kind
    head = b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":[' % (
        kind.list_kind.encode(),
        kind.api_version.encode(),
        encode(_list_metadata(op, metadata)),
    )
    if op.resource.custom:
        items = b",".join([_raw(op, entry) for entry in entries])
    elif entries:
        skip = len(op.resource.raw_prefix)
        items = b"{" + b",{".join([entry.raw[skip:] for entry in entries])
    else:
        items = b""
    return b"".join((head, items, b"]}", LINE_END))


def _raw(op: Operation, entry: Entry) -> bytes:
    return entry.raw if entry.revision > op.resource.since else encode(op.resource.now(entry.obj))


def shaped_list(
    op: Operation, objects: Sequence[Mapping[str, Any]], metadata: dict[str, Any], wanted: Wanted
) -> dict[str, Any]:
    """Objects as a list in the form asked for."""
    match wanted.form:
        case "Table":
            return table(op, objects, metadata, version=wanted.version)
        case "PartialObjectMetadataList":
            items: list[Any] = [partial(obj, wanted.version) for obj in objects]
            kind, api_version = "PartialObjectMetadataList", f"meta.k8s.io/{wanted.version}"
        case "PartialObjectMetadata":
            what = (
                "*unstructured.UnstructuredList" if op.resource.custom else f"*{package(op.kind)}.{op.kind.list_kind}"
            )
            raise NotAcceptable(f"you requested PartialObjectMetadata, but the requested object is a list ({what})")
        case _:
            items = [list_item(op, obj) for obj in objects]
            kind, api_version = op.kind.list_kind, op.kind.api_version
            metadata = _list_metadata(op, metadata)
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items}


def _list_metadata(op: Operation, metadata: dict[str, Any]) -> dict[str, Any]:
    """A list of custom resources has no Go type that could leave the empty token out."""
    return {"continue": "", **metadata} if op.resource.custom else metadata
