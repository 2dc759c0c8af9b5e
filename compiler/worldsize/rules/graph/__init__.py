"""WS6: steps, components, ports and bindings."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry("WS601", "unknown-component"),
    Entry("WS602", "component-missing"),
    Entry("WS603", "component-not-mapping"),
    Entry("WS604", "component-recursive"),
    Entry("WS605", "job-not-mapping"),
    Entry("WS610", "input-missing", on=("Job",)),
    Entry("WS611", "input-ambiguous"),
    Entry("WS612", "input-unknown", on=("Job",)),
    Entry("WS613", "input-type", on=("Component", "Job")),
    Entry("WS614", "input-out-of-range", on=("Component", "Job")),
    Entry("WS615", "input-not-in-enum", on=("Component", "Job")),
    Entry("WS616", "planned-input-overridden"),
    Entry("WS620", "binding-malformed", on=("Component", "Job")),
    Entry("WS621", "binding-unknown-scope", on=("Component", "Job")),
    Entry("WS622", "binding-unknown-step", on=("Job",)),
    Entry("WS623", "binding-unknown-output", on=("Component", "Job", "Step")),
    Entry("WS624", "binding-in-text", on=("Job",)),
    Entry("WS625", "plan-unknown-quantity"),
    Entry("WS630", "graph-cycle", on=("Job",)),
    Entry("WS640", "gate-metric-unknown"),
    Entry("WS641", "gate-not-supported"),
    Entry("WS660", "run-empty"),
    Entry("WS661", "run-refused"),
    Entry("WS662", "run-cycle"),
)
