"""An action's two steps: GET shows the effect with a form, POST performs it.

The form carries the sentence that was shown. When it is confirmed the effect is computed again; where the sentence is
another one by then, nothing is done and the page asks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuaas.apiserver.http import Answer
from gpuaas.apiserver.security.identity import User
from gpuaas.base.errors import ApiError
from gpuaas.web import wire
from gpuaas.web.page import Action, Visit
from gpuaas.web.routes import filled, named
from gpuaas.web.sessions import Session

if TYPE_CHECKING:
    from gpuaas.web.door import Asked, Door


class Acting:
    def __init__(self, door: Door) -> None:
        self._door = door

    async def ask(self, asked: Asked, session: Session, user: User, action: Action, parts: Mapping[str, str]) -> Answer:
        visit = self._door.visit(asked, session, user, parts)
        chosen = bool(visit.query) or not action.fields
        form = _form(action, visit.query)
        effect = problem = ""
        if chosen or all(each.value for each in action.fields):
            effect, problem = await _effect(action, visit, form)
        suggestions = {each.name: await each.suggests(visit) for each in action.fields if each.suggests is not None}
        return self._shown(asked, visit, action, form, effect, problem=problem, suggestions=suggestions)

    async def perform(
        self, asked: Asked, session: Session, user: User, action: Action, parts: Mapping[str, str], form: dict[str, str]
    ) -> Answer:
        visit = self._door.visit(asked, session, user, parts)
        filled_in = _form(action, form)
        effect, problem = await _effect(action, visit, filled_in)
        if problem:
            return self._shown(asked, visit, action, filled_in, "", problem=problem, status=400)
        if form.get("effect") != effect:
            changed = "The effect is another one by now. Nothing was done; confirm again."
            return self._shown(asked, visit, action, filled_in, effect, problem=changed, status=409)
        try:
            done = await action.perform(visit, filled_in)
        except ApiError as error:
            return self._shown(asked, visit, action, filled_in, effect, problem=error.message, status=error.code)
        session.note(done)
        return wire.redirect(visit.url(filled(action.back, parts)))

    def _shown(
        self,
        asked: Asked,
        visit: Visit,
        action: Action,
        form: Mapping[str, str],
        effect: str,
        *,
        problem: str = "",
        status: int = 200,
        suggestions: Mapping[str, Sequence[str]] | None = None,
    ) -> Answer:
        title = named(action.title, visit.parts)
        names: dict[str, Any] = {
            **self._door.names(asked, visit, "action", title),
            "action": action,
            "address": visit.url(filled(action.path, visit.parts)),
            "back": visit.url(filled(action.back, visit.parts)),
            "form": form,
            "effect": effect,
            "problem": problem,
            "suggestions": suggestions or {},
        }
        return wire.page(self._door.renderer.page("action.html", names), status)


def _form(action: Action, given: Mapping[str, str]) -> dict[str, str]:
    for each in action.fields:
        if len(given.get(each.name, "")) > each.longest:
            raise wire.BadForm(f"{each.name}: {len(given[each.name])} characters; at most {each.longest} are allowed")
    return {each.name: given.get(each.name, each.value) for each in action.fields}


async def _effect(action: Action, visit: Visit, form: Mapping[str, str]) -> tuple[str, str]:
    """The sentence, or why there is none."""
    if not action.allowed(visit):
        return "", f"User {visit.user.name} may not do that here."
    try:
        return await action.effect(visit, form), ""
    except ApiError as error:
        return "", error.message
