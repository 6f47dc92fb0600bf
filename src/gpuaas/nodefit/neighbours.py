"""What a pod says about other pods: affinity, anti-affinity and spreading over topology domains.

A domain is a label's value: all nodes that share it. The counts are made once for each pod that is placed
(`Neighbourhood`) and then asked for every node, in the order and with the words of kube-scheduler.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuaas.base.selectors import LabelSelector, Requirement, from_label_selector
from gpuaas.nodefit.book import REQUIRED, Ask, Book, Place
from gpuaas.nodefit.constraints import untolerated

View = Mapping[str, Any]

NOT_SPREAD = "node(s) didn't match pod topology spread constraints"
NO_DOMAIN = f"{NOT_SPREAD} (missing required label)"
NOT_BESIDE = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
UNWANTED = "node(s) didn't satisfy existing pods anti-affinity rules"

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NOTHING = LabelSelector((Requirement("", "in", ()),))


def concerns_others(spec: View) -> bool:
    """Whether where other pods are matters to this one."""
    affinity = spec.get("affinity") or {}
    return bool(affinity.get("podAffinity") or affinity.get("podAntiAffinity") or spec.get("topologySpreadConstraints"))


class Neighbourhood:
    """Where, for one pod, the pods are that it wants near, wants far, or that want it far."""

    def __init__(self, ask: Ask, book: Book) -> None:
        self._ask = ask
        self._book = book
        affinity = ask.spec.get("affinity") or {}
        self._near = [_Term(term, ask) for term in (affinity.get("podAffinity") or {}).get(REQUIRED) or ()]
        self._far = [_Term(term, ask) for term in (affinity.get("podAntiAffinity") or {}).get(REQUIRED) or ()]
        self._spread = [_Spread(one, ask) for one in ask.spec.get("topologySpreadConstraints") or ()]
        places = book.places()
        for term in (*self._near, *self._far):
            term.count(places, book.namespaces)
        for spread in self._spread:
            spread.count(places)
        self._shunned = _shunned(ask, book) if book.shunning else set()
        self._first = bool(self._near) and not any(term.domains for term in self._near)

    def refusal(self, place: Place) -> tuple[str, bool] | None:
        """Why not there, and whether removing pods could help."""
        for spread in self._spread:
            if spread.hard and (reason := spread.refusal(place)):
                return reason, reason == NOT_SPREAD
        if not self._is_beside(place):
            return NOT_BESIDE, False
        if any(term.domain(place) in term.domains for term in self._far):
            return NOT_APART, True
        if any(place.labels.get(key) == value for key, value in self._shunned):
            return UNWANTED, True
        return None

    def preference(self, place: Place) -> int:
        """Higher is better; 0 where the pod has no wishes."""
        affinity = self._ask.spec.get("affinity") or {}
        wanted = 0
        for side, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
            for one in (affinity.get(side) or {}).get(_PREFERRED) or ():
                term = _Term(one["podAffinityTerm"], self._ask)
                near = [other for other in self._book.places() if term.domain(other) == term.domain(place) != ""]
                wanted += sign * one["weight"] * term.matches_in(near, self._book.namespaces)
        return wanted - sum(10 * spread.found(place) for spread in self._spread if not spread.hard)

    def _is_beside(self, place: Place) -> bool:
        if any(not term.domain(place) for term in self._near):
            return False
        if self._first and all(term.matches(self._ask, self._book.namespaces) for term in self._near):
            return True  # the first of a group that wants to be together has to begin somewhere
        return all(term.domain(place) in term.domains for term in self._near)


class _Term:
    def __init__(self, term: View, owner: Ask) -> None:
        self.key: str = term["topologyKey"]
        self._selector = from_label_selector(term.get("labelSelector")) or _selector_of(term)
        self._namespaces = set(term.get("namespaces") or ())
        self._by_label = from_label_selector(term.get("namespaceSelector"))
        if not self._namespaces and self._by_label is None:
            self._namespaces = {owner.namespace}
        self.domains: set[str] = set()

    def domain(self, place: Place) -> str:
        return place.labels.get(self.key, "")

    def matches(self, ask: Ask, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        if not self._selector.matches(ask.labels):
            return False
        if ask.namespace in self._namespaces:
            return True
        return self._by_label is not None and self._by_label.matches(namespaces.get(ask.namespace))

    def matches_in(self, places: Iterable[Place], namespaces: Mapping[str, Mapping[str, str]]) -> int:
        return sum(self.matches(ask, namespaces) for place in places for ask in place.pods.values())

    def count(self, places: Sequence[Place], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        for place in places:
            if self.domain(place) and self.matches_in((place,), namespaces):
                self.domains.add(self.domain(place))


def _selector_of(term: View) -> LabelSelector:
    """An empty selector means everything, a missing one nothing."""
    return LabelSelector() if term.get("labelSelector") is not None else _NOTHING


class _Spread:
    def __init__(self, constraint: View, ask: Ask) -> None:
        self._ask = ask
        self._key: str = constraint["topologyKey"]
        self._most: int = constraint["maxSkew"]
        self._least_domains: int = constraint.get("minDomains") or 1
        self.hard = constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        self._selector = from_label_selector(constraint.get("labelSelector")) or _selector_of(constraint)
        self._keep_to_affinity = constraint.get("nodeAffinityPolicy", "Honor") == "Honor"
        self._keep_to_taints = constraint.get("nodeTaintsPolicy", "Ignore") == "Honor"
        self._found: dict[str, int] = {}

    def count(self, places: Sequence[Place]) -> None:
        for place in places:
            domain = place.labels.get(self._key)
            if domain is None or not self._counts(place):
                continue
            matching = sum(
                other.namespace == self._ask.namespace and not other.leaving and self._selector.matches(other.labels)
                for other in place.pods.values()
            )
            self._found[domain] = self._found.get(domain, 0) + matching

    def found(self, place: Place) -> int:
        return self._found.get(place.labels.get(self._key, ""), 0)

    def refusal(self, place: Place) -> str:
        if self._key not in place.labels:
            return NO_DOMAIN
        fewest = min(self._found.values(), default=0) if len(self._found) >= self._least_domains else 0
        own = int(self._selector.matches(self._ask.labels))
        return NOT_SPREAD if self.found(place) + own - fewest > self._most else ""

    def _counts(self, place: Place) -> bool:
        if self._keep_to_affinity and not self._ask.affinity.selects(place.labels, place.name):
            return False
        return not self._keep_to_taints or untolerated(place.taints, self._ask.tolerations) is None


def _shunned(ask: Ask, book: Book) -> set[tuple[str, str]]:
    """The domains in which a pod that is already there does not want this one."""
    found: set[tuple[str, str]] = set()
    for uid, other in book.shunning.items():
        place = book.place(book.where(uid))
        if place is None:
            continue
        for term in _terms_of(other, book):
            domain = term.domain(place)
            if domain and (term.key, domain) not in found and term.matches(ask, book.namespaces):
                found.add((term.key, domain))
    return found


def _terms_of(other: Ask, book: Book) -> Sequence["_Term"]:
    """Of a pod in the book, compiled once for all pods that are placed while it is there."""
    terms = book.shunned_terms.get(other.uid)
    if terms is None:
        said = ((other.spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(REQUIRED) or ()
        terms = book.shunned_terms[other.uid] = [_Term(one, other) for one in said]
    return terms
