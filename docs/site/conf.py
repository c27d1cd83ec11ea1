"""Configure Sphinx: Markdown through MyST, the theme Furo, nothing loaded from anywhere."""

project = "spec-kitty"
html_title = "spec-kitty"
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
html_show_sphinx = False
smartquotes = False
