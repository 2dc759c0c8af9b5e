"""The extension for VS Code: what it starts, and what it says where that does not start.

The host is a stub here; the packed extension has been tried in VS Code itself, see `compiler/editors/vscode`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from worldsize.lsp.actions import FIX_ALL

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "compiler" / "editors" / "vscode"
HOST = """
const Module = require("node:module");
const [file, folder, setting] = process.argv.slice(1);
const shown = [];
const vscode = {
  workspace: {
    workspaceFolders: [{ uri: { fsPath: folder } }],
    getConfiguration: () => ({ get: () => setting }),
    onDidChangeConfiguration: () => ({}),
  },
  commands: { registerCommand: (name) => shown.push(name), executeCommand: async () => {} },
  window: { showErrorMessage: async (text) => { shown.push(text); } },
};
class LanguageClient {
  constructor(id, name, server, clientOptions) {
    Object.assign(this, { server, clientOptions, outputChannel: { appendLine() {} } });
  }
  createDefaultErrorHandler() { return { error() {}, closed: () => "usual" }; }
  isRunning() { return this.running; }
  async start() {
    const server = await this.server();
    const status = await new Promise((resolve) => {
      server.once("exit", resolve);
      server.stdout.once("data", () => resolve(undefined));
    });
    this.running = status === undefined;
    shown.push(`started: ${this.running}`, this.clientOptions.errorHandler.closed().action);
    server.kill();
  }
}
const load = Module._load;
Module._load = (name, ...rest) =>
  name === "vscode" ? vscode
    : name === "vscode-languageclient/node" ? { LanguageClient, CloseAction: { DoNotRestart: "stay" } }
    : load(name, ...rest);
const show = () => console.log(JSON.stringify(shown));
require(file).activate({ subscriptions: [] }).then(() => setImmediate(show));
"""


def activate(folder: Path, setting: str = "") -> list[str]:
    """What the extension registers, starts and says in a folder."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node.js")
    result = subprocess.run(
        [node, "-e", HOST, str(EXTENSION / "extension.js"), str(folder), setting],
        env=os.environ | {"PATH": str(folder / "nowhere")},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    said: list[str] = json.loads(result.stdout)
    assert said.pop(0) == "worldsize.restart"
    return said


def make_command(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    path.chmod(0o755)
    return path


def test_the_virtual_environment_of_the_folder_is_found(tmp_path: Path) -> None:
    make_command(tmp_path / ".venv" / "bin" / "worldsize", "print(sys.argv, flush=True)\nsys.stdin.read()")
    assert activate(tmp_path) == ["started: true", "stay"]


def test_a_relative_path_starts_at_the_folder(tmp_path: Path) -> None:
    make_command(tmp_path / "env" / "worldsize", "print(sys.argv, flush=True)\nsys.stdin.read()")
    assert activate(tmp_path, "env/worldsize") == ["started: true", "stay"]


def test_a_missing_command_is_one_sentence(tmp_path: Path) -> None:
    assert activate(tmp_path) == [
        "Worldsize is not installed as `worldsize`: `pip install 'worldsize[lsp]'`, or set its path."
    ]


def test_a_command_that_ends_at_once_gives_its_own_reason(tmp_path: Path) -> None:
    make_command(
        tmp_path / "env" / "worldsize",
        "sys.exit('error: `worldsize lsp` needs `pygls`\\n  = help: run `pip`')",
    )
    assert activate(tmp_path, "env/worldsize")[-1].endswith("lsp`: `worldsize lsp` needs `pygls`; run `pip`")


def test_the_manifest_declares_what_the_code_and_the_pages_name() -> None:
    manifest: dict[str, Any] = json.loads((EXTENSION / "package.json").read_text())
    code = (EXTENSION / manifest["main"]).read_text()
    declared = manifest["contributes"]
    settings = set(declared["configuration"]["properties"])
    assert {"worldsize.path"} <= settings
    assert f'"{declared["commands"][0]["command"]}"' in code
    pages = (EXTENSION / "README.md").read_text() + (ROOT / "compiler" / "docs" / "editors.md").read_text()
    assert set(re.findall(r"`(worldsize\.(?!yml)[\w.]+)`", pages)) <= settings
    assert FIX_ALL in pages
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert manifest["version"] == version[1]
