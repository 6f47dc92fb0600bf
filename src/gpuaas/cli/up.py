"""`gpuaas up`, `down` and `status`: the life of the control plane on this machine."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from gpuaas.assembly.home import ACCEPTABLE, Home, Running
from gpuaas.base.strict import NOT_STRICT, Strict, read_strict, write_strict
from gpuaas.cli.context import WrongOption
from gpuaas.cli.show import ALL_OF_IT, how_to_print, show
from gpuaas.cli.trusted import in_words, process_users_of

if TYPE_CHECKING:
    from gpuaas.assembly.fleet import Fleet
    from gpuaas.kueue.configuration.file import Reading

_STOP_LIMIT = 30.0
_SAID = 64 << 10  # bytes of the log that are looked at


@click.command()
@click.option("-d", "--detach", is_flag=True, help="Return when it is ready; it goes on in the background.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port to serve on.  [default: the last one if free, else any]",
)
@click.option(
    "--listen",
    "host",
    default="127.0.0.1",
    show_default=True,
    help="Address to serve on; 0.0.0.0 to serve other machines too.",
)
@click.option(
    "--san",
    "names",
    multiple=True,
    help="A name or address by which other machines reach this one, for its certificate; repeatable.",
)
@click.option(
    "--web-port",
    type=click.IntRange(0, 65535),
    help="Port of the pages on this machine, without TLS; 0 for none.  [default: the last one if free, else any]",
)
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="A certificate (PEM, with its chain) for the names it holds; read again when it changes.",
)
@click.option(
    "--tls-key", type=click.Path(exists=True, dir_okay=False, resolve_path=True), help="The key of --tls-cert."
)
@click.option("--cluster", "clusters", multiple=True, help="A cluster to serve; repeatable.  [default: local]")
@click.option(
    "--fleet",
    help="Clusters and simulated nodes: a built-in fleet (demo), a file, or none.  [default: the last one]",
)
@click.option(
    "--kueue-config",
    "kueue",
    metavar="FILE",
    help="Kueue's Configuration (config.kueue.x-k8s.io), or none.  [default: the last one]",
)
@click.option(
    "--strict",
    metavar="LIST",
    help="Behave exactly as the originals where the default is kinder: multikueue, nvidia, odh, separated by commas; "
    "or none.  [default: the last one]",
)
@click.option(
    "--platform",
    metavar="NAME",
    help="Make the namespaces and settings that manifests for a product expect: rhoai (OpenShift AI); or none.  "
    "[default: the last one]",
)
@click.option(
    "--ignore-foreign/--respect-foreign",
    "ignore_foreign",
    default=None,
    help="Whether GPUs that processes outside gpuaas use take work all the same.  [default: as the last time]",
)
@click.option(
    "--fsync/--no-fsync", default=True, help="Wait for the disk before a write is acknowledged.", show_default=True
)
@click.option(
    "--accept",
    "accepted",
    type=click.Choice(ACCEPTABLE),
    multiple=True,
    help="Start although something of this home is lost, as a refused start has said; repeatable.",
)
def up(
    detach: bool,
    port: int,
    host: str,
    names: tuple[str, ...],
    web_port: int | None,
    tls_cert: str | None,
    tls_key: str | None,
    clusters: tuple[str, ...],
    fleet: str | None,
    kueue: str | None,
    strict: str | None,
    platform: str | None,
    ignore_foreign: bool | None,
    fsync: bool,
    accepted: tuple[str, ...],
) -> None:
    """Start the control plane, in the foreground unless detached."""
    for name in clusters:
        _check_cluster_name(name)
    for name in names:
        _check_other_name(name)
    if bool(tls_cert) is not bool(tls_key):
        raise WrongOption("--tls-cert and --tls-key belong together: one of them is missing")
    home = Home.default()
    running = home.running()
    if running is not None:
        click.echo(f"gpuaas already runs here: pid {running.pid}, {running.url} (home {home.path})")
        if asked := _asked(click.get_current_context()):
            click.echo(f"warning: {asked} changes nothing while it runs: gpuaas down, then up again", err=True)
        return
    named = _chosen_fleet(home, fleet)
    _choose_kueue_config(home, kueue)
    _choose_strict(home, strict)
    _choose_platform(home, platform)
    if ignore_foreign is not None:
        home.make()
        home.ignore_foreign(ignores=ignore_foreign)
    kept = _kueue_config(home)
    for warning in kept.warnings if kept is not None else ():
        click.echo(f"warning: {home.kueue}: {warning}", err=True)
    known = clusters or named or tuple(home.known_clusters()) or ("local",)
    started = Started(port, host, names, known, fsync, web_port, tls_cert or "", tls_key or "")
    if detach:
        _detach(home, started, accepted)
    else:
        _foreground(home, started, accepted)


def _asked(context: click.Context) -> str:
    """The options on the command line, except --detach."""
    from click.core import ParameterSource

    given = (each for each in context.command.params if each.name not in ("detach", None))
    said = [each for each in given if context.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE]
    return ", ".join(each.opts[-1] for each in said)


def _chosen_fleet(home: Home, fleet: str | None) -> tuple[str, ...]:
    """Keeps the fleet in the home, so that the next start has it too; the names of its clusters."""
    from gpuaas.assembly.fleet import FleetError, fleet_text, read_fleet

    if fleet == "none":
        home.fleet.unlink(missing_ok=True)
    elif fleet is not None:
        try:
            text = fleet_text(fleet)
            read_fleet(text)
        except FleetError as error:
            raise WrongOption(f"--fleet {fleet}: {error}") from None
        home.make()
        home.keep(home.fleet.name, text)
    kept = _kept_fleet(home)
    return tuple(one.name for one in kept.clusters) if kept is not None else ()


def _choose_kueue_config(home: Home, chosen: str | None) -> None:
    """Keeps Kueue's configuration in the home, once it has been found to be one."""
    if chosen == "none":
        home.kueue.unlink(missing_ok=True)
    if chosen is None or chosen == "none":
        return
    from gpuaas.kueue.configuration.file import ConfigurationError, read_configuration

    try:
        text = Path(chosen).read_text()
        read_configuration(text)
    except (OSError, UnicodeDecodeError) as error:
        raise WrongOption(f"--kueue-config {chosen} cannot be read: {error}") from None
    except ConfigurationError as error:
        raise WrongOption(f"--kueue-config {chosen}: {error}") from None
    home.make()
    home.keep(home.kueue.name, text)


def _choose_strict(home: Home, chosen: str | None) -> None:
    """Keeps the list in the home, so that the next start behaves the same way."""
    if chosen is None:
        return
    try:
        strict = read_strict(chosen)
    except ValueError as error:
        raise WrongOption(f"--strict: {error}") from None
    home.make()
    home.keep(home.strict.name, write_strict(strict))


def _kept_strict(home: Home) -> Strict:
    try:
        return read_strict(home.strict.read_text())
    except FileNotFoundError:
        return NOT_STRICT
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise click.ClickException(f"{home.strict}: {error}; name the list again with --strict") from None


def _choose_platform(home: Home, chosen: str | None) -> None:
    """Keeps the name in the home. What an earlier start made stays when the platform is dropped."""
    from gpuaas.assembly.platform import NONE, check_platform

    if chosen is None:
        return
    if chosen == NONE:
        home.platform.unlink(missing_ok=True)
        return
    try:
        check_platform(chosen)
    except ValueError as error:
        raise WrongOption(f"--platform: {error}") from None
    home.make()
    home.keep(home.platform.name, chosen)


def _kept_platform(home: Home) -> str:
    from gpuaas.assembly.platform import check_platform

    try:
        name = home.platform.read_text().strip()
        check_platform(name)
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise click.ClickException(f"{home.platform}: {error}; name it again with --platform") from None
    return name


def _kueue_config(home: Home) -> "Reading | None":
    """What the home has, which people may also write themselves."""
    kept = home.kueue
    if not kept.exists():
        return None
    from gpuaas.kueue.configuration.file import ConfigurationError, read_configuration

    try:
        return read_configuration(kept.read_text())
    except (OSError, UnicodeDecodeError, ConfigurationError) as error:
        raise click.ClickException(f"{kept}: {error}") from None


def _kept_fleet(home: Home) -> "Fleet | None":
    from gpuaas.assembly.fleet import FleetError, read_fleet

    if not home.fleet.exists():
        return None
    try:
        return read_fleet(home.fleet.read_text())
    except (OSError, UnicodeDecodeError, FleetError) as error:
        raise click.ClickException(f"{home.fleet}: {error}; mend it, or name another with --fleet") from None


@dataclass(frozen=True, slots=True)
class Started:
    """How it was started, kept in the home so that it can be started the same way again."""

    port: int
    host: str
    names: tuple[str, ...]
    clusters: tuple[str, ...]
    fsync: bool
    web_port: int | None = None
    tls_cert: str = ""
    tls_key: str = ""

    def save(self, home: Home) -> None:
        home.keep("started.json", json.dumps(asdict(self)))

    @classmethod
    def load(cls, home: Home) -> "Started":
        """As it was started, or with the defaults where that is unknown. The clusters are those there are."""
        try:
            said = json.loads((home.path / "started.json").read_text())
            web_port = said.get("web_port")
            return cls(
                int(said["port"]),
                str(said["host"]),
                tuple(said["names"]),
                (),
                bool(said["fsync"]),
                None if web_port is None else int(web_port),
                str(said.get("tls_cert", "")),
                str(said.get("tls_key", "")),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return cls(0, "127.0.0.1", (), (), True)

    def options(self) -> list[str]:
        options = ["--port", str(self.port), "--listen", self.host]
        for name in self.names:
            options += ["--san", name]
        if self.web_port is not None:
            options += ["--web-port", str(self.web_port)]
        if self.tls_cert:
            options += ["--tls-cert", self.tls_cert, "--tls-key", self.tls_key]
        for cluster in self.clusters:
            options += ["--cluster", cluster]
        return options if self.fsync else [*options, "--no-fsync"]


def _foreground(home: Home, started: Started, accepted: Sequence[str]) -> None:
    import asyncio
    import gc

    import uvloop

    gc.disable()  # until all is in place (control_plane): importing makes no garbage worth looking for

    from gpuaas.assembly.control_plane import ControlPlane, Settings, serve
    from gpuaas.assembly.home import Locked, Unusable
    from gpuaas.kueue.configuration.settings import Configuration
    from gpuaas.observe.logs import configure
    from gpuaas.store import StoreError

    configure(file=home.log if os.environ.get("GPUAAS_DETACHED") else None)
    _allow_connections()
    fleet = _kept_fleet(home)
    kueue = _kueue_config(home)
    settings = Settings(
        started.clusters,
        started.host,
        started.port,
        started.names,
        started.fsync,
        fleet,
        kueue.configuration if kueue is not None else Configuration(),
        home.kueue.read_text() if kueue is not None else "",
        frozenset(accepted),
        _kept_strict(home),
        (Path(started.tls_cert), Path(started.tls_key)) if started.tls_cert else None,
        started.web_port,
        _kept_platform(home),
    )

    def ready(plane: ControlPlane) -> None:
        started.save(home)
        click.echo(f"gpuaas is ready at {plane.url}")
        click.echo(f"  export KUBECONFIG={home.kubeconfig}")
        _tell_pages(home, plane.pages_address, plane.address_elsewhere)
        if not os.environ.get("GPUAAS_DETACHED"):
            click.echo("Ctrl-C stops it.")

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(home, settings, ready))
    except Locked:
        raise click.ClickException(f"another gpuaas is starting or stopping in {home.path}; try again") from None
    except (StoreError, Unusable) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"the home {home.path} cannot be used: {error}") from None


def _allow_connections() -> None:
    """As many files as this process may open: connections are files."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _detach(home: Home, started: Started, accepted: Sequence[str] = ()) -> None:
    from gpuaas.cli.ready import wait_ready

    home.make()
    with _own(home.log) as log:
        start = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "gpuaas", "up", *started.options(), *(f"--accept={one}" for one in accepted)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "GPUAAS_HOME": str(home.path), "GPUAAS_DETACHED": "1"},
        )
    try:
        running = wait_ready(home, process, len(started.clusters))
    except KeyboardInterrupt:
        process.terminate()  # who changes their mind does not want it in the background
        raise
    said = _since(home.log, start)
    if running is None:
        words = said[-2000:].removeprefix("Error: ") or f"it said nothing; {_room(home)}"
        raise click.ClickException(f"it did not start (log: {home.log}):\n{words}")
    for warning in re.findall(r"^\S+ \S+ W gpuaas: (.*)$", said, re.MULTILINE):
        click.echo(f"warning: {warning}", err=True)  # a detached start's log is not seen
    click.echo(f"gpuaas is ready at {running.url} (pid {running.pid})")
    click.echo(f"  export KUBECONFIG={home.kubeconfig}")
    _tell_pages(home, running.pages, running.elsewhere)


def _tell_pages(home: Home, here: str, elsewhere: str) -> None:
    """A browser does not know our certificate authority: without a word of it the warning looks like a fault."""
    click.echo(f"  dashboard {here} (gpuaas open signs in)")
    if elsewhere:
        click.echo(f"            {elsewhere} from other machines")
    if (elsewhere or here).startswith("https:") and not Started.load(home).tls_cert:
        trusted = home.certificates / "ca.crt"
        click.echo(
            f"            a browser warns of the certificate until it trusts {trusted}, or use --tls-cert", err=True
        )


def _since(log: Path, start: int) -> str:
    """What was written from there on; of much of it the end."""
    with log.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(start if start <= end else 0, end - _SAID))
        return file.read().decode(errors="replace").strip()


def _own(log: Path) -> BinaryIO:
    """To go on writing at its end, readable by this user alone."""
    from gpuaas.observe.logs import LONGEST, make_room

    if log.exists() and log.stat().st_size > LONGEST:
        make_room(log)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.fchmod(descriptor, 0o600)
    file = os.fdopen(descriptor, "ab")
    file.seek(0, os.SEEK_END)
    return file


def _room(home: Home) -> str:
    import shutil

    free = shutil.disk_usage(home.path).free
    return f"the disk of {home.path} has {free / 1e6:.1f} MB left" + (", which is too little" if free < 1e6 else "")


@click.command()
def down() -> None:
    """Stop the control plane and wait until it has gone."""
    home = Home.default()
    running = home.running()
    if running is None and not home.is_locked():
        home.withdraw()
        click.echo(f"gpuaas does not run here (home {home.path})")
        return
    pid = running.pid if running is not None else home.holder()
    if not pid:
        raise click.ClickException(f"a server holds {home.path}, but no file there says which; end it by hand")
    if running is None:
        click.echo(f"{home.state} cannot be read; pid {pid} holds {home.path / 'lock'} and is stopped", err=True)
    stop(home, pid)
    click.echo("gpuaas has stopped")


def stop(home: Home, pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_LIMIT
    while home.is_locked() or _alive(pid):
        if time.monotonic() > deadline:
            raise click.ClickException(f"pid {pid} has not ended after {_STOP_LIMIT:.0f} s; it may still be writing")
        time.sleep(0.02)  # noqa: TID251 - a person waits here too


def restart(home: Home) -> None:
    """Start again, detached, as it ran before."""
    _detach(home, Started.load(home))


def start_detached(home: Home, clusters: Sequence[str], port: int = 0) -> None:
    """Start for the first time, detached, with the fleet that the home has; the clusters are served in this order."""
    _detach(home, Started(port, "127.0.0.1", (), tuple(clusters), True))


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@click.command()
@how_to_print(*ALL_OF_IT)
def status(output: str) -> None:
    """Say whether the control plane runs, where, and with what."""
    from gpuaas.cli.ready import unready

    home = Home.default()
    running = home.running()
    trouble = unready(running, home).words if running is not None else "it does not run"
    healthy = not trouble
    found = {"running": running is not None or home.is_locked(), "ready": healthy, "home": str(home.path)}
    if running is not None:
        found |= {
            "pid": running.pid,
            "url": running.url,
            "clusters": list(running.clusters),
            "version": running.version,
            "pages": running.pages,
            "elsewhere": running.elsewhere,
        }
    trusted = process_users_of(home, running) if healthy and running is not None else None
    if trusted is not None:
        found["processUsers"] = trusted
    strict = _kept_strict(home)
    if strict:
        found["strict"] = write_strict(strict).split(",")
    if platform := _kept_platform(home):
        found["platform"] = platform
    show(output, found, lambda: _tell(home, running, trouble, in_words(trusted) if trusted else "", strict))
    if not healthy:
        raise SystemExit(1)


def _tell(home: Home, running: Running | None, trouble: str, trusted: str, strict: Strict) -> None:
    if running is None and home.is_locked():
        words = f"gpuaas starts, stops, or runs (pid {home.holder() or 'unknown'}) and {home.state} cannot be read"
        click.echo(f"{words}; gpuaas down stops it")
        return
    if running is None:
        click.echo(f"gpuaas does not run (home {home.path}); start it with: gpuaas up")
        return
    ready = "is not ready" if trouble else "is ready"
    click.echo(f"gpuaas {running.version} {ready} at {running.url} (pid {running.pid})")
    if trouble:
        click.echo(f"  because   {trouble}")
    click.echo(f"  clusters  {', '.join(running.clusters)}")
    click.echo(f"  home      {home.path}")
    if running.pages:
        click.echo(f"  dashboard {running.pages}")
    if running.elsewhere:
        click.echo(f"            {running.elsewhere} from other machines")
    if strict:
        click.echo(f"  strict    {write_strict(strict)}")
    if platform := _kept_platform(home):
        click.echo(f"  platform  {platform}")
    if trusted:
        click.echo(f"  processes {trusted}")
    click.echo(f"  export KUBECONFIG={home.kubeconfig}")


def _check_cluster_name(name: str) -> None:
    from gpuaas.base.names import is_dns1123_label

    complaints = is_dns1123_label(name)
    if complaints:
        raise click.BadParameter(f'"{name}": {"; ".join(complaints)}', param_hint="--cluster")


def _check_other_name(name: str) -> None:
    from gpuaas.apiserver.security.certs import check_name

    try:
        check_name(name)
    except ValueError as error:
        raise WrongOption(f"--san: {error}") from None
