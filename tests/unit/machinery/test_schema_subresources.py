"""What scale reads must be there in its type; a status written by itself is spoken of by itself."""

from typing import Any

import pytest

from gpuaas.api.kinds import Scale
from gpuaas.base.fielderrors import invalid
from gpuaas.machinery.schema.subresources import said_of_status, scale_errors

SCALE = Scale(".spec.replicas", ".status.replicas", ".status.selector")
NOT_A_NUMBER = (
    ".status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the type string, expected int64"
)


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        ({}, []),
        ({"spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"}}, []),
        ({"spec": {"replicas": -1}}, [".spec.replicas: Invalid value: -1: should be a non-negative integer"]),
        ({"spec": {"replicas": 1 << 31}}, [".spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647"]),
        ({"status": {"replicas": "x"}}, [NOT_A_NUMBER]),
        ({"status": "x"}, [
            ".status.replicas: Invalid value: 0: .status accessor error: x is of the type string, expected map[string]interface{}",
            '.status.selector: Invalid value: "": .status accessor error: x is of the type string, expected map[string]interface{}',
        ]),
        ({"status": {"selector": 1}}, ['.status.selector: Invalid value: "": .status.selector accessor error: 1 is of the type int64, expected string']),
    ],
)  # fmt: skip
def test_what_scale_reads(obj: dict[str, Any], said: list[str]) -> None:
    assert [str(error) for error in scale_errors(SCALE, obj)] == said


def test_a_write_of_the_status_is_not_asked_for_the_spec() -> None:
    assert scale_errors(SCALE, {"spec": {"replicas": -1}}, "status") == []


def test_errors_of_a_status_written_by_itself_leave_its_name_out_of_the_sentence() -> None:
    error = invalid("status.replicas", "string", "status.replicas in body must be of type integer")
    assert str(said_of_status(error)) == (
        'status.replicas: Invalid value: "string": replicas in body must be of type integer'
    )
