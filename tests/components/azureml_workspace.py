"""A workspace of Azure ML's on loopback, as far as azureml-mlflow knows one: a stock MLflow server behind it.

``python azureml_workspace.py FOLDER`` serves until it is killed; ``FOLDER/ready.json`` then says where. It
answers as the service does: artifacts go to blobs and are never written twice, a run has at most 50 names of
metrics and 50 tags, a request at most 250 metrics. What is asked of it stands in ``FOLDER/requests.jsonl``; a
request whose method and path contain what ``FOLDER/denied`` holds is refused with 403.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
from collections import defaultdict
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "support"))
from ports import find_free_port

SCOPE = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/trial"
    "/providers/Microsoft.MachineLearningServices/workspaces/trial"
)
MLFLOW = f"/mlflow/v2.0{SCOPE}"
ARTIFACTS = re.compile(rf"/history/v1\.0{SCOPE}/experiments/([^/]+)/runs/([^/]+)/artifacts(.*)")
STORED = re.compile(r"mlflow-artifacts:/([^/\"]+)/([0-9a-f]{32})/artifacts")
BLOBS = "/blob/account.blob.core.windows.net/azureml/"
MAX_NAMES, MAX_TAGS, MAX_METRICS = 50, 50, 250  # Azure ML's documented limits
SECONDS_TO_START = 180


class Store:
    """What the workspace remembers beside MLflow's database."""

    def __init__(self, folder: Path, port: int, backend: int) -> None:
        self.folder, self.port, self.backend = folder, port, backend
        self.lock = threading.Lock()
        self.artifacts: dict[str, list[str]] = defaultdict(list)
        self.metric_names: dict[str, set[str]] = defaultdict(set)
        self.tags: dict[str, set[str]] = defaultdict(set)

    def note(self, method: str, path: str, body: bytes) -> bool:
        """Keep a request; False where it is denied."""
        text = body.decode(errors="replace") if "/mlflow/" in path else ""
        with self.lock, (self.folder / "requests.jsonl").open("a") as log:
            log.write(json.dumps({"method": method, "path": path, "body": text}) + "\n")
        denied = self.folder / "denied"
        return not (denied.exists() and denied.read_text() in f"{method} {path}")

    def beyond_limits(self, path: str, body: bytes) -> str | None:
        """What Azure ML would not take of a request to MLflow."""
        what = path.rpartition("/mlflow/")[2]
        if what not in ("runs/log-batch", "runs/log-metric", "runs/set-tag"):
            return None
        sent = json.loads(body)
        single = [sent] if "key" in sent else []
        metrics = sent.get("metrics", single if what == "runs/log-metric" else [])
        tags = sent.get("tags", single if what == "runs/set-tag" else [])
        with self.lock:
            names = self.metric_names[sent["run_id"]]
            names |= {each["key"] for each in metrics}
            own = self.tags[sent["run_id"]]
            own |= {each["key"] for each in tags}
        if len(metrics) > MAX_METRICS:
            return f"{len(metrics)} metric rows in one batch, {MAX_METRICS} are the most"
        if len(names) > MAX_NAMES:
            return f"the run has {len(names)} metric names, {MAX_NAMES} are the most"
        return f"the run has {len(own)} tags, {MAX_TAGS} are the most" if len(own) > MAX_TAGS else None

    def content(self, run: str, path: str) -> dict[str, str]:
        """Where an artifact is, as the service tells it."""
        uri = f"https://localhost:{self.port}{BLOBS}{run}/{urllib.parse.quote(path)}?sig=none"
        return {"contentUri": uri, "origin": "ExperimentRun", "container": f"dcid.{run}", "path": path}

    def create(self, run: str, paths: list[str]) -> dict[str, Any]:
        """Name artifacts that are about to be uploaded; one that exists is a conflict."""
        made, errors = [], {}
        with self.lock:
            for path in paths:
                if path in self.artifacts[run]:
                    said = f"Resource Conflict: ArtifactId ExperimentRun/dcid.{run}/{path} already exists."
                    errors[path] = {"error": {"code": "UserError", "message": said}}
                else:
                    self.artifacts[run].append(path)
                    made.append(path)
        contents = {path: self.content(run, path) for path in made}
        return {"artifacts": contents, "artifactContentInformation": contents, "errors": errors}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    store: Store

    def answer(self) -> None:
        """Answer a request of any method."""
        body = self._body()
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        if not self.store.note(self.command, path, body):
            self._deny(blob=path.startswith(BLOBS))
        elif path.startswith(MLFLOW):
            refused = self.store.beyond_limits(path, body)
            if refused:
                self._json({"error_code": "BAD_REQUEST", "message": refused}, 400)
            else:
                self._forward(body)
        elif path.startswith(BLOBS):
            self._blob(self.store.folder / "blobs" / path.removeprefix(BLOBS), body)
        elif found := ARTIFACTS.fullmatch(path):
            self._artifacts(found[2], found[3], urllib.parse.parse_qs(url.query), body)
        else:
            self._json({"error": {"code": "NotFound", "message": f"nothing at {path}"}}, 404)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = answer  # noqa: N815 - names of http.server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _deny(self, *, blob: bool) -> None:
        said, code = (
            "This client is not authorized to perform this action.",
            "AuthorizationPermissionMismatch",
        )
        if blob:
            text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{said}</Message></Error>"
            self._send(403, text.encode(), "application/xml", {"x-ms-error-code": code})
            return
        mlflow = {"error_code": "PERMISSION_DENIED", "message": said}
        self._json({**mlflow, "error": {"code": "UserError", "message": said}}, 403)

    def _forward(self, body: bytes) -> None:
        connection = HTTPConnection("127.0.0.1", self.store.backend, timeout=60)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        connection.request(self.command, self.path.removeprefix(MLFLOW), body, headers)
        response = connection.getresponse()
        place = f"azureml://localhost:{self.store.port}/artifact/v2.0{SCOPE}"
        text = STORED.sub(rf"{place}/experiments/\1/runs/\2/artifacts", response.read().decode())
        connection.close()
        self._send(response.status, text.encode(), "application/json")

    def _artifacts(self, run: str, what: str, query: dict[str, list[str]], body: bytes) -> None:
        if what == "/batch/metadata":
            paths = [each["path"] for each in json.loads(body)["paths"]]
            self._json(self.store.create(run, paths))
        elif what == "/contentinfo":
            self._json(self.store.content(run, query["path"][0]))
        else:
            self._json({"value": [{"path": path} for path in self.store.artifacts[run]]})

    def _blob(self, file: Path, body: bytes) -> None:
        if self.command == "PUT":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
            self._send(201, b"", "application/octet-stream", {"ETag": '"0"'})
            return
        content = file.read_bytes()
        asked = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("x-ms-range") or "")
        first, last = (
            (int(asked[1]), min(int(asked[2]), len(content) - 1)) if asked else (0, len(content) - 1)
        )
        if first >= len(content):
            self._send(416, b"", "application/xml", {"x-ms-error-code": "InvalidRange"})
            return
        more = {"Content-Range": f"bytes {first}-{last}/{len(content)}", "ETag": '"0"'}
        more |= {"Last-Modified": "Sun, 01 Nov 2026 00:00:00 GMT", "x-ms-blob-type": "BlockBlob"}
        self._send(206 if asked else 200, content[first : last + 1], "application/octet-stream", more)

    def _json(self, content: dict[str, Any], status: int = 200) -> None:
        self._send(status, json.dumps(content).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def certify(folder: Path) -> ssl.SSLContext:
    """Make an authority in ``ca.pem``, and what a server named localhost shows of it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "trial")])
    now = dt.datetime.now(dt.timezone.utc)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context


def start_mlflow(folder: Path) -> int:
    """Start a stock MLflow server; its port once it answers."""
    port = find_free_port()
    database = f"sqlite:///{folder / 'mlflow.db'}"
    where = ["--backend-store-uri", database, "--artifacts-destination", str(folder / "served")]
    command = [sys.executable, "-m", "mlflow", "server", *where, "--host", "127.0.0.1", "--port", str(port)]
    # Its runner of background jobs would start seven more processes, which nothing here asks for.
    without_jobs = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    subprocess.Popen([*command, "--workers", "1"], cwd=folder, env=without_jobs)
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return port
        except OSError:
            time.sleep(0.1)
        finally:
            connection.close()
    raise SystemExit("the MLflow server does not answer")


def main() -> None:
    """Serve until killed."""
    folder = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = certify(folder).wrap_socket(server.socket, server_side=True)
    port = server.server_address[1]
    Handler.store = Store(folder, port, start_mlflow(folder))
    ready = {"tracking_uri": f"azureml://localhost:{port}{MLFLOW}", "backend": Handler.store.backend}
    (folder / "ready.json.part").write_text(json.dumps(ready))
    (folder / "ready.json.part").replace(folder / "ready.json")
    server.serve_forever()


if __name__ == "__main__":
    main()
