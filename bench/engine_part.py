"""Run one part of a revision's own engine benchmark and print the CPU seconds it took, for `bench.against`.

Started by path, with that revision's `src` and root on PYTHONPATH: `bench` and `gpuaas` below are that revision's, so
names may differ between revisions as long as `bench.engine.PARTS` has the part.
"""

import contextlib
import io
import sys
import time

from bench import engine

part, times = engine.PARTS[sys.argv[1]], int(sys.argv[2])
began = time.process_time()
with contextlib.redirect_stdout(io.StringIO()):
    for _ in range(times):
        part()
print(time.process_time() - began)
