#!/usr/bin/env bash
# The story of shared cards on a machine with a real one: bash tests/gpu/run.sh WHEELS OUT
#
# WHEELS is a folder of wheels (the packages of requirements.lock and nvidia-ml-py), so no network is needed. torch is the
# machine's own. OUT gets story.json, story.log and the logs of the server and of every job. A part that fails is
# reported, and the next one runs.
set -u
wheels=$(realpath "${1:?usage: run.sh WHEELS OUT}")
mkdir -p "${2:?usage: run.sh WHEELS OUT}"
out=$(realpath "$2")
cd "$(dirname "$0")/../.." || exit 2
exec > >(tee -a "$out/run.log") 2>&1
date -u
python=${PYTHON:-python3}
if [ ! -x .venv-gpu/bin/python ]; then
  "$python" -m venv --system-site-packages .venv-gpu || exit 2
fi
# torch may live in an environment of its own, which an environment made from it does not inherit.
.venv-gpu/bin/python -c 'import torch' 2>/dev/null ||
  "$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' \
    > "$(.venv-gpu/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
.venv-gpu/bin/python -c 'import torch; print("torch", torch.__version__)'
.venv-gpu/bin/python -m pip install -q --disable-pip-version-check --no-index --find-links "$wheels" \
  -r requirements.lock nvidia-ml-py || echo "not every wheel could be installed"
PYTHONPATH=src:. PYTHONUNBUFFERED=1 timeout 560 .venv-gpu/bin/python -m tests.gpu.story "$out"
code=$?
date -u
exit $code
