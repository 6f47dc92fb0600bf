"""The dashboard: server-rendered pages over `views`, live by server-sent events, with sign-in and sessions.

`page` is the contract between one page and everything else; `pages` holds the pages, a module each, `templates` their
HTML, `static` the style sheets and our one script. `door` routes requests, `sessions` says who is signed in, `stream`
sends what changed. Pages hold no state of their own: each render reads the rows of the moment under the user's RBAC.
"""
