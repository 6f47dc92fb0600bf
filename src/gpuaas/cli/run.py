"""`gpuaas run` and `gpuaas notebook`: a GPU now, and no YAML."""

import re
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster, print_json

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object

PROCESS = "gpuaas-process"  # the runtime class of processes on this machine
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--name", default="", help="Default: made from the command.")
@click.option("--gpus", default="0", help="How many, or PRODUCT:N (H200:2).")
@click.option("--cpu", default="1", show_default=True)
@click.option("--memory", default="1Gi", show_default=True)
@click.option("--queue", default="", help="The LocalQueue. Default: `default`, or the only one.")
@click.option("--priority", default="", help="A WorkloadPriorityClass.")
@click.option("--image", default="", help="What to run it in; not needed where this machine itself runs it.")
@click.option("--array", default="", help="Run it for each index: 1-100 or 0-9; the index is in JOB_COMPLETION_INDEX.")
@click.option("--seconds", type=int, default=None, help="Simulated nodes: how long it runs.")
@on_a_cluster("json", "yaml")
def run(target: Target, command: tuple[str, ...], **wanted: Any) -> None:
    """Submit COMMAND to a queue:  gpuaas run --gpus 1 -- python train.py"""
    made = target.work(lambda client, namespace: _submit(client, namespace, command, wanted))
    if target.output == "json":
        print_json(made)
    elif target.output == "yaml":
        from gpuaas.machinery.yamltext import dump_yaml

        click.echo(dump_yaml(made))
    else:
        meta = made["metadata"]
        click.echo(f"job/{meta['name']} is in queue {meta['labels'][QUEUE_LABEL]} of namespace {meta['namespace']}")
        click.echo(f"  gpuaas why {meta['name']} · gpuaas logs -f {meta['name']} · gpuaas cancel {meta['name']}")


async def _submit(client: "HttpClient", namespace: str, command: tuple[str, ...], wanted: dict[str, Any]) -> "Object":
    from gpuaas.client.resources import JOBS

    queue = await _queue(client, namespace, wanted["queue"])
    local = await _runs_here(client)
    if not wanted["image"] and not local:
        raise click.UsageError("this cluster runs images: name one with --image")
    job = job_for(command, local=local and not wanted["image"], **{**wanted, "queue": queue})
    return await client.create(JOBS, {**job, "metadata": {**job["metadata"], "namespace": namespace}}, namespace)


def job_for(
    command: tuple[str, ...],
    *,
    queue: str,
    local: bool,
    name: str = "",
    gpus: str = "0",
    cpu: str = "1",
    memory: str = "1Gi",
    priority: str = "",
    image: str = "",
    array: str = "",
    seconds: int | None = None,
) -> "Object":
    """The Job that `gpuaas run` makes."""
    product, _sep, number = gpus.rpartition(":")
    if not number.isdigit():
        raise click.UsageError(f'--gpus "{gpus}": a number, or PRODUCT:NUMBER such as H200:2')
    requests = {"cpu": cpu, "memory": memory, **({"nvidia.com/gpu": number} if int(number) else {})}
    container: dict[str, Any] = {
        "name": "main",
        "image": image or "local-process",
        "command": list(command),
        "resources": {
            "requests": requests,
            **({"limits": {"nvidia.com/gpu": number}} if int(number) else {}),
        },
    }
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if local:
        pod["runtimeClassName"] = PROCESS
    if product:
        pod["nodeSelector"] = {"nvidia.com/gpu.product": product}
    labels = {QUEUE_LABEL: queue, **({PRIORITY_LABEL: priority} if priority else {})}
    metadata: dict[str, Any] = {"labels": labels}
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{_slug(command)}-"
    if seconds is not None:
        metadata["annotations"] = {"gpuaas.dev/run-seconds": str(seconds)}
    spec: dict[str, Any] = {"backoffLimit": 0, "template": {"metadata": {}, "spec": pod}}
    if array:
        spec |= {"completionMode": "Indexed", "completions": _count(array), "parallelism": _count(array)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _count(array: str) -> int:
    found = re.fullmatch(r"(\d+)-(\d+)", array)
    if not found or int(found[2]) < int(found[1]):
        raise click.UsageError(f'--array "{array}": first-last, such as 1-100')
    return int(found[2]) - int(found[1]) + 1


def _slug(command: tuple[str, ...]) -> str:
    """A name from the command: the script's, where there is one."""
    words = [word for word in command if not word.startswith("-")]
    chosen = next((word for word in words[1:] if word.endswith((".py", ".sh"))), words[0] if words else "run")
    stem = chosen.rpartition("/")[2].partition(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:40] or "run"


async def _queue(client: "HttpClient", namespace: str, wanted: str) -> str:
    from gpuaas.client.kueue import LOCAL_QUEUES

    names = [each["metadata"]["name"] for each in (await client.list(LOCAL_QUEUES, namespace)).items]
    if wanted:
        if wanted not in names:
            raise click.UsageError(
                f"there is no queue {wanted} in {namespace}; there are: {', '.join(names) or 'none'}"
            )
        return wanted
    if "default" in names:
        return "default"
    if len(names) == 1:
        return str(names[0])
    if not names:
        raise click.UsageError(f"namespace {namespace} has no queue; ask who owns the quotas, or use -n")
    raise click.UsageError(f"which queue? --queue with one of: {', '.join(names)}")


async def _runs_here(client: "HttpClient") -> bool:
    from gpuaas.base.errors import ApiError
    from gpuaas.client.protocol import Resource

    try:
        await client.get(Resource("node.k8s.io", "v1", "runtimeclasses", False, "RuntimeClass"), PROCESS)
    except ApiError:
        return False
    return True


@click.command()
@click.option("--name", default="notebook", show_default=True)
@click.option("--gpus", default="1", show_default=True)
@click.option("--cpu", default="2", show_default=True)
@click.option("--memory", default="8Gi", show_default=True)
@click.option("--queue", default="", help="The LocalQueue. Default: `default`, or the only one.")
@click.option("--image", default="jupyter/minimal-notebook", show_default=True)
@on_a_cluster("json")
def notebook(target: Target, **wanted: Any) -> None:
    """Ask for a notebook with GPUs."""
    made = target.work(lambda client, namespace: _notebook(client, namespace, wanted))
    if target.output == "json":
        print_json(made)
        return
    meta = made["metadata"]
    click.echo(f"notebook/{meta['name']} is in queue {meta['labels'][QUEUE_LABEL]} of namespace {meta['namespace']}")
    click.echo(f"  gpuaas why notebook/{meta['name']} · gpuaas cancel notebook/{meta['name']}")


async def _notebook(client: "HttpClient", namespace: str, wanted: dict[str, Any]) -> "Object":
    from gpuaas.client.protocol import Resource

    queue = await _queue(client, namespace, wanted["queue"])
    requests = {"cpu": wanted["cpu"], "memory": wanted["memory"], "nvidia.com/gpu": wanted["gpus"]}
    limits = {"nvidia.com/gpu": wanted["gpus"]}
    container = {
        "name": wanted["name"],
        "image": wanted["image"],
        "resources": {"requests": requests, "limits": limits},
    }
    obj = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "Notebook",
        "metadata": {"name": wanted["name"], "namespace": namespace, "labels": {QUEUE_LABEL: queue}},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    return await client.create(Resource("kubeflow.org", "v1", "notebooks", True, "Notebook"), obj, namespace)
