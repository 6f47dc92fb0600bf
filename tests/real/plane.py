"""A real control plane on 127.0.0.1: etcd, kube-apiserver and, when wanted, kube-controller-manager and kube-scheduler.

Everything it makes lies in one folder (certificates, tokens, data, logs, kubeconfig, the pids in `running.json`), so
that a plane started by one process can be stopped by another. Ports are new each time, because a stopped API server
frees its own late. Which programs exist is `parts`' business.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml
from tests.real.certificates import Authority
from tests.real.parts import binary

# Users of the token file besides the admin: plain people, for RBAC by name and by group.
USERS = {"admin": ("system:masters",), "alice": ("team-a",), "bob": ("team-b", "auditors")}

# The controllers whose work belongs to the API as people know it, and which ours has too. What needs machines or a
# cloud (volumes, certificates, addresses, autoscaling) is left to `EVERYTHING`.
CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
    "resourcequota-controller",
    "certificatesigningrequest-signing-controller",
    "validatingadmissionpolicy-status-controller",
    "persistentvolumeclaim-protection-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "job-controller",
    "cronjob-controller",
    "ttl-after-finished-controller",
    "disruption-controller",
    "daemonset-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "service-cidr-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
)
EVERYTHING = ("*",)
START_SECONDS = 60.0


class PlaneFailed(Exception):
    """The control plane did not come up; the message ends with the log of the program that failed."""


@dataclass
class RealControlPlane:
    """Started by `with`, or by `start` and `stop`; with no folder given it lives in a temporary one."""

    folder: Path | None = None
    controllers: Sequence[str] = CONTROLLERS
    scheduler: bool = False
    url: str = field(default="", init=False)
    tokens: dict[str, str] = field(default_factory=dict, init=False)
    home: Path = field(default_factory=Path, init=False)
    authority: Authority = field(init=False)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)

    @property
    def kubeconfig(self) -> Path:
        return self.home / "kubeconfig"

    @property
    def certificate_authority(self) -> Path:
        return self.home / "pki" / "ca.crt"

    @property
    def token(self) -> str:
        return self.tokens["admin"]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        self.home = self.folder or Path(tempfile.mkdtemp(prefix="gpuaas-real-"))
        self.home.mkdir(parents=True, exist_ok=True)
        try:
            self._start_all()
        except BaseException:
            self.stop(keep_folder=True)
            raise

    def stop(self, *, keep_folder: bool = False) -> None:
        # Killed, not asked: the data is thrown away, and an API server whose etcd has gone hangs on a polite request.
        for process in reversed(self._processes.values()):
            process.kill()
            process.wait()
        self._processes.clear()
        (self.home / "running.json").unlink(missing_ok=True)
        if self.folder is None and not keep_folder:
            shutil.rmtree(self.home, ignore_errors=True)

    def _start_all(self) -> None:
        self.authority = Authority.make(self.home / "pki")
        self.tokens = {user: secrets.token_hex(16) for user in USERS}
        etcd = self._start_etcd()
        self.url = f"https://127.0.0.1:{free_port()}"
        self._write_kubeconfig()
        service_account_key = self.authority.service_account_key()
        self._start_apiserver(etcd, service_account_key)
        self._wait_ready()
        if self.controllers:
            self._start_controllers(service_account_key)
        if self.scheduler:
            self.spawn("kube-scheduler", kubeconfig=self.kubeconfig, leader_elect="false", secure_port=free_port())

    def _start_etcd(self) -> str:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.spawn(
            "etcd",
            "--unsafe-no-fsync",
            data_dir=self.home / "etcd",
            listen_client_urls=client,
            advertise_client_urls=client,
            listen_peer_urls=peer,
            initial_advertise_peer_urls=peer,
            initial_cluster=f"default={peer}",
            log_level="warn",
        )
        return client

    def _start_apiserver(self, etcd: str, service_account_key: Path) -> None:
        certificate, key = self.authority.issue("apiserver", "kube-apiserver")
        rows = [f'{self.tokens[user]},{user},{user},"{",".join(groups)}"\n' for user, groups in USERS.items()]
        token_file = self.home / "tokens.csv"
        token_file.touch(mode=0o600)
        token_file.write_text("".join(rows))
        # Without the controller manager nobody makes service accounts, and every pod would be refused.
        admission = {} if self.controllers else {"disable_admission_plugins": "ServiceAccount"}
        self.spawn(
            "kube-apiserver",
            etcd_servers=etcd,
            bind_address="127.0.0.1",
            advertise_address="127.0.0.1",
            endpoint_reconciler_type="none",
            secure_port=self.url.rpartition(":")[2],
            tls_cert_file=certificate,
            tls_private_key_file=key,
            client_ca_file=self.authority.file,
            requestheader_client_ca_file=self.authority.file,
            requestheader_allowed_names="front-proxy",
            requestheader_username_headers="X-Remote-User",
            requestheader_group_headers="X-Remote-Group",
            requestheader_extra_headers_prefix="X-Remote-Extra-",
            token_auth_file=token_file,
            authorization_mode="RBAC",
            service_account_key_file=service_account_key,
            service_account_signing_key_file=service_account_key,
            service_account_issuer="https://kubernetes.default.svc.cluster.local",
            service_cluster_ip_range="10.96.0.0/16",
            enable_priority_and_fairness="false",
            kubelet_preferred_address_types="InternalIP",
            **admission,
        )

    def _start_controllers(self, service_account_key: Path) -> None:
        self.spawn(
            "kube-controller-manager",
            kubeconfig=self.kubeconfig,
            controllers=",".join(self.controllers),
            leader_elect="false",
            secure_port=free_port(),
            service_account_private_key_file=service_account_key,
            root_ca_file=self.authority.file,
            cluster_signing_cert_file=self.authority.file,
            cluster_signing_key_file=self.authority.file.with_suffix(".key"),
            # No kubelet says that a node of a test is well, and nobody shall call it lost meanwhile.
            node_monitor_grace_period="1h",
            node_startup_grace_period="1h",
            # Namespaces are emptied and garbage is collected while a test waits.
            concurrent_namespace_syncs=10,
            kube_api_qps=500,
            kube_api_burst=1000,
        )
        self.wait_for("/api/v1/namespaces/default/serviceaccounts/default")
        self.wait_for("/api/v1/namespaces/default/configmaps/kube-root-ca.crt")

    def spawn(self, name: str, *switches: str, **options: object) -> None:
        """Start one more program of the cluster; it ends with the plane."""
        flags = [f"--{option.replace('_', '-')}={value}" for option, value in options.items()]
        with (self.home / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [binary(name), *switches, *flags], stdout=log, stderr=log, cwd=self.home, start_new_session=True
            )
        pids = {started: process.pid for started, process in self._processes.items()}
        (self.home / "running.json").write_text(json.dumps({"url": self.url, "pids": pids}))

    def _write_kubeconfig(self) -> None:
        cluster = {"server": self.url, "certificate-authority": str(self.certificate_authority)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}} for user, token in self.tokens.items()],
            "contexts": [{"name": user, "context": {"cluster": "real", "user": user}} for user in self.tokens],
            "current-context": "admin",
        }
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def _wait_ready(self) -> None:
        self.wait_for("/readyz")

    def wait_for(self, path: str, url: str = "") -> None:
        """Until the path is answered well, by the API server or by another program at `url`."""
        context = ssl.create_default_context(cafile=str(self.certificate_authority))
        request = urllib.request.Request((url or self.url) + path, headers={"Authorization": f"Bearer {self.token}"})
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self._fail_if_ended()
            with contextlib.suppress(OSError), urllib.request.urlopen(request, context=context, timeout=5):
                return
            time.sleep(0.05)
        raise PlaneFailed(f"{path} did not answer in {START_SECONDS:.0f} s; logs in {self.home}")

    def _fail_if_ended(self) -> None:
        for name, process in self._processes.items():
            if process.poll() is not None:
                log = (self.home / f"{name}.log").read_text(errors="replace")[-2000:]
                raise PlaneFailed(f"{name} ended with {process.returncode}; the end of its log:\n{log}")


def stop_recorded(folder: Path) -> bool:
    """Stop the plane that another process started in `folder`; False when there is none."""
    record = folder / "running.json"
    if not record.exists():
        return False
    for name, pid in reversed(json.loads(record.read_text())["pids"].items()):
        if is_program(pid, name):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder)
    return True


def is_program(pid: int, name: str) -> bool:
    """Whether `pid` is (still) that program: a pid may have gone to somebody else."""
    found = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return Path(found.stdout.partition(" ")[0]).name == name


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
