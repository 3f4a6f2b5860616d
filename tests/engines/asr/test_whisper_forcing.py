import pickle
from types import SimpleNamespace

import pytest
import torch

from engines.asr.whisper_checkpoint import Checkpoint
from engines.asr.whisper_decoding import Vocabulary
from engines.asr.whisper_forcing import as_text, forcing, take_any_prompt
from engines.ports import EngineError
from loadtest.tiny_whisper import tiny_tokenizer

pytestmark = pytest.mark.torch
VOCABULARY = Vocabulary("asr", tiny_tokenizer(), multilingual=True)
CHECKPOINT = Checkpoint("", VOCABULARY, never=(5, VOCABULARY.no_speech), never_first=(32,))
SIZE = 1864


def after(forced, ids: list[int], logits: torch.Tensor) -> torch.Tensor:
    """What is left of the logits (vocabulary,) behind these tokens."""
    rows = logits.clone().view(1, 1, -1)
    pickle.loads(pickle.dumps(forced))(7, rows, [ids], None, None)
    return rows[0, 0]


def some_logits(**boosted: float) -> torch.Tensor:
    logits = torch.randn(SIZE, generator=torch.Generator().manual_seed(2))
    for name, value in boosted.items():
        logits[VOCABULARY.id(f"<|{name}|>")] = value
    return logits


def drawn(logits: torch.Tensor, temperature: float) -> set[int]:
    chance = torch.Generator().manual_seed(3)
    odds = (logits / temperature).softmax(-1)
    return set(torch.multinomial(odds, 5000, replacement=True, generator=chance).tolist())


def test_the_task_is_written_token_by_token_whatever_the_model_wants():
    forced = forcing(CHECKPOINT, "de")
    ids = VOCABULARY.prompt("Before.", "de")
    start = ids.index(VOCABULARY.id("<|startoftranscript|>"))
    for place in range(start, len(ids) - 1):
        left = after(forced, ids[: place + 1], some_logits(endoftext=50.0))
        assert int(left.argmax()) == ids[place + 1]
        assert drawn(left, 1.0) == {ids[place + 1]}


@pytest.mark.parametrize("logit", [-30.0, 0.0, 9.0, 40.0])
@pytest.mark.parametrize("language", ["en", None])
def test_the_no_speech_probability_is_read_from_two_log_probabilities(logit, language):
    logits = some_logits(nospeech=logit, en=8.0)
    forced = forcing(CHECKPOINT, language)
    left = after(forced, [VOCABULARY.id("<|startoftranscript|>")], logits).log_softmax(-1)
    told = dict(zip(*(side.tolist() for side in reversed(left.topk(2))), strict=True))
    token = int(left.argmax())
    expected = float(logits.softmax(-1)[VOCABULARY.no_speech])
    assert VOCABULARY.language(token) == "en"
    assert forced.no_speech_prob(token, told) == pytest.approx(expected, rel=1e-3)


def test_half_precision_tells_it_well_enough():
    logits = some_logits(nospeech=9.0).bfloat16()
    forced = forcing(CHECKPOINT, "en")
    left = after(forced, [VOCABULARY.id("<|startoftranscript|>")], logits)
    told = dict(enumerate(left.float().log_softmax(-1).tolist()))
    expected = float(logits.float().softmax(-1)[VOCABULARY.no_speech])
    found = forced.no_speech_prob(VOCABULARY.id("<|en|>"), told)
    assert found == pytest.approx(expected, rel=0.13)


def test_it_is_nought_where_the_engine_does_not_tell():
    token = VOCABULARY.id("<|en|>")
    assert forcing(CHECKPOINT, "en").no_speech_prob(token, {token: 0.0}) == 0.0


def test_an_unknown_language_becomes_the_likeliest_and_nothing_else():
    forced = forcing(CHECKPOINT, None)
    start = VOCABULARY.id("<|startoftranscript|>")
    left = after(forced, [start], some_logits(ja=6.0, translate=30.0))
    assert VOCABULARY.language(int(left.argmax())) == "ja"


def test_a_text_holds_nothing_forbidden_and_begins_with_nothing_forbidden():
    forced = forcing(CHECKPOINT, "en")
    ids, logits = VOCABULARY.prompt("", "en"), some_logits()
    first, later = after(forced, ids, logits), after(forced, [*ids, 70, 71], logits)
    lost = [set(torch.nonzero(left.isinf()).flatten().tolist()) for left in (first, later)]
    assert lost == [{5, 32, VOCABULARY.no_speech}, {5, VOCABULARY.no_speech}]
    assert torch.equal(later[6:200], logits[6:200])


def test_a_model_of_one_language_is_told_only_to_leave_out_the_times():
    english = Vocabulary("asr", tiny_tokenizer(), multilingual=False)
    forced = forcing(Checkpoint("", english, (), ()), "en")
    start, plain = english.task("en")
    assert int(after(forced, [start], some_logits()).argmax()) == plain
    assert torch.equal(after(forced, [start, plain], some_logits()), some_logits())


def test_a_language_without_a_token_is_refused():
    with pytest.raises(EngineError, match="klingon"):
        forcing(CHECKPOINT, "klingon")


def test_any_prompt_is_taken_where_there_is_a_place_for_it():
    processor = SimpleNamespace(_resolve_decoder_prompt=None)
    processor._resolve_decoder_prompt = lambda text: [0]
    take_any_prompt("asr", SimpleNamespace(input_processor=processor))
    assert processor._resolve_decoder_prompt(as_text([361, 72, 257])) == [361, 72, 257]


@pytest.mark.parametrize("llm", [SimpleNamespace(), SimpleNamespace(input_processor=object())])
def test_a_release_without_that_place_is_named_and_refused(llm, trtllm):
    with pytest.raises(EngineError, match=r"\(1\.3\.0rc26\) reads.*_resolve_decoder") as refused:
        take_any_prompt("asr", llm)
    assert refused.value.code == "unavailable"
