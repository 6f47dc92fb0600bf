"""Backups of a whole home: every cluster's store, the keys, the people, in one file.

A backup is taken while the service runs: each store is copied as of one commit. Restoring checks everything before it
changes anything; the stores go on above all revisions ever handed out, so no client takes new changes for old ones.
"""

import tarfile
import tempfile
from pathlib import Path

from gpuaas.assembly.home import Home
from gpuaas.store import StoreError
from gpuaas.store.snapshots import backup, check, restore

_MARK = "gpuaas-backup"


def write_backup(home: Home, file: Path) -> list[str]:
    """The names of the clusters it holds."""
    clusters = home.known_clusters()
    if not clusters:
        raise StoreError(f"there is nothing to back up in {home.path}: no cluster was ever started")
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".backup-") as folder:
        draft = Path(folder) / "backup"
        with tarfile.open(draft, "w:gz", compresslevel=1) as archive:
            mark = Path(folder) / _MARK
            mark.write_text("1\n")
            archive.add(mark, _MARK)
            for name in clusters:
                copy = Path(folder) / f"{name}.db"
                backup(home.store(name), copy)
                archive.add(copy, f"clusters/{name}.db")
            for part in (home.certificates, home.users):
                if part.exists():
                    archive.add(part, part.name)
        draft.chmod(0o600)
        draft.replace(file)
    return clusters


def read_backup(home: Home, file: Path) -> list[str]:
    """Puts a backup into a home that does not run; the names of the clusters it held."""
    home.make()
    with tempfile.TemporaryDirectory(dir=home.path, prefix=".restore-") as folder:
        _extract(file, Path(folder))
        stores = sorted((Path(folder) / "clusters").glob("*.db"))
        if not stores:
            raise StoreError(f"{file} holds no cluster")
        for store in stores:
            check(store)
        for store in stores:
            restore(store, home.store(store.stem))
        keys = Path(folder) / home.certificates.name
        if keys.is_dir():
            for key in keys.iterdir():
                key.replace(home.certificates / key.name)
        people = Path(folder) / home.users.name
        if people.is_file():
            people.replace(home.users)
    return [store.stem for store in stores]


def _extract(file: Path, folder: Path) -> None:
    try:
        with tarfile.open(file, "r:*") as archive:
            archive.extractall(folder, filter="data")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise StoreError(f"{file} is not a backup of ours: {error}") from None
    if not (folder / _MARK).is_file():
        raise StoreError(f"{file} is not a backup of ours: it lacks the mark {_MARK}")
