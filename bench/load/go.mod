module gpuaas/bench/load

go 1.22
