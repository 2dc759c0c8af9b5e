# Installs worldsize with its server beside what the runner has. The inputs arrive as variables, so that none
# is read as shell.
set -euo pipefail
root="$GITHUB_ACTION_PATH/../../.."
extras="serve,azure"
if [ -n "$SERVE_EXTRAS" ]; then extras="$extras,$SERVE_EXTRAS"; fi
"$SERVE_PYTHON" -m venv "$SERVE_VENV"
"$SERVE_VENV/bin/python" -m pip install --quiet --constraint "$root/.ci/constraints.txt" "$root[$extras]"
