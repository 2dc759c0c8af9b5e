// Starts `worldsize lsp` and connects it to the YAML documents of VS Code.
"use strict";

const path = require("node:path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

/** The command of the settings; a relative path with a folder in it starts at the workspace. */
function findCommand() {
  const command = vscode.workspace.getConfiguration("worldsize").get("path") || "worldsize";
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const isRelativePath = /[\\/]/.test(command) && !path.isAbsolute(command);
  return isRelativePath && folder ? path.join(folder, command) : command;
}

async function start() {
  const command = findCommand();
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const server = { command, args: ["lsp"], options: folder ? { cwd: folder } : {} };
  client = new LanguageClient("worldsize", "Worldsize", server, {
    documentSelector: [
      { scheme: "file", language: "yaml" },
      { scheme: "file", language: "python" }, // diagnostics of training scripts are checked as they are typed
    ],
  });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `Worldsize cannot start \`${command} lsp\`: ${error.message}. ` +
        "Install it with `pip install 'worldsize[lsp]'`, or set `worldsize.path`.",
    );
  }
}

async function restart() {
  await client?.stop();
  client = undefined;
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("worldsize.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("worldsize.path")) {
        return restart();
      }
    }),
  );
  await start();
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
