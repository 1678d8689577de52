"""The HTML, style sheet and scripts of the pages."""
