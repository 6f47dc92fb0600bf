"""How much GPU memory a language model needs: weights, the cache of keys and values, and what the runtime takes.

weights = parameters x bytes each. The cache holds for each token, layer and key-value head two vectors of the head's
size: 2 x layers x kv heads x head size x bytes; times the tokens of a sequence, times the sequences at once. Where only
the number of parameters is known, the shape of a usual dense model of that size is taken, and the answer names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

GIB: Final = 1024**3
BYTES: Final[Mapping[str, float]] = {
    "fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "fp4": 0.5, "int4": 0.5
}  # fmt: skip
OVERHEAD: Final = 0.10  # of weights and cache: activations, fragments of memory, the runtime's own
CONTEXT_OF_CUDA: Final = GIB  # a process's CUDA context and kernels


@dataclass(frozen=True, slots=True)
class Shape:
    """`named`: where it was taken from."""

    layers: int
    kv_heads: int
    head: int
    named: str


@dataclass(frozen=True, slots=True)
class Need:
    parameters: float
    weights: float  # bytes, all of them
    cache: float
    overhead: float
    per_token: float
    shape: Shape

    @property
    def total(self) -> float:
        return self.weights + self.cache + self.overhead


_USUAL: Final = (
    (2e9, Shape(28, 8, 64, "dense models of about 1B")),
    (5e9, Shape(32, 8, 96, "dense models of about 3B")),
    (11e9, Shape(32, 8, 128, "dense models of about 8B")),
    (18e9, Shape(40, 8, 128, "dense models of about 14B")),
    (50e9, Shape(64, 8, 128, "dense models of about 32B")),
    (100e9, Shape(80, 8, 128, "dense models of about 70B")),
    (float("inf"), Shape(126, 8, 128, "dense models of about 400B")),
)


def usual_shape(parameters: float) -> Shape:
    return next(shape for most, shape in _USUAL if parameters <= most)


def need(parameters: float, dtype: str, context: int, sequences: int, shape: Shape, cache_dtype: str = "fp16") -> Need:
    weights = parameters * BYTES[dtype]
    per_token = 2 * shape.layers * shape.kv_heads * shape.head * BYTES[cache_dtype]
    cache = per_token * context * sequences
    overhead = (weights + cache) * OVERHEAD + CONTEXT_OF_CUDA
    return Need(parameters, weights, cache, overhead, per_token, shape)


def read_parameters(text: str) -> float:
    """`8B`, `0.5B`, `350M`. Raises ValueError."""
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)([KMBT]?)", text.strip().upper())
    if found is None or not float(found[1]):
        raise ValueError(f'"{text[:40]}": a number of parameters such as 8B or 350M')
    return float(found[1]) * {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[found[2]]


def read_tokens(text: str) -> int:
    """`32k` is 32 x 1024, as models count; `32768` is itself. Raises ValueError."""
    found = re.fullmatch(r"([0-9]{1,9})([kKmM]?)", text.strip())
    if found is None or not int(found[1]):
        raise ValueError(f'"{text[:40]}": a number of tokens such as 32k or 8192')
    return int(found[1]) * {"": 1, "k": 1024, "m": 1024**2}[found[2].lower()]


def read_config(config: Mapping[str, Any]) -> tuple[float, str, Shape]:
    """Parameters, data type and shape from a model's config.json. Raises ValueError naming the field that is missing."""
    text = config.get("text_config")
    said = text if isinstance(text, Mapping) else config

    def number(*names: str, absent: int | None = None) -> int:
        for name in names:
            value = said.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31:
                return value
        if absent is None:
            raise ValueError(f"{names[0]} is missing, or no number: is this a model's config.json?")
        return absent

    hidden, layers = number("hidden_size", "n_embd", "d_model"), number("num_hidden_layers", "n_layer", "num_layers")
    heads = number("num_attention_heads", "n_head")
    kv_heads = number("num_key_value_heads", absent=heads)
    head = number("head_dim", absent=max(hidden // heads, 1))
    vocabulary, inner = number("vocab_size"), number("intermediate_size", "n_inner", absent=4 * hidden)
    experts = number("num_local_experts", "num_experts", "n_routed_experts", absent=1)
    inner = number("moe_intermediate_size", absent=inner) if experts > 1 else inner
    gated = 3 if said.get("hidden_act", "silu") in ("silu", "swish", "gelu_pytorch_tanh") else 2
    attention = hidden * head * (2 * heads + 2 * kv_heads)
    tables = 1 if said.get("tie_word_embeddings") else 2
    parameters = layers * (attention + gated * hidden * inner * experts) + tables * vocabulary * hidden
    return float(parameters), _dtype(config, said), Shape(layers, kv_heads, head, "config.json")


def _dtype(config: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    quantized = config.get("quantization_config")
    if isinstance(quantized, Mapping):
        if quantized.get("quant_method") == "fp8":
            return "fp8"
        bits = quantized.get("bits", 4 if quantized.get("load_in_4bit") else 8)
        return {4: "int4", 8: "int8"}.get(bits, "fp16")
    names = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8"}
    return names.get(str(said.get("torch_dtype") or said.get("dtype") or config.get("torch_dtype")), "bf16")
