"""The scripted engine as a plug-in: ``[tts] engine = "scripted"``."""

from engines.scripted import TtsOptions as Options
from engines.scripted import create_tts as create

__all__ = ["Options", "create"]
