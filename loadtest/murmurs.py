"""What people hum while they listen: "mm-hm" and its like, in the embedded voice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import numpy as np
import soundfile
import soxr

from engines.audio import Pcm
from engines.models import ModelStore
from engines.ports import SpeechRequest
from engines.tts import hibari
from loadtest.clips import TRANSCRIPTS
from loadtest.speech import RATE as SPEECH_RATE
from loadtest.speech import from_first_sound

BACKCHANNELS: Final = ("Mm-hm.", "Yeah.", "Right.", "Okay.", "Uh-huh.", "Yeah, yeah.", "I see.")
RATE: Final = 24_000


async def make_murmurs() -> list[tuple[str, Pcm]]:
    """Each backchannel with its sound at 24 kHz, from its first audible sample on."""
    voice = hibari.create(hibari.Options(), ModelStore())
    await voice.warm_up()
    murmurs = []
    for text in BACKCHANNELS:
        async with voice.open(SpeechRequest(text)) as audio:
            pieces = [pcm async for pcm in audio]
        spoken = Pcm(np.concatenate([pcm.samples for pcm in pieces]), pieces[0].rate)
        murmurs.append((text, without_lead(spoken)))
    await voice.close()
    return murmurs


async def write_murmurs(folder: Path) -> None:
    """A folder of them, as folders of recordings are."""
    said = {}
    for number, (text, sound) in enumerate(await make_murmurs()):
        name = f"murmur_{number}.wav"
        soundfile.write(folder / name, sound.samples, sound.rate, subtype="PCM_16")
        said[name] = text
    (folder / TRANSCRIPTS).write_text(json.dumps(said), "utf-8")


def without_lead(pcm: Pcm) -> Pcm:
    """A recording at 24 kHz without what precedes its first sound."""
    sound = from_first_sound(soxr.resample(pcm.floats(), pcm.rate, SPEECH_RATE))
    return Pcm.from_floats(soxr.resample(sound, SPEECH_RATE, RATE), RATE)
