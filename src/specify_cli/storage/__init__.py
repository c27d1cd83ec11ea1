"""Records and objects on disk: create, append, find, list, read and check them.

    from specify_cli.storage.index import Index
    Index(project.root).resolve(invocation_id).path

Reading order: `store.py` (the Protocols, and records as files), `objects.py` (bytes named by their
SHA-256), `index.py` (which records exist), `queries.py` (list and show), `checking.py` (verify
where they lie), `reachability.py` (the objects of a record), `frozen.py` (the inputs of a past
decision), `publishing.py`, `worktrees.py` and `cold.py` (months in one archive).

Every store passes the tests in tests/store_contract.py.

Every line and object whose writer got an answer survives kill -9 and a power cut, by the steps of
`durable.py`. A listing never misses a record on disk. No link is followed. The package imports
`record`, `project` and `charter`; `trail`, `invocation` and everything above import it.
"""
