"""`python -m gpuaas` is the `gpuaas` command."""

from gpuaas.cli.main import main

main()
