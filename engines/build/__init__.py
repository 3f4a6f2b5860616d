"""From a published checkpoint to the folder that an engine serves: ``voice build``.

A build reads a checkpoint, writes another beside its destination, reads that one back from the
disk and compares the two, and only then moves it into place, with a manifest of every byte.
"""
