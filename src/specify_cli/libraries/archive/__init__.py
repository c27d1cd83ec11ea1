"""Records with every object they lead to in one file that can be verified and replayed elsewhere,
and back from it.

    from specify_cli.libraries.archive.archive import export
    export(project, [invocation_id], f"{root}/run.tar", safe=False)

Reading order: `archive.py` (write), `unpacking.py` (read, check, import), `withholding.py` (what
must not leave, and what is said of it), `sealing.py` (what leaves encrypted, and its keys),
`orders.py` (where an annex that erases hangs), `copies.py` (what is here already), `options.py`
(what the forms of `invocations export` read alike), `memory.py` (a store without a disk).

The same records give the same bytes. An import checks everything first; what it brings is
read-only, and only a later export of the same record extends it. A safe export withholds whole
lines and objects and names each. Rooms that hand records over import it.
"""
