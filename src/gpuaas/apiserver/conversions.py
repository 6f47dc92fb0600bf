"""Conversion webhooks: objects of a custom kind in another of its versions, as a program elsewhere makes them.

Nothing that reads or writes waits in the middle, so nobody can be asked there: where the answer is not known yet,
`Unconverted` is raised, the webhook is asked, and the request begins anew (`Server`). What was answered is kept by what
was asked. Only webhooks with a URL are asked; without one, versions differ by nothing but their schemas.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from gpuaas.api.kinds import Object
from gpuaas.apiserver.calling import Refused, post, words
from gpuaas.apiserver.catalogue import Version
from gpuaas.apiserver.codec import encode
from gpuaas.base.errors import ApiError
from gpuaas.base.ids import IdSource

_SECONDS: Final = 30
_KEPT: Final = 20_000  # objects
_TOGETHER: Final = 500  # objects of one question
_LONGEST: Final = 256 * 1024 * 1024
_OURS: Final = ("labels", "annotations")  # what of metadata a conversion may change
_RETURNED: Final = "returned"
_SAME: Final = ("name", "namespace", "uid")


class Unconverted(Exception):
    """The request cannot go on before this object is known in that version."""

    def __init__(self, conversion: "WebhookConversion", obj: Object, version: str) -> None:
        super().__init__(f"not known in {version} yet")
        self._asked = conversion, obj, version

    async def ask(self) -> None:
        conversion, obj, version = self._asked
        await conversion.learn([obj], version)


class WebhookConversion:
    """Of one kind, as its definition says. `versions` are its schemas: an answer is read by that of its version."""

    def __init__(self, spec: Mapping[str, Any], ids: IdSource) -> None:
        webhook = spec["conversion"]["webhook"]
        self._group, self._kind = str(spec["group"]), str(spec["names"]["kind"])
        self._url = str(webhook["clientConfig"]["url"])
        self._authority = str(webhook["clientConfig"].get("caBundle") or "")
        told = webhook.get("conversionReviewVersions") or ()
        self._review = next((each for each in told if each in ("v1", "v1beta1")), "v1")
        self._ids = ids
        self._known: OrderedDict[tuple[bytes, str], bytes] = OrderedDict()
        self.versions: Mapping[str, Version] = {}

    def __call__(self, obj: Object, version: str) -> Object:
        known = self._known.get((encode(obj), version))
        if known is None:
            raise Unconverted(self, obj, version)
        made: Object = msgspec.json.decode(known)
        return made

    async def learn(self, objects: Sequence[Object], version: str) -> None:
        """Asks about those that are not known yet; raises where there is no answer."""
        wanted = f"{self._group}/{version}"
        asked = {encode(obj): obj for obj in objects if obj.get("apiVersion") != wanted}
        missing = [(key, obj) for key, obj in asked.items() if (key, version) not in self._known]
        for start in range(0, len(missing), _TOGETHER):
            some = missing[start : start + _TOGETHER]
            made = await self._asked([obj for _, obj in some], wanted)
            for (key, obj), new in zip(some, made, strict=True):
                self._known[key, version] = encode(self._taken(obj, new, version))
        while len(self._known) > max(_KEPT, len(asked)):
            self._known.popitem(last=False)

    async def _asked(self, objects: list[Object], wanted: str) -> list[Any]:
        uid, kind = self._ids.uid(), f"apiextensions.k8s.io/{self._review}"
        request = {"uid": uid, "desiredAPIVersion": wanted, "objects": objects}
        review = {"kind": "ConversionReview", "apiVersion": kind, "request": request}
        target = f"?timeout={_SECONDS}s"
        try:
            async with asyncio.timeout(_SECONDS):
                body = await post(self._url, self._authority, target, encode(review), _LONGEST)
            return _converted(msgspec.json.decode(body), uid, len(objects))
        except (OSError, ValueError) as error:
            why = f'Post "{self._url}{target}": {words(self._url, self._authority, error)}'
        except (Refused, _Unusable) as error:
            why = str(error)
        raise self._failed(objects[0], why)

    def _taken(self, obj: Object, new: Any, version: str) -> Object:
        """An answer may be anything: it must be the same object, and of metadata only labels and annotations are its."""
        wanted = f"{self._group}/{version}"
        if not isinstance(new, dict):
            raise self._failed(obj, f"{_RETURNED} invalid object at index 0: invalid type")
        for what, key, expected in (("groupVersion", "apiVersion", wanted), ("kind", "kind", self._kind)):
            if new.get(key) != expected:
                text = f"invalid {what} (expected {expected}, received {new.get(key, '')})"
                raise self._failed(obj, f"{_RETURNED} invalid object at index 0: {text}")
        meta, told = obj.get("metadata") or {}, new.get("metadata")
        if not isinstance(told, dict):
            raise self._failed(obj, f"{_RETURNED} invalid object: it has no metadata")
        for key in _SAME:
            if told.get(key) != meta.get(key):
                text = f"must have the same {key}: {meta.get(key, '')} != {told.get(key, '')}"
                raise self._failed(obj, f"{_RETURNED} invalid object: {text}")
        kept = {key: value for key, value in meta.items() if key not in _OURS}
        merged = {**kept, **{key: told[key] for key in _OURS if told.get(key)}}
        return self.versions[version].read({**new, "metadata": merged})[0]

    def _failed(self, obj: Object, why: str) -> "ConversionFailed":
        said = why if why.startswith(_RETURNED) else f"failed: {why}"
        return ConversionFailed(f"conversion webhook for {obj.get('apiVersion', '')}, Kind={self._kind} {said}")


class ConversionFailed(ApiError):
    """Nobody's fault here: the program that should know the answer does not."""

    code = 500
    reason = ""


class _Unusable(Exception):
    """A review that says no, or nothing."""


def _converted(review: Any, uid: str, count: int) -> list[Any]:
    said = review.get("response") if isinstance(review, dict) else None
    if not isinstance(said, dict):
        raise _Unusable("no response provided")
    told = said.get("result")
    result: dict[str, Any] = told if isinstance(told, dict) else {}
    if result.get("status") != "Success":
        raise _Unusable(str(result.get("message") or f"expected webhook to succeed, got {result.get('status', '')}"))
    if said.get("uid") != uid:
        raise _Unusable(f'expected response.uid="{uid}", got "{said.get("uid", "")}"')
    made = said.get("convertedObjects")
    if not isinstance(made, list) or len(made) != count:
        raise _Unusable(f"{_RETURNED} {len(made) if isinstance(made, list) else 0} objects, expected {count}")
    return made


async def anew(attempt: Callable[[], Any]) -> Any:
    """What `attempt` gives, begun again as often as something has to be asked first."""
    for _ in range(100):
        try:
            made = attempt()
            return await made if isinstance(made, Awaitable) else made
        except Unconverted as missing:
            await missing.ask()
    raise RuntimeError("a conversion is never the same")
