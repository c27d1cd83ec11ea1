"""What other systems than Linux have in place of calls of `os`.

    from doctrine import os  # the `os` of the system this runs on
    os.path.isdir(os.getcwd())

`macos.py` and `windows.py` are each `os` with what differs there put in its place; what they do not
name is the standard library's. Linux loads neither, and `doctrine` chooses when it is imported.

Neither has been run on its system: docs/systems.md says what stand-ins on Linux showed. Windows is
refused unless SPEC_KITTY_TRY_WINDOWS=1 is set.
"""
