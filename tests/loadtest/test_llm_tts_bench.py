"""The bench of LLM and TTS, run on scripted engines."""

import sys

import pytest

from engines.ports import Message
from engines.scripted import LlmOptions, ScriptedLlm, ScriptedTts
from loadtest import llm_tts_bench as bench


async def test_an_answer_is_timed_from_the_question_to_its_first_token():
    llm = ScriptedLlm(LlmOptions(start_delay_ms=20, script=("One", " two", " three.")))
    answer = await bench.ask(llm, [Message("user", "Count.")])
    assert answer.text == "One two three."
    assert answer.first_ms >= 19
    assert answer.usage.output_tokens == 3
    assert answer.per_second > 0


async def test_the_turn_after_has_the_answer_before_it():
    asked = []

    class Listening(ScriptedLlm):
        def open(self, request):
            asked.append(request)
            return super().open(request)

    _, second = await bench.second_turn(Listening(), "Ann", 2, ahead=True)
    assert [request.max_tokens for request in asked] == [0, 60, 60]
    assert [len(request.messages) for request in asked] == [5, 6, 8]
    assert asked[2].messages[:6] == asked[1].messages
    assert second.usage.finish_reason == "stop"


async def test_speech_is_timed_to_its_first_chunk():
    first_ms, chunks = await bench.speak(ScriptedTts(), "one two three four")
    assert first_ms > 0
    assert sum(len(chunk) for chunk in chunks) == 8000


@pytest.mark.parametrize("contended", [[], ["--contended"]])
def test_every_row_is_printed(monkeypatch, capsys, contended):
    monkeypatch.setattr(bench.smollm2, "create", lambda options, models: ScriptedLlm())
    monkeypatch.setattr(bench.hibari, "create", lambda options, models: ScriptedTts())
    monkeypatch.setattr(sys, "argv", ["bench", "--threads", "1", "--rounds", "1", *contended])
    bench.main()
    rows = capsys.readouterr().out.splitlines()
    assert [row[:14] for row in rows] == ["llm  1 threads"] * 4 + ["tts  1 threads"] * 4
