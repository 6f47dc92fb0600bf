"""Each page over hand-made rows: what it loads, what it says where there is nothing, and what it says to whom."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from tests.unit.apiserver.security.conftest import binding, policy, role, rule
from tests.unit.views.objects import local_queue, node, pod, workload
from tests.unit.web.kit import NOW, Fake, preemption, queue

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import BadRequest, Forbidden, NotFound
from gpuaas.views.dashboard import CohortRow
from gpuaas.web.page import Page
from gpuaas.web.pages import (
    PAGES,
    job,
    jobs,
    nodes,
    notebooks,
    overview,
    preemptions,
    profiles,
    quota,
    search,
    users,
)
from gpuaas.web.pages import notebook as notebook_page
from gpuaas.web.pages import queue as queue_page

EVIL = '<img src=x onerror="alert(1)">'
KUEUE = "kueue.x-k8s.io"
LIMITED = policy(
    role("team", rule("list get", "workloads localqueues", KUEUE), rule("create", "jobs", "batch")),
    binding("a", "ClusterRole", "team", ["User:ann"], namespace="research"),
)


def running(name: str, where: str, gpus: int = 2) -> dict[str, Any]:
    conditions = ("QuotaReserved", "Admitted", "PodsReady")
    return workload(f"job-{name}", where, gpus=gpus, owner=name, admitted=where, conditions=conditions)


def cluster(**more: Any) -> Fake:
    """Two queues of a cohort: `research` borrows two, `vision` lends them and has a job that waits."""
    return Fake(
        positions={"vision/job-waits": 1, "vision/job-later": 2},
        why={"vision/job-waits": {"reason": "WaitingForQuota", "sentence": "it asks for 8", "evidence": ["e"], "waysOut": ["raise it: kubectl label x", "wait"]}},
        workloads=[
            running("train", "research", 6),
            workload("job-waits", "vision", gpus=8, owner="waits", at="2026-11-15T11:00:00Z"),
            workload("job-later", "vision", gpus=1, owner="later"),
        ],
        cluster_queues=[queue("research", nominal=4, used=6, borrowed=2), queue("vision", nominal=8, used=0)],
        local_queues=[local_queue("lq", "research", "research"), local_queue("lq", "vision", "vision")],
        nodes=[node("n1", "NVIDIA-H200", 8), node("n2", "NVIDIA-L4", 4)],
        pods=[pod("train-0", "research", on="n1", gpus=6, owner="uid-of-train")],
        preemptions=[preemption("p1", "vision/old", "research/train", ago=600, gpus=2, ran=300), preemption("p2", "vision/older", "research/train", ago=7200)],
        logs={"train-0": "step 1\nstep 2"},
        notebooks=[notebook()],
        profiles=[profile("small", title="Small box"), profile("far", queue="elsewhere")],
        **more,
    )  # fmt: skip


PARTS: dict[str, dict[str, str]] = {
    "queue": {"name": "vision"},
    "job": {"namespace": "vision", "kind": "job", "name": "waits"},
    "notebook": {"namespace": "vision", "name": "nb"},
}


def notebook(name: str = "nb", namespace: str = "vision", **notes: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "annotations": notes}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": [{"name": name}]}}}}


def profile(name: str, namespace: str = "vision", title: str = "", queue: str = "") -> dict[str, Any]:
    counts = {"minCount": 1, "defaultCount": 1, "maxCount": 2}
    memory = {"minCount": "1Gi", "defaultCount": "2Gi", "maxCount": "4Gi"}
    listed = [
        {"identifier": "cpu", "displayName": "CPU", **counts},
        {"identifier": "memory", "displayName": "Memory", **memory},
    ]
    notes = {"opendatahub.io/display-name": title} if title else {}
    scheduling = {"scheduling": {"type": "Queue", "kueue": {"localQueueName": queue}}} if queue else {}
    metadata = {"name": name, "namespace": namespace, "annotations": notes}
    return {"metadata": metadata, "spec": {"identifiers": listed, **scheduling}}


class Checked(HTMLParser):
    """Tags are closed, ids are unique, and charts and tables say what they are."""

    VOID = ("meta", "link", "input", "br", "img", "circle", "rect", "path", "line")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.problems: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if "id" in found:
            self.ids.append(str(found["id"]))
        if "style" in found or any(name.startswith("on") for name in found):
            self.problems.append(f"<{tag}> with {attrs}")
        if tag == "svg" and not (found.get("aria-label") or found.get("aria-hidden")):
            self.problems.append("an svg without a name")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in self.VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")


@pytest.mark.parametrize("full", [True, False], ids=["full", "empty"])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_is_well_formed_full_and_empty(page: Page, full: bool) -> None:
    if not full and page.name in PARTS:
        with pytest.raises(NotFound):
            Fake().load(page, **PARTS[page.name])
        return
    html = (cluster() if full else Fake()).html(
        page, {"q": "a"} if page is search.PAGE else None, **PARTS.get(page.name, {})
    )
    checked = Checked()
    checked.feed(html)
    assert checked.problems == []
    assert len(checked.ids) == len(set(checked.ids)), sorted(
        each for each in checked.ids if checked.ids.count(each) > 1
    )
    assert html.count("<h1") == 1
    assert html.count("<table") == html.count("<caption")


@pytest.mark.parametrize("page", [each for each in PAGES if each.fragments], ids=lambda page: page.name)
def test_every_fragment_is_one_element_with_its_name_as_id(page: Page) -> None:
    for name in page.fragments:
        made = cluster().fragment(page, name, **PARTS.get(page.name, {}))
        assert re.match(rf'<\w+[^>]* id="{name}"', made), made[:80]
        checked = Checked()
        checked.feed(made)
        assert (checked.problems, checked.open) == ([], [])


@pytest.mark.parametrize("page", [each for each in PAGES if each.name not in PARTS], ids=lambda page: page.name)
def test_who_may_see_nothing_gets_a_page_that_says_so_or_a_refusal(page: Page) -> None:
    try:
        html = cluster(rbac=policy()).html(page, {"q": "train"} if page is search.PAGE else None, who="nobody")
    except Forbidden:
        return
    for secret in ("train", "job-waits", "vision", "n1"):
        assert secret not in re.sub(r'<form class="find".*?</form>|value="[^"]*"|“train”', "", html, flags=re.DOTALL)


# The first page.


def test_the_first_page_answers_three_questions_each_in_one_element() -> None:
    html = cluster().html(overview.PAGE)
    assert re.search(r'<span id="free-NVIDIA-H200">\d+</span>', html)
    assert re.search(r'id="why-vision-job-waits">.*it asks for 8 <span class="token">WaitingForQuota', html)
    assert re.search(r'<span id="preempted-last-hour">1</span>', html)


def test_the_first_page_says_that_idleness_is_not_known_and_never_zero() -> None:
    html = cluster().fragment(overview.PAGE, "idle")
    assert 'id="idle-held">no telemetry yet<' in html
    assert "6 GPUs are held" in html


def test_the_backlog_is_by_queue_the_largest_first_with_the_reason_of_its_first_job() -> None:
    (row,) = cluster().load(overview.PAGE)["waiting"]
    assert (row.queue, row.jobs, row.gpus, row.oldest, row.token) == (
        "vision",
        2,
        9,
        "2026-11-15T11:00:00Z",
        "WaitingForQuota",
    )


def test_an_empty_cluster_is_told_what_to_type_next() -> None:
    html = Fake().html(overview.PAGE)
    assert "gpuaas up --fleet demo" in html
    assert "gpuaas run --gpus 1 -- nvidia-smi" in html


def test_a_user_sees_what_is_free_for_them_and_their_own_backlog_alone() -> None:
    html = cluster(rbac=LIMITED).html(overview.PAGE)
    assert re.search(r'<span id="free-NVIDIA-H200">', html)
    assert "vision" not in html.replace("p-lines", "")


def test_the_strip_ends_with_what_is_held_now() -> None:
    made = overview.strip({"a": [0] * 119 + [4], "b": [2] * 120}, 8, [], overview.steps(NOW, 3600), {"a": 4, "b": 2})
    assert [(name, now) for _, name, now in made.teams] == [("a", "4"), ("b", "2")]
    assert made.figures[-1][1:] == ["4", "2", "8"]


@pytest.mark.parametrize(
    ("ago", "title"),
    [(60, "The last 2 minutes"), (400, "The last 10 minutes"), (900, "The last 30 minutes"), (3000, "The last hour")],
)
def test_the_strip_is_as_long_as_there_was_anything_to_show(ago: int, title: str) -> None:
    made = running("a", "research")
    for each in made["status"]["conditions"]:
        each["lastTransitionTime"] = rfc3339(NOW - ago)
    found = Fake(workloads=[made]).load(overview.PAGE)["strip"]
    assert (found.title, found.teams[0][1:], found.figures[0][1]) == (title, ("research", "2"), "0")


def test_the_capacity_of_the_strip_counts_cards_not_slices() -> None:
    sliced = node("n1", "NVIDIA-A100-SXM4-40GB", 0)
    sliced["status"]["allocatable"] = {"nvidia.com/mig-1g.5gb": "14"}
    found = Fake(nodes=[sliced], workloads=[running("train", "research")]).load(overview.PAGE)["strip"]
    assert found.figures[-1][-1] == "2"


def test_more_than_seven_teams_are_seven_and_the_others() -> None:
    made = overview.strip(
        {f"t{each}": [each + 1] * 120 for each in range(10)},
        99,
        [],
        overview.steps(NOW, 3600),
        {"t0": 1, "t1": 2, "t2": 3},
    )
    assert [name for _, name, _ in made.teams] == [*(f"t{each}" for each in range(3, 10)), "others"]
    assert made.teams[-1][2] == "6"


# Quota.


def test_children_add_up_to_their_cohort_and_what_is_borrowed_is_lent() -> None:
    (chart,) = cluster().load(quota.PAGE)["charts"]
    cohort, research, vision = chart.rows
    assert (cohort.kind, cohort.nominal, cohort.used, cohort.pending) == ("cohort", 12, 6, 9)
    assert (research.used, research.borrowed, research.lent) == (6, 2, 0)
    assert (vision.used, vision.lent, vision.pending, vision.level) == (0, 2, 9, 1)
    for name in ("nominal", "used", "borrowed", "lent", "pending"):
        assert getattr(cohort, name) == getattr(research, name) + getattr(vision, name), name


def test_a_nested_cohort_stands_in_its_parent_and_a_circle_of_parents_ends_nothing() -> None:
    rows = cluster().views.queues(cluster().visit().user)
    (chart,) = quota.charts(rows, [], {"all": CohortRow("company", {})}, ["nvidia.com/gpu"])
    assert [(row.name, row.level) for row in chart.rows] == [("company", 0), ("all", 1), ("research", 2), ("vision", 2)]
    (chart,) = quota.charts(rows, [], {"all": CohortRow("b", {}), "b": CohortRow("all", {})}, ["nvidia.com/gpu"])
    assert chart.rows[0].name == "all"


def test_what_a_cohort_owns_itself_is_a_row_of_its_own_and_is_lent() -> None:
    seen = Fake(cluster_queues=[queue("a", nominal=2, used=5, borrowed=3)])
    own = {"all": CohortRow("", {("h200", "nvidia.com/gpu"): "4"})}
    (chart,) = quota.charts(seen.views.queues(seen.visit().user), [], own, ["nvidia.com/gpu"])
    assert [(row.name, row.kind, row.nominal, row.lent) for row in chart.rows] == [
        ("all", "cohort", 6, 3),
        ("all's own", "own", 4, 3),
        ("a", "queue", 2, 0),
    ]


def test_lent_is_divided_over_the_lenders_by_what_they_do_not_use_and_adds_up() -> None:
    given = [queue("a", nominal=0, used=5, borrowed=5), queue("b", nominal=8, used=2), queue("c", nominal=4, used=1)]
    seen = Fake(cluster_queues=given)
    (chart,) = quota.charts(seen.views.queues(seen.visit().user), [], {}, ["nvidia.com/gpu"])
    assert {row.name: row.lent for row in chart.rows} == {"all": 5, "a": 0, "b": 4, "c": 1}


# Jobs.


def test_filters_sort_and_page_stand_in_the_address() -> None:
    found = cluster().load(jobs.PAGE, {"state": "Pending", "sort": "-gpus"})
    assert [row.workload for row in found["rows"]] == ["job-waits", "job-later"]
    by_label = {label: (address, now) for label, _, address, now in found["columns"]}
    assert by_label["GPUs"] == ("/ui/jobs?state=Pending&sort=gpus", "descending")
    assert by_label["Job"] == ("/ui/jobs?state=Pending&sort=job", "")
    assert [(name, count) for name, count, _, _ in found["states"]] == [("all", 3), ("Pending", 2), ("Running", 1)]


def test_groups_count_and_lead_to_their_jobs() -> None:
    found = cluster().load(jobs.PAGE, {"group": "queue"})
    assert found["groups"] == [("vision", 2, "/ui/jobs?queue=vision"), ("research", 1, "/ui/jobs?queue=research")]


@pytest.mark.parametrize("query", [{"sort": "nonsense"}, {"group": "nonsense"}, {"continue": "nonsense"}])
def test_an_address_that_means_nothing_is_refused_by_name(query: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        cluster().load(jobs.PAGE, query)


# One queue, one job.


def test_a_queue_shows_who_waits_in_order_and_why_the_first_does() -> None:
    found = cluster().load(queue_page.PAGE, **PARTS["queue"])
    assert [(row.position, row.workload) for row in found["waiting"].rows] == [(1, "job-waits"), (2, "job-later")]
    assert found["why"]["reason"] == "WaitingForQuota"


def test_a_job_that_waits_shows_its_reason_and_ways_out_as_commands() -> None:
    found = cluster().load(job.PAGE, **PARTS["job"])
    assert found["why"]["sentence"] == "it asks for 8"
    assert found["ways"] == [("raise it", "kubectl label x"), ("wait", "")]
    assert [(each.what, each.done, each.now) for each in found["phases"]] == [
        ("Submitted", True, False),
        ("Quota", False, True),
        ("Admitted", False, False),
        ("Pods ready", False, False),
        ("Finished", False, False),
    ]


def test_a_job_that_runs_shows_its_pods_and_the_tail_of_its_log() -> None:
    found = cluster().load(job.PAGE, namespace="research", kind="job", name="train")
    assert [(each["name"], each["node"]) for each in found["pods"]] == [("train-0", "n1")]
    assert found["log"] == {"pod": "train-0", "text": "step 1\nstep 2", "refused": ""}
    assert [each.what for each in found["phases"] if each.now] == ["Finished"]


def test_phases_of_a_job_that_was_preempted_say_so_once() -> None:
    made = workload("w", conditions=("Evicted", "Preempted"))
    for each in made["status"]["conditions"]:
        each["message"] = "Preempted to accommodate a workload (UID: 1, JobUID: 2) due to x"
    waiting = {"type": "QuotaReserved", "status": "False", "message": made["status"]["conditions"][0]["message"]}
    made["status"]["conditions"].append(waiting)
    notes = [each.note for each in job.phases(made) if each.note]
    assert notes == ["Preempted to accommodate a workload due to x"]


def test_who_may_not_list_pods_is_told_so() -> None:
    html = cluster(rbac=LIMITED).html(job.PAGE, namespace="research", kind="job", name="train")
    assert "You may not list pods in research." in html
    assert "You may not list events in research." in html


# Nodes and preemptions.


def test_a_node_has_one_cell_for_each_gpu_with_its_holder() -> None:
    found = cluster().load(nodes.PAGE)
    first = found["rows"][0]
    assert (first.node, first.used, first.total) == ("n1", 6, 8)
    assert [cell.state for cell in first.cells] == ["held"] * 6 + ["free"] * 2
    assert {cell.letter for cell in first.cells} == {"R", ""}
    assert "research/train-0 holds 6 GPUs" in first.cells[0].title


@pytest.mark.parametrize(("ready", "cordoned", "word"), [("False", False, "not ready"), ("True", True, "cordoned")])
def test_a_node_that_takes_no_pods_says_so_in_words(ready: str, cordoned: bool, word: str) -> None:
    made = node("n", gpus=1)
    made["status"]["conditions"][0]["status"] = ready
    made["spec"] = {"unschedulable": cordoned}
    (row,) = Fake(nodes=[made]).load(nodes.PAGE)["rows"]
    assert (row.word, row.cells[0].state) == (word, "out")


def test_preemptions_are_those_of_the_time_that_is_shown_and_of_the_queue() -> None:
    assert [row.name for row in cluster().load(preemptions.PAGE)["rows"]] == ["p1"]
    assert [row.name for row in cluster().load(preemptions.PAGE, {"span": "6h"})["rows"]] == ["p1", "p2"]
    assert cluster().load(preemptions.PAGE, {"queue": "nowhere"})["rows"] == []


@pytest.mark.parametrize(("ago", "span"), [(30, "10m"), (1200, "1h")])
def test_the_timeline_begins_with_the_span_that_shows_the_hour_s(ago: int, span: str) -> None:
    made = [preemption("p", "a/x", "b/y", ago=ago)]
    assert Fake(preemptions=made).load(preemptions.PAGE)["span"] == span
    assert Fake(preemptions=made).load(preemptions.PAGE, {"span": "24h"})["span"] == "24h"


def test_a_preemption_stands_at_its_moment() -> None:
    (move,) = preemptions.moves(cluster().load(preemptions.PAGE)["rows"], NOW, 3600)
    assert (round(move.at, 3), round(move.lost, 3), move.victim, move.preemptor) == (
        round(1 - 600 / 3600, 3),
        0.083,
        "vision",
        "research",
    )


# Search.


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("waits", {"jobs": ["job-waits"]}),
        ("VIS", {"jobs": ["job-later", "job-waits"], "queues": ["vision"]}),
        ("n1", {"nodes": ["n1"]}),
        ("train-0", {"jobs": ["job-train"]}),
        ("nothing-like-it", {}),
    ],
)
def test_search_finds_jobs_queues_nodes_and_the_job_of_a_pod(text: str, found: dict[str, list[str]]) -> None:
    seen = cluster().load(search.PAGE, {"q": text})
    made = {"jobs": sorted(row.workload for row in seen["jobs"]), "queues": seen["queues"], "nodes": seen["nodes"]}
    assert {name: values for name, values in made.items() if values} == found
    assert seen["none"] == (not found)


def test_search_looks_at_all_jobs_a_few_times_whatever_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, asked = cluster(), 0
    jobs = seen.views.pages.jobs

    def counted(*args: Any, **more: Any) -> Any:
        nonlocal asked
        asked += 1
        return jobs(*args, **more)

    monkeypatch.setattr(seen.views.pages, "jobs", counted)
    seen.load(search.PAGE, {"q": "-".join("z" * 50)})
    assert asked <= 6


# Names from users.


def test_names_from_users_are_text_on_every_page() -> None:
    made = running("x", "research")
    made["metadata"]["annotations"] = {"gpuaas.dev/owner": EVIL}
    made["metadata"]["ownerReferences"][0]["name"] = EVIL
    waits = workload("y", "research", queue=EVIL, owner=EVIL)
    seen = Fake(
        positions={"research/y": 1},
        why={"research/y": {"reason": EVIL, "sentence": EVIL, "evidence": [EVIL], "waysOut": [f"kubectl {EVIL}"]}},
        workloads=[made, waits],
        cluster_queues=[queue("research", cohort=EVIL, flavor=EVIL)],
        local_queues=[local_queue("lq", "research", "research"), local_queue(EVIL, "research", "research")],
        nodes=[node("n1", EVIL)],
        pods=[pod(EVIL, EVIL, on="n1", gpus=1)],
        preemptions=[preemption("p", f"research/{EVIL}", f"{EVIL}/x")],
        notebooks=[notebook(EVIL, "research", **{"opendatahub.io/hardware-profile-name": EVIL})],
        profiles=[profile("evil", "research", EVIL), profile("worse", "research", EVIL, EVIL)],
    )
    for page in PAGES:
        parts = {"queue": {"name": "research"}, "job": {"namespace": "research", "kind": "job", "name": EVIL}}
        parts["notebook"] = {"namespace": "research", "name": EVIL}
        html = seen.html(page, {"q": "<img"} if page is search.PAGE else None, **parts.get(page.name, {}))
        assert "<img" not in html, page.name


def test_times_do_not_grow_by_themselves_so_that_fragments_stay_the_same() -> None:
    html = cluster().fragment(overview.PAGE, "preempted")
    assert f'<time datetime="{rfc3339(NOW - 600)}"></time>' in html
    assert "ago" not in html


# Users.


def test_users_are_listed_by_what_they_hold_with_what_they_wait_for() -> None:
    def of(user: str, made: dict[str, Any]) -> dict[str, Any]:
        made["metadata"]["annotations"] = {"gpuaas.dev/owner": user}
        return made

    made = [
        of("ann", running("a", "research", 2)),
        of("bob", running("b", "research", 6)),
        of("ann", workload("c", "research", gpus=4)),
        of("eve", workload("d", "research", conditions=("Finished",))),
    ]
    rows = Fake(workloads=made).load(users.PAGE)["users"]
    assert [(each.name, each.running, each.held, each.waiting, each.asked) for each in rows] == [
        ("bob", 1, 6, 0, 0),
        ("ann", 1, 2, 1, 4),
    ]


# A user of one namespace.

NOBODY = policy()


@pytest.mark.parametrize(
    ("page", "rbac", "said"),
    [
        (nodes.PAGE, LIMITED, "You may not list nodes."),
        (preemptions.PAGE, LIMITED, "You may not list preemptions."),
        (quota.PAGE, LIMITED, "You may not list ClusterQueues"),
        (overview.PAGE, LIMITED, "You may not list preemptions."),
        (overview.PAGE, NOBODY, "You may not list workloads in any namespace."),
    ],
    ids=lambda value: value.name if isinstance(value, Page) else "",
)
def test_what_is_not_visible_is_said_in_words_and_never_a_zero(page: Page, rbac: Any, said: str) -> None:
    html = cluster(rbac=rbac).html(page)
    assert said in html
    for name in page.fragments:
        made = cluster(rbac=rbac).fragment(page, name)
        if "You may not list" in made or "not visible to you" in made:
            assert not re.search(r">\s*0\s*<", made), name


def test_a_queue_of_one_s_own_namespace_is_shown_without_its_quota() -> None:
    html = cluster(rbac=LIMITED).html(queue_page.PAGE, name="research")
    assert "It is reached by research/lq." in html
    assert "train" in html
    with pytest.raises(Forbidden):
        cluster(rbac=LIMITED).load(queue_page.PAGE, name="vision")


# Notebooks and profiles.


def test_a_notebook_is_listed_and_can_be_opened_once_it_is_ready() -> None:
    assert 'id="notebook-vision-nb"' in cluster().html(notebooks.PAGE)
    waiting = cluster().html(notebook_page.PAGE, **PARTS["notebook"])
    assert "Its pod is being made." in waiting
    assert 'id="open"' not in waiting


def test_profiles_are_shown_with_what_one_gets_and_hidden_ones_with_the_reason() -> None:
    html = cluster().html(profiles.PAGE, {"namespace": "vision"})
    assert "Small box" in html
    assert "1 cpu, 2Gi memory" in html
    assert "This namespace has no queue elsewhere" in html
