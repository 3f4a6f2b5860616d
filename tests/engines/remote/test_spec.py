"""What an engine process is told."""

import msgspec

from engines.remote.spec import EngineSpec, Patience, ProcessSpec


def test_a_process_spec_travels_as_json():
    engine = EngineSpec("tts", "engines.tts.scripted", {"item_delay_ms": 1.5}, "/models")
    spec = ProcessSpec(engine, "1g.18gb-0", "ipc:///tmp/x", Patience(beat_s=0.1))
    assert msgspec.json.decode(msgspec.json.encode(spec), type=ProcessSpec) == spec


def test_an_engine_is_called_by_the_last_part_of_its_module():
    assert EngineSpec("asr", "my_house.my_asr").name == "my_asr"


def test_options_that_may_be_secret_are_not_shown():
    assert "hush" not in repr(EngineSpec("llm", "engines.llm.openai", {"api_key": "hush"}))
