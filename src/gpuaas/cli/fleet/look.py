"""`gpuaas fleet list` and `describe`: what the hub knows of its clusters."""

from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster
from gpuaas.cli.fleet.membership import rows, running_on
from gpuaas.cli.show import Columns

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.views.fleet import FleetRow

COLUMNS = Columns(
    ("cluster", "state", "connected", "gpus", "free", "running", "waiting", "score", "problem"),
    ("placements", "url"),
    spare=("score", "waiting", "running"),
)
_NO_CLUSTERS = "no cluster has joined; add one: gpuaas fleet join NAME --from KUBECONFIG"


@click.command("list")
@on_a_cluster("wide")
def list_clusters(target: Target) -> None:
    """The clusters: connection, GPUs, jobs, score, the last error."""
    found = target.work(lambda client, _: rows(client))

    def in_words() -> None:
        if not found:
            click.echo(_NO_CLUSTERS)
            return
        COLUMNS.table([cells(each) for each in found], wide=target.output == "wide").print()
        for each in found:
            if each.problem and each.fix:
                click.echo(f"{each.name}: fix: {each.fix}", err=True)

    target.show([shown(each) for each in found], in_words)


def shown(row: "FleetRow") -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(row)
    return found


def state(row: "FleetRow") -> str:
    if not row.accepted:
        return "not accepted"
    words = {"True": "available", "False": "unavailable", "Unknown": "unknown"}.get(row.available, "joining")
    return f"{words}, drained" if row.drained else words


def cells(row: "FleetRow") -> dict[str, Any]:
    return {
        "cluster": row.name,
        "state": state(row),
        "connected": row.connected,
        "gpus": ", ".join(f"{each.product} {each.free}/{each.total}" for each in row.gpus),
        "free": row.free_gpus,
        "running": row.running,
        "waiting": row.waiting,
        "score": row.scores.get("gpuClusterAvailable", ""),
        "problem": row.problem,
        "placements": row.placements,
        "url": row.url,
    }


@click.command()
@click.argument("name")
@on_a_cluster()
def describe(target: Target, name: str) -> None:
    """One cluster: everything the hub knows of it."""

    async def work(client: "HttpClient", _: str) -> "tuple[FleetRow, list[str]]":
        found = next((each for each in await rows(client) if each.name == name), None)
        if found is None:
            raise click.ClickException(f"there is no cluster {name}; gpuaas fleet list shows those there are")
        return found, await running_on(client, name)

    row, jobs = target.work(work)

    def in_words() -> None:
        for key, value in facts(row, jobs):
            click.echo(f"{key + ':':<13}{value}")

    target.show({**shown(row), "jobs": jobs}, in_words)


def facts(row: "FleetRow", jobs: list[str]) -> list[tuple[str, str]]:
    found = [
        ("Cluster", row.name + (" (the hub itself)" if row.local else "")),
        ("URL", row.url),
        ("State", state(row)),
        ("Joined", row.joined or "not yet"),
        ("MultiKueue", {"True": "connected", "False": "not connected"}.get(row.connected, "no connection yet")),
        ("Labels", ", ".join(f"{k}={v}" for k, v in sorted(row.labels.items())) or "none"),
        ("Placements", ", ".join(row.placements) or "none selects it"),
    ]
    found += [("GPUs", f"{each.product}: {each.free} of {each.total} free") for each in row.gpus]
    gang = f"{row.largest_gang} GPUs" if row.total_gpus else "no GPUs"
    found.append(("Largest gang", gang))
    oldest = f", the oldest for {row.oldest_waiting_seconds} s" if row.waiting else ""
    found.append(("Jobs", f"{row.running} running, {row.waiting} waiting{oldest}"))
    if jobs:
        found.append(("From the hub", ", ".join(jobs[:10]) + (f" and {len(jobs) - 10} more" if len(jobs) > 10 else "")))
    found += [("Scores", ", ".join(f"{name} {value}" for name, value in row.scores.items()))] * bool(row.scores)
    if row.scores_by_hand:
        words = (
            f"{', '.join(row.scores_by_hand)}; delete addonplacementscore resource-usage-score -n {row.name} to measure"
        )
        found.append(("Set by hand", words))
    if row.problem:
        found += [("Problem", row.problem), ("Fix", row.fix)]
    return found
