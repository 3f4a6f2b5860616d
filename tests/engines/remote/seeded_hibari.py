"""hibari with the noise of its voice drawn from a fixed seed, so that runs can be compared.

The engine itself draws it anew each time: two runs of one phrase differ by some -47 dB.
"""

import numpy as np

from engines.tts.hibari import Hibari, Options

__all__ = ["Options", "create"]


class Seeded(Hibari):
    async def warm_up(self):
        await super().warm_up()
        speak = self._model.from_ids
        self._model.from_ids = lambda ids, speed: speak(ids, speed, np.random.default_rng(7))


def create(options, models):
    return Seeded(options)
