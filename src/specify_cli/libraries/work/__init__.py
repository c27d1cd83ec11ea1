"""Work over many records: where they lie, and how it is shared out among processes or machines.

    from specify_cli.libraries.work.sources import Source, list_items
    list_items(Source(".", root))

Reading order: `sources.py` (projects, archives and what rooms add, cut into items), `sharing.py`
(this process, several, or a Dask cluster), `records.py` (verify one project on any engine),
`options.py` (`--source`, `--workers`, `--engine`), `shapes.py`.

The answer does not depend on the engine or the number of workers. A worker that dies costs its
item, which is named. The point `sources` takes further kinds from rooms. The rooms replay, what_if,
witness, archives and collector import it.
"""
