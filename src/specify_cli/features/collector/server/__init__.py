"""The collector as a process: one socket, one storage, the HTTP interface and the pages people
read.

    from specify_cli.features.collector.server.metrics import Metrics
    Metrics(lambda: 0)

Reading order: `app.py` (the routes, and what readers get), `intake_routes.py` and
`witness_routes.py` (what senders and clients of the witness get), `pages.py` and `templates/`
(values in, HTML out), `metrics.py` (numbers for Prometheus), `log.py` (lines of JSON).

Recorded text is escaped. An answer never tells more than the token may read. What is counted names
routes and nothing that was sent. It needs the extra `collector`; only the command `collector serve`
loads it.
"""
