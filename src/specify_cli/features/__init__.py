"""The features, one folder each, called rooms: what goes beyond recording, listing and verifying.

    from specify_cli.cli.tables.assemble import read_rooms
    [(room.feature.name, room.feature.about) for room in read_rooms()]

Reading order in each room: `feature.py` (the declaration: commands, forms, checks, errors),
`commands.py` (parse, call, render), the modules of its subject, `shapes.py` (the JSON it prints).
docs/architecture.md lists the rooms, docs/extending.md says what a declaration holds.

Any room can be taken out with those that need it, and everything else works (`make rooms`). A room
imports the core, the libraries it declares and the rooms it needs, which `make lint` checks. The
core and the libraries import no room.
"""
