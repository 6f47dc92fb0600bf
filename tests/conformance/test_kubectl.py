"""Real kubectl, unmodified, against a server started as people start it: every verb they use, and what it prints.

Each test has its own namespace; each kubectl found on the machine runs them all. What both servers print is compared
line by line in tests/real; here stands what must hold even where no real server can be built.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.conformance.kubectls import NONE_HERE, Kubectl, eventually, found

pytestmark = pytest.mark.kubectl

CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: colours, labels: {app: paint}}
data: {sky: blue, grass: green}
"""
# No scheduler takes these pods, so they stay as the tests leave them.
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: solo, labels: {app: solo}}
spec: {schedulerName: by-hand, containers: [{name: main, image: busybox}]}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: by-hand
      containers: [{name: nginx, image: "nginx:1"}, {name: side, image: "side:1"}]
"""
WIDGETS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.%(group)s}
spec:
  group: %(group)s
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, shortNames: [%(short)s]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            description: What the widget should be.
            properties:
              size: {type: integer, minimum: 1, maximum: 9, default: 3}
              colour: {type: string, enum: [red, green]}
            x-kubernetes-validations: [{rule: "self.size != 4", message: four is no size}]
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
READY = json.dumps({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a running server."""
    if not found():
        pytest.skip(NONE_HERE)
    folder = tmp_path_factory.mktemp("gpuaas") / "home"
    environment = {**os.environ, "GPUAAS_HOME": str(folder)}
    gpuaas = [sys.executable, "-m", "gpuaas"]
    subprocess.run([*gpuaas, "up", "-d"], env=environment, check=True, capture_output=True, timeout=60)
    try:
        yield folder
    finally:
        subprocess.run([*gpuaas, "down"], env=environment, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module", params=found() or [None], ids=lambda path: path.parent.name if path else "none")
def program(request: pytest.FixtureRequest) -> Path:
    if request.param is None:
        pytest.skip(NONE_HERE)
    return Path(request.param)


@pytest.fixture
def kubectl(
    home: Path,
    program: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Kubectl:
    """kubectl in a namespace of the test's own, which is the default of its kubeconfig."""
    plain = re.sub(r"[^a-z0-9]+", "-", f"{request.node.name.removeprefix('test_')}".lower()).strip("-")
    namespace = f"t-{plain[:40].strip('-')}-{found().index(program)}"
    config = yaml.safe_load((home / "kubeconfig").read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(yaml.safe_dump(config))
    cache = tmp_path_factory.getbasetemp() / f"kubectl-home-{found().index(program)}"
    cache.mkdir(exist_ok=True)
    made = Kubectl(program, kubeconfig, cache, tmp_path, namespace)
    assert made(f"create namespace {namespace}") == f"namespace/{namespace} created\n"
    return made


def test_apply_creates_keeps_and_changes(kubectl: Kubectl) -> None:
    file = kubectl.write("c.yaml", CONFIG)
    assert kubectl(f"apply -f {file}") == "configmap/colours created\n"
    assert kubectl(f"apply -f {file}") == "configmap/colours unchanged\n"
    kubectl.write("c.yaml", CONFIG.replace("blue", "grey").replace(", grass: green", ""))
    assert kubectl(f"apply -f {file}") == "configmap/colours configured\n"
    assert json.loads(kubectl("get cm colours -o json"))["data"] == {"sky": "grey"}


def test_apply_server_side_knows_who_owns_what(kubectl: Kubectl) -> None:
    file = kubectl.write("c.yaml", CONFIG)
    assert kubectl(f"apply --server-side -f {file}") == "configmap/colours serverside-applied\n"
    kubectl.write("c.yaml", CONFIG.replace("blue", "grey"))
    said = kubectl.refused(f"apply --server-side --field-manager=other -f {file}")
    assert 'conflict with "kubectl": .data.sky' in said
    assert kubectl(f"apply --server-side --field-manager=other --force-conflicts -f {file}") == (
        "configmap/colours serverside-applied\n"
    )
    managers = json.loads(kubectl("get cm colours -o json --show-managed-fields"))["metadata"]["managedFields"]
    owners = {each["manager"]: each["fieldsV1"].get("f:data", {}) for each in managers}
    assert "f:sky" in owners["other"]
    assert "f:sky" not in owners["kubectl"]


def test_create_and_a_second_time(kubectl: Kubectl) -> None:
    assert kubectl("create configmap a --from-literal=k=v") == "configmap/a created\n"
    said = kubectl.refused("create configmap a")
    assert said == 'error: failed to create configmap: configmaps "a" already exists\n'
    assert kubectl("create deployment web --image=nginx") == "deployment.apps/web created\n"
    generated = POD.replace("name: solo", "generateName: solo-", 1)
    assert re.fullmatch(r"pod/solo-[a-z0-9]{5} created\n", kubectl("create -f -", generated))


def test_get_in_every_form(kubectl: Kubectl) -> None:
    kubectl("create -f -", POD)
    plain, wide = kubectl.table("get pods"), kubectl.table("get pods -o wide")
    assert plain[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert plain[1][:4] == wide[1][:4] == ["solo", "0/1", "Pending", "0"]
    assert wide[0] == [*plain[0], "IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
    assert wide[1][5:] == ["<none>"] * 4
    assert kubectl("get pod solo -o name") == "pod/solo\n"
    assert kubectl("get pod solo -o jsonpath='{.spec.containers[0].image}'") == "busybox"
    assert kubectl("get pods -o custom-columns=N:.metadata.name,P:.status.phase") == "N      P\nsolo   Pending\n"
    as_json, as_yaml = json.loads(kubectl("get pod solo -o json")), yaml.safe_load(kubectl("get pod solo -o yaml"))
    assert as_json == as_yaml
    assert as_json["spec"]["restartPolicy"] == "Always"
    assert kubectl("get pods --no-headers -o name") == "pod/solo\n"


def test_get_selects(kubectl: Kubectl) -> None:
    for name, tier in (("a", "front"), ("b", "back")):
        kubectl(f"create configmap {name}")
        kubectl(f"label cm {name} tier={tier}")
    assert kubectl("get cm -l tier=front -o name") == "configmap/a\n"
    assert kubectl("get cm -l 'tier in (front,back)' -o name") == "configmap/a\nconfigmap/b\n"
    assert kubectl("get cm -l 'tier,tier!=front' -o name") == "configmap/b\n"
    assert kubectl("get cm --field-selector metadata.name=b -o name") == "configmap/b\n"
    kubectl("create -f -", POD)
    assert kubectl("get pods --field-selector status.phase=Pending,spec.nodeName= -o name") == "pod/solo\n"
    assert kubectl("get pods --field-selector status.phase=Running -o name") == ""
    assert kubectl.table("get cm a --show-labels")[1][-1] == "tier=front"
    rows = kubectl.table("get cm -A")
    assert rows[0] == ["NAMESPACE", "NAME", "DATA", "AGE"]
    assert {(row[0], row[1]) for row in rows} >= {(kubectl.namespace, "a"), ("kube-system", "kube-root-ca.crt")}
    said = kubectl.refused("get cm -l 'tier in (front'")
    assert "unable to parse requirement: found '', expected: ',' or ')'" in said


def test_get_watches(kubectl: Kubectl) -> None:
    kubectl("create configmap a")
    with kubectl.watching("get cm -w -o jsonpath='{.metadata.name}={.data.k} '") as printed:
        printed("a=")
        kubectl("create configmap b --from-literal=k=1")
        kubectl('patch cm b --type=merge -p \'{"data":{"k":"2"}}\'')
        text = printed("b=2")
    assert text.index("b=1") < text.index("b=2")


def test_describe_ends_with_events(kubectl: Kubectl) -> None:
    kubectl("create -f -", POD)
    uid = kubectl("get pod solo -o jsonpath='{.metadata.uid}'")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "solo.1"},
        "involvedObject": {"kind": "Pod", "name": "solo", "namespace": kubectl.namespace, "uid": uid},
        "reason": "Tried",
        "message": "it was tried",
        "type": "Warning",
        "source": {"component": "somebody"},
    }
    kubectl("create -f -", json.dumps(event))
    text = kubectl("describe pod solo")
    assert re.search(r"^Status: +Pending$", text, re.MULTILINE)
    assert re.search(r"^ +Warning +Tried +<?\w+>? +somebody +it was tried$", text, re.MULTILINE), text
    assert re.search(r"Warning +Tried +[Pp]od/solo +it was tried", kubectl("events"))
    assert re.search(r"Warning +Tried +pod/solo +it was tried", kubectl("get events"))


def test_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl("create configmap a")
    assert kubectl("label cm a team=red") == "configmap/a labeled\n"
    assert "'team' already has a value (red), and --overwrite is false" in kubectl.refused("label cm a team=blue")
    assert kubectl("label cm a team=blue --overwrite") == "configmap/a labeled\n"
    assert kubectl("label cm a team-") == "configmap/a unlabeled\n"
    assert kubectl("annotate cm a note='two words'").startswith("configmap/a annotate")  # 1.27 says no more
    metadata = json.loads(kubectl("get cm a -o json"))["metadata"]
    assert metadata["annotations"] == {"note": "two words"}
    assert "labels" not in metadata


def test_patch_in_three_ways(kubectl: Kubectl) -> None:
    kubectl("create -f -", DEPLOYMENT)
    assert kubectl('patch deploy web --type merge -p \'{"spec":{"paused":true}}\'') == "deployment.apps/web patched\n"
    json_patch = '[{"op":"replace","path":"/spec/replicas","value":3},{"op":"remove","path":"/spec/paused"}]'
    assert kubectl(f"patch deploy web --type json -p '{json_patch}'") == "deployment.apps/web patched\n"
    strategic = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:2"}]}}}}'
    assert kubectl(f"patch deploy web -p '{strategic}'") == "deployment.apps/web patched\n"
    # kubectl compares with what it read before: while the controllers still write, something else may have changed.
    again = (kubectl(f"patch deploy web -p '{strategic}'") for _ in range(20))
    assert "deployment.apps/web patched (no change)\n" in again
    spec = json.loads(kubectl("get deploy web -o json"))["spec"]
    images = {each["name"]: each["image"] for each in spec["template"]["spec"]["containers"]}
    assert (spec["replicas"], "paused" in spec, images) == (3, False, {"nginx": "nginx:1", "side": "side:2"})


def test_patch_status_changes_status_and_nothing_else(kubectl: Kubectl) -> None:
    kubectl("create -f -", POD)
    both = json.dumps({"metadata": {"labels": {"app": "x"}}, "status": {"phase": "Succeeded"}})
    kubectl(f"patch pod solo --subresource=status --type=merge -p '{both}'")
    kubectl('patch pod solo --type=merge -p \'{"status":{"phase":"Failed"}}\'')
    pod = json.loads(kubectl("get pod solo -o json"))
    assert (pod["status"]["phase"], pod["metadata"]["labels"]) == ("Succeeded", {"app": "solo"})
    assert kubectl("get pod solo --subresource=status -o jsonpath='{.status.phase}'") == "Succeeded"


def test_edit_with_a_scripted_editor(kubectl: Kubectl) -> None:
    kubectl("create -f -", CONFIG)
    assert kubectl("edit cm colours", KUBE_EDITOR="sed -i s/blue/pink/") == "configmap/colours edited\n"
    assert kubectl("get cm colours -o jsonpath={.data.sky}") == "pink"
    assert "Edit cancelled, no changes made." in kubectl.run("edit cm colours", KUBE_EDITOR="true").stderr


def test_replace(kubectl: Kubectl) -> None:
    file = kubectl.write("c.yaml", CONFIG)
    assert 'configmaps "colours" not found' in kubectl.refused(f"replace -f {file}")
    kubectl(f"create -f {file}")
    old = kubectl("get cm colours -o yaml")
    kubectl.write("c.yaml", CONFIG.replace("blue", "black"))
    assert kubectl(f"replace -f {file}") == "configmap/colours replaced\n"
    assert "the object has been modified" in kubectl.refused("replace -f -", old)


def test_diff_shows_what_apply_would_change_and_changes_nothing(kubectl: Kubectl) -> None:
    file = kubectl.write("c.yaml", CONFIG)
    kubectl(f"apply -f {file}")
    assert kubectl(f"diff -f {file}") == ""
    kubectl.write("c.yaml", CONFIG.replace("blue", "grey"))
    text = kubectl.differs(f"diff -f {file}")
    assert "-  sky: blue\n" in text
    assert "+  sky: grey\n" in text
    assert kubectl("get cm colours -o jsonpath={.data.sky}") == "blue"


def test_scale(kubectl: Kubectl) -> None:
    kubectl("create -f -", DEPLOYMENT)
    assert kubectl("scale deploy web --replicas=3") == "deployment.apps/web scaled\n"
    assert "expected replicas" in kubectl.refused("scale deploy web --replicas=1 --current-replicas=9").lower()
    assert kubectl("get deploy web --subresource=scale -o jsonpath='{.spec.replicas}'") == "3"
    eventually(lambda: kubectl("get pods -l app=web -o name"), lambda names: names.count("\n") == 3)


def test_wait_for_a_condition_and_for_deletion(kubectl: Kubectl) -> None:
    kubectl("create -f -", POD)
    with kubectl.watching("wait pod/solo --for=condition=Ready --timeout=20s") as printed:
        kubectl(f"patch pod solo --subresource=status --type=merge -p '{READY}'")
        printed("pod/solo condition met")
    assert kubectl("wait pod/solo --for=jsonpath='{.status.phase}'=Running --timeout=5s") == "pod/solo condition met\n"
    kubectl("create configmap a")
    kubectl('patch cm a --type=merge -p \'{"metadata":{"finalizers":["example.com/held"]}}\'')
    kubectl("delete cm a --wait=false")
    assert "timed out waiting for the condition on configmaps/a" in kubectl.refused(
        "wait cm/a --for=delete --timeout=1s"
    )
    kubectl('patch cm a --type=merge -p \'{"metadata":{"finalizers":null}}\'')
    kubectl("wait cm/a --for=delete --timeout=20s")
    assert kubectl.refused("get cm a") == 'Error from server (NotFound): configmaps "a" not found\n'
    kubectl("create configmap a")
    said = kubectl.refused("wait cm/a --for=condition=Never --timeout=1s")
    assert "timed out waiting for the condition on configmaps/a" in said


def test_delete_by_name_label_and_all(kubectl: Kubectl) -> None:
    for name in ("a", "b", "c"):
        kubectl(f"create secret generic {name}")
    kubectl("label secret b x=y")
    assert re.fullmatch(r'secret "a" deleted.*\n', kubectl("delete secret a"))
    assert re.fullmatch(r'secret "b" deleted.*\n', kubectl("delete secret -l x=y"))
    assert re.fullmatch(r'secret "c" deleted.*\n', kubectl("delete secret --all"))
    assert kubectl.run("get secrets").stderr == f"No resources found in {kubectl.namespace} namespace.\n"
    assert kubectl.refused("delete secret a") == 'Error from server (NotFound): secrets "a" not found\n'


@pytest.mark.parametrize("cascade", ["orphan", "foreground", "background"])
def test_delete_cascades_as_told(kubectl: Kubectl, cascade: str) -> None:
    kubectl("create configmap owner")
    uid = kubectl("get cm owner -o jsonpath={.metadata.uid}")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": True}
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "ownerReferences": [owner]}}
    kubectl("create -f -", json.dumps(child))
    kubectl(f"delete cm owner --cascade={cascade}")
    if cascade == "orphan":
        assert "ownerReferences" not in json.loads(kubectl("get cm child -o json"))["metadata"]
    else:
        kubectl("wait cm/child --for=delete --timeout=20s")
        assert kubectl.refused("get cm child") == 'Error from server (NotFound): configmaps "child" not found\n'


def test_explain(kubectl: Kubectl) -> None:
    text = kubectl("explain pod.spec.containers.resources")
    assert re.search(r"^KIND: +Pod$", text, re.MULTILINE)
    assert re.search(r"^  limits\s+<map\[string\]Quantity>$", text, re.MULTILINE)
    assert re.search(
        r"^ +nominalQuota\s", kubectl("explain clusterqueue.spec.resourceGroups --recursive"), re.MULTILINE
    )
    assert "nonesuch" in kubectl.refused("explain pod.spec.nonesuch")


def test_api_resources_and_versions(kubectl: Kubectl) -> None:
    rows = {row[0]: row for row in kubectl.table("api-resources --no-headers")}
    assert rows["deployments"] == ["deployments", "deploy", "apps/v1", "true", "Deployment"]
    assert rows["clusterqueues"][-3:] == ["kueue.x-k8s.io/v1beta2", "false", "ClusterQueue"]
    versions = kubectl("api-versions").split()
    assert {"v1", "apps/v1", "batch/v1", "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"} <= set(versions)
    assert versions == sorted(versions)


def test_auth_and_impersonation(kubectl: Kubectl) -> None:
    assert kubectl("auth can-i create pods") == "yes\n"
    assert kubectl.run("auth can-i create pods --as=ann").stdout == "no\n"
    assert re.search(r"^\*\.\* +\[\] +\[\] +\[\*\]$", kubectl("auth can-i --list"), re.MULTILINE)
    said = kubectl.refused("get cm --as=ann")
    assert (
        f'User "ann" cannot list resource "configmaps" in API group "" in the namespace "{kubectl.namespace}"' in said
    )
    kubectl("create rolebinding ann --clusterrole=view --user=ann")
    assert "configmap/kube-root-ca.crt" in kubectl("get cm --as=ann -o name")
    assert re.search(r"^configmaps .*\[get list watch\]$", kubectl("auth can-i --list --as=ann"), re.MULTILINE)


def test_a_token_is_its_account(kubectl: Kubectl) -> None:
    kubectl("create serviceaccount robot")
    token = kubectl("create token robot").strip()
    assert token.count(".") == 2
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
    as_robot = kubectl.write("robot.yaml", yaml.safe_dump(config))
    name = f"system:serviceaccount:{kubectl.namespace}:robot"
    assert f'User "{name}" cannot list resource "secrets"' in kubectl.refused(f"get secrets --kubeconfig={as_robot}")
    assert f'User "{name}" cannot list' in kubectl.refused(f"get pods --kubeconfig={as_robot}")


def test_a_secret_from_files(kubectl: Kubectl) -> None:
    kubectl.write("key.txt", "s3cret")
    assert kubectl("create secret generic s --from-file=key.txt --from-literal=user=ann") == "secret/s created\n"
    assert json.loads(kubectl("get secret s -o json"))["data"] == {"key.txt": "czNjcmV0", "user": "YW5u"}
    assert "s3cret" not in kubectl("describe secret s")


def test_kustomize(kubectl: Kubectl) -> None:
    kubectl.write("c.yaml", CONFIG)
    kubectl.write("kustomization.yaml", "resources: [c.yaml]\nnamePrefix: my-\n")
    assert kubectl("apply -k .") == "configmap/my-colours created\n"
    assert kubectl("apply -f -", kubectl("kustomize .")) == "configmap/my-colours unchanged\n"


def test_a_list_is_applied_item_by_item(kubectl: Kubectl) -> None:
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in ("a", "b")]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    assert kubectl("apply -f -", listed) == "configmap/a created\nconfigmap/b created\n"


def test_logs_of_what_has_not_run_are_empty_and_of_nothing_an_error(kubectl: Kubectl) -> None:
    kubectl("create -f -", POD)
    assert kubectl("logs solo") == ""
    assert 'pods "nobody" not found' in kubectl.refused("logs nobody")


def test_rollout_status_follows_a_deployment(kubectl: Kubectl) -> None:
    kubectl("create -f -", DEPLOYMENT)
    pods = eventually(lambda: kubectl("get pods -l app=web -o name"), lambda names: names.count("\n") == 2)
    with kubectl.watching("rollout status deploy/web --timeout=20s") as printed:
        printed("Waiting for deployment")
        for pod in pods.split():
            kubectl(f"patch {pod} --subresource=status --type=merge -p '{READY}'")
        printed('deployment "web" successfully rolled out')
    assert kubectl.table("get deploy web")[1][:4] == ["web", "2/2", "2", "2"]
    assert "1 " in kubectl("rollout history deploy/web")


def test_a_definition_is_served_at_once(kubectl: Kubectl) -> None:
    group, short = f"{kubectl.namespace}.example.com", f"w{kubectl.namespace[-1]}"
    name = f"widgets.{group}"
    assert kubectl("create -f -", WIDGETS % {"group": group, "short": short}) == (
        f"customresourcedefinition.apiextensions.k8s.io/{name} created\n"
    )
    eventually(lambda: kubectl(f"get crd {name} -o yaml"), lambda text: "type: Established" in text)
    kubectl(f"wait crd/{name} --for=condition=Established --timeout=10s")  # 1.27 cannot wait while there are none
    widget = f"apiVersion: {group}/v1\nkind: Widget\nmetadata: {{name: a}}\nspec: {{%s}}\n"
    assert kubectl("apply -f -", widget % "colour: red") == f"widget.{group}/a created\n"
    assert kubectl.table(f"get {name}") == [["NAME", "SIZE"], ["a", "3"]]
    assert "What the widget should be." in kubectl(f"explain widgets.spec --api-version={group}/v1")
    refused = {
        "size: 12": "spec.size: Invalid value: 12: spec.size in body should be less than or equal to 9",
        "size: x": 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
        "colour: blue": 'spec.colour: Unsupported value: "blue": supported values: "red", "green"',
        "size: 4": "spec: Invalid value: four is no size",
        "sise: 4": 'unknown field "spec.sise"',
    }
    for spec, words in refused.items():
        assert words in kubectl.refused("apply -f -", widget % spec), spec
    assert kubectl(f"get {name} a -o jsonpath='{{.spec}}'") == '{"colour":"red","size":3}'
    kubectl(f"delete crd {name}")
    assert "could not find the requested resource" in kubectl.refused(f"get --raw /apis/{group}/v1/widgets")


# What is refused, and what is said: the field, what was found, what is allowed.
WRONG = {
    "a value that is none of the choices": (
        POD.replace("schedulerName: by-hand", "restartPolicy: Sometimes"),
        'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
    ),
    "a name with capitals": (
        POD.replace("name: solo", "name: Solo", 1),
        'metadata.name: Invalid value: "Solo": a lowercase RFC 1123 subdomain must consist of lower case',
    ),
    "a container without an image": (
        POD.replace(", image: busybox", ""),
        "spec.containers[0].image: Required value",
    ),
    "a port out of range": (
        POD.replace("image: busybox", "image: busybox, ports: [{containerPort: 99999}]"),
        "spec.containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive",
    ),
    "more requested than allowed": (
        POD.replace("image: busybox", 'image: busybox, resources: {requests: {cpu: "2"}, limits: {cpu: "1"}}'),
        'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    "a field nobody knows": (
        POD.replace("image: busybox", "imagee: busybox"),
        'unknown field "spec.containers[0].imagee"',
    ),
    "a word for a number": (
        DEPLOYMENT.replace("replicas: 2", "replicas: two"),
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    "a selector that misses its template": (
        DEPLOYMENT.replace("labels: {app: web}", "labels: {app: other}"),
        '`selector` does not match template `labels`',
    ),
    "a negative count": (
        DEPLOYMENT.replace("replicas: 2", "replicas: -1"),
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    ),
    "a label nobody may have": (
        CONFIG.replace("app: paint", 'app: "-x-"'),
        'metadata.labels: Invalid value: "-x-": a valid label must be an empty string or consist of alphanumeric',
    ),
    "a config map's key with a slash": (
        CONFIG.replace("sky:", "the/sky:"),
        "data[the/sky]: Invalid value: \"the/sky\": a valid config key must consist of alphanumeric characters",
    ),
    "a quantity that is none": (
        POD.replace("image: busybox", "image: busybox, resources: {limits: {cpu: lots}}"),
        "quantities must match the regular expression",
    ),
    "a kind nobody serves": (
        "apiVersion: v1\nkind: Nosuch\nmetadata: {name: colours}\n",
        'no matches for kind "Nosuch" in version "v1"',
    ),
    "a queue with a policy that does not exist": (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: colours-of-nobody}\n"
        "spec: {queueingStrategy: Sometimes}\n",
        'spec.queueingStrategy: Unsupported value: "Sometimes": supported values: "StrictFIFO", "BestEffortFIFO"',
    ),
    "a queue name with capitals": (
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata: {name: colours}\n"
        "spec: {clusterQueue: Bad_Name}\n",
        'spec.clusterQueue: Invalid value: "Bad_Name"',
    ),
}  # fmt: skip


def test_apply_of_something_wrong_says_what_and_stores_nothing(kubectl: Kubectl) -> None:
    kinds = "pods,deployments,configmaps,clusterqueues,localqueues"
    before = kubectl(f"get {kinds} -o name")
    said = {what: kubectl.refused("apply -f -", manifest) for what, (manifest, _) in WRONG.items()}
    assert {what: text for what, text in said.items() if WRONG[what][1] not in text} == {}
    assert kubectl(f"get {kinds} -o name") == before


def test_an_update_to_something_wrong_leaves_what_was_there(kubectl: Kubectl) -> None:
    kubectl("apply -f -", DEPLOYMENT)
    said = kubectl.refused("apply -f -", DEPLOYMENT.replace("matchLabels: {app: web}", "matchLabels: {app: other}"))
    assert "spec.selector: Invalid value:" in said
    assert "field is immutable" in said
    assert kubectl("get deploy web -o jsonpath='{.spec.selector.matchLabels}'") == '{"app":"web"}'
