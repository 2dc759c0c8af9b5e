# Runs the check as the action's inputs say. They arrive as variables, so that none is read as shell.
set -euo pipefail
paths=()
while read -r path; do # macOS has a bash without mapfile
  if [ -n "$path" ]; then paths+=("$path"); fi
done <<< "$CHECK_PATHS"
read -ra arguments <<< "$CHECK_ARGUMENTS"
command=("$WORLDSIZE" check --format "$CHECK_FORMAT" ${arguments[@]+"${arguments[@]}"} -- "${paths[@]}")
if [ "$CHECK_FORMAT" = github ]; then
  exec "${command[@]}"
fi
echo "report=$CHECK_OUTPUT" >> "$GITHUB_OUTPUT"
exec "${command[@]}" > "$CHECK_OUTPUT"
