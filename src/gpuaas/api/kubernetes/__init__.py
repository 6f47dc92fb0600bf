"""The built-in kinds of Kubernetes: their types, names, columns and rules."""

from gpuaas.api.kubernetes.kinds import builtin_kinds
from gpuaas.api.kubernetes.schemas import meta_schema_names, schema_names, schema_source

__all__ = ["builtin_kinds", "meta_schema_names", "schema_names", "schema_source"]
