"""`gpuaas fleet`: clusters made, joined, looked at, drained and deleted."""
