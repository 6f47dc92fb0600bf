"""Service → the addresses behind it: EndpointSlices, and the older Endpoints for those who still read them.

`addresses` says which pod serves at which address and ports; `slices` and `legacy` write that down in the two forms; `mirrors` tells what people
wrote in the older form in the newer one.
"""

from gpuaas.controllers.endpoints.legacy import EndpointsController
from gpuaas.controllers.endpoints.mirrors import EndpointSliceMirroringController
from gpuaas.controllers.endpoints.slices import EndpointSliceController

__all__ = ["EndpointSliceController", "EndpointSliceMirroringController", "EndpointsController"]
