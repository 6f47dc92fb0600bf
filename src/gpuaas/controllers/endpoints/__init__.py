"""Service → the addresses behind it: EndpointSlices, and the older Endpoints for those who still read them.

`addresses` says which pod serves at which address and ports; `slices` and `legacy` write that down in the two forms.
"""

from gpuaas.controllers.endpoints.legacy import EndpointsController
from gpuaas.controllers.endpoints.slices import EndpointSliceController

__all__ = ["EndpointSliceController", "EndpointsController"]
