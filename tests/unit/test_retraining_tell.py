"""Notices to a webhook: a real server takes them, once for each cause, and one that is down stops no look."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from webhook import Server

from worldsize.retraining import tell
from worldsize.retraining.decide import Notice
from worldsize.retraining.policy import Policy
from worldsize.retraining.tell import TRIES, add_due, post, send_due, take_secret

NOW = 1_772_420_400.0
POLICY = Policy(webhook="HOOK")
NOTICE = Notice("failed", "failed:run1", "run `run1` failed: step `train`: <!channel>\nno rows")


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.shutdown()
    server.server_close()


def send(root: Path, server: Server, now: float = NOW, policy: Policy = POLICY) -> list[str]:
    warnings: list[str] = []
    send_due(root, policy, server.address, now, warnings.append)
    assert not any("s3cr3t" in warning for warning in warnings)
    return warnings


def test_a_notice_is_sent_once(tmp_path: Path, server: Server) -> None:
    add_due(tmp_path, NOTICE, POLICY)
    assert send(tmp_path, server) == send(tmp_path, server, NOW + 1e9) == []
    text = f"worldsize retrain {tmp_path.name}: run `run1` failed: step `train`: ‹!channel> no rows"
    expected = ("/services/T0/s3cr3t?key=s3cr3t", {"text": text}, f"127.0.0.1:{server.server_port}")
    assert server.taken == [expected]


def test_only_what_is_asked_for_is_sent(tmp_path: Path, server: Server) -> None:
    for topic in ("failed", "not_promoted", "stopped", "stale"):
        add_due(tmp_path, Notice(topic, topic, topic), POLICY)
    assert send(tmp_path, server) == []
    assert sorted(body["text"].rpartition(" ")[2] for _, body, _ in server.taken) == [
        "failed", "stale", "stopped",
    ]  # fmt: skip
    add_due(tmp_path, Notice("failed", "before", ""), Policy())  # there was no webhook yet
    assert send(tmp_path, server) == []
    assert len(server.taken) == 3


def test_a_webhook_that_is_down_is_one_line_and_is_tried_again(tmp_path: Path, server: Server) -> None:
    add_due(tmp_path, NOTICE, POLICY)
    add_due(tmp_path, Notice("stale", "stale:", "stale"), POLICY)
    server.status = 500
    assert send(tmp_path, server) == ["a notice was not sent: the webhook in `HOOK` answered 500"]
    assert len(server.taken) == 1
    assert len(send(tmp_path, server, NOW + 1)) == 1  # the other one
    assert send(tmp_path, server, NOW + 2) == []  # not at once
    server.status = 204
    assert send(tmp_path, server, NOW + 100) == []
    assert len(server.taken) == 4
    assert send(tmp_path, server, NOW + 1e6) == []
    assert len(server.taken) == 4


def test_it_is_not_tried_for_ever(tmp_path: Path, server: Server) -> None:
    add_due(tmp_path, NOTICE, POLICY)
    server.status = 404
    lines = [line for week in range(3 * TRIES) for line in send(tmp_path, server, NOW + week * 604_800)]
    assert len(lines) == len(server.taken) == TRIES
    assert lines[-1].endswith("answered 404, and it is not tried again")


def test_a_server_that_hangs_delays_a_look_by_seconds(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tell, "SECONDS", 0.3)
    server.pause = 5
    for number in range(5):
        add_due(tmp_path, Notice("failed", f"failed:{number}", ""), POLICY)
    began = time.monotonic()
    (line,) = send(tmp_path, server)
    assert time.monotonic() - began < 2
    assert line.startswith("a notice was not sent: the webhook in `HOOK` ")


def test_redirects_are_not_followed(tmp_path: Path, server: Server) -> None:
    add_due(tmp_path, NOTICE, POLICY)
    server.status, server.location = 307, "http://169.254.169.254/metadata"
    assert send(tmp_path, server) == [
        "a notice was not sent: the webhook in `HOOK` answered 307, and redirects are not followed"
    ]


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("http://hooks.example.com/s3cr3t", "has no address that begins with `https://`"),
        ("ftp://localhost/s3cr3t", "has no address that begins with `https://`"),
        ("https:///s3cr3t", "has no address that begins with `https://`"),
        ("s3cr3t", "has no address that begins with `https://`"),
        ("https://169.254.169.254/s3cr3t", "leads to a service of the machine, which is never called"),
        ("https://168.63.129.16/s3cr3t", "leads to a service of the machine, which is never called"),
        ("https://[fe80::1]/s3cr3t", "leads to a service of the machine, which is never called"),
        ("https://[::ffff:169.254.1.1]/s3cr3t", "leads to a service of the machine, which is never called"),
        ("https://host:s3cr3t/", "has no valid address, or no valid answer"),
        ("https://[s3cr3t/", "has no valid address, or no valid answer"),
        ("http://127.0.0.1:9/a b\r\nX: s3cr3t", "cannot be reached: connection refused"),
    ],
)
def test_addresses_that_nothing_is_sent_to(address: str, fault: str) -> None:
    assert post(address, "text") == fault


def test_neither_http_nor_a_wrong_certificate_is_taken_for_https(server: Server) -> None:
    assert post(server.address.replace("http:", "https:"), "text") == "has no valid certificate"
    assert server.taken == []


def test_control_characters_in_the_address_are_not_sent(server: Server) -> None:
    fault = post(f"{server.address} HTTP/1.1 X: s3cr3t", "text")
    assert fault == "has no valid address, or no valid answer"
    assert server.taken == []


def test_the_secret_is_taken_out_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    monkeypatch.setenv("HOOK", server.address)
    assert take_secret(POLICY) == server.address
    assert "HOOK" not in os.environ
    assert take_secret(POLICY) is None
    add_due(tmp_path, NOTICE, POLICY)
    lines: list[str] = []
    send_due(tmp_path, POLICY, None, NOW, lines.append)
    assert lines == ["a notice was not sent: the webhook in `HOOK` is not set"]


def test_records_that_are_damaged_are_passed_over(tmp_path: Path, server: Server) -> None:
    add_due(tmp_path, NOTICE, POLICY)
    (tmp_path / "due" / "0.json").write_bytes(b"\xff{")
    (tmp_path / "due" / "1.json").mkdir()
    with pytest.warns(Warning, match="1.json"):
        assert send(tmp_path, server) == []
    assert len(server.taken) == 1


def test_two_looks_send_a_notice_once(tmp_path: Path, server: Server) -> None:
    for number in range(5):
        add_due(tmp_path, Notice("failed", f"failed:{number}", ""), POLICY)
    looks = [threading.Thread(target=send, args=(tmp_path, server)) for _ in range(4)]
    for look in looks:
        look.start()
    for look in looks:
        look.join()
    assert len(server.taken) == 5
    assert not list((tmp_path / "due").iterdir())


def test_a_look_that_is_killed_while_it_sends_does_not_send_again(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_due(tmp_path, NOTICE, POLICY)

    def die(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(tell, "post", die)
    with pytest.raises(KeyboardInterrupt):
        send(tmp_path, server)
    monkeypatch.undo()
    assert send(tmp_path, server, NOW + 1e6) == []
    assert server.taken == []
