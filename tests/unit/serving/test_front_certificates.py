"""The certificate authority of a home: what it signs, where it is kept, how long it lives."""

from __future__ import annotations

import contextlib
import ssl
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from serving import make_workspace

from worldsize.base.whole_file import NotAsWrittenError
from worldsize.serving.front import certificates
from worldsize.serving.front.certificates import Authority
from worldsize.serving.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_workspace(tmp_path).home


def shake_hands(context: ssl.SSLContext, name: str, trusted: Path) -> dict[str, object]:
    """A TLS handshake in memory; the certificate that the client saw."""
    client_context = ssl.create_default_context(cafile=str(trusted))
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT  # as OpenSSL 3 and Python 3.13 are
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    seen: dict[str, object] = client.getpeercert() or {}
    return seen


@pytest.mark.parametrize(
    "name", ["management.azure.com", "a." * 60 + "vault.azure.net", "localhost", "127.0.0.1"]
)
def test_a_strict_client_accepts_what_it_signs(home: Home, name: str) -> None:
    authority = Authority(home)
    bundle = authority.write_bundle({})
    names = ("localhost", "127.0.0.1") if name in {"localhost", "127.0.0.1"} else (name,)
    kind = "IP Address" if name == "127.0.0.1" else "DNS"
    assert (kind, name) in shake_hands(authority.context(*names), name, bundle)["subjectAltName"]  # type: ignore[operator]


def test_a_client_of_another_home_does_not(home: Home, tmp_path: Path) -> None:
    other = Authority(make_workspace(tmp_path / "other").home).write_bundle({})
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(Authority(home).context("management.azure.com"), "management.azure.com", other)


@pytest.mark.parametrize("name", ["example.org", "notazure.com", "127.0.0.2"])
def test_its_signature_opens_no_host_but_azures_and_this_machine(home: Home, name: str) -> None:
    authority = Authority(home)
    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree violation"):
        shake_hands(authority.context(name), name, authority.write_bundle({}))


def test_keys_are_private_and_stay(home: Home) -> None:
    first = Authority(home).certificate
    assert Authority(home).certificate == first
    assert (home.state / "authority.pem").stat().st_mode & 0o777 == 0o600
    Authority(home).context("management.azure.com")
    assert {path.name for path in home.state.iterdir() if path.suffix == ".pem"} == {"authority.pem"}


def test_it_lives_a_month_and_is_remade_before_it_ends(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(home)
    first = authority.certificate
    left = first.not_valid_after_utc - datetime.now(timezone.utc)
    assert timedelta(days=29) < left <= timedelta(days=30)
    context = authority.context("management.azure.com")
    assert authority.context("management.azure.com") is context
    monkeypatch.setattr(certificates, "MARGIN", timedelta(days=31))
    assert authority.context("management.azure.com") is not context
    assert authority.certificate != first
    assert Authority(home).certificate != first


def test_a_file_that_is_not_what_was_written_is_refused(home: Home, tmp_path: Path) -> None:
    Authority(home)
    path = home.state / "authority.pem"
    text = path.read_text()
    Authority(other := make_workspace(tmp_path / "other").home)
    foreign = (other.state / "authority.pem").read_text()
    mixed = text[: text.index("-----BEGIN CERT")] + foreign[foreign.index("-----BEGIN CERT") :]
    for wrong in ("", "nonsense", text[:-40], text + text, mixed, text.replace("A", "B")):
        path.write_text(wrong)
        with pytest.raises(NotAsWrittenError, match=r"authority\.pem"):
            Authority(home)
    path.write_text(text)
    assert Authority(home).certificate
    path.chmod(0o640)
    with pytest.raises(NotAsWrittenError, match="mode is 0640"):
        Authority(home)


def test_the_bundle_keeps_the_users_own(home: Home, tmp_path: Path) -> None:
    own = tmp_path / "company.pem"
    own.write_text("# company\n")
    authority = Authority(home)
    path = authority.write_bundle(
        {"SSL_CERT_FILE": str(own), "REQUESTS_CA_BUNDLE": str(tmp_path / "gone.pem")}
    )
    text = path.read_text()
    assert text.startswith("# company\n")
    assert text.count("BEGIN CERTIFICATE") == 1
    again = authority.write_bundle({"SSL_CERT_FILE": str(path)}).read_text()  # a shell of this workspace
    assert again.count("BEGIN CERTIFICATE") > 50


def test_many_hosts_do_not_fill_the_memory(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "MOST_CONTEXTS", 3)
    authority = Authority(home)
    for number in range(10):
        authority.context(f"h{number}.azure.com")
    assert len(authority._contexts) <= 3
