"""`gpuaas backup FILE` and `gpuaas restore FILE`, on a service that runs or does not."""

from pathlib import Path

import click

from gpuaas.assembly.home import Home


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def backup(file: Path) -> None:
    """Copy all state (objects, keys, people) into FILE. The service goes on meanwhile."""
    from gpuaas.assembly.archive import write_backup
    from gpuaas.store import StoreError

    if not file.absolute().parent.is_dir():
        raise click.ClickException(f"{file} cannot be written: there is no folder {file.absolute().parent}")
    if file.exists() and not file.is_file():  # what stands there is replaced, and a device must not be
        raise click.ClickException(f"{file} cannot be written: it is no file; name a new one, or one to replace")
    try:
        clusters = write_backup(Home.default(), file)
    except StoreError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror or error}") from None
    size = file.stat().st_size
    click.echo(f"wrote {file} ({size / 1e6:.1f} MB): {_clusters(clusters)}")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def restore(file: Path, yes: bool) -> None:
    """Bring back what FILE holds. A running service is stopped for it and started again."""
    from gpuaas.assembly.archive import check_backup, read_backup
    from gpuaas.cli.up import restart, stop
    from gpuaas.store import StoreError

    home = Home.default()
    running = home.running()
    try:
        effects = check_backup(home, file)
    except (StoreError, OSError) as error:
        raise click.ClickException(f"{error}; nothing was changed") from None
    for line in effects:
        click.echo(line, err=True)
    if not yes and home.known_clusters():
        click.confirm(f"This replaces all objects, users and keys in {home.path}. Go on?", abort=True)
    if running is not None:
        stop(home, running.pid)
    try:
        clusters = read_backup(home, file)
    except (StoreError, OSError) as error:
        if running is not None:
            restart(home)
        raise click.ClickException(f"{error}; nothing was changed") from None
    click.echo(f"restored {_clusters(clusters)} from {file}")
    if running is not None:
        restart(home)


def _clusters(names: list[str]) -> str:
    return f"cluster{'s' if len(names) > 1 else ''} {', '.join(names)}"
