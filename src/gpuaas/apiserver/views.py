"""views.gpuaas.dev: rows of jobs, queues, GPUs and nodes, computed here and never stored, under the caller's RBAC.

    GET /apis/views.gpuaas.dev/v1alpha1[/namespaces/NS]/jobs?finished=&state=A,B&queue=&owner=&nodes=&limit=&continue=
    GET /apis/views.gpuaas.dev/v1alpha1/namespaces/NS/jobs/NAME/why?kind=
    GET /apis/views.gpuaas.dev/v1alpha1[/namespaces/NS]/queues
    GET /apis/views.gpuaas.dev/v1alpha1/gpus?details=          GET /apis/views.gpuaas.dev/v1alpha1/nodes
    GET /apis/views.gpuaas.dev/v1alpha1/nodetypes
    GET /apis/views.gpuaas.dev/v1alpha1[/namespaces/NS]/free

Who may see what follows from rights on the objects that the rows are made of; the group has no rules of its own:
- jobs: `list workloads` in the namespace. Over all namespaces, those of the namespaces where the caller may.
  The nodes of a job: `list pods` in its namespace.
- queues: `list clusterqueues`; those of a namespace also `list localqueues` there.
- GPUs, the sums by product (total, used, free): anyone who may use a queue, which is to list LocalQueues or to create
  Jobs in some namespace; also anyone who may list nodes. How much of each node is used, and who holds what: only those
  who may list all pods; others see of the holders their own name alone. The names of nodes: only those who may list
  nodes, as the executors and products there are (nodetypes).
- free GPUs, by product: as the sums. What is free for the caller counts the queues of namespaces (or of the one asked
  for) where they may create Jobs, Pods or Notebooks; of others' queues, pods and nodes nothing is said.
- why: as jobs; what it explains with is what the caller may list (module `gpuaas.views.why`).

`Views` answers in typed rows for other parts of the server; `ViewsApi` is the wire form.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.codec import encode
from gpuaas.apiserver.compress import compressed
from gpuaas.apiserver.http import JSON, Request, Response
from gpuaas.apiserver.page_rows import PageRows
from gpuaas.apiserver.requestinfo import RequestInfo
from gpuaas.apiserver.security.identity import Asked, User
from gpuaas.apiserver.security.rbac import Rbac
from gpuaas.base.errors import MethodNotAllowed, NotFound, PathNotFound
from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import JOBS, NODES, PODS
from gpuaas.devices.mig_plan import NodeCardsNow
from gpuaas.kueue.integrations.notebook import NOTEBOOKS
from gpuaas.views.cards import CardRow
from gpuaas.views.effects import Effects
from gpuaas.views.free import Left
from gpuaas.views.jobs import JobFilter, JobPage, Positions
from gpuaas.views.rows import API_VERSION, GROUP, VERSION, FreeRow, GpuRow, NodeRow, NodeTypes, QueueRow
from gpuaas.views.snapshot import Snapshot

_NO_CACHE = (b"cache-control", b"no-cache, private")
Explain = Callable[[str, str, Callable[[Resource, str], bool]], Mapping[str, Any]]
"""`explain(namespace, workload, may_list)`: why it waits, as `gpuaas why -o json` shows it."""


class Views:
    """Rows of one cluster, for a user."""

    def __init__(
        self,
        snapshot: Snapshot,
        rbac: Rbac,
        positions: Callable[[], Positions],
        explain: Explain,
        left: Callable[[str], Left | None] = lambda _: None,
        effects: Effects | None = None,
    ) -> None:
        """`left(cluster_queue)`: the quota that is left there."""
        self._left = left
        self._snapshot = snapshot
        self._rbac = rbac
        self._positions = positions
        self._explain = explain
        self.pages = PageRows(snapshot, self.may_list, positions)
        self.effects = effects
        """What an action would do; the caller has checked that the user may act."""

    def jobs(
        self,
        user: User,
        namespace: str = "",
        *,
        finished: bool = True,
        states: tuple[str, ...] = (),
        queue: str = "",
        owner: str = "",
        nodes: bool = False,
        limit: int | None = None,
        token: str = "",
    ) -> tuple[JobPage, int]:
        """A page, and how many unfinished jobs there are in other namespaces, for a user who may see them."""
        where = {namespace} if namespace else self._job_namespaces(user)
        if namespace:
            self._require(user, "list", WORKLOADS, namespace)
        wanted = JobFilter(where, finished, states, queue, owner)
        jobs = self._snapshot.jobs
        seen = jobs.listed(
            wanted,
            self._positions(),
            limit=limit,
            token=token,
            nodes_of=self._snapshot.places.nodes_of if nodes else None,
        )
        if nodes:
            seen.rows = [
                row if self.may_list(user, PODS, row.namespace) else msgspec.structs.replace(row, nodes=[])
                for row in seen.rows
            ]
        everywhere = bool(namespace) and self.may_list(user, WORKLOADS, "")
        return seen, jobs.unfinished_elsewhere(namespace) if everywhere else 0

    def why(self, user: User, namespace: str, name: str, kind: str = "") -> Mapping[str, Any]:
        self._require(user, "list", WORKLOADS, namespace)
        workload = self._snapshot.jobs.find(namespace, name, kind)
        if workload is None:
            raise NotFound(GROUP, "jobs", name)
        return self._explain(namespace, workload, lambda resource, where: self.may_list(user, resource, where))

    def queues(self, user: User, namespace: str = "") -> list[QueueRow]:
        queues = self._snapshot.queues
        if not namespace:
            self._require(user, "list", CLUSTER_QUEUES, "")
            return queues.listed()
        self._require(user, "list", LOCAL_QUEUES, namespace)
        self._require(user, "list", CLUSTER_QUEUES, "")
        return queues.listed(queues.of_namespace(namespace))

    def gpus(self, user: User, *, details: bool = False) -> list[GpuRow]:
        may_nodes, may_pods = self.may_list(user, NODES, ""), self.may_list(user, PODS, "")
        if not may_nodes and not self._uses_a_queue(user):
            self._require(user, "list", NODES, "")
        gpus = self._snapshot.gpus
        rows = gpus.listed(per_node=details and may_nodes)
        if details and may_nodes and not may_pods:
            for row in rows:
                row.per_node = [msgspec.structs.replace(each, used=None, free=None, users={}) for each in row.per_node]
        if not may_pods:
            for row in rows:
                row.users = {name: amount for name, amount in row.users.items() if name == user.name}
        return rows

    def free(self, user: User, namespace: str = "") -> list[FreeRow]:
        """With `namespace`, for the user by way of its queues alone."""
        if not self.may_list(user, NODES, "") and not self._uses_a_queue(user):
            self._require(user, "list", NODES, "")
        return self._snapshot.free(lambda where: namespace in ("", where) and self._may_submit(user, where), self._left)

    def nodes(self, user: User) -> list[NodeRow]:
        self._require(user, "list", NODES, "")
        return self._snapshot.gpus.nodes(holders=self.may_list(user, PODS, ""))

    def card_nodes(self, user: User) -> list[str]:
        """The nodes with cards, by name."""
        self._require(user, "list", NODES, "")
        return self._snapshot.cards.names()

    def cards(self, user: User, names: Sequence[str]) -> list[CardRow]:
        """The cards of these nodes."""
        self._require(user, "list", NODES, "")
        return self._snapshot.cards.listed(names, holders=self.may_list(user, PODS, ""))

    def cards_now(self, user: User, node: str) -> tuple[NodeCardsNow, str]:
        """What a change of the node's cards starts from; who names its pods must be able to see them."""
        self._require(user, "list", NODES, "")
        self._require(user, "list", PODS, "")
        found = self._snapshot.cards.now(node)
        if found is None:
            raise NotFound("", "nodes", node)
        return found

    def node_types(self, user: User) -> NodeTypes:
        self._require(user, "list", NODES, "")
        return self._snapshot.gpus.types()

    def workload_of(self, user: User, namespace: str, kind: str, name: str) -> str:
        """The Workload of a job (`kind` as in a row, in lower case)."""
        self._require(user, "list", WORKLOADS, namespace)
        found = self._snapshot.jobs.find(namespace, name, kind)
        if found is None:
            raise NotFound(GROUP, "jobs", name)
        return found

    def may_list(self, user: User, resource: Resource, namespace: str) -> bool:
        return self.may(user, "list", resource, namespace)

    def may(self, user: User, verb: str, resource: Resource, namespace: str = "", name: str = "") -> bool:
        asked = Asked(verb, resource.group, resource.plural, namespace=namespace, name=name)
        return self._rbac.authorize(user, asked).allowed

    def _require(self, user: User, verb: str, resource: Resource, namespace: str) -> None:
        self._rbac.require(user, Asked(verb, resource.group, resource.plural, namespace=namespace))

    def _job_namespaces(self, user: User) -> set[str] | None:
        """Where the user may list jobs, of the namespaces that have some or a queue; None: everywhere."""
        if self.may_list(user, WORKLOADS, ""):
            return None
        known = self._snapshot.jobs.namespaces() | self._snapshot.queues.namespaces()
        allowed = {each for each in known if self.may_list(user, WORKLOADS, each)}
        if not allowed:
            self._require(user, "list", WORKLOADS, "")
        return allowed

    def namespaces(self, user: User, verb: str, resource: Resource) -> list[str]:
        """Those with jobs or a queue where the user may do that, by name."""
        known = self._snapshot.jobs.namespaces() | self._snapshot.queues.namespaces()
        return sorted(each for each in known if self.may(user, verb, resource, each))

    def _may_submit(self, user: User, namespace: str) -> bool:
        return any(self.may(user, "create", each, namespace) for each in (JOBS, PODS, NOTEBOOKS))

    def _uses_a_queue(self, user: User) -> bool:
        """Whether there is a namespace with a queue where the user may see the queue or submit to it."""
        return any(
            self.may_list(user, LOCAL_QUEUES, where) or self._may_submit(user, where)
            for where in ("", *self._snapshot.queues.namespaces())
        )


class ViewsApi:
    """The paths of `views.gpuaas.dev`; `Cluster.computed` leads here, after authentication and before RBAC."""

    def __init__(self, views: Views) -> None:
        self.views = views

    def answer(self, user: User, info: RequestInfo, request: Request) -> Response:
        if info.version != VERSION:
            raise PathNotFound
        if info.verb not in ("list", "get"):
            raise MethodNotAllowed
        match info.resource, info.name, info.subresource:
            case "jobs", "", "":
                found = self._jobs(user, info)
            case "jobs", name, "why" if info.namespace and not info.rest:
                kind = info.query.get("kind", "")
                found = {"kind": "Why", **self.views.why(user, info.namespace, name, kind)}
            case "queues", "", "":
                found = {"kind": "QueueRowList", "items": self.views.queues(user, info.namespace)}
            case "gpus", "", "" if not info.scoped:
                found = {"kind": "GpuRowList", "items": self.views.gpus(user, details=info.flag("details"))}
            case "free", "", "":
                found = {"kind": "FreeRowList", "items": self.views.free(user, info.namespace)}
            case "nodes", "", "" if not info.scoped:
                found = {"kind": "NodeRowList", "items": self.views.nodes(user)}
            case "nodetypes", "", "" if not info.scoped:
                found = {"kind": "NodeTypes", **msgspec.to_builtins(self.views.node_types(user))}
            case _:
                raise PathNotFound
        body, encoding = compressed(encode({"apiVersion": API_VERSION, **found}), request.headers)
        return Response(200, body, JSON, (_NO_CACHE, *encoding))

    def _jobs(self, user: User, info: RequestInfo) -> dict[str, Any]:
        query = info.query
        states = tuple(filter(None, query.get("state", "").split(",")))
        seen, elsewhere = self.views.jobs(
            user,
            info.namespace,
            finished="finished" not in query or info.flag("finished"),
            states=states,
            queue=query.get("queue", ""),
            owner=query.get("owner", ""),
            nodes=info.flag("nodes"),
            limit=info.number("limit"),
            token=query.get("continue", ""),
        )
        metadata = {"continue": seen.continue_}
        return {"kind": "JobRowList", "metadata": metadata, "elsewhere": elsewhere, "items": seen.rows}


def mount_views(cluster: Cluster, views: Views) -> None:
    cluster.computed[GROUP] = ViewsApi(views)
