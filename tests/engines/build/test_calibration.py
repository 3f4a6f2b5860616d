"""What a model is calibrated on: prompts and audio tokens as it will meet them."""

import json

import pytest

from engines.build.calibration import Line, choose, digest, read_lines, speak
from engines.build.steps import BuildError
from engines.tts.orpheus_text import TAGS, VOICES
from engines.tts.orpheus_tokens import GRAMMAR, ids_of, prompt_ids

FRAME = ids_of((0, 1, 2, 3, 4, 5, 4095))


# --- texts ----------------------------------------------------------------------------------


def test_the_sentences_of_the_package_are_many_and_varied():
    texts = [line.text for line in read_lines(None)]
    assert len(set(texts)) == len(texts) >= 32
    assert {text[-1] for text in texts} >= {".", "?", "!"}
    assert sum(f"<{tag}>" in text for text in texts for tag in TAGS) >= 4
    assert min(map(len, texts)) < 10 < 70 < max(map(len, texts))


def test_a_folder_of_texts_and_recordings_is_read_in_the_order_of_its_names(tmp_path):
    (tmp_path / "b.txt").write_text("One.\n\n  Two. \n")
    recorded = {"text": "Three.", "voice": "leo", "tokens": FRAME}
    (tmp_path / "a.jsonl").write_text(json.dumps(recorded) + '\n{"text": "Four."}\n')
    (tmp_path / "c.wav").write_bytes(b"\xff")
    assert read_lines(tmp_path) == [
        Line("Three.", "leo", FRAME), Line("Four."), Line("One."), Line("Two.")
    ]  # fmt: skip
    assert read_lines(tmp_path / "b.txt") == [Line("One."), Line("Two.")]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("Hello", r"bad\.jsonl:2 is no object"),
        ("[]", "is no object"),
        ('{"voice": "leo"}', "KeyError"),
        ('{"text": "Hello", "tokens": 5}', "is no object"),
        ('{"text": "Hello", "tokens": [17]}', r"bad\.jsonl:2: token 0 is 17, and may be one of"),
        (json.dumps({"text": "Hello", "tokens": FRAME[1:]}), "token 0 is 132363"),
        (json.dumps({"text": "Hello", "tokens": [*FRAME, "0"]}), "token 7 is 0"),
    ],
)
def test_a_row_that_is_no_recording_is_told_with_its_place(tmp_path, row, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"text": "Hello"}}\n{row}\n')
    with pytest.raises(BuildError, match=message):
        read_lines(path)


def test_nothing_to_calibrate_on_is_told(tmp_path):
    with pytest.raises(BuildError, match="has no line to calibrate on"):
        read_lines(tmp_path)
    with pytest.raises(BuildError, match="there is no file or folder"):
        read_lines(tmp_path / "nothing")
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(BuildError, match="cannot be read as UTF-8"):
        read_lines(tmp_path)


def test_what_is_held_out_is_not_calibrated_on():
    lines = choose(read_lines(None), 64, 8, seed=3)
    assert len(lines) == 72
    assert not {line.text for line in lines[:8]} & {line.text for line in lines[8:]}
    assert {line.voice for line in lines} == set(VOICES)
    assert len({(line.text, line.voice) for line in lines}) == 72


def test_the_choice_is_the_seeds():
    lines = read_lines(None)
    assert choose(lines, 8, 2, seed=1) == choose(lines, 8, 2, seed=1)
    assert choose(lines, 8, 2, seed=1) != choose(lines, 8, 2, seed=2)


def test_few_lines_do_for_both():
    chosen = choose([Line("Hello.", "leo")], 3, 2, seed=0)
    assert chosen == [Line("Hello.", "leo")] * 5


# --- tokens ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(orpheus):
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(orpheus, dtype=torch.float32).eval()


def letters(text):
    return [128_000, *text.encode()]


@pytest.mark.torch
def test_a_model_speaks_by_the_rules_and_alike_each_time(model, told):
    lines = [Line("Hi.", "leo"), Line("A much longer text, padded by nothing.", "tara")]
    spoken = speak(model, letters, lines, frames=3, seed=5, steps=told)
    assert spoken == speak(model, letters, lines, frames=3, seed=5, steps=told)
    assert spoken != speak(model, letters, lines, frames=3, seed=6, steps=told)
    for one, line in zip(spoken, lines, strict=True):
        assert one.prompt == prompt_ids(letters(f"{line.voice}: {line.text}"))
        assert 7 <= len(one.tokens) <= 21
        for place, token in enumerate(one.tokens):
            assert token in GRAMMAR.allowed(place)[0]
    done, total, _ = told.done["generate"]
    assert done == total == 42


@pytest.mark.torch
def test_a_row_that_ends_is_cut_there_and_never_empty(model, told):
    with Loud(model, GRAMMAR.stop):
        [one] = speak(model, letters, [Line("Hi.", "leo")], frames=5, seed=0, steps=told)
    assert len(one.tokens) == 7


class Loud:
    """Makes one token the likeliest wherever it is allowed."""

    def __init__(self, model, token):
        self.head, self.token = model.get_output_embeddings(), token

    def __enter__(self):
        def louder(layer, inputs, logits):
            logits[..., self.token] = 1000.0
            return logits

        self.hook = self.head.register_forward_hook(louder)

    def __exit__(self, *raised):
        self.hook.remove()


@pytest.mark.torch
def test_recorded_tokens_are_taken_as_they_are(model, told):
    lines = [Line("Hi.", "leo", FRAME), Line("Hi.", "leo")]
    recorded, made = speak(model, letters, lines, frames=1, seed=0, steps=told)
    assert recorded.ids == (*prompt_ids(letters("leo: Hi.")), *FRAME)
    assert made.prompt == recorded.prompt
    assert made.tokens != FRAME
    assert told.done["generate"][1] == 7
    assert digest([recorded]) != digest([made])
