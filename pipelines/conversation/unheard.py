"""What of a reply its listener has not heard: if it was cut in vain, it goes on from there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from engines.audio import Mark, Pcm
from pipelines.conversation.events import Output, ReplyAudio, ReplyFinished, ReplyText
from pipelines.conversation.heard import Span
from pipelines.speaking.loudness import fade_in


@dataclass(slots=True)
class _Phrase:
    """A phrase and its audio so far; ``whole`` once it is known that no more comes."""

    span: Span
    pieces: list[Pcm] = field(default_factory=list)
    whole: bool = False

    @property
    def end_ms(self) -> float:
        """Where its audio ends, or probably will."""
        return self.span.end_ms if self.whole else self.span.likely_end_ms


class Unheard:
    """The phrases of one reply that are not over yet. Mere text is never cut, so it is heard."""

    def __init__(self) -> None:
        self._phrases: deque[_Phrase] = deque()
        self._over = 0
        self._end_ms = 0.0

    def keep(self, output: Output) -> bool:
        """This was made while the reply is paused; False where it can wait elsewhere: what follows
        the phrases, or all of a reply that has not sounded."""
        if self._end_ms > 0:
            self.note(output)
            return isinstance(output, ReplyText | ReplyAudio)
        return False

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
        if isinstance(output, ReplyFinished) and self._phrases:
            self._phrases[-1].whole = True

    def _begin(self, text: str = "", spoken: str = "") -> None:
        if self._phrases:
            self._phrases[-1].whole = True
        self._phrases.append(_Phrase(Span(text, self._end_ms, self._end_ms, spoken)))

    def forget(self, heard_ms: float) -> None:
        """So much was heard: the phrases before it are over."""
        while len(self._phrases) > 1 and self._phrases[0].span.end_ms <= heard_ms:
            self._phrases.popleft()
            self._over += 1

    def cut(self, heard_ms: float) -> tuple[int, Span] | None:
        """Where so much of the audio ends: behind so many phrases, and what was heard of the next;
        None where all of them were heard."""
        for number, phrase in self._not_over(heard_ms):
            return number, phrase.span.until(heard_ms, phrase.end_ms)
        return None

    def _not_over(self, heard_ms: float) -> Iterator[tuple[int, _Phrase]]:
        if self._end_ms > 0:
            for number, phrase in enumerate(self._phrases, self._over):
                if heard_ms < phrase.end_ms:
                    yield number, phrase

    def rest(self, epoch: int, heard_ms: float) -> list[Output]:
        """All that follows so much of the audio, as outputs of the reply."""
        outputs: list[Output] = []
        for _, phrase in self._not_over(heard_ms):
            span, pieces = phrase.span, _pieces_after(phrase, heard_ms)
            text = span.text[len(span.heard_text(heard_ms, phrase.end_ms)) :]
            known = span.heard_spoken(heard_ms, phrase.end_ms)
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
