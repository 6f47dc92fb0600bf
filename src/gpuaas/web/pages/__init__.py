"""The pages, a module each, in the order of the navigation."""

from gpuaas.web.page import Page
from gpuaas.web.pages import (
    cards,
    fleet,
    gallery,
    job,
    jobs,
    nodes,
    notebook,
    notebooks,
    overview,
    preemptions,
    profiles,
    queue,
    quota,
    search,
    submit,
    users,
)

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    *(jobs.PAGE, submit.PAGE, notebooks.PAGE, profiles.PAGE),  # the work
    *(quota.PAGE, nodes.PAGE, cards.PAGE, fleet.PAGE),  # what there is for it
    *(users.PAGE, preemptions.PAGE),  # between people
    search.PAGE,
    queue.PAGE,
    job.PAGE,
    notebook.PAGE,
)

DEVELOPMENT: tuple[Page, ...] = (gallery.PAGE,)
"""Served besides where GPUAAS_DEVELOPMENT is set."""
