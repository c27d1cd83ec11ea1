"""OpenTelemetry: a span processor that records the spans of generative AI (semantic conventions
`gen_ai.*`).

provider.add_span_processor(RecordSpans(run)) # what the program's instrumentation tells is on the
record of the run
"""

from __future__ import annotations

import warnings

from specify_cli.features.adapters.observer import Observer, count_kinds, parse_text
from specify_cli.features.programs.run import Run
from specify_cli.features.programs.work.calls import NOTHING
from specify_cli.installation import name_extra

with name_extra("opentelemetry"):
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
    from opentelemetry.trace import StatusCode

_ASKS = frozenset(("chat", "text_completion", "generate_content"))
_USED = tuple(
    f"{name}_tokens"
    for name in ("input", "output", "cache_read.input", "cache_creation.input", "reasoning.output")
)
_AGENTS = frozenset(("invoke_agent", "invoke_workflow"))


class RecordSpans(SpanProcessor):
    """Records agents as steps, and models and tools as calls, each when its span ends. Other spans
    are passed over."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._observer = Observer(run)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Begin a step where an agent begins."""
        if self._run.closed or span.context is None:
            return  # a provider lives longer than a run
        key, attributes = span.context.span_id, span.attributes or {}
        if attributes.get("gen_ai.operation.name") in _AGENTS:
            name = (
                attributes.get("gen_ai.agent.name")
                or attributes.get("gen_ai.workflow.name")
                or span.name
            )
            self._observer.begin_step(key, str(name), None)
        self._observer.place(key, span.parent and span.parent.span_id)

    def on_end(self, span: ReadableSpan) -> None:
        """Record what a span of generative AI tells."""
        if span.context is None:
            return
        key, attributes = span.context.span_id, span.attributes or {}
        operation = attributes.get("gen_ai.operation.name")
        if self._run.closed:
            if operation in _AGENTS | _ASKS | {"execute_tool"}:
                lost = (
                    f"{span.name} ended after {self._run.invocation_id}, and is not on its record"
                )
                warnings.warn(lost, stacklevel=2)
            return
        error = None
        if span.status.status_code is StatusCode.ERROR:
            error = span.status.description or str(attributes.get("error.type") or "error")
        told = "output.messages"
        if operation == "execute_tool":
            told = "tool.call.result"
            self._observer.begin_tool(
                key,
                str(attributes.get("gen_ai.tool.name") or span.name),
                parse_text(attributes.get("gen_ai.tool.call.arguments", NOTHING)),
                call_id=str(attributes.get("gen_ai.tool.call.id") or ""),
                within=key,
            )
        elif operation in _ASKS:
            models = (attributes.get(f"gen_ai.{side}.model") for side in ("response", "request"))
            model = next(filter(None, models), "unknown")
            prompt = parse_text(attributes.get("gen_ai.input.messages"))
            self._observer.begin_model(key, str(model), prompt, key)
        answer = parse_text(attributes.get(f"gen_ai.{told}", NOTHING))
        self._observer.end(
            key,
            answer,
            error=error,
            tokens=count_kinds(*(attributes.get(f"gen_ai.usage.{name}") for name in _USED)),
            took=max(0, ((span.end_time or 0) - (span.start_time or 0)) // 1_000_000),
        )
        failure = RuntimeError(error) if error else None
        self._observer.end_step(key, None if answer is NOTHING else answer, failure)
