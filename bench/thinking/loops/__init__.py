"""One loop a module: `turns(url, path, n)` gives seconds a turn, one model call and one tool each, streamed."""
