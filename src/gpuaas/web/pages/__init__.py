"""The pages, a module each, in the order of the navigation."""

from gpuaas.web.page import Page
from gpuaas.web.pages import overview

PAGES: tuple[Page, ...] = (overview.PAGE,)
