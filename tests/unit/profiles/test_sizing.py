"""GPU memory of models: the arithmetic, what a config.json says, and the smallest thing that fits."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.cli.size import smallest
from gpuaas.profiles.sizing import GIB, Shape, need, read_config, read_parameters, read_tokens, usual_shape

LLAMA_8B = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
}


def test_weights_and_cache_are_what_the_formula_says() -> None:
    found = need(8e9, "fp8", 32 * 1024, 16, Shape(32, 8, 128, "x"))
    assert found.weights == 8e9
    assert found.per_token == 2 * 32 * 8 * 128 * 2 == 131072
    assert found.cache == 131072 * 32768 * 16 == 64 * GIB
    assert found.overhead == pytest.approx(0.1 * (8e9 + 64 * GIB) + GIB)
    assert found.total == pytest.approx(found.weights + found.cache + found.overhead)


def test_a_config_gives_parameters_within_a_hundredth_of_the_published_number() -> None:
    parameters, dtype, shape = read_config(LLAMA_8B)
    assert parameters == pytest.approx(8.03e9, rel=0.01)
    assert dtype == "bf16"
    assert (shape.layers, shape.kv_heads, shape.head) == (32, 8, 128)


@pytest.mark.parametrize(
    ("config", "dtype"),
    [
        ({**LLAMA_8B, "quantization_config": {"quant_method": "fp8"}}, "fp8"),
        ({**LLAMA_8B, "quantization_config": {"quant_method": "awq", "bits": 4}}, "int4"),
        ({**LLAMA_8B, "torch_dtype": "float16"}, "fp16"),
        ({"text_config": LLAMA_8B}, "bf16"),
    ],
)
def test_the_data_type_of_a_config(config: dict[str, Any], dtype: str) -> None:
    assert read_config(config)[1] == dtype


@pytest.mark.parametrize("field", ["hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads"])
def test_a_config_without_a_field_is_refused_by_name(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        read_config({key: value for key, value in LLAMA_8B.items() if key != field})


@pytest.mark.parametrize(("text", "number"), [("8B", 8e9), ("0.5b", 5e8), ("350M", 3.5e8), ("1T", 1e12), ("7000", 7e3)])
def test_parameters(text: str, number: float) -> None:
    assert read_parameters(text) == number


@pytest.mark.parametrize("text", ["", "B", "-1B", "0", "8 billion", "1e9", "٨B", "9" * 50])
def test_wrong_parameters(text: str) -> None:
    with pytest.raises(ValueError):
        read_parameters(text)


@pytest.mark.parametrize(("text", "number"), [("32k", 32768), ("8192", 8192), ("1M", 1048576)])
def test_tokens(text: str, number: int) -> None:
    assert read_tokens(text) == number


@pytest.mark.parametrize("text", ["", "k", "0", "-1", "1.5k", "1g"])
def test_wrong_tokens(text: str) -> None:
    with pytest.raises(ValueError):
        read_tokens(text)


def test_larger_models_are_given_larger_shapes() -> None:
    caches = [need(size, "fp16", 8192, 1, usual_shape(size)).cache for size in (1e9, 3e9, 8e9, 14e9, 32e9, 70e9, 405e9)]
    assert caches == sorted(caches)


def test_the_smallest_slice_and_the_fewest_cards_that_fit() -> None:
    fits = smallest(20 * GIB, ["NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"])
    assert [(fit.resource, fit.count) for fit in fits] == [("nvidia.com/gpu", 1), ("nvidia.com/mig-3g.40gb", 1)]
    assert all(fit.memory_mib * 1024**2 >= 20 * GIB for fit in fits)
    assert [fit.count for fit in smallest(150 * GIB, ["NVIDIA-A100-SXM4-80GB"])] == [2]
    assert smallest(10_000 * GIB, ["NVIDIA-L4"]) == []
