"""Groups that a cluster keeps as objects: OpenShift's `user.openshift.io/v1` Group, a name and a list of users.

`Groups` follows the store, so a user is in a group from the moment its write is acknowledged. `joined` adds a user's
groups where they authenticate, for RBAC, impersonation checks and `kubectl auth whoami` alike. As in OpenShift these
groups are for people: names that begin with `system:` (service accounts, nodes, parts of the control plane) join none,
and a group whose name has a colon, such as system:masters, has no members. Who may write Groups may give all that is
bound to one; of the built-in roles only cluster-admin may.

A change costs what is in the group before and after; a request costs one look-up.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuaas.apiserver.security.identity import User
from gpuaas.runtime.quarantine import Aside
from gpuaas.store import Entry, Event, Store

PREFIX: Final = "user.openshift.io/groups/"
_SYSTEM: Final = "system:"


class Groups:
    def __init__(self) -> None:
        self._members: dict[str, tuple[str, ...]] = {}  # by group
        self._of: dict[str, tuple[str, ...]] = {}  # by user, sorted
        self._aside = Aside()

    def follow(self, store: Store, aside: Aside | None = None) -> None:
        """Takes over the store's groups, and every change of them from now on. One that cannot be read has no members."""
        self._aside = aside or self._aside
        for entry in store.list(PREFIX):
            self._take_over(entry)
        store.watch(PREFIX, store.revision, self._on_events).resume()

    def put(self, obj: Mapping[str, Any]) -> None:
        """A group is new or has changed."""
        name = str(obj["metadata"]["name"])
        users = obj.get("users") or ()
        named = () if ":" in name else tuple(user for user in dict.fromkeys(users) if _may_join(user))
        self._replace(name, named)

    def remove(self, name: str) -> None:
        self._replace(name, ())

    def joined(self, user: User) -> User:
        """The user, also in the groups that name them."""
        more = self._of.get(user.name)
        if more is None or user.name.startswith(_SYSTEM):
            return user
        return User(user.name, user.uid, tuple(dict.fromkeys((*user.groups, *more))), user.extra)

    def _replace(self, name: str, users: tuple[str, ...]) -> None:
        for user in self._members.pop(name, ()):
            left = tuple(each for each in self._of[user] if each != name)
            if left:
                self._of[user] = left
            else:
                del self._of[user]
        if users:
            self._members[name] = users
        for user in users:
            self._of[user] = tuple(sorted((*self._of.get(user, ()), name)))

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == "DELETED":
                self.remove(event.key.rpartition("/")[2])
            else:
                self._take_over(event.entry)

    def _take_over(self, entry: Entry) -> None:
        try:
            self.put(entry.obj)
        except Exception as error:
            name = entry.key.rpartition("/")[2]
            self.remove(name)
            self._aside.note("groups", {"kind": "Group", "metadata": {"name": name}}, error)


def _may_join(user: Any) -> bool:
    if not isinstance(user, str):
        raise TypeError(f"users: {user!r} is no user's name")
    return bool(user) and not user.startswith(_SYSTEM)
