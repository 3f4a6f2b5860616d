"""The scripted engine as a plug-in: ``[llm] engine = "scripted"``."""

from engines.scripted import LlmOptions as Options
from engines.scripted import create_llm as create

__all__ = ["Options", "create"]
