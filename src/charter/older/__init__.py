"""How contexts were laid out before, for records that name it.

    from charter.older.layout import write_page_2
    write_page_2.__name__      # "write_page_2"

`layout.py` is version 2, by characters. A record names the version of its scorer in its config; a
replay lays its context out by that one. Nothing else imports it, and nothing here changes: what is
new goes into `charter.layout`. No I/O.
"""
