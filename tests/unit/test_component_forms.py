"""The components as forms: what the designer shows before anybody types."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from worldsize import components

PORTS = ("uri_folder", "uri_file", "mlflow_model", "custom_model", "mltable")
LONGEST = 450  # characters of a description, about four lines of the form
DOCUMENTS = {name: yaml.safe_load(components.path(name).read_text("utf-8")) for name in components.names()}
INPUTS = {
    f"{name}.{input_name}": port
    for name, document in DOCUMENTS.items()
    for input_name, port in document["inputs"].items()
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_only_data_has_to_be_connected(name: str) -> None:
    asked = {
        each
        for each, port in DOCUMENTS[name]["inputs"].items()
        if port["type"] not in PORTS and not port.get("optional") and "default" not in port
    }
    assert not asked


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_component_says_what_it_is(name: str) -> None:
    document = DOCUMENTS[name]
    assert document["display_name"]
    assert 100 <= len(document["description"]) <= 700
    assert set(document["tags"]) == {"category", "framework"}
    assert all(port["description"].endswith(".") for port in document["outputs"].values())
    distribution = document.get("distribution", {})
    assert ("Process count per instance" in document["description"]) == (
        distribution.get("type") in ("pytorch", "mpi")
    )


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_says_what_it_takes(name: str) -> None:
    port: dict[str, Any] = INPUTS[name]
    description = port["description"]
    assert 10 < len(description) <= LONGEST
    assert description.endswith(".")
    if port["type"] in ("integer", "number") and "default" in port:
        assert "min" in port, "a number without a lower limit"
        assert port["min"] <= port["default"] <= port.get("max", float("inf"))
    if "enum" in port:
        assert port["type"] == "string"
        assert port["default"] in port["enum"]
    assert not (port.get("optional") and "default" in port), "an optional input is empty until it is given"
