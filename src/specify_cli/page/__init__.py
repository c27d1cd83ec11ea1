"""One HTML file that shows a record and proves itself in the reader's browser."""
