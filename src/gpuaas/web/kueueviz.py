"""The back end of KueueViz, so that its own front end works against this server, with each user's own rights.

    GET /auth/status                  who is asked for a token: everyone
    GET /api/KIND/NAME?namespace=&output=yaml
    GET /ws/…                         WebSockets (subprotocol kueueviz.v1): the whole state again after each change

These are addresses of KueueViz, which asks for them at the root of a host; none of them is the Kubernetes API's. A
request shows its bearer token, in the Authorization header or as subprotocol kueueviz.auth.TOKEN; cookies and client
certificates do not count, so a foreign page can do nothing in someone's name and any origin may ask. What a user may not
list is missing from a message. A token is judged again every half minute; a socket whose token is no longer good is
closed with code 1008, which means to sign in again.

A message holds at most `MOST_ITEMS` objects of a kind. A socket is looked at five times a second, less often where its
message takes long to make; while its reader is slow nothing is made for it, and then only the newest state.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from gpuaas.apiserver import websocket
from gpuaas.apiserver.http import JSON, Answer, Request, Response, Stream, StreamWriter
from gpuaas.apiserver.security.authn import asks_for_socket, subprotocols
from gpuaas.apiserver.security.identity import Asked, User
from gpuaas.base.clock import Clock
from gpuaas.base.errors import ApiError
from gpuaas.client.kueue import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import EVENTS, NODES, PODS
from gpuaas.machinery.yamltext import dump_yaml
from gpuaas.web import guard, kueueviz_shapes, wire
from gpuaas.web.door import Place

PROTOCOL: Final = "kueueviz.v1"
_TOKEN: Final = "kueueviz.auth."
MOST_ITEMS: Final = 1_000
MOST_SOCKETS: Final = 200
MOST_OF_USER: Final = 32
_EVERY: Final = 0.2  # seconds between two looks
_SHARE: Final = 4  # a message is followed by so many times the time it took
_REVIEW: Final = 30.0
_log = logging.getLogger("gpuaas.web")
_ANY: Final = (b"access-control-allow-origin", b"*")
_PREFLIGHT: Final = (_ANY, (b"access-control-allow-headers", b"authorization"), (b"access-control-max-age", b"600"))
_KINDS: Final = {
    "workload": WORKLOADS,
    "clusterqueue": CLUSTER_QUEUES,
    "localqueue": LOCAL_QUEUES,
    "resourceflavor": RESOURCE_FLAVORS,
    "cohort": COHORTS,
    "event": EVENTS,
    "node": NODES,
    "pod": PODS,
}


@dataclass(frozen=True, slots=True)
class _Message:
    follows: tuple[Resource, ...]
    make: Callable[[], Any]


class KueueViz:
    def __init__(self, places: Mapping[str, Place], names: Collection[str], clock: Clock) -> None:
        self._places = dict(places)
        self._names = guard.LOCAL_NAMES, frozenset((*guard.LOCAL_NAMES, *names))
        self._clock = clock
        self._open: dict[str, int] = {}  # sockets, by user

    def answer(self, request: Request, cluster: str, path: str, *, plain: bool) -> Answer:
        try:
            guard.check_host(request.headers, self._names[not plain], any_address=not plain)
        except guard.Refused as refused:
            return _error(403, str(refused))
        try:
            return self._answered(request, cluster, path)
        except wire.BadForm as bad:
            return _error(400, str(bad))
        except Exception as error:  # no answer at all would hold the connection
            _log.exception("%s %s", request.method, path, exc_info=error)
            return _error(500, "The server failed; its log says how.")

    def _answered(self, request: Request, cluster: str, path: str) -> Answer:
        if request.method == "OPTIONS":
            return Response(204, b"", JSON, _PREFLIGHT)
        if request.method != "GET":
            return _error(405, f"{request.method} is not a method of {path}")
        if path == "/auth/status":
            return _json(200, {"authMode": "TokenReview"})
        place = self._places[cluster]
        user = self._user(place, request)
        query = wire.fields_of(request.query) if request.query else {}
        if path.startswith("/ws/"):
            return self._socket(request, place, user, path.removeprefix("/ws/"), query.get("namespace", ""))
        if user is None:
            return _error(401, "a bearer token is needed that is known here")
        return self._object(place, user, path.removeprefix("/api/"), query)

    def _user(self, place: Place, request: Request) -> User | None:
        said = request.headers.get(b"authorization", b"")
        if not said:
            offered = [name for name in subprotocols(request.headers) if name.startswith(_TOKEN)]
            said = b"Bearer " + _decoded(offered[0].removeprefix(_TOKEN)) if len(offered) == 1 else b""
        return place.access.authenticate({b"authorization": said}, lambda: None) if said else None

    # Objects as YAML.

    def _object(self, place: Place, user: User, path: str, query: Mapping[str, str]) -> Response:
        kind, _, name = path.partition("/")
        resource, namespace = _KINDS[kind], query.get("namespace", "")
        if query.get("output") != "yaml":
            return _error(400, "output: only yaml is offered")
        reader = _Reader(place, user)
        if not reader.may("get", resource, namespace):
            return _error(
                403, f"you may not get {resource.plural}" + (f" in namespace {namespace}" if namespace else "")
            )
        found = reader.get(resource, namespace, unquote(name))
        if found is None:
            return _error(404, "Resource not found")
        content = dump_yaml(kueueviz_shapes.whole(found))
        return _json(200, {"name": found["metadata"]["name"], "type": kind, "content": content, "format": "yaml"})

    # Sockets.

    def _socket(self, request: Request, place: Place, user: User | None, path: str, namespace: str) -> Answer:
        if not asks_for_socket(request.headers) or PROTOCOL not in subprotocols(request.headers):
            return _error(400, f"a WebSocket with the subprotocol {PROTOCOL} is expected")
        if user is None:
            return websocket.spoken(request, Stream(_turned_away), PROTOCOL)
        message = _message(_Reader(place, user), [unquote(part) for part in path.split("/")], namespace)
        if message is None:
            return _error(404, f"there is no socket {path}")
        if sum(self._open.values()) >= MOST_SOCKETS or self._open.get(user.name, 0) >= MOST_OF_USER:
            return _error(429, f"the limits are {MOST_SOCKETS} sockets of all users and {MOST_OF_USER} of one")
        again = partial(self._user, place, request)
        return websocket.spoken(request, Stream(partial(self._start, place, user, message, again)), PROTOCOL)

    def _start(
        self, place: Place, user: User, message: _Message, again: Callable[[], User | None], writer: StreamWriter
    ) -> Callable[[], None]:
        self._open[user.name] = self._open.get(user.name, 0) + 1
        task = asyncio.get_running_loop().create_task(self._tell(place, user, message, again, writer), name="kueueviz")

        def gone() -> None:
            task.cancel()
            self._open[user.name] -= 1
            if not self._open[user.name]:
                del self._open[user.name]

        return gone

    async def _tell(
        self, place: Place, user: User, message: _Message, again: Callable[[], User | None], writer: StreamWriter
    ) -> None:
        ready = asyncio.Event()
        ready.set()
        writer.on_pause, writer.on_resume = ready.clear, ready.set
        prefixes = _prefixes(place, message.follows)
        store, seen, last, reviewed = place.cluster.store, -1, b"", self._clock.monotonic()
        while not writer.closed:
            began = self._clock.monotonic()
            if began - reviewed > _REVIEW:
                reviewed, now = began, again()
                if now is None or now.name != user.name:
                    websocket.turn_away(writer)
                    return
            if max(store.changed(each) for each in prefixes) > seen:
                seen = store.revision
                try:
                    made = msgspec.json.encode(message.make())
                except Exception:
                    _log.exception("a message for KueueViz")
                    made = last
                if made != last:
                    last = made
                    writer.write(made + b"\n")
            await self._clock.sleep(max(_EVERY, _SHARE * (self._clock.monotonic() - began)))
            await ready.wait()


class _Reader:
    """The objects that a user may list, straight from the store."""

    def __init__(self, place: Place, user: User) -> None:
        self._cluster, self._rbac, self._user = place.cluster, place.access.rbac, user

    def may(self, verb: str, resource: Resource, namespace: str = "") -> bool:
        asked = Asked(verb, resource.group, resource.plural, namespace=namespace if resource.namespaced else "")
        return self._rbac.authorize(self._user, asked).allowed

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Object]:
        if namespace or not resource.namespaced or self.may("list", resource):
            places = [namespace]
        else:
            places = sorted({entry.key.split("/")[2] for entry in self._entries(LOCAL_QUEUES)})
        found = (obj for where in places if self.may("list", resource, where) for obj in self._objects(resource, where))
        return [*islice(found, MOST_ITEMS)]

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Where the user may get or list them."""
        found = self._cluster.catalogue.find(resource.group, resource.version, resource.plural)
        if found is None or not (self.may("get", resource, namespace) or self.may("list", resource, namespace)):
            return None
        entry = self._cluster.store.get(found[0].key(namespace if resource.namespaced else "", name))
        if entry is None:
            return None
        shown: Object = found[0].seen(entry.obj, found[1])
        return shown

    def _entries(self, resource: Resource, namespace: str = "") -> Any:
        found = self._cluster.catalogue.find(resource.group, resource.version, resource.plural)
        return () if found is None else self._cluster.store.list(found[0].range(namespace))

    def _objects(self, resource: Resource, namespace: str) -> Iterator[Object]:
        found = self._cluster.catalogue.find(resource.group, resource.version, resource.plural)
        for entry in self._entries(resource, namespace):
            if found is not None:
                with contextlib.suppress(ApiError, ValueError):  # an object that cannot be read is not shown
                    yield found[0].seen(entry.obj, found[1])


def _message(reader: _Reader, parts: list[str], namespace: str) -> _Message | None:
    """What is sent on a path below /ws/."""
    shapes, all_of, one = kueueviz_shapes, reader.list, reader.get
    missing = {"error": "Resource not found"}
    match parts:
        case ["namespaces"]:
            return _Message((LOCAL_QUEUES,), lambda: shapes.namespaces(all_of(LOCAL_QUEUES)))
        case ["workloads"]:
            return _Message((WORKLOADS,), lambda: shapes.workloads(all_of(WORKLOADS, namespace)))
        case ["workloads", "dashboard"]:
            kinds = (WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, RESOURCE_FLAVORS, PODS)
            namespaced = (namespace, namespace, "", "", namespace)
            return _Message(
                kinds, lambda: shapes.dashboard(*(all_of(*each) for each in zip(kinds, namespaced, strict=True)))
            )
        case ["workload", where, name]:
            return _Message((WORKLOADS,), lambda: _whole(one(WORKLOADS, where, name)) or missing)
        case ["workload", where, name, "events"]:
            return _Message(
                (EVENTS,), lambda: [each for each in all_of(EVENTS, where) if _is_about(each, "Workload", name)]
            )
        case ["local-queues"]:
            return _Message((LOCAL_QUEUES,), lambda: shapes.local_queues(all_of(LOCAL_QUEUES)))
        case ["local-queue", where, name]:
            return _Message((LOCAL_QUEUES,), lambda: _whole(one(LOCAL_QUEUES, where, name)) or missing)
        case ["local-queue", where, name, "workloads"]:
            return _Message(
                (WORKLOADS,),
                lambda: [
                    shapes.whole(each)
                    for each in all_of(WORKLOADS, where)
                    if (each.get("spec") or {}).get("queueName") == name
                ],
            )
    return _message_of_cluster(reader, parts)


def _message_of_cluster(reader: _Reader, parts: list[str]) -> _Message | None:
    shapes, all_of, one = kueueviz_shapes, reader.list, reader.get
    missing = {"error": "Resource not found"}
    match parts:
        case ["cluster-queues"]:
            return _Message((CLUSTER_QUEUES,), lambda: shapes.cluster_queues(all_of(CLUSTER_QUEUES)))
        case ["cluster-queue", name]:
            return _Message(
                (CLUSTER_QUEUES, LOCAL_QUEUES),
                lambda: (
                    shapes.cluster_queue(queue, all_of(LOCAL_QUEUES))
                    if (queue := one(CLUSTER_QUEUES, "", name))
                    else missing
                ),
            )
        case ["cohorts"]:
            return _Message((COHORTS, CLUSTER_QUEUES), lambda: shapes.cohorts(all_of(COHORTS), all_of(CLUSTER_QUEUES)))
        case ["cohort", name]:
            return _Message(
                (COHORTS, CLUSTER_QUEUES), lambda: shapes.cohort(name, one(COHORTS, "", name), all_of(CLUSTER_QUEUES))
            )
        case ["resource-flavors"]:
            return _Message((RESOURCE_FLAVORS,), lambda: shapes.resource_flavors(all_of(RESOURCE_FLAVORS)))
        case ["resource-flavor", name]:
            return _Message(
                (RESOURCE_FLAVORS, CLUSTER_QUEUES, NODES),
                lambda: (
                    shapes.resource_flavor(flavor, all_of(CLUSTER_QUEUES), all_of(NODES))
                    if (flavor := one(RESOURCE_FLAVORS, "", name))
                    else missing
                ),
            )
    return None


def _whole(obj: Object | None) -> Object | None:
    return None if obj is None else kueueviz_shapes.whole(obj)


def _is_about(event: Object, kind: str, name: str) -> bool:
    about = event.get("involvedObject") or {}
    return bool(about.get("kind") == kind and about.get("name") == name)


def _prefixes(place: Place, follows: tuple[Resource, ...]) -> list[str]:
    found = (place.cluster.catalogue.find(each.group, each.version, each.plural) for each in follows)
    return [each[0].prefix for each in found if each is not None]


def _turned_away(writer: StreamWriter) -> Callable[[], None]:
    websocket.turn_away(writer)
    return lambda: None


def _decoded(token: str) -> bytes:
    try:
        return urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except ValueError:
        return b""


def _error(status: int, words: str) -> Response:
    return _json(status, {"error": words})


def _json(status: int, value: Any) -> Response:
    return Response(status, msgspec.json.encode(value), JSON, (*wire.SECURITY, wire.NOT_KEPT, _ANY))
