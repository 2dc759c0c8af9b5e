"""Which host names are Azure's own, and the path prefix under which the server answers for each.

Sources, read 2026-11: the endpoints of azure-ai-ml's and azure-core's clouds;
https://learn.microsoft.com/azure/security/fundamentals/azure-domains (domains of Azure services);
https://learn.microsoft.com/azure/azure-government/compare-azure-government-global-azure and
https://learn.microsoft.com/azure/china/resources-developer-guide (the other clouds).
"""

from __future__ import annotations

import ipaddress

MANAGEMENT = frozenset(
    {
        "management.azure.com",
        "management.core.windows.net",
        "management.chinacloudapi.cn",
        "management.core.chinacloudapi.cn",
        "management.usgovcloudapi.net",
        "management.core.usgovcloudapi.net",
    }
)
# The domains below match themselves and every host below them.
LOGIN = (
    "login.microsoftonline.com",
    "login.microsoft.com",
    "login.windows.net",
    "sts.windows.net",
    "login.chinacloudapi.cn",
    "login.partner.microsoftonline.cn",
    "login.microsoftonline.us",
    "login.usgovcloudapi.net",
)
WORKSPACES = ("api.azureml.ms", "experiments.azureml.net", "api.ml.azure.cn", "api.ml.azure.us")
STORAGE = tuple(
    f"{service}.{suffix}"
    for service in ("blob", "dfs", "file")
    for suffix in ("core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net", "storage.azure.net")
)
TELEMETRY = (
    "services.visualstudio.com",
    "applicationinsights.azure.com",
    "applicationinsights.azure.cn",
    "applicationinsights.azure.us",
    "applicationinsights.microsoft.com",
    "livediagnostics.monitor.azure.com",
)
# Whatever else belongs to Azure and its customers in it: answered with an error, never reached.
OTHER = (
    "appserviceenvironment.net",
    "azconfig.io",
    "azmk8s.io",
    "azure-api.net",
    "azure-api.us",
    "azure-automation.net",
    "azure-devices.net",
    "azure-mobile.net",
    "azure.cn",
    "azure.com",
    "azure.net",
    "azure.us",
    "azurecontainer.io",
    "azurecontainerapps.io",
    "azurecr.cn",
    "azurecr.io",
    "azurecr.us",
    "azuredatabricks.net",
    "azureedge.net",
    "azurefd.net",
    "azurehdinsight.cn",
    "azurehdinsight.net",
    "azurehdinsight.us",
    "azureiotcentral.com",
    "azuremicroservices.io",
    "azureml.ms",
    "azureml.net",
    "azurestaticapps.net",
    "azuresynapse.net",
    "azurewebsites.net",
    "azurewebsites.us",
    "chinacloudapi.cn",
    "chinacloudapp.cn",
    "chinacloudsites.cn",
    "cloudapp.net",
    "dod-graph.microsoft.us",
    "fabric.microsoft.com",  # OneLake's storage
    "graph.microsoft.com",
    "graph.microsoft.us",
    "microsoftonline.cn",
    "microsoftonline.com",
    "microsoftonline.us",
    "servicebus.windows.net",
    "trafficmanager.cn",
    "trafficmanager.net",
    "usgovcloudapi.net",
    "usgovcloudapp.net",
    "usgovtrafficmanager.net",
    "windows.net",
    "windowsazure.com",
)
ALL = (*sorted(MANAGEMENT), *LOGIN, *WORKSPACES, *STORAGE, *TELEMETRY, *OTHER)

# The metadata service of a virtual machine and the host below it, where a machine's own identity is found.
_MACHINE = frozenset(map(ipaddress.ip_address, ("169.254.169.254", "168.63.129.16")))


def is_machine(address: str) -> bool:
    """Whether an IP address, as it was resolved, is that of a service of the machine that Azure runs on."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    embedded = [parsed]
    if isinstance(parsed, ipaddress.IPv6Address):
        embedded += [inner for inner in (parsed.ipv4_mapped, parsed.sixtofour) if inner is not None]
        embedded += parsed.teredo or ()
        embedded.append(ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF))  # `::a.b.c.d`, and NAT64's
    return not _MACHINE.isdisjoint(embedded)


def normalise(host: str) -> str:
    """The host name in lower case, without the dot that ends a rooted name."""
    return host.lower().rstrip(".")


def path_prefix(host: str) -> str | None:
    """The prefix of the server's paths that answer for a host name without its port, in any case.

    It is empty where paths stay as they are, and ``None`` for a host that is not Azure's.
    """
    host = normalise(host)
    if host in MANAGEMENT or _is_below(host, WORKSPACES):
        return ""
    if _is_below(host, LOGIN):
        return "/login"
    if _is_below(host, STORAGE):
        return f"/blob/{host}"
    if _is_below(host, TELEMETRY):
        return "/telemetry"
    return f"/unknown/{host}" if _is_below(host, OTHER) else None


def _is_below(host: str, domains: tuple[str, ...]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)
