"""Prices from a server that answers as the Azure Retail Prices API is documented to."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner

from worldsize.base.problem import HelpfulError
from worldsize.cli.main import main
from worldsize.facts import price_service, vm_sizes
from worldsize.facts import prices as facts

A100, H200 = "Standard_NC24ads_A100_v4", "Standard_ND96isr_H200_v5"
Answer = tuple[int, dict[str, str], str]


def today() -> date:
    return datetime.now(timezone.utc).date()


def meter(size: str, name: str, amount: Any, **changes: Any) -> dict[str, Any]:
    """A meter with the fields of the documentation's example."""
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": amount,
        "unitPrice": amount,
        "armRegionName": "westeurope",
        "location": "EU West",
        "effectiveStartDate": "2024-03-01T00:00:00Z",
        "meterId": "000a794b-bdb0-58be-a0cd-0c3a0f222923",
        "meterName": name,
        "productId": "DZH318Z0BQPS",
        "skuId": "DZH318Z0BQPS/00TG",
        "productName": "NCads A100 v4 Series Linux",
        "skuName": name,
        "serviceName": "Virtual Machines",
        "serviceId": "DZH313Z7MMC8",
        "serviceFamily": "Compute",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": size,
        **changes,
    }


class Api:
    """A server on this machine; ``answer`` says what to return to the n-th request, from 0."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: Callable[[int, str], Answer] = lambda _number, _path: page([])
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                api.asked.append(self.path)
                status, headers, body = api.answer(len(api.asked) - 1, self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/api/retail/prices"

    def read(self, sizes: list[str], **options: Any) -> facts.Refreshed:
        return price_service.read_prices(sizes, "westeurope", address=self.address, **options)


def page(items: list[Any], following: str | None = None) -> Answer:
    body = {
        "BillingCurrency": "USD",
        "CustomerEntityId": "Default",
        "CustomerEntityType": "Retail",
        "Items": items,
        "NextPageLink": following,
        "Count": len(items),
    }
    return 200, {"Content-Type": "application/json; charset=utf-8"}, json.dumps(body)


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    thread = threading.Thread(target=api.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield api
    api.server.shutdown()
    api.server.server_close()
    thread.join(timeout=10)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(price_service.time, "sleep", slept.append)
    return slept


def amounts(found: facts.Refreshed) -> dict[tuple[str, str], float]:
    return {(size, tier): price.amount for (size, _, tier), price in found.items()}


def test_the_meters_of_linux_are_told_from_the_others(api: Api) -> None:
    api.answer = lambda _number, _path: page(
        [
            meter(A100, "NC24ads_A100_v4 Low Priority", 0.955),
            meter(A100, "NC24ads_A100_v4 Spot", 1.097295),
            meter(A100, "NC24ads_A100_v4", 4.775),
            meter(A100, "NC24ads_A100_v4", 5.879, productName="NCads A100 v4 Series Windows"),
            meter(A100, "NC24ads_A100_v4", 5.879, productName="Virtual Machines NCadsv4 Srs Win"),
            meter(A100, "NC24ads_A100_v4", 5.879, productName="NCadsv4 Series CloudServices"),
            meter(A100, "NC24ads_A100_v4", 2.4, type="DevTestConsumption"),
            meter(A100, "NC24ads_A100_v4", 26000, unitOfMeasure="1 Month"),
            meter(A100, "NC24ads_A100_v4", 1.0, armRegionName="eastus"),
            meter(A100, "NC24ads_A100_v4", 9.0, effectiveStartDate="2999-01-01T00:00:00Z"),
            meter(A100, "NC24ads_A100_v4", 0.0, effectiveStartDate="2026-01-01T00:00:00Z"),
            meter(A100, "NC24ads_A100_v4", None, effectiveStartDate="2026-01-01T00:00:00Z"),
            meter("Standard_Other", "Other", 1.0),
        ]
    )
    found = api.read([A100])
    assert amounts(found) == {
        (A100.lower(), "dedicated"): 4.775,
        (A100.lower(), "low_priority"): 1.097295,
    }
    price = found[A100.lower(), "westeurope", "dedicated"]
    assert (price.currency, price.region, price.as_of) == ("USD", "westeurope", today())
    [asked] = api.asked
    query = parse_qs(urlsplit(asked).query)
    assert query["currencyCode"] == ["'USD'"]
    [asked_for] = query["$filter"]
    assert asked_for == (
        "serviceName eq 'Virtual Machines' and priceType eq 'Consumption'"
        f" and armRegionName eq 'westeurope' and (armSkuName eq '{A100}')"
    )


def test_of_two_meters_the_newest_counts_and_of_equals_the_highest(api: Api) -> None:
    new = "2026-08-01T00:00:00Z"
    api.answer = lambda _number, _path: page(
        [
            meter(A100, "NC24ads_A100_v4 Spot", 7.3229, effectiveStartDate=new),
            meter(A100, "NC24ads_A100_v4 Spot", 9.9),
            meter(A100, "NC24ads_A100_v4 Spot", 5.858, effectiveStartDate=new),
        ]
    )
    assert amounts(api.read([A100])) == {(A100.lower(), "low_priority"): 7.3229}


def test_every_page_is_read(api: Api) -> None:
    def answer(number: int, _path: str) -> Answer:
        following = f"{api.address}?$filter=armSkuName eq 'x'&$skip={number + 1}" if number < 2 else None
        return page([meter((A100, H200, "Standard_D16s_v5")[number], "x", number + 1.0)], following)

    api.answer = answer
    found = amounts(api.read([A100, H200, "Standard_D16s_v5"]))
    assert sorted(found.values()) == [1.0, 2.0, 3.0]
    assert [parse_qs(urlsplit(path).query).get("$skip") for path in api.asked] == [None, ["1"], ["2"]]


def test_many_sizes_are_asked_for_in_parts(api: Api) -> None:
    api.answer = lambda _number, path: page(
        [meter(size, "x", 1.0) for size in re.findall(r"armSkuName\+eq\+%27(\w+)%27", path)]
    )
    sizes = [f"Standard_D{number}s_v9" for number in range(45)]
    assert len(api.read(sizes)) == 45
    assert len(api.asked) == 3


def test_the_currency_is_asked_for(api: Api) -> None:
    api.answer = lambda _number, _path: page([meter(A100, "x", 4.4, currencyCode="EUR")])
    [price] = api.read([A100], currency="EUR").values()
    assert (price.amount, price.currency) == (4.4, "EUR")
    assert parse_qs(urlsplit(api.asked[0]).query)["currencyCode"] == ["'EUR'"]


@pytest.mark.parametrize("header", ["Retry-After", "x-ms-ratelimit-retailprices-retry-after"])
def test_it_waits_as_long_as_the_api_asks(api: Api, waits: list[float], header: str) -> None:
    api.answer = lambda number, _path: (
        (429, {header: "7"}, "") if number < 2 else page([meter(A100, "x", 1.0)])
    )
    said: list[str] = []
    assert len(api.read([A100], say=said.append)) == 1
    assert (waits, said) == ([7.0, 7.0], ["`127.0.0.1` asks to wait 7 seconds"] * 2)


@pytest.mark.parametrize(
    ("header", "waited"), [("99999", 120.0), ("-3", 0.0), ("soon", 60.0), ("nan", 60.0), ("inf", 60.0)]
)
def test_a_wait_is_bounded(api: Api, waits: list[float], header: str, waited: float) -> None:
    api.answer = lambda _number, _path: (429, {"Retry-After": header}, "")
    with pytest.raises(HelpfulError, match="still refuses"):
        api.read([A100])
    assert waits == [waited] * price_service.MOST_WAITS


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((200, {}, "<html>"), "is not JSON"),
        ((200, {}, '{"Items": [{"arm'), "is not JSON"),
        ((200, {}, ""), "is not JSON"),
        ((200, {}, "[1]"), "something else than prices"),
        ((200, {}, '{"Items": [1]}'), "something else than prices"),
        ((200, {}, '{"error": {}}'), "something else than prices"),
        (page([], "https://example.com/api?$skip=1"), "of another server"),
        (page([], "http://127.0.0.1:x/"), "of another server"),
        (page([], "file:///etc/passwd"), "of another server"),
        ((400, {}, "no"), "answers 400"),
        ((500, {}, ""), "answers 500"),
    ],
)
def test_an_answer_that_is_not_as_documented_is_an_error(api: Api, answer: Answer, message: str) -> None:
    api.answer = lambda _number, _path: answer
    with pytest.raises(HelpfulError, match=message) as caught:
        api.read([A100])
    assert caught.value.help


def test_pages_without_end_are_an_error(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_service, "MOST_PAGES", 3)
    api.answer = lambda _number, _path: page([], api.address)
    with pytest.raises(HelpfulError, match="more than 3 pages"):
        api.read([A100])


def test_the_port_of_a_next_page_may_be_said() -> None:
    """Azure writes ``https://prices.azure.com:443/…``."""
    origin = price_service._origin(price_service.ADDRESS)
    assert price_service._origin("https://prices.azure.com:443/x") == origin
    assert price_service._origin("http://prices.azure.com/x") != origin


@pytest.fixture
def project(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(price_service, "ADDRESS", api.address)
    monkeypatch.setattr(price_service.read_prices, "__kwdefaults__", {"say": print, "address": api.address})
    (tmp_path / "worldsize.yml").write_text(
        "region: westeurope\nvm_sizes: {Standard_ND256xyz_v9: {gpus: 8}}\n"
    )
    return tmp_path


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["catalogue", *words])
    return result.exit_code, result.output


def test_the_command_writes_the_prices_of_the_projects_region(api: Api, project: Path) -> None:
    api.answer = lambda _number, path: page(
        [
            meter(size, name, amount)
            for size in (A100, "Standard_ND256xyz_v9")
            for name, amount in (("x", 4.5), ("x Spot", 1.25))
            if size in path
        ]
    )
    code, output = run("--prices")
    assert (code, output) == (
        0,
        f"prices of 2 VM sizes in westeurope, in USD; `{Path('.worldsize', 'prices.csv')}` is written\n",
    )
    assert (project / ".worldsize" / "prices.csv").read_text() == (
        "size,region,currency,dedicated,low_priority,as_of\n"
        f"{A100},westeurope,USD,4.5,1.25,{today()}\n"
        f"Standard_ND256xyz_v9,westeurope,USD,4.5,1.25,{today()}\n"
    )
    code, output = run("A100", "NC24")
    assert code == 0
    assert "4.5 USD      1.25 USD" in output
    assert f"in westeurope, as of {today()}" in output
    asked = " ".join(api.asked)
    sizes = [vm_sizes.lookup(name) for name in vm_sizes.names()]
    assert all(size.name in asked for size in sizes if size is not None and size.status != "retired")
    api.answer = lambda _number, path: page(
        [meter(A100, "x", 3.673, armRegionName="eastus")] if A100 in path else []
    )
    assert run("--prices", "--region", "eastus")[0] == 0
    assert (project / ".worldsize" / "prices.csv").read_text().count("\n") == 4
    listed = json.loads(run("--json", "A100", "NC24", "--region", "eastus")[1])
    assert listed[0]["prices"]["dedicated"]["amount"] == 3.673
    assert listed[0]["prices"]["low_priority"] is None


@pytest.mark.parametrize("body", ["<html>", '{"Items": []}'])
def test_the_file_stays_if_prices_cannot_be_read(api: Api, project: Path, body: str) -> None:
    file = project / ".worldsize" / "prices.csv"
    file.parent.mkdir()
    before = "size,region,currency,dedicated,low_priority,as_of\nStandard_D16s_v5,eastus,USD,1,,2026-01-01\n"
    file.write_text(before)
    api.answer = lambda _number, _path: (200, {}, body)
    code, output = run("--prices")
    assert (code, output.count("error:")) == (1, 1)
    assert file.read_text() == before
    assert [path.name for path in file.parent.iterdir()] == ["prices.csv"]


def test_no_network_is_one_error(api: Api, project: Path) -> None:
    api.server.shutdown()
    api.server.server_close()
    code, output = run("--prices")
    assert code == 1
    assert output.startswith("error: `127.0.0.1` cannot be reached")
    assert not (project / ".worldsize").exists()


def test_a_file_that_cannot_be_written_is_an_error(api: Api, project: Path) -> None:
    api.answer = lambda _number, path: page([meter(A100, "x", 1.0)] if A100 in path else [])
    (project / ".worldsize").write_text("a file")
    code, output = run("--prices")
    assert (code, "error: " in output) == (1, True)
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--prices", "--refresh"), 2, "take no words"),
        (("--prices", "A100"), 2, "take no words"),
        (("--currency", "EUR"), 2, "belongs to `--prices`"),
        (("--prices", "--currency", "euro"), 2, "is not a currency"),
        (("--prices", "--region", "West Europe"), 2, "is not the name of a region"),
        (("A100", "--region", "westeuropa"), 0, "did you mean `westeurope`?"),
        (("H200", "--region", "eastus"), 0, "No price of these sizes in eastus is known."),
    ],
)
def test_words_that_do_not_fit(project: Path, words: tuple[str, ...], code: int, said: str) -> None:
    found, output = run(*words)
    assert (found, said in output) == (code, True), output


def test_a_damaged_file_of_prices_is_an_error(project: Path) -> None:
    (project / ".worldsize").mkdir()
    (project / ".worldsize" / "prices.csv").write_text("nonsense\n")
    code, output = run()
    assert code == 1
    assert output.startswith(f"error: {Path('.worldsize', 'prices.csv')}:1: the columns are not")
