"""Which hosts end at the server, and under which path."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from worldsize.serving.front.guard import path_prefix


@pytest.mark.parametrize(
    ("host", "prefix"),
    [
        ("management.azure.com", ""),
        ("MANAGEMENT.Azure.Com.", ""),
        ("management.chinacloudapi.cn", ""),
        ("management.usgovcloudapi.net", ""),
        ("eastus.api.azureml.ms", ""),
        ("chinaeast2.api.ml.azure.cn", ""),
        ("usgovarizona.api.ml.azure.us", ""),
        ("login.microsoftonline.com", "/login"),
        ("login.microsoftonline.us", "/login"),
        ("login.chinacloudapi.cn", "/login"),
        ("westus2.login.microsoft.com", "/login"),
        ("a.blob.core.windows.net", "/blob/a.blob.core.windows.net"),
        ("A.dfs.core.windows.net", "/blob/a.dfs.core.windows.net"),
        ("a.file.core.chinacloudapi.cn", "/blob/a.file.core.chinacloudapi.cn"),
        ("a.z01.blob.storage.azure.net", "/blob/a.z01.blob.storage.azure.net"),
        ("dc.services.visualstudio.com", "/telemetry"),
        ("westus-0.in.applicationinsights.azure.com", "/telemetry"),
        ("v.vault.azure.net", "/unknown/v.vault.azure.net"),
        ("graph.microsoft.com", "/unknown/graph.microsoft.com"),
        ("graph.windows.net", "/unknown/graph.windows.net"),
        ("r.azurecr.io", "/unknown/r.azurecr.io"),
        ("ml.azure.com", "/unknown/ml.azure.com"),
        ("q.queue.core.windows.net", "/unknown/q.queue.core.windows.net"),
    ],
)
def test_azure_hosts_are_answered_here(host: str, prefix: str) -> None:
    assert path_prefix(host) == prefix


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "files.example.org",
        "huggingface.co",
        "github.com",
        "mcr.microsoft.com",
        "learn.microsoft.com",
        "packages.microsoft.com",
        "marketplace.visualstudio.com",
        "notazure.com",
        "management.azure.com.example.org",
        "evilmanagement-azure.com",
        "localhost",
        "",
        "com",
    ],
)
def test_other_hosts_pass_through(host: str) -> None:
    assert path_prefix(host) is None


@pytest.mark.smoke
@pytest.mark.run
def test_every_host_that_the_client_has_for_a_cloud_is_known() -> None:
    ml = pytest.importorskip("azure.ai.ml._azure_environments")
    for cloud in ml._environments.values():
        for value in cloud.values():
            host = urlsplit(value).hostname or f"a.blob.{value}"
            assert path_prefix(host) is not None, host
