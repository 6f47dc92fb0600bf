"""CEL, the language of validation rules: the part of it that Kubernetes' custom resources use.

`compile_expression` checks an expression against the types of its variables and makes a function of it; `of_schema`
gives the type of a place in a custom resource. Parsing is in parser, types in types, functions in the library modules,
checking and closures in compiler and macros. How rules are found in schemas and reported is module rules' matter.
"""

from gpuaas.machinery.schema.cel.compiler import Expression, Unsupported, compile_expression
from gpuaas.machinery.schema.cel.syntax import Problem
from gpuaas.machinery.schema.cel.types import Type, of_schema
from gpuaas.machinery.schema.cel.values import CelError

__all__ = ["CelError", "Expression", "Problem", "Type", "Unsupported", "compile_expression", "of_schema"]
