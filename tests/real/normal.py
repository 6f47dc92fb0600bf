"""What two right servers may print differently is made alike: uids, times, revisions, generated names, addresses.

Identity is kept where it means something: the first uid seen in a case becomes `<uid-1>` wherever it comes again, so an
owner reference to the wrong object is still a difference; a revision that changes without a write is one too. The
annotation `gpuaas.dev/owner`, which our side puts on every workload, is taken out: it would be a difference of half of
all steps. Nothing else is forgiven here: a difference that stays belongs into `differences.toml`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

# Names made by a server end in five characters of this alphabet, which has no vowels (so that no words come out).
# A template's hash is made of the same letters; what is hashed is an implementation's own business.
GENERATED = r"[bcdfghjklmnpqrstvwxz2456789]{5}"
HASH = r"[bcdfghjklmnpqrstvwxz2456789]{8,10}"

_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_REVISION = re.compile(
    r'(resourceVersion\\*"?: *\\*"|Resource Version: +|resourceVersion=|in record \(|resource version: \d+, current: )(\d+)'
)
_SERVICE_ADDRESS = re.compile(r"\b10\.96\.\d{1,3}\.\d{1,3}\b")

_MANAGERS = re.compile(r"^( *)managedFields:\n((?:\1- .*\n(?:\1  .*\n)*)+)", re.MULTILINE)

_PLAIN: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"\bey[\w-]{20,}(?:\.[\w-]*)*(?:\.\.\.)?", "<jwt>"),
        (r"-----BEGIN [A-Z ]+-----(?:.|\n)+?-----END [A-Z ]+-----", "<pem>"),
        (r"\bLS0tLS1CRUdJTi[\w+/=]+", "<pem>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", "<time>"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4}", "<time>"),
        (r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d (?:[+-]\d{4}|\w+)", "<time>"),
        # An age stands alone in its column, and in its cell of a table.
        (r"(?:(?<=  )|^)(?:\d+[ydhms]){1,2}(?=  |$| \(x)", "<age>"),
        (r'^( +")(?:\d+[ydhms]){1,2}(",?)$', r"\1<age>\2"),
        (r"(?<= over )(?:\d+[ydhms]){1,2}(?=\))", "<age>"),
        (r"(?<=time since queued was )\d+s|(?<=time since reservation was )\d+s", "<age>"),
        # A workload is named after its job's kind, name and uid.
        (
            r"\b((?:[a-z]*job|pod|deployment|jobset|statefulset|raycluster|notebook)-[a-z0-9.-]+)-[0-9a-f]{5}\b",
            r"\1-<workload>",
        ),
        (r"(LIVE|MERGED)-\d+", r"\1-<n>"),
        (r"kubectl-edit-\d+", "kubectl-edit-<n>"),
        (r"(?<=[a-z0-9][-._])" + HASH + r"\b", "<hash>"),
        (r"(?<=hash: )" + HASH + r"\b|(?<=hash=)" + HASH + r"\b", "<hash>"),
        (r"(?<=[a-z0-9>][-._])" + GENERATED + r"\b", "<generated>"),
        (r"\b([WEI])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", r"\1<log> "),
        (r"(\"?nodePort\"?: )\d{5}", r"\1<port>"),
        (r"\b(\d+):3\d{4}/(TCP|UDP)", r"\1:<port>/\2"),
        (r"(NodePort: .*) 3\d{4}/", r"\1 <port>/"),
        (r"(\"continue\": \")[^\"]+", r"\1<continue>"),
        # Column widths follow the widest cell, which may be an age or an address.
        (r"(?<=\S) {2,}", "  "),
    )
)


OWNER = "gpuaas.dev/owner"
_OWNER = re.escape(OWNER)
# Where it is the only annotation, and where it stands beside others: in YAML, in JSON, as described.
_WITHOUT_OWNER: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (rf"^( *)annotations:\n\1  {_OWNER}: .*\n(?!\1  )", ""),
        (rf'^( *)"annotations": {{\n *"{_OWNER}": "[^"]*"\n\1}},?\n', ""),
        (rf"^( *Annotations: +){_OWNER}: .*\n +(?=\S+: )", r"\1"),
        (rf"^( *Annotations: +){_OWNER}: .*$", r"\1<none>"),
        (rf'^ +"?{_OWNER}"?: .*\n', ""),
    )
)


class Normaliser:
    """One per case and side: it remembers which uid and which revision was which."""

    def __init__(self, replacements: dict[str, str]) -> None:
        # The longest first: a server's address contains its host.
        self._literal = sorted(replacements.items(), key=lambda pair: -len(pair[0]))
        self._uids: dict[str, str] = {}
        self._revisions: dict[str, str] = {}
        self._addresses: dict[str, str] = {}

    def text(self, text: str) -> str:
        for literal, replacement in self._literal:
            text = text.replace(literal, replacement)
        if OWNER in text:
            for pattern, replacement in _WITHOUT_OWNER:
                text = pattern.sub(replacement, text)
        text = _UID.sub(self._numbered(self._uids, "uid"), text)
        text = _REVISION.sub(self._revision, text)
        text = _SERVICE_ADDRESS.sub(self._numbered(self._addresses, "address"), text)
        for pattern, replacement in _PLAIN:
            text = pattern.sub(replacement, text)
        return _MANAGERS.sub(_sorted_managers, text)

    def body(self, body: bytes) -> str:
        """A JSON body as sorted lines, anything else as text; a list's own revision moves with every other write."""
        try:
            value = json.loads(body)
        except ValueError:
            return self.text(body.decode(errors="replace"))
        return self.value(value)

    def value(self, value: Any) -> str:
        return self.text(json.dumps(_tidied(_without_list_revision(value)), indent=1, sort_keys=True))

    def _numbered(self, seen: dict[str, str], word: str) -> Callable[[re.Match[str]], str]:
        return lambda match: seen.setdefault(match[0], f"<{word}-{len(seen) + 1}>")

    def _revision(self, match: re.Match[str]) -> str:
        # "0" and "1" are words of the protocol or made up by a case, not positions in a log.
        if match[2] in ("0", "1"):
            return match[0]
        return match[1] + self._revisions.setdefault(match[2], f"<revision-{len(self._revisions) + 1}>")


def _without_list_revision(value: Any) -> Any:
    if not isinstance(value, dict) or "metadata" not in value:
        return value
    if "items" not in value and not str(value.get("kind", "")).endswith(("List", "Table")):
        return value
    metadata = dict(value["metadata"])
    if metadata.get("resourceVersion"):
        metadata["resourceVersion"] = "<list revision>"
    return value | {"metadata": metadata}


def _sorted_managers(match: re.Match[str]) -> str:
    """The same as `_tidied` does, in printed YAML."""
    indent = match[1]
    entries = re.split(rf"^(?={indent}- )", match[2], flags=re.MULTILINE)
    return f"{indent}managedFields:\n" + "".join(sorted(entries))


def _tidied(value: Any) -> Any:
    """Managers and causes in a fixed order: the server sorts managers by second, and a second may end between two
    requests; causes it takes from a map in any order."""
    if isinstance(value, list):
        return [_tidied(item) for item in value]
    if not isinstance(value, dict):
        return value
    tidy = {key: _tidied(item) for key, item in value.items() if key != OWNER}
    if tidy.get("annotations") == {} and value["annotations"]:
        del tidy["annotations"]
    if len(tidy.get("details", {}).get("causes", ()) if isinstance(tidy.get("details"), dict) else ()) > 1:
        tidy["message"] = _without_order(str(tidy.get("message")), str(tidy["details"].get("group", "")))
    for name in ("managedFields", "causes"):
        if isinstance(tidy.get(name), list):
            tidy[name] = sorted(tidy[name], key=lambda entry: json.dumps(entry, sort_keys=True))
    return tidy


def _without_order(message: str, group: str) -> str:
    """The faults of a custom resource come out of a map in any order, in the message too; a built-in kind's do not."""
    if not group.endswith("example.com"):
        return message
    return re.sub(r" is invalid: \[.*\]$", " is invalid: [the causes]", message, flags=re.DOTALL)
