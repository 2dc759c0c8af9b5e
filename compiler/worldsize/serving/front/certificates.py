"""The certificate authority of one home, and the certificates it signs for the hosts that clients ask for.

It is never installed anywhere: clients learn of it by the environment variables that name its bundle.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
import tempfile
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TypeAlias

import certifi
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from worldsize.base import untrusted
from worldsize.base.whole_file import NotAsWrittenError, read_private, write_whole
from worldsize.serving.front import guard
from worldsize.serving.home import PRIVATE_FILE, Home

LIFE = timedelta(days=30)
MARGIN = timedelta(days=1)  # an authority is remade when less than this is left
MOST_CONTEXTS = 256
_LOOPBACK = ipaddress.ip_network("127.0.0.1/32")
BUNDLE_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")

_PEM = re.compile(
    rb"-----BEGIN PRIVATE KEY-----\n[A-Za-z0-9+/=\n]+-----END PRIVATE KEY-----\n"
    rb"-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+-----END CERTIFICATE-----\n"
)

Key: TypeAlias = ec.EllipticCurvePrivateKey


class Authority:
    """The certificate authority of a home, made at its first use and again before it expires.

    Raises:
        NotAsWrittenError: Its file is not what was written.
        OSError: It cannot be read or written.
    """

    def __init__(self, home: Home) -> None:
        self._home, self._path = home, home.state / "authority.pem"
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._key, self.certificate = self._load() or self._make()

    def context(self, *names: str) -> ssl.SSLContext:
        """The TLS context of a server: its certificate is for the first of these names or IP addresses."""
        if _expires_soon(self.certificate):
            self._contexts.clear()
            self._key, self.certificate = self._make()
        if (context := self._contexts.get(names[0])) is None:
            if len(self._contexts) >= MOST_CONTEXTS:
                self._contexts.clear()
            context = self._contexts[names[0]] = self._sign(names)
        return context

    def write_bundle(self, environment: Mapping[str, str]) -> Path:
        """Write the authorities that a client of this home trusts: the usual ones and this; the file.

        Bundles that the user's variables name replace certifi's.
        """
        path = self._home.state / "certificates.pem"
        named = [Path(environment[name]) for name in BUNDLE_VARIABLES if environment.get(name)]
        usable = [bundle for bundle in dict.fromkeys(named) if bundle != path and bundle.is_file()]
        texts = [untrusted.read_bytes(bundle) for bundle in usable or [Path(certifi.where())]]
        texts.append(self.certificate.public_bytes(Encoding.PEM))
        write_whole(path, b"\n".join(texts), mode=PRIVATE_FILE, follow=False)
        return path

    def _load(self) -> tuple[Key, x509.Certificate] | None:
        text = read_private(self._path, _PEM)
        if text is None:
            return None
        try:
            key, certificate = load_pem_private_key(text, None), x509.load_pem_x509_certificate(text)
        except ValueError:
            raise NotAsWrittenError(f"`{self._path}` is damaged") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise NotAsWrittenError(f"`{self._path}` has a key and a certificate that do not belong together")
        return None if _expires_soon(certificate) else (key, certificate)

    def _make(self) -> tuple[Key, x509.Certificate]:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("Worldsize: the workspace of one folder")
        builder = _describe(name, name, key, key, datetime.now(timezone.utc) + LIFE, authority=True)
        permitted = [*map(x509.DNSName, ("localhost", *guard.ALL)), x509.IPAddress(_LOOPBACK)]
        builder = builder.add_extension(x509.NameConstraints(permitted, None), critical=True)
        certificate = builder.sign(key, hashes.SHA256())
        write_whole(self._path, _pem(key, certificate), mode=PRIVATE_FILE, follow=False)
        return key, certificate

    def _sign(self, names: tuple[str, ...]) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        authority, end = self.certificate.subject, self.certificate.not_valid_after_utc
        builder = _describe(_name(names[0]), authority, key, self._key, end, authority=False)
        for extension in (
            x509.SubjectAlternativeName([_general_name(name) for name in names]),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        ):
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        with tempfile.NamedTemporaryFile(dir=self._home.state) as file:  # the ssl module reads files only
            file.write(_pem(key, certificate))
            file.flush()
            context.load_cert_chain(file.name)
        return context


def _expires_soon(certificate: x509.Certificate) -> bool:
    return certificate.not_valid_after_utc - datetime.now(timezone.utc) < MARGIN


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])  # RFC 5280's upper bound


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _describe(
    subject: x509.Name, issuer: x509.Name, key: Key, issuer_key: Key, end: datetime, *, authority: bool
) -> x509.CertificateBuilder:
    """A certificate to sign, with what one of an authority and one of a server have in common."""
    start = datetime.now(timezone.utc) - timedelta(hours=1)  # clocks of containers may be late
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
    # OpenSSL 3 demands the authority's key identifier when it is strict.
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    constraints = x509.BasicConstraints(ca=authority, path_length=0 if authority else None)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(constraints, critical=True)
        .add_extension(usage, critical=True)
        .add_extension(issued_by, critical=False)
    )


def _pem(key: Key, certificate: x509.Certificate) -> bytes:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + certificate.public_bytes(Encoding.PEM)
