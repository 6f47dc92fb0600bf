"""Devices that pods claim: what they take of the quota, and what cannot be counted, in upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.kueue.dra.claims import Charge, Devices
from gpuaas.kueue.dra.inventory import Listed, backing_classes
from gpuaas.kueue.dra.rules import DeviceMapping, DeviceRules, Source
from gpuaas.kueue.dra.selectors import SelectorError, compiled, facts, selects
from gpuaas.kueue.workloads import Reader
from gpuaas.machinery.schema.cel import Expression

Object = dict[str, Any]
MAPPED = DeviceRules(
    (DeviceMapping("gpus", ("gpu.example.com", "big.example.com")), DeviceMapping("nics", ("nic.example.com",)))
)
MEMORY = DeviceRules(
    (
        DeviceMapping("gpus", ("gpu.example.com",)),
        DeviceMapping("gpu.memory", ("mig.example.com",), (Source("counter", "gpu.example.com", "memory", "true"),)),
    )
)
HERE = "spec.podSets[0].template.spec.resourceClaims[0]"


def asks(device_class: str = "gpu.example.com", count: int = 1, *selectors: str, **more: Any) -> Object:
    chosen = {"selectors": [{"cel": {"expression": each}} for each in selectors]} if selectors else {}
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count, **chosen, **more}
    return {"name": "req", "exactly": exactly}


def template(name: str, *requests: Object) -> Object:
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"spec": {"devices": {"requests": list(requests)}}},
    }


def device_class(name: str, resource: str = "", created: str = "2026-01-01T00:00:00Z", selector: str = "") -> Object:
    spec: Object = {"extendedResourceName": resource} if resource else {}
    if selector:
        spec["selectors"] = [{"cel": {"expression": selector}}]
    return {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}


def devices_of(
    *devices: Object, driver: str = "gpu.example.com", pool: str = "p", of: int = 1, generation: int = 1
) -> Object:
    pools = {"name": pool, "generation": generation, "resourceSliceCount": of}
    return {
        "metadata": {"name": f"{driver}-{pool}"},
        "spec": {"driver": driver, "pool": pools, "devices": list(devices)},
    }


def card(model: str, memory: str = "") -> Object:
    taken = {"consumesCounters": [{"counterSet": "c", "counters": {"memory": {"value": memory}}}]} if memory else {}
    return {"name": model, "attributes": {"model": {"string": model}}, **taken}


def pod(*templates: str, **requests: str) -> Object:
    claims = [{"name": f"c{index}", "resourceClaimTemplateName": name} for index, name in enumerate(templates)]
    return {"containers": [{"name": "c", "resources": {"requests": requests}}], "resourceClaims": claims}


CLASSES = [device_class(name) for name in ("gpu.example.com", "big.example.com", "nic.example.com", "mig.example.com")]


def read(
    spec: Object,
    *templates: Object,
    rules: DeviceRules = MAPPED,
    classes: list[Object] = CLASSES,
    slices: tuple[Object, ...] = (),
    count: int = 1,
) -> tuple[dict[str, int], str]:
    """What one pod of the workload takes, and what is wrong with it."""
    reader = Reader(devices=Devices(rules, Listed(classes, templates, slices)))
    pod_sets = [{"name": "main", "count": count, "template": {"spec": spec}}]
    meta = {"name": "w", "namespace": "team", "uid": "u", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
    found = reader.workload({"metadata": meta, "spec": {"queueName": "q", "podSets": pod_sets}})
    return dict(found.pod_sets[0].requests), found.problem


A100, H100 = card("a100", "40Gi"), card("h100", "80Gi")


@pytest.mark.parametrize(
    ("spec", "templates", "more", "expected"),
    [
        pytest.param(pod("two", cpu="1"), [template("two", asks(count=2))], {}, {"cpu": 1000, "gpus": 2}, id="a template's devices come on top"),
        pytest.param(pod("two", "two"), [template("two", asks(count=2))], {}, {"gpus": 4}, id="each claim counts"),
        pytest.param(pod("mixed"), [template("mixed", asks(), asks("big.example.com", 2), asks("nic.example.com"))], {}, {"gpus": 3, "nics": 1}, id="classes of one resource add up"),
        pytest.param(pod("a100"), [template("a100", asks("gpu.example.com", 1, 'device.attributes["gpu.example.com"].model == "a100"'))], {"slices": (devices_of(A100, H100),)}, {"gpus": 1}, id="a selector that finds one"),
        pytest.param(pod(**{"example.com/gpu": "2"}), [], {"classes": [device_class("gpu.example.com", "example.com/gpu")]}, {"gpus": 2}, id="by the name of a resource, as the resource of its class"),
        pytest.param(pod(**{"example.com/other": "2"}), [], {"classes": [device_class("else", "example.com/other")]}, {"example.com/other": 2}, id="and by that name where nothing stands for the class"),
        pytest.param(pod(**{"example.com/gpu": "2"}), [], {"classes": [device_class("gpu.example.com", "example.com/gpu")], "rules": DeviceRules(MAPPED.mapped, extended=False)}, {"example.com/gpu": 2}, id="unless that is switched off"),
        pytest.param(pod("mig"), [template("mig", asks("mig.example.com", 2))], {"rules": MEMORY, "slices": (devices_of(A100, H100),)}, {"gpu.memory": 2 * 80 * 2**30}, id="a counter: the most any of them takes, for each"),
        pytest.param(pod("mig"), [template("mig", asks("mig.example.com", 1, 'device.attributes["gpu.example.com"].model == "a100"'))], {"rules": MEMORY, "slices": (devices_of(A100, H100),)}, {"gpu.memory": 40 * 2**30}, id="of those that are selected"),
        pytest.param(pod("mig", "one"), [template("mig", asks("mig.example.com")), template("one", asks())], {"rules": MEMORY, "slices": (devices_of(A100),)}, {"gpu.memory": 40 * 2**30, "gpus": 1}, id="whole ones beside"),
        pytest.param(pod("one"), [], {"rules": DeviceRules(counts=False, refuses=False)}, {}, id="nothing, where nobody counts and nobody minds"),
    ],
)  # fmt: skip
def test_what_claims_take_of_the_quota(
    spec: Object, templates: list[Object], more: Any, expected: dict[str, int]
) -> None:
    assert read(spec, *templates, **more) == (expected, "")


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"name": "req", "firstAvailable": [{"name": "a"}]}, "devices.requests[0]: Invalid value: null: ResourceClaimTemplate t: FirstAvailable device selection is not supported"),
        ({"name": "req"}, "devices.requests[0]: Invalid value: null: ResourceClaimTemplate t: Exactly must be set if FirstAvailable is nil"),
        (asks(adminAccess=True), "devices.requests[0].exactly.adminAccess: Invalid value: null: ResourceClaimTemplate t: AdminAccess is not supported"),
        (asks(allocationMode="All"), "devices.requests[0].exactly.allocationMode: Invalid value: \"All\": ResourceClaimTemplate t: AllocationMode 'All' is not supported"),
        (asks("other.example.com"), 'resourceClaimTemplateName: Not found: "DeviceClass other.example.com is not mapped in DRA configuration for podset main"'),
        (asks("gpu.example.com", 2, 'device.driver == "gpu.example.com"'), "devices.requests[0].exactly.selectors: Internal error: ResourceClaimTemplate t: insufficient matching devices for CEL selector in DeviceClass gpu.example.com: 1 device(s) match in the cluster but 2 requested"),
        (asks("gpu.example.com", 1, 'device.attributes["x"].none == 1'), "devices.requests[0].exactly.selectors: Invalid value: null: ResourceClaimTemplate t: CEL evaluation failed for DeviceClass gpu.example.com: no such key: none"),
    ],
)  # fmt: skip
def test_what_cannot_be_counted_is_refused(request_: Object, words: str) -> None:
    assert read(pod("t"), template("t", request_), slices=(devices_of(A100),)) == ({}, f"{HERE}.{words}")


def test_a_claim_of_its_own_is_refused_and_a_template_nobody_has_is_named() -> None:
    claim = {"containers": [], "resourceClaims": [{"name": "c", "resourceClaimName": "mine"}]}
    assert read(claim)[1] == "KueueDRAIntegration feature does not support use of resource claims"
    assert read(claim, rules=DeviceRules(counts=False))[1] == (
        "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
    )
    assert read(pod("none"))[1] == (
        f"{HERE}: Internal error: failed to get claim spec for ResourceClaimTemplate none in podset main: "
        'ResourceClaimTemplate.resource.k8s.io "none" not found'
    )


def test_no_device_serves_two_requests() -> None:
    both = template("t", asks("gpu.example.com", 1, "true"), asks("gpu.example.com", 1, "true"))
    assert "0 device(s) match in the cluster but 1 requested" in read(pod("t"), both, slices=(devices_of(A100),))[1]
    assert read(pod("t"), both, slices=(devices_of(A100, H100),)) == ({"gpus": 2}, "")


def test_a_class_says_itself_which_devices_it_has() -> None:
    classes = [device_class("gpu.example.com", selector='device.driver == "other.example.com"')]
    one = template("t", asks("gpu.example.com", 1, "true"))
    assert "0 device(s) match" in read(pod("t"), one, classes=classes, slices=(devices_of(A100),))[1]


@pytest.mark.parametrize(
    ("slices", "words"),
    [
        ((), "insufficient matching devices for counter driver: 0 device(s) match but 1 requested"),
        ((devices_of(A100, of=2),), "insufficient matching devices for counter driver: 0 device(s) match but 1 requested"),
        ((devices_of(card("plain")),), 'matched devices have no consumesCounters entry for counter "memory"'),
        ((devices_of(A100, driver="other.example.com"),), "insufficient matching devices for counter driver: 0 device(s) match but 1 requested"),
    ],
    ids=["no devices", "half a pool", "no such counter", "another driver's"],
)  # fmt: skip
def test_counters_need_devices_that_have_them(slices: tuple[Object, ...], words: str) -> None:
    mig = template("mig", asks("mig.example.com"))
    assert (
        read(pod("mig"), mig, rules=MEMORY, slices=slices)[1] == f"{HERE}.devices.requests[0]: Internal error: {words}"
    )


def test_the_newest_generation_of_a_pool_counts() -> None:
    slices = (devices_of(H100, generation=1), devices_of(A100, generation=2))
    assert read(pod("mig"), template("mig", asks("mig.example.com")), rules=MEMORY, slices=slices)[0] == {
        "gpu.memory": 40 * 2**30
    }


def test_a_class_with_counters_cannot_be_asked_for_by_name() -> None:
    classes = [device_class("mig.example.com", "example.com/mig")]
    assert read(pod(**{"example.com/mig": "1"}), rules=MEMORY, classes=classes)[1] == (
        'spec.podSets[0].template.spec.containers[0]: Invalid value: "example.com/mig": extended resource example.com/mig '
        "resolves to DeviceClass mig.example.com with counters configured; use ResourceClaimTemplates with CEL selectors "
        "for counter-based quota"
    )


SHARED = DeviceRules(
    (DeviceMapping("gpu.memory", ("mig.example.com",), (Source("capacity", "gpu.example.com", "memory", "true"),)),),
    shares=True,
)


def shared(memory: str = "80Gi", **policy: Any) -> Object:
    offer = {"value": memory, **({"requestPolicy": policy} if policy else {})}
    return {"name": f"d{memory.lower()}", "allowMultipleAllocations": True, "capacity": {"memory": offer}}


STEPS = {"min": "4Gi", "step": "4Gi", "max": "32Gi"}


@pytest.mark.parametrize(
    ("asked", "devices", "gigabytes"),
    [
        pytest.param("10Gi", [shared()], 10, id="as asked for"),
        pytest.param(None, [shared("40Gi"), shared("80Gi")], 80, id="all of it where nothing is asked, of the largest"),
        pytest.param(None, [shared(default="8Gi"), shared(default="16Gi")], 16, id="or what devices give unasked"),
        pytest.param("10Gi", [shared(validValues=["8Gi", "16Gi", "32Gi"])], 16, id="the next value there is"),
        pytest.param("10Gi", [shared(validRange=STEPS)], 12, id="the next step"),
        pytest.param("1Gi", [shared(validRange=STEPS)], 4, id="at least the least"),
        pytest.param("20Gi", [shared(validValues=["8Gi"]), shared(validValues=["32Gi"])], 32, id="of those that give so much"),
    ],
)  # fmt: skip
def test_what_is_taken_of_a_capacity(asked: str | None, devices: list[Object], gigabytes: int) -> None:
    more = {"capacity": {"requests": {"memory": asked}}} if asked else {}
    one, two = template("one", asks("mig.example.com", 1, **more)), template("two", asks("mig.example.com", 2, **more))
    slices = (devices_of(*devices, shared("1Gi", validValues=["1Gi"])),)
    assert read(pod("one"), one, rules=SHARED, slices=slices) == ({"gpu.memory": gigabytes * 2**30}, "")
    assert read(pod("two"), two, rules=SHARED, slices=slices) == ({"gpu.memory": 2 * gigabytes * 2**30}, "")


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (shared(validValues=["8Gi"]), "Invalid value: null: capacity request cannot be satisfied by any matched device's RequestPolicy for dimension \"memory\""),
        (shared(validRange={"max": "8Gi"}), "Invalid value: null: capacity request cannot be satisfied by any matched device's RequestPolicy for dimension \"memory\""),
        (card("plain"), 'Internal error: matched devices have no capacity dimension "memory"'),
    ],
)  # fmt: skip
def test_a_capacity_that_nobody_gives(device: Object, words: str) -> None:
    much = template("much", asks("mig.example.com", 1, capacity={"requests": {"memory": "10Gi"}}))
    assert (
        read(pod("much"), much, rules=SHARED, slices=(devices_of(device),))[1] == f"{HERE}.devices.requests[0]: {words}"
    )


def test_half_a_device_is_refused_only_where_it_is_one() -> None:
    classes = [device_class("gpu.example.com", "example.com/gpu")]
    assert read(pod(**{"example.com/gpu": "500m"}), classes=classes)[1].endswith(
        'requests.example.com/gpu: Invalid value: "500m": extended resource quantity must be an integer'
    )
    assert read(pod(**{"example.com/not": "500m"}), classes=classes) == ({"example.com/not": 1}, "")


def test_the_class_made_last_answers_to_a_name_and_the_first_by_name_of_those_made_together() -> None:
    old, new, also = device_class("b", "x/y", "2026-01-01T00:00:00Z"), device_class("z", "x/y", "2026-01-02T00:00:00Z"), device_class("c", "x/y", "2026-01-02T00:00:00Z")  # fmt: skip
    assert backing_classes([old, new]) == {"x/y": "z"}
    assert backing_classes([old, new, also]) == {"x/y": "c"}


def test_a_charge_adds_and_takes_the_place_of_what_it_stands_for() -> None:
    assert Charge({}).applied({}) == {}
    assert read(pod("one", **{"example.com/gpu": "2"}), template("one", asks()), classes=[device_class("gpu.example.com", "example.com/gpu")]) == ({"gpus": 3}, "")  # fmt: skip


SEEN = facts("gpu.example.com", {"attributes": {"model": {"string": "a100"}, "driver": {"version": "1.2.3"}, "x.io/n": {"int": 3}, "ecc": {"bool": True}}, "capacity": {"memory": {"value": "40Gi"}}})  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('device.driver == "gpu.example.com"', True),
        ('device.attributes["gpu.example.com"].model == "a100"', True),
        ('device.attributes["x.io"].n > 3', False),
        ('device.attributes["gpu.example.com"].ecc', True),
        ('"none.example.com" in device.attributes', False),
        ('has(device.attributes["none.example.com"].model)', False),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0', True),
        ('device.attributes["gpu.example.com"].driver.isGreaterThan(semver("1.0.0"))', True),
    ],
)
def test_what_an_expression_sees_of_a_device(text: str, expected: bool) -> None:
    found = compiled(text)
    assert isinstance(found, Expression)
    assert selects([found], SEEN) is expected


def test_expressions_that_cannot_be_told() -> None:
    assert compiled("1") == "must evaluate to bool or the unknown type, not int"
    assert "undefined field 'name'" in str(compiled("device.name"))
    missing = compiled('device.attributes["none.example.com"].model == "x"')
    assert isinstance(missing, Expression)
    with pytest.raises(SelectorError, match="no such key: model"):
        selects([missing], SEEN)
