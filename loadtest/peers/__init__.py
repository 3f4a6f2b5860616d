"""Other frameworks at the same work as ``voice serve --scripted``: ``python -m loadtest.peers``."""
