"""Field ownership: metadata.managedFields of every write, and server-side apply.

`track_update` (module update) serves create, update and patch, `apply` (module apply) serves apply patches. Below
them: whose change takes what from whom (ownership), the managedFields list (managed), sets of fields (fieldset), and
reading objects by their type (atoms, compare, typed, merge, removal). Everything is pure; results share structure with
their inputs, and inputs are never changed.
"""

from gpuaas.machinery.ssa.apply import Applied, ApplyFailed, apply
from gpuaas.machinery.ssa.atoms import TypedError
from gpuaas.machinery.ssa.compare import Comparison
from gpuaas.machinery.ssa.fieldset import FieldSet, from_paths
from gpuaas.machinery.ssa.scale import replicas_path, to_parent, to_scale
from gpuaas.machinery.ssa.update import changes, track_update, with_managed_fields, without_new_times
from gpuaas.machinery.ssa.validation import managed_fields_problems, manager_problems, patch_problems

__all__ = [
    "Applied",
    "ApplyFailed",
    "Comparison",
    "FieldSet",
    "TypedError",
    "apply",
    "changes",
    "from_paths",
    "managed_fields_problems",
    "manager_problems",
    "patch_problems",
    "replicas_path",
    "to_parent",
    "to_scale",
    "track_update",
    "with_managed_fields",
    "without_new_times",
]
