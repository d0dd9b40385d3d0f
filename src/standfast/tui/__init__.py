"""`standfast watch`: runs in the terminal, with the same bar and panes as on the page. Extra `tui`."""
