"""Service → EndpointSlices: the addresses of the pods behind it.

`addresses` decides which pod serves at which address and ports, `slices` writes that down.
"""

from gpuaas.controllers.endpoints.slices import EndpointSliceController

__all__ = ["EndpointSliceController"]
