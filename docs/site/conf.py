"""Configure Sphinx: Markdown through MyST, the theme Furo, nothing loaded from anywhere."""

from pathlib import Path

project = "spec-kitty"
html_title = "spec-kitty"
language = "en"
extensions = ["myst_parser"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
# Headings can be linked as they can on a forge; a link to one that is not there fails the build.
myst_heading_anchors = 4
nitpicky = True
# A search result's summary is fetched from its page, which a browser forbids for pages opened from files.
html_show_search_summary = False
html_copy_source = False
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_show_sphinx = False
html_show_copyright = False
html_use_index = False
smartquotes = False


def setup(app):  # type: ignore[no-untyped-def]  # Sphinx is not there when types are checked
    """Repair the menu behind the theme, which makes it at the default priority 500."""
    app.connect("html-page-context", name_levels, priority=900)


def name_levels(app, pagename, templatename, context, doctree):  # type: ignore[no-untyped-def]
    """Give the captions of the menu, which are headings, their level: a screen reader needs it."""
    del app, pagename, templatename, doctree
    menu = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = menu.replace('role="heading"', 'role="heading" aria-level="2"')
