"""Record what agents on other people's frameworks do: one module for each framework
(docs/agents.md).

    from specify_cli.features.adapters.observer import Observer
    from specify_cli.features.adapters.langchain import RecordCallbacks

Reading order: `observer.py` (calls told by callbacks, by the framework's own ids, from any thread),
then the one you use: `langchain.py`, `pydantic_ai.py`, `openai_agents.py`, `opentelemetry.py`.

A framework is imported only by its own module, and none is a dependency of ours. An adapter that
fails never stops the agent: what it could not record is a gap on the record. It needs the room
programs; no room imports it.
"""
