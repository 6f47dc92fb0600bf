"""The page of differences: the lists by which the comparison with the real Kubernetes and Kueue is judged."""

import tomllib
from pathlib import Path
from typing import Final

from tests.real.judge import LIST, Listed, load, load_omissions

_TESTS: Final = Path(__file__).parents[1] / "tests" / "real"
_LISTS: Final = {
    "From Kubernetes": _TESTS / "differences.toml",
    "From Kueue": _TESTS / "queues" / "differences.toml",
}
_INTRODUCTION: Final = (
    "The same commands and requests go to the real Kubernetes, with upstream Kueue, and to gpuaas, and the answers are"
    " compared line by line. What differs and stays so is listed here with its reason; any other difference is a defect."
)

_ODH: Final = Path(__file__).parent / "odh.toml"
_STRICT_ODH: Final = (
    "With `gpuaas up --strict odh` profiles and notebooks answer exactly as Open Data Hub's own webhooks do; without it they"
    " differ in these points."
)
_MULTIKUEUE: Final = Path(__file__).parent / "multikueue.toml"
_STRICT_MULTIKUEUE: Final = (
    "With `gpuaas up --strict multikueue` a hub decides and answers as upstream's MultiKueue does, its faults included;"
    " without it it differs in these points."
)
_OMITTED: Final = (
    "What Kubernetes does beyond storing an object, and gpuaas does not, because no user of GPUs and no client needs it here."
    " The kinds are served; objects are stored as their schemas allow, and validation beyond the schema is not done."
)


def body() -> str:
    sections = [f"## {title}\n\n{_section(load(file))}" for title, file in _LISTS.items()]
    sections.append(f"## From Open Data Hub\n\n{_STRICT_ODH}\n\n{_default_answers(_ODH)}")
    sections.append(f"## From MultiKueue\n\n{_STRICT_MULTIKUEUE}\n\n{_default_answers(_MULTIKUEUE)}")
    return "\n\n".join([_INTRODUCTION, *sections, f"## Left out\n\n{_OMITTED}\n\n{_omissions()}"])


def _default_answers(file: Path) -> str:
    listed = tomllib.loads(file.read_text())["difference"]
    return "\n".join(f"- **{one['title']}**: {one['reason']}" for one in listed)


def _omissions() -> str:
    return "\n".join(f"- **{entry.title}**: {entry.reason}" for entry in load_omissions(LIST))


def _section(entries: list[Listed]) -> str:
    """One entry for each title, with all the reasons given under it."""
    titles = dict.fromkeys(entry.title for entry in entries)
    return "\n".join(_entry(title, [entry for entry in entries if entry.title == title]) for title in titles)


def _entry(title: str, entries: list[Listed]) -> str:
    reasons = list(dict.fromkeys(entry.reason.strip() for entry in entries))
    rarely = " (not in every run)" if all(entry.sometimes for entry in entries) else ""
    if len(reasons) == 1:
        return f"- **{title}**{rarely}: {reasons[0]}"
    return "\n".join([f"- **{title}**{rarely}:", *(f"  - {reason}" for reason in reasons)])
