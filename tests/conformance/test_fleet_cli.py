"""`gpuaas fleet` from create to delete, as an administrator types it."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.kubectls import NONE_HERE, found
from tests.conformance.test_fleet_seeds import Shell

pytestmark = [pytest.mark.kubectl, pytest.mark.skipif(not found(), reason=NONE_HERE)]
EXAMPLE = Path(__file__).parents[2] / "examples" / "placement-all"


@pytest.fixture
def sh(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path / "work")
    yield shell
    shell.run("gpuaas fleet delete")


def refused(sh: Shell, line: str) -> str:
    done = sh.run(line)
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_a_fleet_from_create_to_delete(sh: Shell) -> None:
    assert "made nothing in" in refused(sh, "gpuaas fleet delete")
    sh("gpuaas fleet create --name hub --name east --name west --no-join --gpus 2")
    assert "has a fleet already" in refused(sh, "gpuaas fleet create")
    sh.environment["KUBECONFIG"] = "kubeconfig-hub"
    assert "no cluster has joined" in sh("gpuaas fleet list")
    assert "leads to the hub itself" in refused(sh, "gpuaas fleet join x --from kubeconfig-hub")
    assert "KEY=VALUE" in refused(sh, "gpuaas fleet join east --from kubeconfig-east --label gold")
    for name in ("east", "west"):
        joined = sh(f"gpuaas fleet join {name} --from kubeconfig-{name} --label region={name}")
        assert f"cluster {name} has joined: available, MultiKueue connected=True" in joined
    rows = {row["name"]: row for row in json.loads(sh("gpuaas fleet list -o json"))}
    assert rows["east"]["labels"]["region"] == "east"
    assert (rows["east"]["freeGpus"], rows["east"]["totalGpus"], rows["east"]["problem"]) == (2, 2, "")
    assert rows["local-cluster"]["local"] is True
    sh(f"kubectl apply -f {EXAMPLE}/kueue-resources.yaml")

    sh("gpuaas fleet drain west")
    configured = "kubectl get multikueueconfig default -o jsonpath='{.spec.clusters[*]}'"
    sh.until(configured, lambda seen: seen == "east")
    described = sh("gpuaas fleet describe west")
    assert re.search(r"State: +available, drained", described)
    assert re.search(r"Placements: +none selects it", described)
    sh(f"kubectl apply -f {EXAMPLE}/job.yaml")
    sh.until("kubectl get workloads -o jsonpath='{.items[*].status.clusterName}'", lambda seen: seen == "east")
    assert "jobs run there" in refused(sh, "gpuaas fleet leave east")
    sh("gpuaas fleet drain west --undo")
    sh.until(configured, lambda seen: sorted(seen.split()) == ["east", "west"])
    sh.until("kubectl get jobs", lambda seen: "Complete" in seen)

    sh("gpuaas support-bundle --out bundle.tar.gz")
    with tarfile.open(sh.folder / "bundle.tar.gz") as archive:
        names = {each.name.removeprefix("gpuaas-support/") for each in archive}
    assert {"doctor.json", "objects/workloads.kueue.x-k8s.io.json", "gpuaas.log"} <= names
    assert not any("secret" in each for each in names)

    sh("gpuaas fleet leave west")
    assert "west" not in sh("kubectl get managedclusters,multikueueclusters,ns -o name")
    left = sh("kubectl --kubeconfig kubeconfig-west get clusterroles,clusterrolebindings,clusterqueues -o name")
    assert not re.search("multikueue|klusterlet|cluster-queue", left)
    assert "there is no cluster west" in refused(sh, "gpuaas fleet describe west")
    sh("gpuaas fleet delete")
    assert not (sh.folder / "fleet-home").exists()
    assert not list(sh.folder.glob("kubeconfig-*"))
