"""Pages to explore in a browser, each one file; the templates stand beside this file, and `page` fills them."""
