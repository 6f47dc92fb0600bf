"""Which cluster a store holds, and whether it is the one this home has held.

As in Kubernetes, the uid of the namespace kube-system identifies a cluster: it is made with the first start, cannot be
deleted, and goes along in a backup. The home remembers it for each cluster in `clusters.json`. A start compares both
before it writes or ends anything: a store that is missing, empty or another cluster's would otherwise look like a new
cluster, and everything that runs on this machine like something that was deleted.
"""

from gpuaas.assembly.home import NEW_CA, NEW_CLUSTER, Home, Unusable
from gpuaas.store import Entry, Store

KEY = "/namespaces//kube-system"


def identity_of(store: Store) -> str:
    """The uid of the cluster; "" in a store that holds none yet."""
    return uid_in(store.get(KEY))


def uid_in(entry: Entry | None) -> str:
    return str(entry.obj["metadata"].get("uid") or "") if entry is not None else ""


def check_before_opening(home: Home, name: str, accepted: frozenset[str]) -> None:
    """Raises Unusable where opening would make a new store for a cluster that has one. Changes nothing."""
    path = home.store(name)
    if NEW_CLUSTER in accepted or (path.exists() and path.stat().st_size):
        return
    known = home.identities()
    if name in known or (not known and home.has_served() and not _any_store(home)):
        found = "is empty (0 bytes)" if path.exists() else "is missing"
        raise _refusal(home, name, f"its database {path} {found}", known.get(name, ""))


def check_opened(home: Home, name: str, store: Store, accepted: frozenset[str]) -> None:
    """Raises Unusable where the store holds another cluster than the home has held, or none."""
    expected, found = home.identities().get(name, ""), identity_of(store)
    if NEW_CLUSTER in accepted or not expected or found == expected:
        return
    what = f"holds another cluster (uid {found})" if found else "holds no cluster"
    raise _refusal(home, name, f"its database {store.path} {what}", expected)


def check_authority(home: Home, accepted: frozenset[str]) -> None:
    """Raises Unusable where the CA that clients trust has gone: another one in its place would fail all of them."""
    folder = home.certificates
    lost = [name for name in ("ca.crt", "ca.key") if not (folder / name).exists()]
    was_used = (folder / "serving.json").exists() or home.identities()
    if not lost or not was_used or NEW_CA in accepted:
        return
    files = " and ".join(str(folder / name) for name in lost)
    raise Unusable(
        f"the certificate authority of {home.path} is lost: {files} missing. Clients trust it and would refuse a server"
        " with another one. Put the files back, or bring back a backup with `gpuaas restore FILE`."
        " `gpuaas up --accept new-ca` makes a new one: every kubeconfig that was given out has to be given out again"
    )


def _any_store(home: Home) -> bool:
    return any(path.stat().st_size for path in (home.path / "clusters").glob("*.db"))


def _refusal(home: Home, name: str, found: str, expected: str) -> Unusable:
    uid = f" (uid {expected})" if expected else ""
    return Unusable(
        f"{home.path} has held cluster {name}{uid} before, but {found}. Nothing was changed. Put the file back, or"
        " bring back a backup with `gpuaas restore FILE`. `gpuaas up --accept new-cluster` goes on with what was"
        " found: all objects are lost then; processes that still run are neither known nor ended"
    )
