"""What other systems than Linux have in place of calls of `os`; `from doctrine import os` gives the
`os` of the system this runs on.

`macos.py` and `windows.py` are `os` with what differs there put in its place. Linux loads neither.
"""
