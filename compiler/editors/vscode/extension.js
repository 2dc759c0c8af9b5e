// Starts `worldsize lsp` and connects it to the YAML documents of VS Code.
"use strict";

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");
const { CloseAction, LanguageClient } = require("vscode-languageclient/node");

const ENVIRONMENTS = [".venv", "venv"]; // of the first folder, if the settings name no command
const BINARY = process.platform === "win32" ? path.join("Scripts", "worldsize.exe") : path.join("bin", "worldsize");

let client;

/** The client, which leaves the message about a server that does not start to `start`. */
class Client extends LanguageClient {
  hasStarted = false;

  error(message, data, showNotification = true) {
    super.error(message, data, this.hasStarted ? showNotification : false);
  }
}

function findFolder() {
  return vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
}

/** The command of the settings, else the one of the folder's virtual environment, else the one on the PATH. */
function findCommand() {
  const command = vscode.workspace.getConfiguration("worldsize").get("path");
  const folder = findFolder();
  if (!command) {
    const candidates = ENVIRONMENTS.map((name) => path.join(folder ?? "", name, BINARY));
    return (folder && candidates.find((each) => fs.existsSync(each))) || "worldsize";
  }
  const isRelativePath = /[\\/]/.test(command) && !path.isAbsolute(command);
  return isRelativePath && folder ? path.join(folder, command) : command;
}

/** Start the server; `said` collects what it writes before it ends. */
function launch(command, said) {
  return new Promise((resolve, reject) => {
    const server = spawn(command, ["lsp"], { cwd: findFolder() });
    server.stderr.on("data", (data) => said.push(String(data)));
    server.once("error", reject); // there is no such command, or it cannot be executed
    server.once("spawn", () => resolve(server));
  });
}

function makeClient(command, said) {
  const options = {
    documentSelector: [
      { scheme: "file", language: "yaml" },
      { scheme: "untitled", language: "yaml" },
      { scheme: "file", language: "python" }, // diagnostics of training scripts are checked as they are typed
    ],
    initializationFailedHandler: () => false, // `start` tells the reason
  };
  const made = new Client("worldsize", "Worldsize", () => launch(command, said), options);
  const usual = made.createDefaultErrorHandler();
  made.clientOptions.errorHandler = {
    error: (...failure) => usual.error(...failure),
    closed: () => (made.hasStarted ? usual.closed() : { action: CloseAction.DoNotRestart, handled: true }),
  };
  return made;
}

async function start() {
  const command = findCommand();
  const said = [];
  const made = makeClient(command, said);
  client = made;
  try {
    await made.start();
    if (!made.isRunning()) {
      throw new Error("it has ended"); // the client takes a server that ends at once for one that was stopped
    }
    made.hasStarted = true;
  } catch (error) {
    client = undefined;
    void explain(command, said.join("").trim() || describe(error), made.outputChannel); // waits for a button
  }
}

function describe(error) {
  return error?.code === "ENOENT" ? "there is no such command" : String(error?.message ?? error);
}

/** What the command line says, `error: …` and `= help: …`, as one sentence. */
function shorten(reason) {
  return reason.replace(/^error: /, "").replace(/\s+= help: /, "; ").replace(/\s+/g, " ").slice(0, 400);
}

/** Say why the server does not start, and offer what helps. */
async function explain(command, reason, output) {
  output.appendLine(`\`${command} lsp\` does not start: ${reason}`);
  const settings = "Set the path";
  const again = "Try again";
  const message =
    reason === "there is no such command"
      ? `Worldsize is not installed as \`${command}\`: \`pip install 'worldsize[lsp]'\`, or set its path.`
      : `Worldsize cannot start \`${command} lsp\`: ${shorten(reason)}`;
  const choice = await vscode.window.showErrorMessage(message, again, settings);
  if (choice === settings) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "worldsize.path");
  } else if (choice === again) {
    await restart();
  }
}

async function restart() {
  await stop();
  await start();
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop().catch(() => undefined); // it may have ended by itself
  await running?.dispose().catch(() => undefined); // with its output, of which the next client has its own
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

module.exports = { activate, deactivate: stop };
