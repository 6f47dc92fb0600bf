"""`gpuaas audit`: who made room for whom, from the ledger where one is kept, elsewhere from what the cluster still holds.

A cluster with upstream Kueue keeps an event of each preemption for an hour or so, and on each workload a condition of its
last one. The rows from there look like the ledger's, with gaps where nothing is known any more.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster
from gpuaas.cli.owners import Whose, of_a_user
from gpuaas.cli.show import Columns

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object

_COLUMNS = Columns(
    ("at", "victim", "victimOwner", "preemptor", "preemptorOwner", "rule", "ran", "lost"),
    ("victimUid", "preemptorUid", "message"),
    spare=("ran", "rule", "victimOwner", "preemptorOwner"),
    headings={
        "lost": "GPU-MINUTES LOST",
        "victimUid": "VICTIM UID",
        "preemptorUid": "PREEMPTOR UID",
        "victimOwner": "USER",
        "preemptorOwner": "FOR USER",
    },
)
# Between the event of a preemption and the condition that says the same.
_SAME_SECONDS = 5.0
# How upstream words each rule in an event, which does not name it.
_RULES = {
    "prioritization in the ClusterQueue": "InClusterQueue",
    "reclamation within the cohort while borrowing": "InCohortReclaimWhileBorrowing",
    "reclamation within the cohort": "InCohortReclamation",
    "Fair Sharing within the cohort": "InCohortFairSharing",
}


@click.command()
@of_a_user
@on_a_cluster("wide")
def audit(target: Target, user: Whose) -> None:
    """Who made room for whom, by which rule, and what was lost."""

    async def look(client: "HttpClient", _namespace: str) -> list[dict[str, Any]]:
        return concerning(await user.name(client), await audit_rows(client, _aside))

    rows = about(target.namespace, target.work(look))

    def in_words() -> None:
        if rows:
            _COLUMNS.table([*map(_shown, rows)], wide=target.output == "wide").print()
        else:
            click.echo(
                "nothing was preempted" + (f" by or in namespace {target.namespace}" if target.namespace else "")
            )

    target.show(rows, in_words)


def about(namespace: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those in which a workload of the namespace was preempted, or preempted another; all of them without one."""
    parties = ("victim", "preemptor")
    return [row for row in rows if not namespace or any(row[who].startswith(f"{namespace}/") for who in parties)]


def concerning(owner: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those in which a workload of this user had to leave, or came in; all of them without one."""
    return [row for row in rows if not owner or owner in (row["victimOwner"], row["preemptorOwner"])]


def _aside(words: str) -> None:
    click.echo(words, err=True)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    ran, lost = row["ranSeconds"], row["gpuMinutesLost"]
    return {**row, "ran": "" if ran is None else f"{ran}s", "lost": "" if lost is None else f"{lost:.1f}"}


async def audit_rows(client: "HttpClient", tell: Callable[[str], None] | None = None) -> list[dict[str, Any]]:
    """Oldest first. Where no ledger is kept, `tell` hears how far back it goes."""
    from gpuaas.base.errors import NotFound, PathNotFound
    from gpuaas.client.kueue import PREEMPTIONS, WORKLOADS
    from gpuaas.client.resources import EVENTS

    try:
        entries = (await client.list(PREEMPTIONS)).items
    except (NotFound, PathNotFound):
        workloads, events = (await client.list(WORKLOADS)).items, (await client.list(EVENTS)).items
        if tell is not None:
            tell(how_far(events))
        return remembered(workloads, events)
    return [_entry(each["spec"]) for each in sorted(entries, key=lambda each: str(each["spec"]["at"]))]


def _entry(spec: "Object") -> dict[str, Any]:
    return {
        "at": spec["at"],
        "victim": _who(spec["victim"]),
        "preemptor": _who(spec["preemptor"]),
        "victimOwner": spec["victim"].get("user", ""),
        "preemptorOwner": spec["preemptor"].get("user", ""),
        "rule": spec["rule"],
        "ranSeconds": spec.get("ranSeconds", 0),
        "gpuMinutesLost": spec.get("gpuSecondsLost", 0) / 60,
        "message": spec.get("message", ""),
        "victimUid": spec["victim"].get("uid", ""),
        "preemptorUid": spec["preemptor"].get("uid", ""),
    }


def _who(party: "Object") -> str:
    return f"{party['namespace']}/{(party.get('owner') or party['name']).lower()}"


def how_far(events: list["Object"]) -> str:
    oldest = min((_times(each)[0] for each in events if _times(each)), default="")
    since = f"since {oldest}" if oldest else "of which there are none"
    return (
        f"this cluster keeps no ledger: its events ({since}) and, of workloads that are still there,"
        " the last preemption of each"
    )


def remembered(workloads: list["Object"], events: list["Object"]) -> list[dict[str, Any]]:
    """What events and conditions still say."""
    from gpuaas.api.owner import owner_named

    names = _names_in(events) | {each["metadata"]["uid"]: _full(each) for each in workloads}
    present = {each["metadata"]["uid"]: each for each in workloads}
    rows = [*_from_events(events, present, names)]
    owners = {uid: owner_named(each) for uid, each in present.items()}
    known = [(row["victimUid"], _seconds(row["at"])) for row in rows]
    for row in _from_conditions(workloads, names):
        at = _seconds(row["at"])
        if not any(uid == row["victimUid"] and abs(seen - at) <= _SAME_SECONDS for uid, seen in known):
            rows.append(row)
    for row in rows:
        row["victimOwner"] = owners.get(row["victimUid"], "")
        row["preemptorOwner"] = owners.get(row["preemptorUid"], "")
    return sorted(rows, key=lambda row: _seconds(row["at"]))


def _names_in(events: list["Object"]) -> dict[str, str]:
    """Workloads by uid, also those that have gone: under their jobs' names, where the owner is known."""
    about = [each.get("involvedObject") or {} for each in events]
    made = {
        event.get("message", "").removeprefix(
            "Created Workload: "
        ): f"{job.get('kind', '')}/{job.get('name', '')}".lower()
        for event, job in zip(events, about, strict=True)
        if event.get("reason") == "CreatedWorkload"
    }
    found = {}
    for each in about:
        if each.get("kind") == "Workload":
            namespace, name = each.get("namespace", ""), each.get("name", "")
            found[each.get("uid", "")] = f"{namespace}/{made.get(f'{namespace}/{name}', f'workload/{name}')}"
    return found


def _from_events(
    events: list["Object"], present: dict[str, "Object"], names: dict[str, str]
) -> Iterator[dict[str, Any]]:
    mine = [each for each in events if (each.get("involvedObject") or {}).get("kind") == "Workload"]
    for event in mine:
        if event.get("reason") != "Preempted":
            continue
        about = event["involvedObject"]
        uid, message = about.get("uid", ""), event.get("message", "")
        starts = [at for each in _of(mine, uid, "Admitted") for at in _times(each)]
        for at in _times(event):
            ran = _ran(starts, at)
            workload = present.get(uid)
            lost = None if ran is None or workload is None else ran * _gpus_of(workload) / 60
            yield _row(at, names[uid], uid, names, _rule(message), message, ran, lost)


def _of(events: Iterable["Object"], uid: str, reason: str) -> Iterator["Object"]:
    return (each for each in events if each["involvedObject"].get("uid") == uid and each.get("reason") == reason)


def _from_conditions(workloads: list["Object"], names: dict[str, str]) -> Iterator[dict[str, Any]]:
    from gpuaas.kueue.workload_state import conditions_of

    for workload in workloads:
        found = conditions_of(workload).get("Preempted")
        if found is not None and found.get("status") == "True":
            uid = workload["metadata"]["uid"]
            at, message = found["lastTransitionTime"], found["message"]
            yield _row(at, _full(workload), uid, names, found["reason"], message, None, None)


def _row(
    at: str,
    victim: str,
    uid: str,
    names: dict[str, str],
    rule: str,
    message: str,
    ran: int | None,
    lost: float | None,
) -> dict[str, Any]:
    by = message.partition("(UID: ")[2].partition(",")[0].rstrip(")")
    return {
        "at": at,
        "victim": victim,
        "preemptor": names.get(by, by),
        "victimOwner": "",
        "preemptorOwner": "",
        "rule": rule,
        "ranSeconds": ran,
        "gpuMinutesLost": lost,
        "message": message,
        "victimUid": uid,
        "preemptorUid": by,
    }


def _rule(message: str) -> str:
    return next((rule for words, rule in _RULES.items() if f"due to {words}" in message), "Unknown")


def _ran(starts: list[str], end: str) -> int | None:
    before = [_seconds(at) for at in starts if _seconds(at) <= _seconds(end)]
    return int(_seconds(end) - max(before)) if before else None


def _times(event: "Object") -> list[str]:
    """When it happened, and when it last did if the recorder counted it more than once; to the second."""
    from gpuaas.base.clock import rfc3339

    series = event.get("series") or {}
    found = (
        event.get("eventTime"),
        event.get("firstTimestamp"),
        event.get("lastTimestamp"),
        series.get("lastObservedTime"),
    )
    return [rfc3339(each) for each in sorted({int(_seconds(at)) for at in found if at})]


def _seconds(at: str) -> float:
    from gpuaas.base.clock import parse_rfc3339

    return parse_rfc3339(at)


def _gpus_of(workload: "Object") -> float:
    from gpuaas.views.jobs import gpus_of

    return float(gpus_of(workload.get("spec") or {}))


def _full(workload: "Object") -> str:
    from gpuaas.kueue.explain.snapshot import owner_of

    return f"{workload['metadata']['namespace']}/{'/'.join(owner_of(workload))}".lower()
