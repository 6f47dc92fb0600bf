"""Admission policies as functions: a policy's expressions, compiled once, and what they say of one request.

`compile_policy` takes the spec of a policy of either kind; `Policy.problems` names every expression that does not
compile, `Policy.decide` gives a `Denial` for each validation that does not hold, `Policy.patches` what is to be changed.
Whether a policy is meant for a request, and what its answer leads to, is the API server's business (apiserver/policies,
apiserver/mutations).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.base.fielderrors import FieldError, child, invalid
from gpuaas.machinery.schema.cel import CelError, Expression, Problem, Type, Unsupported, compile_expression, of_schema
from gpuaas.machinery.schema.cel.budget import BUDGET, PER_OBJECT, WITH_QUESTIONS, Budget, Exhausted
from gpuaas.machinery.schema.cel.compiler import STRUCTS
from gpuaas.machinery.schema.cel.library_authorization import AUTHORIZER, RESOURCE_CHECK
from gpuaas.machinery.schema.cel.types import DYN

Structs = dict[int, tuple[dict[str, Any], str]]
Facts = Mapping[str, Any]  # object, oldObject, request, params, namespaceObject, authorizer, AUTHORIZER_OF_REQUEST
AUTHORIZER_OF_REQUEST: Final = "authorizer.requestResource"

_LONGEST_MESSAGE: Final = 5 * 1024
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_MAP: Final = {"type": "object", "additionalProperties": _TEXT}


def _named(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(names, _TEXT)}


_KIND, _RESOURCE = _named("group", "version", "kind"), _named("group", "version", "resource")
_USER: Final = {
    "type": "object",
    "properties": {
        "username": _TEXT,
        "uid": _TEXT,
        "groups": _TEXTS,
        "extra": {"type": "object", "additionalProperties": _TEXTS},
    },
}
_REQUEST: Final = {
    "type": "object",
    "properties": {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": _TEXT,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": _TEXT,
        "name": _TEXT,
        "namespace": _TEXT,
        "operation": _TEXT,
        "userInfo": _USER,
        "dryRun": {"type": "boolean"},
        "options": {"x-kubernetes-int-or-string": True},  # anything
    },
}
_NAMESPACE: Final = {
    "type": "object",
    "properties": {
        "metadata": {
            "type": "object",
            "properties": {
                **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), _TEXT),
                "labels": _MAP,
                "annotations": _MAP,
                "generation": {"type": "integer"},
                "finalizers": _TEXTS,
            },
        },
        "spec": {"type": "object", "properties": {"finalizers": _TEXTS}},
        "status": _named("phase"),
    },
}


def _type(schema: Mapping[str, Any], name: str) -> Type:
    found = of_schema(schema, name)
    assert found is not None
    return found


_PLAIN: Final[Mapping[str, Type]] = {
    "object": DYN,
    "oldObject": DYN,
    "request": _type(_REQUEST, "kubernetes.AdmissionRequest"),
    "namespaceObject": _type(_NAMESPACE, "kubernetes.Namespace"),
}
_WHO_MAY: Final[Mapping[str, Type]] = {"authorizer": AUTHORIZER, AUTHORIZER_OF_REQUEST: RESOURCE_CHECK}


@dataclass(frozen=True, slots=True)
class Denial:
    message: str
    reason: str = ""  # empty: it could not be evaluated, or the policy names none


@dataclass(frozen=True, slots=True)
class Validation:
    index: int
    said: Mapping[str, Any]
    expression: Expression
    message: Expression | None = None


@dataclass(frozen=True, slots=True)
class Mutation:
    kind: str  # ApplyConfiguration or JSONPatch
    expression: Expression


@dataclass(frozen=True, slots=True)
class Policy:
    conditions: Sequence[Expression]
    variables: Mapping[str, Expression]
    validations: Sequence[Validation]
    problems: Sequence[FieldError]
    fails: bool  # what cannot be evaluated is denied
    mutations: Sequence[Mutation] = ()
    budget: int = PER_OBJECT

    def decide(self, facts: Facts) -> list[Denial]:
        budget = Budget(self.budget)
        try:
            return self._decide({**facts, BUDGET: budget}, budget)
        except Exhausted:
            text = "validation failed due to running out of cost budget, no further validation rules will be run"
            return self._unknown([text])

    def is_meant(self, facts: Facts) -> bool | list[Denial]:
        """Whether its conditions hold, or why that cannot be known."""
        budget = Budget(self.budget)
        skipped = self._skipped({**facts, BUDGET: budget}, budget)
        return skipped or skipped is None

    def patch(self, mutation: Mutation, facts: Facts) -> Any:
        """What a mutation makes of the object as it is by now: a configuration to apply, or a JSON patch."""
        budget = Budget(self.budget)
        structs: Structs = {}
        env = {**facts, BUDGET: budget, STRUCTS: structs}
        failed = self._give_variables(env, budget)
        try:
            made = _run(mutation.expression, env, budget)
            if mutation.kind == "ApplyConfiguration":
                _check_names(made, "Object", structs)
            return made
        except Misnamed:
            raise
        except CelError as error:
            why = failed.get(str(error), str(error))
            raise CelError(f"expression '{mutation.expression.source}' resulted in error: {why}") from None
        except Exhausted:
            raise CelError("running out of cost budget") from None

    def _decide(self, env: dict[str, Any], budget: Budget) -> list[Denial]:
        problems = self._skipped(env, budget)
        if problems is not None:
            return problems
        failed = self._give_variables(env, budget)
        denials: list[Denial] = []
        for each in self.validations:
            try:
                if _run(each.expression, env, budget) is True:
                    continue
            except CelError as error:
                why = failed.get(str(error), str(error))
                denials += self._unknown([f"expression '{each.expression.source}' resulted in error: {why}"])
                continue
            denials.append(Denial(_message(each, env, budget), each.said.get("reason") or "Invalid"))
        return denials

    def _skipped(self, env: dict[str, Any], budget: Budget) -> list[Denial] | None:
        """What is left to say where the policy is not for this request, or it cannot be known whether it is; None where it
        is. One condition that is false is decisive, whatever happens to the others."""
        errors = []
        for condition in self.conditions:
            try:
                if _run(condition, env, budget) is False:
                    return []
            except CelError as error:
                errors.append(f"expression '{condition.source}' resulted in error: {error}")
        return self._unknown(errors) if errors else None

    def _give_variables(self, env: dict[str, Any], budget: Budget) -> dict[str, str]:
        """Puts them among the facts. One that has no value matters only to who asks for it: by what that gets to hear
        then, the reason is returned."""
        values: dict[str, Any] = {}
        env["variables"] = values
        failed: dict[str, str] = {}
        for name, expression in self.variables.items():
            try:
                values[name] = _run(expression, env, budget)
            except CelError as error:
                why = failed.get(str(error), str(error))
                failed[f"no such key: {name}"] = f'composited variable "{name}" fails to evaluate: {why}'
        return failed

    def _unknown(self, errors: list[str]) -> list[Denial]:
        if not self.fails:
            return []
        return [Denial(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")]


def compile_policy(spec: Mapping[str, Any]) -> Policy:
    return _Compiler(spec).policy()


def known_types(spec: Mapping[str, Any]) -> dict[str, Type]:
    """Of what the expressions of a policy may speak, besides its own variables."""
    return {**_PLAIN, **_WHO_MAY, **({"params": DYN} if spec.get("paramKind") is not None else {})}


def condition_errors(owner: Mapping[str, Any], path: str) -> list[FieldError]:
    """What does not compile of the conditions of a webhook."""
    return list(_Compiler(owner, path).policy().problems)


class _Compiler:
    def __init__(self, spec: Mapping[str, Any], path: str = "spec") -> None:
        self._spec, self._path = spec, path
        self._problems: list[FieldError] = []
        self._types = known_types(spec)
        self._asks = False  # whether some expression asks who may do what

    def policy(self) -> Policy:
        conditions = [
            made for said, at in self._each("matchConditions") if (made := self._part(said, at, "expression", "bool"))
        ]
        variables = dict(self._variables())
        validations = [
            Validation(index, said, made, self._part(said, at, "messageExpression", "string"))
            for index, (said, at) in enumerate(self._each("validations"))
            if (made := self._part(said, at, "expression", "bool"))
        ]
        for said, at in self._each("auditAnnotations"):
            self._part(said, at, "valueExpression", "string", "null")
        fails = self._spec.get("failurePolicy") != "Ignore"
        mutations = list(self._mutations())
        budget = WITH_QUESTIONS if self._asks else PER_OBJECT
        return Policy(conditions, variables, validations, self._problems, fails, mutations, budget)

    def _mutations(self) -> Iterator[Mutation]:
        for said, at in self._each("mutations"):
            for kind, key, type_ in (
                ("ApplyConfiguration", "applyConfiguration", "Object"),
                ("JSONPatch", "jsonPatch", "list(JSONPatch)"),
            ):
                made = self._part(said.get(key) or {}, child(at, key), "expression", type_)
                if made is not None:
                    yield Mutation(kind, made)

    def _variables(self) -> Iterator[tuple[str, Expression]]:
        """Each may speak of those before it."""
        fields: dict[str, tuple[str, Type]] = {}
        if self._spec.get("variables"):
            self._types["variables"] = Type("kubernetes.variables", fields=fields)
        for said, at in self._each("variables"):
            name, made = str(said.get("name", "")), self._part(said, at, "expression")
            fields[name] = name, DYN if made is None else made.type
            if made is not None:
                yield name, made

    def _each(self, key: str) -> Iterator[tuple[Mapping[str, Any], str]]:
        for index, said in enumerate(self._spec.get(key) or ()):
            yield said, child(self._path, key, index)

    def _part(self, said: Mapping[str, Any], at: str, key: str, *types: str) -> Expression | None:
        text = str(said.get(key) or "")
        if not text.strip():
            return None  # whether it may be missing is a rule of the kind
        made, problem = self._compiled(text, types, asking=key != "messageExpression")
        if problem:
            self._problems.append(invalid(child(at, key), text, problem))
        return made

    def _compiled(self, text: str, types: tuple[str, ...], *, asking: bool) -> tuple[Expression | None, str]:
        known = self._types if asking else {key: self._types[key] for key in self._types if key not in _WHO_MAY}
        try:
            made = compile_expression(text, known, _struct if self._spec.get("mutations") else None)
        except Unsupported as missing:
            return None, f"the function {missing} is not available here"
        except Problem as problem:
            return None, f"compilation failed: {problem}"
        if types and made.type.name not in types and str(made.type) not in types:
            wanted = types[0] if len(types) == 1 else "one of [string null_type]"
            return None, f"must evaluate to {wanted} but got {made.type}"
        self._asks = self._asks or not made.uses.isdisjoint(_WHO_MAY)
        return made, ""


class Misnamed(CelError):
    """A part of an object under the name of another."""


def _check_names(value: Any, path: str, structs: Structs) -> None:
    if isinstance(value, list):
        for item in value:
            _check_names(item, path, structs)
    if not isinstance(value, dict):
        return
    _, name = structs.get(id(value), (None, path))
    if name != path:
        text = f'unexpected type name "{name}", expected "{path}", which matches field name path from root Object type'
        raise Misnamed(f"type mismatch: {text}")
    for key, item in value.items():
        _check_names(item, f"{path}.{key}", structs)


_STRUCTS: Final[dict[str, Type]] = {}


def _struct(name: str) -> Type | None:
    """`Object`, any part of it by its path, and an operation of a JSON patch."""
    if name.partition(".")[0] != "Object" and name != "JSONPatch":
        return None
    return _STRUCTS.setdefault(name, Type(name))


def _run(expression: Expression, env: dict[str, Any], budget: Budget) -> Any:
    budget.begin()
    try:
        return expression.run(env)
    finally:
        budget.end()


def _message(validation: Validation, env: dict[str, Any], budget: Budget) -> str:
    said = validation.said
    if validation.message is not None:
        try:
            text = _run(validation.message, env, budget)
        except CelError:
            text = ""
        text = text.strip() if isinstance(text, str) else ""
        if text and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE:
            return str(text)
    return str(said.get("message") or "").strip() or f"failed expression: {str(said['expression']).strip()}"
