"""What viewer and collector share: a server for one socket, and recorded text as HTML, pictures and
pages.

    from specify_cli.libraries.web.markup import display_plain
    display_plain("text of a record", 80)

Reading order: `markup.py` (recorded text, escaped), `headers.py` (nothing from elsewhere runs or
embeds a page), `pictures.py` (SVG), `document.py` (the page that checks itself), `comparison.py`
(two runs side by side), `server.py` (listen until a signal).

Recorded text never becomes markup, and what would hide or reorder it is spelled out. A page
requests nothing from another host. The rooms view and collector import it.
"""
