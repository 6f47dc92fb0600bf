"""Every custom kind that comes with the product, in one list: `bundled`."""

from gpuaas.api.crds import Bundled
from gpuaas.api.custom import ledger, platform, table
from gpuaas.api.kueue.kinds import KINDS as KUEUE


def bundled() -> tuple[Bundled, ...]:
    """Cheap: names and tables only. `Bundled.definition()` builds a kind's CustomResourceDefinition."""
    return (*KUEUE, *table.KINDS, *platform.KINDS, ledger.KIND)
