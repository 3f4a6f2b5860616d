"""The scripted engine as a plug-in: ``[asr] engine = "scripted"``."""

from engines.scripted import AsrOptions as Options
from engines.scripted import create_asr as create

__all__ = ["Options", "create"]
