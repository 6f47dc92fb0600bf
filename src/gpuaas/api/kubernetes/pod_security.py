"""The pod security standards: what a namespace's labels say of its pods, and what of a pod is against that.

The rules are those of the latest version, whichever version a label names: that is only repeated in the answer.
Who is asked when is the server's business.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpuaas.api.kubernetes.pod_standards import BASELINE, KINDS, RESTRICTED, View, Violation
from gpuaas.base.fielderrors import FieldError, invalid, keyed

PREFIX: Final = "pod-security.kubernetes.io/"
LEVELS: Final = ("privileged", "baseline", "restricted")
_PRIVILEGED: Final = "privileged"


@dataclass(frozen=True, slots=True)
class Standard:
    level: str = _PRIVILEGED
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


@dataclass(frozen=True, slots=True)
class Policy:
    enforce: Standard = Standard()
    warn: Standard = Standard()


def policy_of(labels: Mapping[str, str] | None) -> tuple[Policy, list[FieldError]]:
    """What a namespace asks of its pods, and what of its labels cannot be read: then the strictest is enforced."""
    said = {key.removeprefix(PREFIX): value for key, value in (labels or {}).items() if key.startswith(PREFIX)}
    if not said:
        return Policy(), []
    errors: list[FieldError] = []
    found: dict[str, Standard] = {}
    for mode in ("enforce", "audit", "warn"):
        level, version = said.get(mode, _PRIVILEGED), said.get(f"{mode}-version", "latest")
        if level not in LEVELS:
            errors.append(_invalid(mode, level, f"must be one of {', '.join(LEVELS)}"))
            level = "restricted" if mode == "enforce" else _PRIVILEGED
        if version != "latest" and not re.fullmatch(r"v1\.(0|[1-9][0-9]*)", version):
            errors.append(_invalid(f"{mode}-version", version, 'must be "latest" or "v1.x"'))
            version = "latest"
        found[mode] = Standard(level, version)
    enforce, warn = found["enforce"], found["warn"]
    if "warn" not in said and said.get("enforce") in LEVELS and _rank(enforce) > _rank(warn):
        warn = Standard(enforce.level, warn.version if "warn-version" in said else enforce.version)
    return Policy(enforce, warn), errors


def _invalid(label: str, value: str, text: str) -> FieldError:
    return invalid(keyed("metadata.labels", f"{PREFIX}{label}"), value, text)


def _rank(standard: Standard) -> int:
    return LEVELS.index(standard.level)


def is_stricter(new: Standard, old: Standard) -> bool:
    """Whether pods that were let in under the old standard may be against the new one."""
    if new == old or new.level == _PRIVILEGED:
        return False
    return new.version != old.version or _rank(new) > _rank(old)


def violations(standard: Standard, metadata: View, spec: View) -> list[Violation]:
    checks = {_PRIVILEGED: (), "baseline": BASELINE, "restricted": RESTRICTED}[standard.level]
    return [found for check in checks if (found := check(metadata, spec)) is not None]


def told(found: Iterable[Violation]) -> str:
    return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in found)


def warnings_of_pods(namespace: str, standard: Standard, pods: Iterable[View]) -> list[str]:
    """What is told of the pods that are there already when a namespace gets stricter."""
    by_reason: dict[str, list[str]] = {}
    for pod in pods:
        found = violations(standard, pod.get("metadata") or {}, pod.get("spec") or {})
        if found:
            reasons = ", ".join(reason for reason, _ in found)
            by_reason.setdefault(reasons, []).append(pod["metadata"]["name"])
    if not by_reason:
        return []
    head = f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{standard}"'
    return [head, *sorted(f"{_named(names)}: {reasons}" for reasons, names in by_reason.items())]


def _named(names: Sequence[str]) -> str:
    others = len(names) - 1
    return min(names) + (f" (and {others} other pod{'s' if others > 1 else ''})" if others else "")


def is_significant(pod: View, old: View) -> bool:
    """Only other containers or images make a pod be looked at again."""
    spec, before = pod.get("spec") or {}, old.get("spec") or {}
    return any(_images(spec, kind) != _images(before, kind) for kind in KINDS)


def _images(spec: View, kind: str) -> list[tuple[str, str]]:
    return [(each.get("name", ""), each.get("image", "")) for each in spec.get(kind) or ()]
