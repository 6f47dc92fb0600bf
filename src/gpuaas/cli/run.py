"""`gpuaas run`: a GPU now, and no YAML. What it shares with `gpuaas notebook` has public names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpuaas.cli.context import Target, WrongOption, on_a_cluster
from gpuaas.cli.get import unmanaged
from gpuaas.cli.show import show

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object

PROCESS = "gpuaas-process"  # the runtime class of processes on this machine
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
_LARGEST_ARRAY = 100_000


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--name", default="", help="What to call the job.  [default: made from the command]")
@click.option(
    "--profile", default="", help="The hardware profile, by name or display name: gpuaas profiles lists them."
)
@click.option("--gpus", default="0", show_default=True, help="How many for each pod, or PRODUCT:N (H200:2).")
@click.option("--cpu", default="1", show_default=True, help="CPUs for each pod.")
@click.option("--memory", default="1Gi", show_default=True, help="Memory for each pod.")
@click.option("--gpu-memory", default="", help="Memory of each GPU it may use, such as 12Gi.  [default: its share]")
@click.option("--queue", default="", help="The LocalQueue to wait in.  [default: default, or the only one]")
@click.option("--priority", default="", help="The WorkloadPriorityClass that says how urgent it is.")
@click.option("--image", default="", help="The image to run it in; not needed where this machine itself runs it.")
@click.option(
    "-w",
    "--workdir",
    default="",
    help="The folder it starts in.  [default: this one, where this machine itself runs it; else the image's]",
)
@click.option(
    "--array", default="", help="Run it many times at once: 1-100; JOB_COMPLETION_INDEX says which, counted from 0."
)
@click.option("--seconds", type=click.IntRange(min=0), default=None, help="On simulated nodes: how long it runs.")
@click.option("--dry-run", is_flag=True, help="Only show the manifest it would submit, as YAML unless -o json.")
@click.option("--wait", is_flag=True, help="Return when it ends, with the command's exit code.")
@click.option("-f", "--follow", is_flag=True, help="Return when it ends, and show what it writes until then.")
@on_a_cluster()
def run(target: Target, command: tuple[str, ...], dry_run: bool, wait: bool, follow: bool, **wanted: Any) -> None:
    """Submit COMMAND to a queue:  gpuaas run --gpus 1 -- python train.py"""
    _check_program(command[0])
    left = left_to_profile(("gpus", "cpu", "memory")) if wanted["profile"] else {}
    check_amounts(wanted)
    wanted |= left
    if dry_run and (wait or follow):
        raise WrongOption("--dry-run submits nothing: there is nothing to wait for or to follow")

    async def submit(client: "HttpClient", namespace: str) -> "Object":
        from gpuaas.base.errors import AlreadyExists
        from gpuaas.client.resources import JOBS

        job = await _job(client, namespace, command, wanted, here=target.is_here())
        try:
            made = await client.create(JOBS, job, namespace, dry_run=dry_run)
        except AlreadyExists as error:
            raise click.ClickException(f"{error.message}; take another --name, or: {_cancel(job)}") from None
        return job if dry_run else made

    made = target.work(submit)
    if dry_run:
        show("json" if target.output == "json" else "yaml", made, lambda: None)
        return
    made, meta = unmanaged(made), made["metadata"]
    words = f"job/{meta['name']} is in queue {meta['labels'][QUEUE_LABEL]} of namespace {meta['namespace']}"
    target.show(made, lambda: click.echo(words, err=wait or follow))
    if wait or follow:
        from gpuaas.cli.wait import until_done

        place, name = meta["namespace"], meta["name"]
        raise SystemExit(target.work(lambda client, _: until_done(client, place, name, follow=follow)))
    if target.output == "text":
        at = f" -n {meta['namespace']}" if target.namespace else ""
        name = meta["name"]
        click.echo(f"  gpuaas why {name}{at} · gpuaas logs -f {name}{at} · gpuaas cancel {name}{at}")


def _cancel(job: "Object") -> str:
    return f"gpuaas cancel {job['metadata']['name']} -n {job['metadata']['namespace']}"


async def _job(
    client: "HttpClient", namespace: str, command: tuple[str, ...], wanted: dict[str, Any], *, here: bool
) -> "Object":
    profile = await profile_for(client, namespace, wanted.pop("profile"), wanted["queue"])
    queue = profile.queue or await queue_for(client, namespace, wanted["queue"])
    await _check_priority(client, wanted["priority"])
    executors, products = await nodes_of(client, namespace)
    local = not wanted["image"] and "process" in executors
    warn_of_images(wanted["image"], executors)
    if not wanted["image"] and not executors:
        raise click.ClickException(
            "this cluster runs images: name one with --image (a user needs none who may see that its nodes are "
            "simulated, gpuaas user add --fleet, or may run processes on its machine, gpuaas user add --processes)"
        )
    product, number = parse_gpus(wanted["gpus"] or "0")
    if local:
        wanted["workdir"] = folder_for(wanted["workdir"], here=here)
    gpus = f"{product_named(product, products)}:{number}" if product else wanted["gpus"]
    job = job_for(command, local=local, **{**wanted, "queue": queue, "gpus": gpus})
    job = {**job, "metadata": {**job["metadata"], **profile.metadata, "namespace": namespace}}
    return profile.applied(("batch", "jobs"), job, namespace)


@dataclass(frozen=True, slots=True)
class Picked:
    """What a hardware profile decides; nothing where none was asked for."""

    queue: str = ""
    metadata: "Object" = field(default_factory=dict)
    profile: "Object | None" = None

    def applied(self, kind: tuple[str, str], obj: "Object", namespace: str) -> "Object":
        from gpuaas.cli import profile_choice

        return obj if self.profile is None else profile_choice.applied(self.profile, kind, obj, namespace)


async def profile_for(client: "HttpClient", namespace: str, wanted: str, queue: str) -> Picked:
    if not wanted:
        return Picked()
    from gpuaas.cli import profile_choice

    profile = await profile_choice.chosen(client, namespace, wanted)
    own = profile_choice.queue_of(profile)
    if queue and own and queue != own:
        raise WrongOption(f'--queue {queue}: hardware profile "{wanted}" goes through queue {own}; leave --queue out')
    queue = own and await queue_for(client, namespace, own)
    return Picked(queue, {"annotations": profile_choice.naming(profile)}, profile)


def left_to_profile(options: Sequence[str]) -> dict[str, str]:
    """The amounts that were not asked for: the profile's numbers apply."""
    context = click.get_current_context()
    given = {name: context.get_parameter_source(name) for name in options}
    return {name: "" for name, source in given.items() if source is ParameterSource.DEFAULT}


def _check_program(first: str) -> None:
    """Options of the command are the command's; what comes before it would have been ours."""
    if first.startswith("-"):
        known = {name for each in run.params for name in each.opts if name.startswith("--")}
        near = get_close_matches(first.partition("=")[0], sorted(known), n=1)
        raise click.NoSuchOption(first, possibilities=near)
    if not first.strip():
        raise WrongOption(f'the command is "{first}": a program was expected, such as: -- python train.py')


def warn_of_images(image: str, executors: set[str]) -> None:
    if image and executors == {"process"}:
        click.echo(
            f"warning: this machine runs processes, and no image {image}: it will wait for a node that does", err=True
        )


def folder_for(asked: str, *, here: bool) -> str:
    """Where a process starts: where the person is, as long as that is the machine that runs it."""
    if not here:
        return asked
    folder = Path(asked).expanduser() if asked else Path.cwd()
    if not folder.is_dir():
        raise WrongOption(f"--workdir {asked}: there is no such folder")
    return str(folder.absolute())


def parse_gpus(asked: str) -> tuple[str, int]:
    product, _, number = asked.rpartition(":")
    if not re.fullmatch("[0-9]+", number) or (":" in asked and not product):
        raise WrongOption(f'--gpus "{asked}": a number, or PRODUCT:NUMBER such as H200:2')
    if product and not int(number):
        raise WrongOption(f'--gpus "{asked}": at least one of a product; without GPUs, leave --gpus out')
    return product, int(number)


def check_amounts(wanted: dict[str, Any]) -> None:
    from gpuaas.base.quantity import parse_quantity

    parse_gpus(wanted["gpus"])
    for option, example in (("cpu", "2 or 500m"), ("memory", "8Gi"), ("gpu_memory", "12Gi")):
        if not wanted.get(option) and option == "gpu_memory":
            continue
        try:
            if parse_quantity(wanted[option]).nano < 0:
                raise ValueError
        except ValueError:
            raise WrongOption(f'--{option.replace("_", "-")} "{wanted[option]}": an amount such as {example}') from None


def product_named(asked: str, known: set[str]) -> str:
    """The product's whole name: H200 is NVIDIA-H200, L4 is NVIDIA-L4 and not NVIDIA-L40S."""
    if not known:
        click.echo(f"warning: no GPU nodes can be seen: {asked} is taken for a product's whole name", err=True)
    if asked in known or not known:
        return asked
    words = [each for each in sorted(known) if asked.upper() in each.upper().split("-")]
    parts = words or [each for each in sorted(known) if asked.upper() in each.upper()]
    if len(parts) == 1:
        return parts[0]
    which = f"which {asked}?" if parts else f"no node has a GPU called {asked};"
    raise click.ClickException(f"{which} there are: {', '.join(parts or sorted(known))}")


def job_for(
    command: tuple[str, ...],
    *,
    queue: str,
    local: bool,
    name: str = "",
    gpus: str = "0",
    cpu: str = "1",
    memory: str = "1Gi",
    gpu_memory: str = "",
    priority: str = "",
    image: str = "",
    workdir: str = "",
    array: str = "",
    seconds: int | None = None,
) -> "Object":
    """The Job that `gpuaas run` makes."""
    product, number = parse_gpus(gpus or "0")
    gpu = {"nvidia.com/gpu": str(number)} if number else {}
    amounts = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    container: dict[str, Any] = {
        "name": "main",
        "image": image or ("local-process" if local else "simulated"),
        "command": [word.replace("$$", "$$$$") for word in command],  # Kubernetes makes one $ of two
        "resources": {"requests": {**amounts, **gpu}, **({"limits": gpu} if gpu else {})},
    }
    if workdir:
        container["workingDir"] = workdir
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
    wishes = {"gpuaas.dev/run-seconds": str(seconds)} if seconds is not None else {}
    wishes |= {"gpuaas.dev/gpu-memory": gpu_memory} if gpu_memory else {}
    pods = {"annotations": wishes} if wishes else {}
    spec: dict[str, Any] = {"backoffLimit": 0, "template": {"metadata": pods, "spec": pod}}
    if array:
        spec |= {"completionMode": "Indexed", "completions": _count(array), "parallelism": _count(array)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _count(array: str) -> int:
    found = re.fullmatch(r"([0-9]+)-([0-9]+)", array)
    if not found or int(found[2]) < int(found[1]):
        raise WrongOption(f'--array "{array}": first-last, such as 1-100')
    count = int(found[2]) - int(found[1]) + 1
    if count > _LARGEST_ARRAY:
        raise WrongOption(f'--array "{array}": {count} are too many; Kubernetes takes {_LARGEST_ARRAY}')
    return count


def _slug(command: tuple[str, ...]) -> str:
    """A name from the command: the script's, where there is one."""
    words = [word for word in command if not word.startswith("-")]
    chosen = next((word for word in words[1:] if word.endswith((".py", ".sh"))), words[0] if words else "run")
    stem = chosen.rpartition("/")[2].partition(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:40] or "run"


async def queue_for(client: "HttpClient", namespace: str, wanted: str) -> str:
    from gpuaas.client.kueue import LOCAL_QUEUES

    names = [each["metadata"]["name"] for each in (await client.list(LOCAL_QUEUES, namespace)).items]
    if wanted:
        if wanted not in names:
            raise click.ClickException(
                f"there is no queue {wanted} in {namespace}; there are: {', '.join(names) or 'none'}"
            )
        return wanted
    if "default" in names:
        return "default"
    if len(names) == 1:
        return str(names[0])
    if not names:
        elsewhere = await _with_queues(client)
        there = f"there are queues in: {elsewhere} (-n)" if elsewhere else "ask who owns the quotas, or use -n"
        raise click.ClickException(f"namespace {namespace} has no queue; {there}")
    raise click.ClickException(f"which queue? --queue with one of: {', '.join(names)}")


async def _with_queues(client: "HttpClient") -> str:
    """The namespaces that have queues, as far as one may see."""
    from gpuaas.base.errors import ApiError
    from gpuaas.client.kueue import LOCAL_QUEUES

    try:
        found = {each["metadata"]["namespace"] for each in (await client.list(LOCAL_QUEUES)).items}
    except ApiError:
        return ""
    return ", ".join(sorted(found)[:20])


async def _check_priority(client: "HttpClient", wanted: str) -> None:
    from gpuaas.base.errors import ApiError
    from gpuaas.client.kueue import PRIORITY_CLASSES

    if not wanted:
        return
    try:
        names = [each["metadata"]["name"] for each in (await client.list(PRIORITY_CLASSES)).items]
    except ApiError:
        return  # who may not look finds out from the queue
    if wanted not in names:
        raise click.ClickException(f"there is no priority {wanted}; there are: {', '.join(names) or 'none'}")


async def nodes_of(client: "HttpClient", namespace: str) -> tuple[set[str], set[str]]:
    """Who runs pods here (`process`, `simulated`; nothing on other clusters), and the GPU products there are."""
    from gpuaas.base.errors import ApiError
    from gpuaas.views import read

    try:
        found = await read.node_types(client)
    except ApiError:
        executors = {"process"} if await _may_run_processes(client, namespace) else set()
        return executors, await _products(client)
    return set(found.executors), set(found.products)


async def _products(client: "HttpClient") -> set[str]:
    """For who may not see nodes but use a queue: sums of GPUs name the products."""
    from gpuaas.base.errors import ApiError
    from gpuaas.views import read

    try:
        return {row.product for row in await read.gpus(client, details=False)}
    except ApiError:
        return set()


async def _may_run_processes(client: "HttpClient", namespace: str) -> bool:
    """For users who may not list nodes: the right to run processes implies a node that runs them."""
    from gpuaas.base.errors import ApiError
    from gpuaas.client.protocol import Resource

    reviews = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", False, "SelfSubjectAccessReview")
    asked = {"namespace": namespace, "verb": "use", "group": "node.k8s.io", "resource": "runtimeclasses"}
    review = {"apiVersion": reviews.api_version, "kind": reviews.kind}
    try:
        answer = await client.create(
            reviews, {**review, "spec": {"resourceAttributes": {**asked, "name": PROCESS}}, "metadata": {}}
        )
    except ApiError:
        return False
    return bool((answer.get("status") or {}).get("allowed"))
