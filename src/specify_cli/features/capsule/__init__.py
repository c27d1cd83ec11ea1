"""Records beside the files, in capsules of memvid's: derived, and rebuilt when they are lost
(docs/capsule.md).

    from specify_cli.features.capsule.filling import make_words
    make_words(dict(record.entries[0].fields))

Reading order: `filling.py` (fill, and hold against the files), `store.py` (memvid's package as a
record store), `background.py` (fill behind a command), `commands.py`.

The files stay the truth: a capsule is never read where a file is there. A failure of memvid's
package costs the capsule and no record. It needs the extra `capsule` and the room replay; no room
imports it.
"""
