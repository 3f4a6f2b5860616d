"""What of a reply its listener has not heard: if it was cut in vain, it goes on from there."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from engines.audio import Pcm
from pipelines.conversation.dialogue import Span
from pipelines.conversation.events import Output, ReplyAudio, ReplyText
from pipelines.speaking.loudness import fade_in


@dataclass(slots=True)
class _Phrase:
    """A phrase and its audio so far; ``start_ms`` of the reply's audio."""

    text: str
    start_ms: float
    end_ms: float
    pieces: list[Pcm] = field(default_factory=list)


class Unheard:
    """The phrases of one reply that were let out and are not over yet."""

    def __init__(self) -> None:
        self._phrases: deque[_Phrase] = deque()
        self._end_ms = 0.0

    def note(self, output: Output) -> None:
        """This was let out."""
        if isinstance(output, ReplyText):
            self._phrases.append(_Phrase(output.text, self._end_ms, self._end_ms))
        elif isinstance(output, ReplyAudio):
            if not self._phrases:
                self._phrases.append(_Phrase("", self._end_ms, self._end_ms))
            self._end_ms += output.pcm.duration_ms
            self._phrases[-1].end_ms = self._end_ms
            self._phrases[-1].pieces.append(output.pcm)

    def forget(self, heard_ms: float) -> None:
        """So much was heard: the phrases before it are over."""
        while len(self._phrases) > 1 and self._phrases[0].end_ms <= heard_ms:
            self._phrases.popleft()

    def rest(self, epoch: int, heard_ms: float) -> list[Output]:
        """All that follows so much of the audio, as outputs of the reply."""
        outputs: list[Output] = []
        for phrase in self._phrases:
            pieces = _pieces_after(phrase, heard_ms)
            if not pieces:
                continue
            heard = Span(phrase.text, phrase.start_ms, phrase.end_ms)
            text = phrase.text[len(heard.heard_text(heard_ms, phrase.end_ms)) :]
            if text:
                outputs.append(ReplyText(epoch, text if outputs else text.lstrip()))
            outputs += [ReplyAudio(epoch, piece) for piece in pieces]
        return outputs


def _pieces_after(phrase: _Phrase, heard_ms: float) -> list[Pcm]:
    """Its audio that follows ``heard_ms`` of the reply's; where a piece is cut, it fades in."""
    pieces, start_ms = [], phrase.start_ms
    for pcm in phrase.pieces:
        skipped = round((heard_ms - start_ms) * pcm.rate / 1000)
        start_ms += pcm.duration_ms
        if skipped <= 0:
            pieces.append(pcm)
        elif skipped < len(pcm):
            pieces.append(fade_in(Pcm(pcm.samples[skipped:], pcm.rate)))
    return pieces
