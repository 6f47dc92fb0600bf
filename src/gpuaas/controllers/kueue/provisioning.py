"""The provisioning-request checks: asks an autoscaler for the nodes of workloads that hold quota, and passes its answer on.

Each workload with such a check has one ProvisioningRequest at a time, with a PodTemplate for each kind of its pods; it
goes when the workload is done or evicted. What is asked and what the answer means is `admission.provisioning`'s. Whether
the checks themselves can be used stands in their condition Active.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import AlreadyExists, ApiError, NotFound
from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    PROVISIONING_CONFIGS,
    PROVISIONING_REQUESTS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import POD_TEMPLATES
from gpuaas.kueue import provisioning
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations.jobs import owner_reference
from gpuaas.kueue.integrations.podsets import CannotStart, FlavorMissing
from gpuaas.kueue.provisioning import CONTROLLER, Inconsistent, Part
from gpuaas.kueue.workload_state import conditions_of, is_true
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, controller_of, is_deleting, key_of
from gpuaas.runtime.writes import write_status

BY_CONFIG = "config"
_LIMIT = 1024  # of an event's words

Configs = dict[str, Object | None]


class Provisioning(Controller):
    """The workloads that such checks are for."""

    name = "kueue-provisioning"
    component = "kueue-provisioning-request-controller"
    tells_series = True
    workers = 2

    def __init__(self, deps: Deps, configured: Configured | None = None) -> None:
        super().__init__(deps)
        of = deps.informers.of
        self._ours: set[str] = set()
        """The checks that are ours: without any, nothing here costs anything."""
        of(ADMISSION_CHECKS).subscribe(self._check_changed)
        self._workloads = self.follow(of(WORKLOADS), self._concerned)
        self._checks = self.follow(of(ADMISSION_CHECKS), self._users_of_check)
        self._configs = self.follow(of(PROVISIONING_CONFIGS), self._users_of_config, by=_standing)
        self._requests = self.follow(of(PROVISIONING_REQUESTS), _owners)
        self._checks.add_index(BY_CONFIG, lambda check: [provisioning.config_named(check)])
        self._flavors = of(RESOURCE_FLAVORS)
        self._followed.append(self._flavors)

    # Whose news concerns whom.

    def _check_changed(self, old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new is not None and (new.get("spec") or {}).get("controllerName") == CONTROLLER:
            self._ours.add(name)
        else:
            self._ours.discard(name)

    def _concerned(self, workload: Mapping[str, Any]) -> Iterable[Key]:
        if self._ours and any(each["name"] in self._ours for each in _checks_of(workload)):
            return (key_of(workload),)
        return ()

    def _users_of_check(self, check: Mapping[str, Any]) -> list[Key]:
        ours = (check.get("spec") or {}).get("controllerName") == CONTROLLER
        return self._users(check["metadata"]["name"]) if ours else []

    def _users(self, check: str) -> list[Key]:
        return [key_of(each) for each in self._workloads.all() if any(c["name"] == check for c in _checks_of(each))]

    def _users_of_config(self, config: Mapping[str, Any]) -> list[Key]:
        checks = self._checks.indexed(BY_CONFIG, config["metadata"]["name"])
        return [key for check in checks for key in self._users(check["metadata"]["name"])]

    # Workloads.

    async def reconcile(self, key: Key) -> Requeue | None:
        workload = self._workloads.get(*key)
        if workload is None or is_deleting(workload):
            return None
        requests = self._requests.owned_by(workload["metadata"]["uid"])
        said = conditions_of(workload)
        if is_true(said.get("Finished")) or is_true(said.get("Evicted")):
            await self._delete(requests)
            return None
        if not is_true(said.get("QuotaReserved")):
            return None
        configs = self._configs_of(workload)
        if configs is not None:
            await self._sync(workload, configs, requests)
        return None

    def _configs_of(self, workload: Object) -> Configs | None:
        """By check; None where one of them cannot be used: its condition says why."""
        found: Configs = {}
        for name in (each["name"] for each in _checks_of(workload)):
            check = self._checks.get("", name)
            if check is None or (check.get("spec") or {}).get("controllerName") != CONTROLLER:
                continue
            if provisioning.parameters_problem(check):
                return None
            found[name] = self._configs.get("", provisioning.config_named(check))
        return found

    async def _sync(self, workload: Object, configs: Configs, requests: Sequence[Object]) -> None:
        try:
            needed = {name: c for name, c in configs.items() if c is not None and provisioning.is_needed(workload, c)}
            current = {name: self._newest(workload, name, config, requests) for name, config in needed.items()}
            workload = await self._judge(workload, configs, current)
        except Inconsistent as error:
            self.recorder.event(WORKLOADS, workload, WARNING, "FailedCreate", str(error)[:_LIMIT])
            return
        kept = {each["metadata"]["name"] for each in current.values() if each is not None}
        await self._delete([each for each in requests if each["metadata"]["name"] not in kept])
        for check in _checks_of(workload):
            config = needed.get(check["name"])
            if config is not None:
                await self._ask(workload, check, config, current[check["name"]])

    def _newest(self, workload: Object, check: str, config: Object, requests: Sequence[Object]) -> Object | None:
        return provisioning.newest(requests, workload["metadata"]["name"], check, config)

    async def _judge(self, workload: Object, configs: Configs, current: Mapping[str, Object | None]) -> Object:
        """Writes what the requests make of the checks; gives the workload with that."""
        now, messages, checks = rfc3339(self.clock.now()), [], []
        for check in _checks_of(workload):
            name, after = check["name"], check
            if name in configs:
                after = provisioning.judged(workload, check, configs[name], current.get(name))
            if after.get("state") != check.get("state"):
                after = {**after, "lastTransitionTime": now}
                words = f"Admission check {name} updated state from {check.get('state')} to {after['state']}"
                messages.append(words + (f" with message: {after['message']}" if after["message"] else ""))
            checks.append(after)
        status = {**(workload.get("status") or {}), "admissionChecks": checks}
        await write_status(self.client, WORKLOADS, workload, status)
        for words in messages:
            self.recorder.event(WORKLOADS, workload, NORMAL, "AdmissionCheckUpdated", words[:_LIMIT])
        return {**workload, "status": status}

    async def _ask(self, workload: Object, check: Object, config: Object, request: Object | None) -> None:
        """Makes the request that is due, and sees that its templates are its own."""
        attempt = provisioning.next_attempt(workload, check, request)
        if attempt is not None:
            request = await self._create(workload, check, config, attempt)
        if request is None:
            return
        for each in (request.get("spec") or {}).get("podSets") or ():
            await self._hand_over(each["podTemplateRef"]["name"], workload, request)

    async def _create(self, workload: Object, check: Object, config: Object, attempt: int) -> Object | None:
        name = provisioning.request_name(workload["metadata"]["name"], check["name"], attempt)
        found = provisioning.parts(workload, config)
        owner = [owner_reference(workload, WORKLOADS)]
        what = ""
        try:
            for part in found:
                what = f'PodTemplate "{provisioning.template_name(name, part.name)}"'
                await self._create_template(workload, name, part, owner)
            what = f'ProvisioningRequest "{name}"'
            request = provisioning.request_for(workload, name, config, found)
            request["metadata"]["ownerReferences"] = owner
            made = await self._make(PROVISIONING_REQUESTS, request)
        except AlreadyExists:
            raise  # made a moment ago: the next look knows it
        except (ApiError, CannotStart, FlavorMissing) as error:
            await self._tell_failure(workload, check, f"Error creating {what}: {error}")
            raise
        words = f'Created ProvisioningRequest: "{name}"'
        self.recorder.event(WORKLOADS, workload, NORMAL, "ProvisioningRequestCreated", words, action="Created")
        return made

    async def _create_template(self, workload: Object, request: str, part: Part, owner: list[Object]) -> None:
        """Its workload's until the request is there: it must not outlive both."""
        template = provisioning.template_for(workload, request, part, lambda name: self._flavors.get("", name))
        template["metadata"]["ownerReferences"] = owner
        try:
            await self._make(POD_TEMPLATES, template)
        except AlreadyExists:
            return  # from an earlier try

    async def _make(self, resource: Resource, obj: Object) -> Object:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self.client.create(resource, whole, obj["metadata"]["namespace"])

    async def _tell_failure(self, workload: Object, check: Object, words: str) -> None:
        self.recorder.event(WORKLOADS, workload, WARNING, "FailedCreate", words[:_LIMIT])
        if check.get("message") == words:
            return
        newest = self._workloads.get(*key_of(workload)) or workload
        changed = {**check, "message": words, "lastTransitionTime": rfc3339(self.clock.now())}
        checks = [changed if each["name"] == check["name"] else each for each in _checks_of(newest)]
        await write_status(self.client, WORKLOADS, newest, {**(newest.get("status") or {}), "admissionChecks": checks})

    async def _hand_over(self, name: str, workload: Object, request: Object) -> None:
        """From now on the template lives as long as its request."""
        namespace = request["metadata"]["namespace"]
        try:
            template = await self.client.get(POD_TEMPLATES, name, namespace)
        except NotFound:
            return
        if (controller_of(template) or {}).get("uid") == request["metadata"]["uid"]:
            return
        others = template["metadata"].get("ownerReferences") or ()
        kept = [each for each in others if each.get("uid") != workload["metadata"]["uid"]]
        owners = [*kept, owner_reference(request, PROVISIONING_REQUESTS)]
        version = template["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version, "ownerReferences": owners}}
        await self.client.patch(POD_TEMPLATES, name, patch, namespace)

    async def _delete(self, requests: Iterable[Object]) -> None:
        for each in requests:
            meta = each["metadata"]
            if is_deleting(each):
                continue
            try:
                await self.client.delete(PROVISIONING_REQUESTS, meta["name"], meta["namespace"], uid=meta["uid"])
            except NotFound:
                continue


class ProvisioningChecks(Controller):
    """The checks: active once their configuration is there."""

    name = "kueue-provisioning-checks"

    def __init__(self, deps: Deps, configured: Configured | None = None) -> None:
        super().__init__(deps)
        of = deps.informers.of
        self._checks = self.follow(of(ADMISSION_CHECKS))
        self._checks.add_index(BY_CONFIG, lambda check: [provisioning.config_named(check)])
        self._configs = self.follow(of(PROVISIONING_CONFIGS), self._users)

    def _users(self, config: Mapping[str, Any]) -> list[Key]:
        return [key_of(check) for check in self._checks.indexed(BY_CONFIG, config["metadata"]["name"])]

    async def reconcile(self, key: Key) -> Requeue | None:
        check = self._checks.get(*key)
        if check is None or (check.get("spec") or {}).get("controllerName") != CONTROLLER:
            return None
        problem = provisioning.parameters_problem(check)
        name = provisioning.config_named(check)
        if not problem and self._configs.get("", name) is None:
            problem = f'{PROVISIONING_CONFIGS.plural}.{PROVISIONING_CONFIGS.group} "{name}" not found'
        found = conditions_of(check).get("Active")
        if found is not None and is_true(found) == (not problem):
            return None
        condition = {
            "type": "Active",
            "status": "False" if problem else "True",
            "reason": "BadParametersRef" if problem else "Active",
            "message": problem or "The admission check is active",
            "observedGeneration": check["metadata"].get("generation", 1),
            "lastTransitionTime": rfc3339(self.clock.now()),
        }
        status = check.get("status") or {}
        others = [each for each in status.get("conditions") or () if each["type"] != "Active"]
        await write_status(self.client, ADMISSION_CHECKS, check, {**status, "conditions": [*others, condition]})
        return None


def _checks_of(workload: Mapping[str, Any]) -> Sequence[Object]:
    return (workload.get("status") or {}).get("admissionChecks") or ()


def _owners(request: Mapping[str, Any]) -> list[Key]:
    meta = request["metadata"]
    return [Key(meta["namespace"], each["name"]) for each in meta.get("ownerReferences") or ()]


def _standing(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes another request of it."""
    spec = config.get("spec") or {}
    resources = frozenset(spec.get("managedResources") or ())
    return spec.get("provisioningClassName"), spec.get("parameters") or {}, resources
