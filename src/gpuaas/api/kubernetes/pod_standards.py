"""What the pod security standards have against a pod, rule by rule, in the order and the words of the real server.

`BASELINE` and `RESTRICTED` are the rules of the two levels; what a namespace asks for is `pod_security`'s.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

View = Mapping[str, Any]
Violation = tuple[str, str]
"""(reason, detail)"""

KINDS: Final = ("initContainers", "containers", "ephemeralContainers")
_CAPABILITIES: Final = frozenset(
    (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip
_SYSCTLS: Final = frozenset(
    (
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
    )
)  # fmt: skip
_SELINUX_TYPES: Final = frozenset(("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"))
_PROFILES: Final = ("Localhost", "RuntimeDefault")
_VOLUMES: Final = frozenset(
    (
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected",
        "secret",
    )
)  # fmt: skip
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"


def _containers(spec: View) -> Iterator[tuple[str, View, View]]:
    """(name, container, its security context)"""
    for kind in KINDS:
        for container in spec.get(kind) or ():
            yield container.get("name", ""), container, container.get("securityContext") or {}


def _pod_context(spec: View) -> View:
    return spec.get("securityContext") or {}


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def _plural(word: str, items: Sequence[str] | set[str], many: str = "") -> str:
    return word if len(items) == 1 else many or f"{word}s"


def _these(names: Sequence[str]) -> str:
    return f"{_plural('container', names)} {_quoted(names)}"


def _setters(in_pod: bool, names: Sequence[str]) -> str:
    return " and ".join((["pod"] if in_pod else []) + ([_these(names)] if names else []))


def _app_armor(metadata: View, spec: View) -> Violation | None:
    in_pod, names, values = _bad_profiles(spec, "appArmorProfile")
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(_APPARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    bad = [*sorted(values), *annotations]
    if not bad:
        return None
    who = " and ".join(
        [part for part in (_setters(in_pod, names),) if part]
        + ([_plural("annotation", annotations)] if annotations else [])
    )
    return _plural("forbidden AppArmor profile", bad), f"{who} must not set AppArmor profile type to {_quoted(bad)}"


def _bad_profiles(spec: View, field: str) -> tuple[bool, list[str], set[str]]:
    """Whether the pod, and which containers, name a profile that is neither of the two allowed; and the profiles."""
    own = _pod_context(spec).get(field)
    values = {own.get("type", "")} - {*_PROFILES} if own is not None else set()
    in_pod, names = bool(values), []
    for name, _, context in _containers(spec):
        profile = context.get(field)
        if profile is not None and profile.get("type", "") not in _PROFILES:
            names.append(name)
            values.add(profile.get("type", ""))
    return in_pod, names, values


def _capabilities(_metadata: View, spec: View) -> Violation | None:
    added = {n: set((c.get("capabilities") or {}).get("add") or ()) - _CAPABILITIES for n, _, c in _containers(spec)}
    names, bad = [name for name, wrong in added.items() if wrong], sorted(set().union(*added.values()))
    if not names:
        return None
    detail = f"{_these(names)} must not include {_quoted(bad)} in securityContext.capabilities.add"
    return "non-default capabilities", detail


def _host_namespaces(_metadata: View, spec: View) -> Violation | None:
    found = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return ("host namespaces", ", ".join(found)) if found else None


def _host_paths(_metadata: View, spec: View) -> Violation | None:
    names = [volume["name"] for volume in spec.get("volumes") or () if volume.get("hostPath") is not None]
    return ("hostPath volumes", f"{_plural('volume', names)} {_quoted(names)}") if names else None


def _host_ports(_metadata: View, spec: View) -> Violation | None:
    used = {n: [str(p["hostPort"]) for p in c.get("ports") or () if p.get("hostPort")] for n, c, _ in _containers(spec)}
    names, ports = (
        [name for name, found in used.items() if found],
        sorted({p for found in used.values() for p in found}),
    )
    if not names:
        return None
    detail = f"{_these(names)} {_plural('uses', names, 'use')} {_plural('hostPort', ports)} {', '.join(ports)}"
    return "hostPort", detail


def _host_probes(_metadata: View, spec: View) -> Violation | None:
    hosts: dict[str, set[str]] = {}
    for name, container, _ in _containers(spec):
        lifecycle = container.get("lifecycle") or {}
        probes = [container.get(probe) for probe in ("livenessProbe", "readinessProbe", "startupProbe")]
        for handler in (*probes, lifecycle.get("postStart"), lifecycle.get("preStop")):
            for action in ("httpGet", "tcpSocket"):
                host = ((handler or {}).get(action) or {}).get("host")
                if host:
                    hosts.setdefault(name, set()).add(host)
    if not hosts:
        return None
    names, bad = sorted(hosts), sorted(set().union(*hosts.values()))
    uses, what = _plural("uses", names, "use"), _plural("probe or lifecycle host", bad)
    return "probe or lifecycle host", f"{_these(names)} {uses} {what} {_quoted(bad)}"


def _privileged(_metadata: View, spec: View) -> Violation | None:
    names = [name for name, _, context in _containers(spec) if context.get("privileged")]
    return ("privileged", f"{_these(names)} must not set securityContext.privileged=true") if names else None


def _proc_mount(_metadata: View, spec: View) -> Violation | None:
    bad = {n: c["procMount"] for n, _, c in _containers(spec) if c.get("procMount") not in (None, "Default")}
    if not bad:
        return None
    values = _quoted(sorted(set(bad.values())))
    return "procMount", f"{_these(list(bad))} must not set securityContext.procMount to {values}"


def _proc_mount_as_user(metadata: View, spec: View) -> Violation | None:
    return None if spec.get("hostUsers") is False else _proc_mount(metadata, spec)


def _selinux(_metadata: View, spec: View) -> Violation | None:
    asked = [("", _pod_context(spec)), *((name, context) for name, _, context in _containers(spec))]
    wrong = {name: options for name, context in asked if (options := _wrong_selinux(context.get("seLinuxOptions")))}
    if not wrong:
        return None
    data = []
    if types := {options["type"] for options in wrong.values() if "type" in options}:
        data.append(f"{_plural('type', types)} {_quoted(sorted(types))}")
    data += [f"{part} may not be set" for part in ("user", "role") if any(part in o for o in wrong.values())]
    who = _setters("" in wrong, [name for name in wrong if name])
    return "seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"


def _wrong_selinux(options: View | None) -> dict[str, str]:
    found = {part: options[part] for part in ("user", "role") if options.get(part)} if options else {}
    if options and options.get("type", "") not in _SELINUX_TYPES:
        found["type"] = options["type"]
    return found


def _seccomp(_metadata: View, spec: View) -> Violation | None:
    in_pod, names, values = _bad_profiles(spec, "seccompProfile")
    if not values:
        return None
    text = f"{_setters(in_pod, names)} must not set securityContext.seccompProfile.type to {_quoted(sorted(values))}"
    return "seccompProfile", text


def _sysctls(_metadata: View, spec: View) -> Violation | None:
    asked = [sysctl.get("name", "") for sysctl in _pod_context(spec).get("sysctls") or ()]
    bad = [name for name in asked if name not in _SYSCTLS]
    return ("forbidden sysctls", ", ".join(bad)) if bad else None


def _host_process(_metadata: View, spec: View) -> Violation | None:
    in_pod = bool((_pod_context(spec).get("windowsOptions") or {}).get("hostProcess"))
    names = [n for n, _, context in _containers(spec) if (context.get("windowsOptions") or {}).get("hostProcess")]
    if not in_pod and not names:
        return None
    return "hostProcess", f"{_setters(in_pod, names)} must not set securityContext.windowsOptions.hostProcess=true"


def _escalation(_metadata: View, spec: View) -> Violation | None:
    names = [name for name, _, context in _containers(spec) if context.get("allowPrivilegeEscalation") is not False]
    if not names or _on_windows(spec):
        return None
    return (
        "allowPrivilegeEscalation != false",
        f"{_these(names)} must set securityContext.allowPrivilegeEscalation=false",
    )


def _on_windows(spec: View) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def _few_capabilities(_metadata: View, spec: View) -> Violation | None:
    if _on_windows(spec):
        return None
    keeping, adding, bad = [], [], set()
    for name, _, context in _containers(spec):
        capabilities = context.get("capabilities") or {}
        if "ALL" not in (capabilities.get("drop") or ()):
            keeping.append(name)
        if wrong := set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
            adding.append(name)
            bad |= wrong
    details = [f'{_these(keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    if adding:
        names = _quoted(sorted(bad))
        details.append(f"{_these(adding)} must not include {names} in securityContext.capabilities.add")
    return ("unrestricted capabilities", "; ".join(details)) if details else None


def _few_volumes(_metadata: View, spec: View) -> Violation | None:
    bad = [volume for volume in spec.get("volumes") or () if not volume.keys() & _VOLUMES]
    if not bad:
        return None
    names = [volume.get("name", "") for volume in bad]
    kinds = {next((key for key in volume if key != "name"), "unknown") for volume in bad}
    uses, what = _plural("uses", names, "use"), _plural("restricted volume type", kinds)
    return (
        "restricted volume types",
        f"{_plural('volume', names)} {_quoted(names)} {uses} {what} {_quoted(sorted(kinds))}",
    )


def _not_root(_metadata: View, spec: View) -> Violation | None:
    if spec.get("hostUsers") is False:
        return None
    own = _pod_context(spec).get("runAsNonRoot")
    said = {name: context.get("runAsNonRoot") for name, _, context in _containers(spec)}
    wrong = [name for name, value in said.items() if value is False]
    if own is False or wrong:
        return (
            "runAsNonRoot != true",
            f"{_setters(own is False, wrong)} must not set securityContext.runAsNonRoot=false",
        )
    silent = [name for name, value in said.items() if value is None and not own]
    return (
        ("runAsNonRoot != true", f"pod or {_these(silent)} must set securityContext.runAsNonRoot=true")
        if silent
        else None
    )


def _not_user_zero(_metadata: View, spec: View) -> Violation | None:
    in_pod = _pod_context(spec).get("runAsUser") == 0
    names = [name for name, _, context in _containers(spec) if context.get("runAsUser") == 0]
    if spec.get("hostUsers") is False or not (in_pod or names):
        return None
    return "runAsUser=0", f"{_setters(in_pod, names)} must not set runAsUser=0"


def _some_seccomp(metadata: View, spec: View) -> Violation | None:
    if _on_windows(spec):
        return None
    if wrong := _seccomp(metadata, spec):
        return wrong
    if _pod_context(spec).get("seccompProfile") is not None:
        return None
    silent = [name for name, _, context in _containers(spec) if context.get("seccompProfile") is None]
    text = f'pod or {_these(silent)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return ("seccompProfile", text) if silent else None


Check = Callable[[View, View], Violation | None]
BASELINE: Final[tuple[Check, ...]] = (
    _app_armor, _capabilities, _host_namespaces, _host_paths, _host_ports, _host_probes, _privileged,
    _proc_mount_as_user, _selinux, _seccomp, _sysctls, _host_process,
)  # fmt: skip
RESTRICTED: Final[tuple[Check, ...]] = (
    _app_armor, _host_namespaces, _host_ports, _host_probes, _privileged, _selinux, _sysctls, _host_process,
    _escalation, _few_capabilities, _proc_mount, _few_volumes, _not_root, _not_user_zero, _some_seccomp,
)  # fmt: skip
