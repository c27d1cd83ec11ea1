"""One governed request from its opening to its close: route it, record it durably, append to it,
close it.

    from specify_cli.invocation.executor import ProfileInvocationExecutor
    ProfileInvocationExecutor(root).invoke("review the parser").record_path

Reading order: `executor.py` (open and close, in numbered steps), `ends/` (what the first and the
last lines say), `recorder.py` (append), `events/` (what a line of an event holds), `caller.py` (who
asks), `bindings.py` (which record a session writes to), `gates.py` (gate rules).

No context is returned before its record is durable. An append is one write under the record's
lock, and closing twice changes nothing. The package prints nothing and reads no environment: clock,
entropy and caller are arguments. Commands and rooms import it.
"""
