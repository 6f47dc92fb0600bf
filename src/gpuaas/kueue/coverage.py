"""Which pods an admitted workload covers: what the pods of a workload use together stays within what it holds.

Owner references, labels and gates are what a tenant writes; they say at most on which workload a pod wants to run. What
counts is the sum: a pod may get a node only while the requests of all pods on its workload, this one included, fit into
the quota the workload was admitted with, and while all pods in its namespace fit into what the namespace's workloads
hold together. Pods that are being deleted count until they have ended.

`Coverage` is the book of both sides, kept from the pods that have a node and from the workloads that hold quota. Slices
of an elastic job share an account, as they share their pods. Which workloads a pod may name is the caller's question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpuaas.base.quantity import parse_quantity
from gpuaas.engine.amounts import text
from gpuaas.kueue.integrations import keys, outcome
from gpuaas.kueue.integrations.jobs import annotations_of
from gpuaas.kueue.integrations.pods import has_ended
from gpuaas.kueue.integrations.slices import slice_name
from gpuaas.kueue.pods import units

View = Mapping[str, Any]
Amounts = Mapping[str, int]

EXTRA: Final[Amounts] = {"cpu": 500, "memory": 512 << 20, "ephemeral-storage": 1 << 30}
"""What each pod may use beyond its template: operators and webhooks add sidecars and init containers to it."""


class Account(NamedTuple):
    namespace: str
    name: str
    """Of the workload; of an elastic one the name its slices share."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A workload that holds quota: what it holds, and whether more pods may start on it."""

    account: Account
    name: str
    created: str
    amounts: Amounts
    is_open: bool


@dataclass(slots=True)
class _Balance:
    holdings: dict[str, Holding] = field(default_factory=dict)
    held: Amounts = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    pods: dict[str, Amounts] = field(default_factory=dict)  # by uid

    @property
    def is_empty(self) -> bool:
        return not self.holdings and not self.pods


@dataclass(slots=True)
class _Sum:
    """Of a namespace; `version` counts what may have made room."""

    held: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    accounts: int = 0
    version: int = 0


def account_of(pod: View) -> Account | None:
    """The account a pod with a node was given it for: the server writes it where it binds the pod."""
    notes = annotations_of(pod)
    name = notes.get(keys.SLICE_NAME) or notes.get(keys.WORKLOAD)
    return Account(pod["metadata"].get("namespace", ""), name) if name else None


def holding_of(workload: View) -> Holding | None:
    """None where it holds no quota."""
    admission = (workload.get("status") or {}).get("admission")
    if not admission or not outcome.is_reserved(workload) or outcome.is_finished(workload):
        return None
    metadata = workload["metadata"]
    account = Account(metadata.get("namespace", ""), slice_name(workload))
    created = f"{metadata.get('creationTimestamp', '')} {metadata.get('uid', '')}"
    return Holding(account, metadata["name"], created, _held(workload, admission), is_open(workload))


def is_open(workload: View) -> bool:
    """Whether pods may start on it now: it is admitted, and not on its way out."""
    if (
        not outcome.is_admitted(workload)
        or outcome.is_finished(workload)
        or workload["metadata"].get("deletionTimestamp")
    ):
        return False
    return bool((workload.get("spec") or {}).get("active", True)) and outcome.eviction_of(workload) is None


def _held(workload: View, admission: View) -> dict[str, int]:
    """As assigned, less what its finished pods gave back."""
    counts = {each.get("name", keys.MAIN): each.get("count", 1) for each in workload["spec"].get("podSets") or ()}
    taken = {each["name"]: each["count"] for each in workload["status"].get("reclaimablePods") or ()}
    found: dict[str, int] = {}
    for each in admission.get("podSetAssignments") or ():
        name, assigned = each.get("name", keys.MAIN), each.get("count", 1)
        left = min(assigned, max(0, counts.get(name, assigned) - taken.get(name, 0)))
        for resource, amount in (each.get("resourceUsage") or {}).items():
            share = units(resource, parse_quantity(amount))
            if left < assigned:
                share = share // assigned * left
            found[resource] = found.get(resource, 0) + share
    return found


class Coverage:
    """The book. `requests_of` gives what a pod takes of the quota."""

    def __init__(self, requests_of: Callable[[View], Amounts]) -> None:
        self._requests_of = requests_of
        self._balances: dict[Account, _Balance] = {}
        self._account_of_pod: dict[str, Account] = {}
        self._account_of_workload: dict[tuple[str, str], Account] = {}
        self._sums: dict[str, _Sum] = {}

    # The news

    def put_workload(self, workload: View) -> None:
        metadata = workload["metadata"]
        self._set_holding(metadata.get("namespace", ""), metadata["name"], holding_of(workload))

    def drop_workload(self, namespace: str, name: str) -> None:
        self._set_holding(namespace, name, None)

    def put_pod(self, pod: View) -> None:
        """A pod as it is: one without a node, or that has ended, uses nothing."""
        account = account_of(pod) if pod["spec"].get("nodeName") and not has_ended(pod) else None
        if account is None:
            self.drop_pod(pod["metadata"]["uid"])
        else:
            self.assume(pod, account)

    def assume(self, pod: View, account: Account) -> None:
        """The pod runs on this account from now on."""
        uid = pod["metadata"]["uid"]
        requests = self._requests_of(pod)
        if self._account_of_pod.get(uid) == account and self._balances[account].pods.get(uid) == requests:
            return
        self.drop_pod(uid)
        self._account_of_pod[uid] = account
        balance = self._balance(account)
        balance.pods[uid] = requests
        _add(balance.used, requests)
        _add(self._sums[account.namespace].used, requests)

    def drop_pod(self, uid: str) -> None:
        account = self._account_of_pod.pop(uid, None)
        if account is None:
            return
        balance, total = self._balances[account], self._sums[account.namespace]
        requests = balance.pods.pop(uid)
        _subtract(balance.used, requests)
        _subtract(total.used, requests)
        total.version += 1
        self._tidy(account)

    # The questions

    def balance_version(self, namespace: str) -> int:
        """Grows whenever there may be more room in the namespace."""
        found = self._sums.get(namespace)
        return found.version if found is not None else 0

    def is_covered(self, uid: str) -> bool:
        """Whether the pod runs on a workload that holds quota."""
        account = self._account_of_pod.get(uid)
        return account is not None and bool(self._balances[account].holdings)

    def shortage(self, account: Account, requests: Amounts, ungoverned: Callable[[str], bool]) -> str:
        """Why a pod with these requests may not run on the account, in words; "" if it may. `ungoverned`: resources of
        which its workload holds nothing because quota does not ask for them."""
        balance, total = self._balances.get(account), self._sums.get(account.namespace)
        if balance is None or total is None or not balance.holdings:
            return f"workload {account.name} holds no quota"
        pods = len(balance.pods) + 1
        for resource, amount in requests.items():
            if amount <= 0 or (resource not in balance.held and ungoverned(resource)):
                continue
            held, used = balance.held.get(resource, 0), balance.used.get(resource, 0)
            if used + amount > held + EXTRA.get(resource, 0) * pods:
                return _lack(f"workload {account.name}", resource, amount, used, held)
            if resource in EXTRA:
                continue
            held, used = total.held.get(resource, 0), total.used.get(resource, 0)
            if used + amount > held:
                return _lack(f"the workloads in namespace {account.namespace}", resource, amount, used, held)
        return ""

    def is_overdrawn(self, account: Account) -> bool:
        balance = self._balances.get(account)
        return balance is not None and bool(balance.pods) and not _suffices(balance, balance.used)

    def excess(self, account: Account, pods: Sequence[str]) -> Sequence[str]:
        """The first of these pods without whom what is held covers the rest."""
        balance = self._balances.get(account)
        if balance is None:
            return ()
        left, gone = dict(balance.used), 0
        while gone < len(pods) and not _suffices(balance, left):
            _subtract(left, balance.pods.get(pods[gone], {}))
            gone += 1
        return pods[:gone]

    # Keeping it

    def _set_holding(self, namespace: str, name: str, holding: Holding | None) -> None:
        known = self._account_of_workload.get((namespace, name))
        if known is None and holding is None:
            return
        if known is not None and (holding is None or holding.account != known):
            self._change(known, name, None)
            del self._account_of_workload[namespace, name]
        if holding is not None:
            self._account_of_workload[namespace, name] = holding.account
            self._change(holding.account, name, holding)

    def _change(self, account: Account, name: str, holding: Holding | None) -> None:
        balance = self._balance(account)
        if balance.holdings.get(name) == holding:
            self._tidy(account)
            return
        if holding is None:
            balance.holdings.pop(name, None)
        else:
            balance.holdings[name] = holding
        total = self._sums[account.namespace]
        _subtract(total.held, balance.held)
        newest = max(balance.holdings.values(), key=lambda each: each.created, default=None)
        balance.held = newest.amounts if newest is not None else {}
        _add(total.held, balance.held)
        total.version += 1
        self._tidy(account)

    def _balance(self, account: Account) -> _Balance:
        found = self._balances.get(account)
        if found is None:
            found = self._balances[account] = _Balance()
            self._sums.setdefault(account.namespace, _Sum()).accounts += 1
        return found

    def _tidy(self, account: Account) -> None:
        """Nothing is kept of what is gone but how often a namespace changed, and that only while it has accounts."""
        if self._balances[account].is_empty:
            del self._balances[account]
            self._sums[account.namespace].accounts -= 1


def _suffices(balance: _Balance, used: Amounts) -> bool:
    if not balance.holdings:
        return not used
    return all(amount <= balance.held.get(name, amount) for name, amount in used.items() if name not in EXTRA)


def _lack(who: str, resource: str, amount: int, used: int, held: int) -> str:
    parts = ", ".join(
        f"{words} {text(resource, each)}" for words, each in (("asked", amount), ("used", used), ("held", held))
    )
    return f"{who}: quota for {resource} is exceeded ({parts})"


def _add(to: dict[str, int], more: Amounts) -> None:
    for resource, amount in more.items():
        to[resource] = to.get(resource, 0) + amount


def _subtract(of: dict[str, int], less: Amounts) -> None:
    for resource, amount in less.items():
        left = of.get(resource, 0) - amount
        if left:
            of[resource] = left
        else:
            of.pop(resource, None)


def requests_names(pod_specs: Iterable[View], requests_of: Callable[[View], Amounts]) -> set[str]:
    """The resources any of the templates asks for."""
    return {resource for spec in pod_specs for resource in requests_of({"spec": spec})}
