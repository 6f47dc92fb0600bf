"""The command of a notebook that is a process of this machine and names none of its own: Jupyter's server.

An image would bring its own command; here the machine's Jupyter is looked for: the one the notebook's author has
(`NB_JUPYTER`), then on the PATH, then that of the Python which runs gpuaas. The server listens on the socket that the
node names (`NB_SOCKET`), below the path the notebook is served at (`NB_PREFIX`). Only the owner of that folder reaches the socket, and a
request through gpuaas has been authorised, so Jupyter asks for no token of its own.
"""

from __future__ import annotations

from typing import Final

NOT_INSTALLED: Final = 126  # the exit code that says so; 127 may be anything's
INSTALL: Final = "pip install jupyterlab"
MISSING: Final = f"Jupyter is not installed on this machine; install it:  {INSTALL}"

SCRIPT: Final = f"""\
set -- --ServerApp.sock="$NB_SOCKET" --ServerApp.sock_mode=0600 --ServerApp.base_url="$NB_PREFIX/" \\
  --ServerApp.root_dir="$PWD" --ServerApp.open_browser=False --ServerApp.allow_remote_access=True \\
  --IdentityProvider.token= --PasswordIdentityProvider.hashed_password= --ServerApp.quit_button=False --ServerApp.allow_root=True "$@"
[ -n "$NB_JUPYTER" ] && [ -x "$NB_JUPYTER" ] && exec "$NB_JUPYTER" "$@"
for each in jupyter-lab jupyter-notebook jupyter-server; do
  command -v "$each" >/dev/null && exec "$each" "$@"
done
for each in jupyterlab jupyter_server; do
  "$NB_PYTHON" -c "import $each" 2>/dev/null && exec "$NB_PYTHON" -m "$each" "$@"
done
echo "{MISSING}" >&2
exit {NOT_INSTALLED}
"""

COMMAND: Final = ("sh", "-c", SCRIPT, "notebook")
