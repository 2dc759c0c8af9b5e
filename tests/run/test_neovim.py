"""A real Neovim with the settings of the documentation: it attaches, shows diagnostics and applies a fix."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NEOVIM = shutil.which("nvim")
pytestmark = [
    pytest.mark.run,
    pytest.mark.smoke,
    pytest.mark.skipif(NEOVIM is None, reason="Neovim is not installed: apt-get install neovim"),
]
DOCUMENTATION = Path(__file__).parents[2] / "compiler" / "docs" / "editors.md"
SPEC = """\
name: a
compute: {cpu: {target: azureml:cpu, instance_type: Standard_D16s_v5}}
steps:
  shard: {uses: shard_data, compute: cpu, wiht: {source: "builtin:digits"}}
"""
DRIVER = """
local function finish(result)
  vim.fn.writefile({ vim.json.encode(result) }, "result.json")
  vim.cmd("qall!")
end
vim.defer_fn(function() finish({ error = "no diagnostics in time" }) end, 25000)
local function apply_fix(diagnostic)
  local params = vim.lsp.util.make_range_params()
  local place = { line = diagnostic.lnum, character = diagnostic.col }
  params.range = { start = place, ["end"] = place }
  params.context = { diagnostics = {} }
  local answers = vim.lsp.buf_request_sync(0, "textDocument/codeAction", params, 10000)
  for _, answer in pairs(answers or {}) do
    for _, action in ipairs(answer.result or {}) do
      if action.title:find("^Replace") then vim.lsp.util.apply_workspace_edit(action.edit, "utf-16") end
    end
  end
end
local started = false
vim.api.nvim_create_autocmd("DiagnosticChanged", {
  callback = function()
    local shown = vim.diagnostic.get(0)
    if started or #shown == 0 then return end
    started = true
    vim.schedule(function()
      local messages = {}
      for _, each in ipairs(shown) do table.insert(messages, each.message) end
      apply_fix(shown[1])
      finish({ messages = messages, lines = vim.api.nvim_buf_get_lines(0, 0, -1, false) })
    end)
  end,
})
"""


def choose_settings() -> str:
    """The documented settings for the Neovim that is installed: for 0.11 and newer, 0.8 to 0.10, or 0.7."""
    newest, newer, oldest = re.findall(
        r"```lua\n(.*?)```", DOCUMENTATION.read_text(encoding="utf-8"), re.DOTALL
    )
    assert NEOVIM is not None
    told = subprocess.run([NEOVIM, "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(int(part) for part in re.findall(r"\d+", told)[:2])
    return newest if version >= (0, 11) else newer if version >= (0, 8) else oldest


def test_neovim_shows_and_fixes_what_check_reports(tmp_path: Path) -> None:
    documented = choose_settings()
    command = f'cmd = {{ "{sys.executable}", "-m", "worldsize", "lsp" }}'
    settings = documented.replace('cmd = { "worldsize", "lsp" }', command)
    assert settings != documented
    (tmp_path / "worldsize.yml").write_text("{}\n")
    (tmp_path / "spec.yml").write_text(SPEC)
    (tmp_path / "init.lua").write_text(f"{settings}\n{DRIVER}")
    assert NEOVIM is not None
    subprocess.run(
        [NEOVIM, "--headless", "-n", "-u", "init.lua", "spec.yml"],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=90,
        check=True,
    )
    result = json.loads((tmp_path / "result.json").read_text())
    assert "error" not in result
    assert any("`wiht`" in each for each in result["messages"])
    assert result["lines"] == SPEC.replace("wiht", "with").splitlines()
