"""The `gpuaas doctor` command: runs every check, prints the findings worst first, exits 1 where one is red.

A check that fails is itself a finding: the others still run.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gpuaas.cli.context import Target, on_a_cluster
from gpuaas.cli.doctor import fleet, gpus, queues, server, sharing
from gpuaas.cli.doctor.finding import ClusterCheck, Finding, Level, LocalCheck, worst_first

if TYPE_CHECKING:
    from gpuaas.base.errors import ApiError
    from gpuaas.client.http import HttpClient

LOCAL_CHECKS: tuple[LocalCheck, ...] = (server.check_server, server.check_disk, gpus.check_driver)
CLUSTER_CHECKS: tuple[ClusterCheck, ...] = (
    queues.check_queues,
    gpus.check_cards,
    sharing.check_shares,
    sharing.check_memory,
    sharing.check_closed_nodes,
    fleet.check_fleet,
)

_COLORS: dict[Level, str] = {"red": "red", "yellow": "yellow", "green": "green"}


@click.command()
@on_a_cluster()
def doctor(target: Target) -> None:
    """Check this machine and the cluster; each finding names its fix as a command."""
    from gpuaas.assembly.home import Home

    home = Home.default()
    findings = [finding for check in LOCAL_CHECKS for finding in check(home)]
    try:
        findings += target.work(lambda client, _: ask_cluster(client, CLUSTER_CHECKS))
    except click.ClickException as error:
        findings.append(Finding("red", "cluster-answers", error.message, "gpuaas up -d"))
    findings = worst_first(findings)
    target.show([finding.row() for finding in findings], lambda: _print(findings))
    if any(finding.level == "red" for finding in findings):
        raise SystemExit(1)


async def ask_cluster(client: "HttpClient", checks: Sequence[ClusterCheck]) -> list[Finding]:
    from gpuaas.base.errors import ApiError

    findings: list[Finding] = []
    for check in checks:
        try:
            findings += await check(client)
        except ApiError as error:
            name = check.__name__.removeprefix("check_")
            findings.append(_unchecked(name, error))
    return findings


def _unchecked(name: str, error: "ApiError") -> Finding:
    """Rights are an administrator's to give: no command of this user would help."""
    if error.code == 403:
        return Finding("yellow", name, f"not checked, an administrator's doctor can: {error}", "")
    return Finding("yellow", name, f"not checked: {error}", "gpuaas status")


def _print(findings: Sequence[Finding]) -> None:
    for finding in findings:
        level = click.style(f"{finding.level:<6}", fg=_COLORS[finding.level], bold=finding.level == "red")
        click.echo(f"{level}  {finding.message}")
        if finding.fix:
            click.echo(f"        fix: {finding.fix}")
