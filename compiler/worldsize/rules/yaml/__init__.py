"""WS0: files, settings, suppression comments and failures of worldsize."""

from __future__ import annotations

from worldsize.rules.registry import Rule

# One row a rule.
# fmt: off
RULES = (
    Rule("WS000", "internal-error", "error", "worldsize itself failed"),
    Rule("WS001", "yaml-syntax", "error", "a file that is not YAML, as Azure ML reads it"),
    Rule("WS002", "yaml-duplicate-key", "error", "a key that occurs twice in one mapping"),
    Rule("WS003", "yaml-unreadable", "error", "a file that worldsize cannot open"),
    Rule("WS004", "yaml-not-text", "error", "a file that is not UTF-8 text"),
    Rule("WS005", "yaml-empty", "error", "an empty file"),
    Rule("WS006", "yaml-too-large", "error", "a file with more text or values than any job has",
         confidence="likely"),
    Rule("WS007", "yaml-too-deep", "error", "more than 100 levels of nesting", confidence="likely"),
    Rule("WS008", "yaml-alias-bomb", "error", "aliases that expand to too many values", confidence="likely"),
    Rule("WS009", "file-not-recognised", "info", "a file that is neither a spec nor an Azure ML file"),
    Rule("WS010", "suppression-unknown", "warning", "a suppression without a known code"),
    Rule("WS011", "suppression-unused", "warning", "a suppression that has no effect"),
    Rule("WS012", "findings-left-out", "info", "a rule with more findings than worldsize lists"),
    Rule("WS013", "file-over-budget", "warning", "a file that takes too long to check", since="0.2.0"),
    Rule("WS014", "template-not-filled", "info", "a template whose placeholders are not filled in",
         since="0.2.0"),
    Rule("WS015", "yaml-key-repeated", "warning", "a key that occurs twice with the same value",
         since="0.2.0"),
    Rule("WS016", "file-not-read", "warning", "a script or another file that is too large to be checked",
         since="0.2.0"),
    Rule("WS020", "output-not-ours", "error", "an output folder with other files in it"),
    Rule("WS021", "output-not-written", "error", "an output folder that worldsize cannot write"),
    Rule("WS030", "settings-unknown-key", "error", "a key that `worldsize.yml` does not have"),
    Rule("WS031", "settings-wrong-value", "error", "a value that `worldsize.yml` does not allow"),
    Rule("WS032", "settings-unknown-rule", "error", "a rule in `worldsize.yml` that does not exist"),
    Rule("WS033", "settings-path-missing", "warning",
         "a folder in `allow:` of `worldsize.yml` that does not exist"),
    Rule("WS034", "reference-outside", "info", "a reference to a file outside the checked tree"),
)
