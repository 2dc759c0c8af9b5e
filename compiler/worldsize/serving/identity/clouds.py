"""The endpoints of a cloud, which clients read from ``ARM_CLOUD_METADATA_URL``.

Source: the answer of https://management.azure.com/metadata/endpoints?api-version=2019-05-01, and how
azure-ai-ml's ``_azure_environments`` reads it.
"""

from __future__ import annotations

from typing import Any

LOCAL = "WorldsizeCloud"
# name, portal, management, login, storage; by the end of the management's host name
_CLOUDS = (
    (".chinacloudapi.cn", "AzureChinaCloud", "azure.cn", "chinacloudapi.cn", "login.chinacloudapi.cn"),
    (".usgovcloudapi.net", "AzureUSGovernment", "azure.us", "usgovcloudapi.net", "login.microsoftonline.us"),
    ("", "AzureCloud", "azure.com", "azure.com", "login.microsoftonline.com"),
)
_STORAGE = {"azure.com": "core.windows.net"}


def describe_cloud(proxy_host: str | None, direct_host: str) -> dict[str, Any]:
    """The document of one cloud.

    Args:
        proxy_host: The Azure host that was asked through the proxy: its cloud is described by Azure's names.
        direct_host: The host and port of a direct request: it is told this server's.
    """
    asked = proxy_host or ""
    _, name, portal, base, login = next(cloud for cloud in _CLOUDS if asked.endswith(cloud[0]))
    manager, login_url = f"https://management.{base}", f"https://{login}"
    if proxy_host is None:
        name = LOCAL  # azure-ai-ml has its own addresses for the names above
        manager, login_url = f"https://{direct_host}", f"https://{direct_host}/login"
    return {
        "name": name,
        "portal": f"https://portal.{portal}",
        "resourceManager": f"{manager}/",
        "authentication": {
            "loginEndpoint": f"{login_url}/",
            "audiences": [f"{manager}/", f"https://management.core.{base}/"],
            "tenant": "common",
            "identityProvider": "AAD",
        },
        "graphAudience": f"https://graph.{portal}/",
        "suffixes": {"storage": _STORAGE.get(base, f"core.{base}"), "keyVaultDns": f"vault.{portal}"},
    }
