"""What of a reply its listener has not heard: if it was cut in vain, it goes on from there."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from engines.audio import Mark, Pcm
from pipelines.conversation.events import Output, ReplyAudio, ReplyText
from pipelines.conversation.heard import Span
from pipelines.speaking.loudness import fade_in


@dataclass(slots=True)
class _Phrase:
    """A phrase and its audio so far."""

    span: Span
    pieces: list[Pcm] = field(default_factory=list)


class Unheard:
    """The phrases of one reply that were let out and are not over yet."""

    def __init__(self) -> None:
        self._phrases: deque[_Phrase] = deque()
        self._end_ms = 0.0

    def note(self, output: Output) -> None:
        """This was let out."""
        if isinstance(output, ReplyText):
            self._begin(output.text, output.spoken)
        if isinstance(output, ReplyAudio):
            if not self._phrases:
                self._begin()
            phrase = self._phrases[-1]
            phrase.span.sound(output.pcm.duration_ms, output.pcm.marks)
            phrase.pieces.append(output.pcm)
            self._end_ms = phrase.span.end_ms

    def _begin(self, text: str = "", spoken: str = "") -> None:
        self._phrases.append(_Phrase(Span(text, self._end_ms, self._end_ms, spoken)))

    def forget(self, heard_ms: float) -> None:
        """So much was heard: the phrases before it are over."""
        while len(self._phrases) > 1 and self._phrases[0].span.end_ms <= heard_ms:
            self._phrases.popleft()

    def rest(self, epoch: int, heard_ms: float) -> list[Output]:
        """All that follows so much of the audio, as outputs of the reply."""
        outputs: list[Output] = []
        for phrase in self._phrases:
            pieces = _pieces_after(phrase, heard_ms)
            if not pieces:
                continue
            span = phrase.span
            text = span.text[len(span.heard_text(heard_ms, span.end_ms)) :]
            known = span.heard_spoken(heard_ms, span.end_ms)
            if text:
                text = text if outputs else text.lstrip()
                outputs.append(ReplyText(epoch, text, span.spoken[known:]))
            outputs += [ReplyAudio(epoch, _without(known, piece)) for piece in pieces]
        return outputs


def _without(known: int, piece: Pcm) -> Pcm:
    """The same audio of a text that lacks so much in front."""
    marks = [Mark(mark.offset - known, mark.at_ms) for mark in piece.marks]
    return replace(piece, marks=tuple(marks)) if known else piece


def _pieces_after(phrase: _Phrase, heard_ms: float) -> list[Pcm]:
    """Its audio that follows ``heard_ms`` of the reply's; where a piece is cut, it fades in."""
    pieces, start_ms = [], phrase.span.start_ms
    for pcm in phrase.pieces:
        skipped = round((heard_ms - start_ms) * pcm.rate / 1000)
        start_ms += pcm.duration_ms
        if skipped <= 0:
            pieces.append(pcm)
        elif skipped < len(pcm):
            rest = pcm.part(skipped)
            pieces.append(replace(fade_in(rest), marks=rest.marks))
    return pieces
