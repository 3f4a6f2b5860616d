"""pyannote.audio, imported once: its torchcodec warns that it cannot read files."""

import warnings
from importlib.util import find_spec

if find_spec("pyannote") is not None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyannote.audio  # noqa: F401
