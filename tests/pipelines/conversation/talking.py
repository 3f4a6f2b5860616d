"""A turn machine with a clock, and someone to talk to it."""

from dataclasses import replace

from pipelines.conversation.endpoint import WINDOW_MS
from pipelines.conversation.events import (
    Command,
    DeadlinePassed,
    Event,
    TranscriptArrived,
    WindowHeard,
)
from pipelines.conversation.machine import TurnMachine
from pipelines.conversation.settings import TurnSettings

ONSET, AHEAD, SILENCE = 2, 5, 16
"""The default settings, in windows."""

DEFAULT = TurnSettings(partials=False)
NO_SPECULATION = replace(DEFAULT, speculate=False)
BY_HAND = replace(DEFAULT, detect=False)


class Caller:
    """A machine with a clock, and someone to talk to it."""

    def __init__(self, settings: TurnSettings = DEFAULT) -> None:
        self.machine = TurnMachine(settings)
        self.now = 0

    def happens(self, *events: Event) -> list[Command]:
        return [command for event in events for command in self.machine.step(event, self.now)]

    def hears(self, probability: float, windows: int) -> list[Command]:
        commands = []
        for _ in range(windows):
            self.now += WINDOW_MS
            commands += self.happens(
                WindowHeard(probability, -20.0 if probability > 0.5 else -80.0)
            )
        return commands

    def speaks(self, windows: int = 10) -> list[Command]:
        return self.hears(0.9, windows)

    def pauses(self, windows: int = AHEAD) -> list[Command]:
        return self.hears(0.1, windows)

    def stops(self) -> list[Command]:
        return self.pauses(SILENCE)

    def says(self, text: str, take: int) -> list[Command]:
        """A whole turn whose words arrive after its end."""
        return [*self.speaks(), *self.stops(), *self.happens(TranscriptArrived(take, text))]

    def waits_to_the_deadline(self) -> list[Command]:
        assert self.machine.deadline is not None
        self.now = self.machine.deadline
        return self.happens(DeadlinePassed())
