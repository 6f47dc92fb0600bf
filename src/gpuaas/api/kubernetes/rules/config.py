"""ConfigMaps, Secrets and ServiceAccounts: keys that are file names, a size limit, and what `immutable` means."""

import json
from base64 import b64decode, b64encode
from functools import lru_cache
from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import unchanged
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, forbidden, invalid, keyed, required, too_long
from gpuaas.base.names import is_config_key

_LIMIT: Final = 1024 * 1024
_IMMUTABLE: Final = "field is immutable when `immutable` is set"
_REDACTED: Final = "<secret contents redacted>"
_ACCOUNT: Final = "kubernetes.io/service-account.name"


class ConfigMap(Behaviour):
    generation = False

    def validate(self, obj: View) -> list[FieldError]:
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        errors: list[FieldError] = []
        for key in data:
            errors += _key("data", key)
            if key in binary:
                errors.append(invalid(keyed("data", key), key, "duplicate of key present in binaryData"))
        for key in binary:
            errors += _key("binaryData", key)
        size = sum(len(value.encode()) for value in data.values()) + sum(map(_decoded_size, binary.values()))
        if size > _LIMIT:
            errors.append(too_long("[]", _LIMIT))
        return errors

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        return _kept(obj, old, ("data", "binaryData"))


class Secret(Behaviour):
    generation = False
    field_selectors = ("type",)

    def default(self, obj: Object) -> None:
        texts = obj.pop("stringData", None)
        if texts:
            encoded = {key: b64encode(value.encode()).decode() for key, value in texts.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}
        if not obj.get("type"):
            obj["type"] = "Opaque"

    def validate(self, obj: View) -> list[FieldError]:
        data = obj.get("data") or {}
        errors = [error for key in data for error in _key("data", key)]
        if sum(map(_decoded_size, data.values())) > _LIMIT:
            errors.append(too_long("data", _LIMIT))
        return errors + _by_type(obj, data)

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        return unchanged(obj.get("type", ""), old.get("type", ""), "type") + _kept(obj, old, ("data",))

    def fields(self, obj: View) -> dict[str, str]:
        return {"type": obj.get("type", "")}


class ServiceAccount(Behaviour):
    generation = False

    def prepare_create(self, obj: Object) -> None:
        _without_uids(obj)

    def prepare_update(self, obj: Object, old: View) -> None:
        _without_uids(obj)


def _without_uids(account: Object) -> None:
    """Only the names of secrets are kept."""
    if account.get("secrets"):
        account["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in account["secrets"]]


def _key(field: str, key: str) -> list[FieldError]:
    messages = _key_messages(key) if len(key) <= 253 else is_config_key(key)
    return [invalid(keyed(field, key), key, message) for message in messages]


@lru_cache(maxsize=4_096)
def _key_messages(key: str) -> tuple[str, ...]:
    return tuple(is_config_key(key))


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")


def _kept(obj: View, old: View, fields: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    errors = [] if obj.get("immutable") else [forbidden("immutable", _IMMUTABLE)]
    return errors + [
        forbidden(field, _IMMUTABLE) for field in fields if (obj.get(field) or {}) != (old.get(field) or {})
    ]


def _by_type(obj: View, data: View) -> list[FieldError]:
    def missing(*keys: str) -> list[FieldError]:
        return [required(keyed("data", key)) for key in keys if key not in data]

    match obj.get("type"):
        case "kubernetes.io/service-account-token":
            if not ((obj.get("metadata") or {}).get("annotations") or {}).get(_ACCOUNT):
                return [required(keyed("metadata.annotations", _ACCOUNT))]
        case "kubernetes.io/dockercfg":
            return _json_object(data, ".dockercfg")
        case "kubernetes.io/dockerconfigjson":
            return _json_object(data, ".dockerconfigjson")
        case "kubernetes.io/basic-auth":
            return missing("username", "password") if not {"username", "password"} & set(data) else []
        case "kubernetes.io/ssh-auth":
            return [] if data.get("ssh-privatekey") else [required(keyed("data", "ssh-privatekey"))]
        case "kubernetes.io/tls":
            return missing("tls.crt", "tls.key")
    return []


def _json_object(data: View, key: str) -> list[FieldError]:
    if key not in data:
        return [required(keyed("data", key))]
    raw = b64decode(data[key])
    if not raw:
        return [invalid(keyed("data", key), _REDACTED, "unexpected end of JSON input")]
    try:
        value: Any = json.loads(raw)
    except ValueError:
        return [invalid(keyed("data", key), _REDACTED, _json_complaint(raw))]
    if value is None or isinstance(value, dict):
        return []
    kind = {str: "string", bool: "bool", list: "array"}.get(type(value), "number")
    text = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    return [invalid(keyed("data", key), _REDACTED, text)]


def _json_complaint(raw: bytes) -> str:
    text = raw.decode(errors="replace").lstrip()
    first = text[:1]
    if first not in '{["-0123456789tfn':
        return f"invalid character '{first}' looking for beginning of value"
    return "unexpected end of JSON input"
