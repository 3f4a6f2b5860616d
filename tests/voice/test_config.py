"""The configuration: where it comes from, what goes over what, what is refused in which words."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from voice.config import Config, ConfigError, EngineConfig, build, load


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "voice.toml"
        path.write_text(text, "utf-8")
        return path

    return write


def refusal(**sources: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(**sources)  # type: ignore[arg-type]
    return str(caught.value)


def test_nothing_said_is_the_defaults() -> None:
    assert load() == Config()


def test_every_kind_of_value_comes_from_a_file(file: Callable[[str], Path]) -> None:
    config = load(
        file(
            """
            models_dir = "/models"
            [server]
            port = 9000
            api_keys = ["a", "b"]
            [agent]
            temperature = 0.5
            [turns]
            speculate = false
            [turns.endpoint]
            silence_ms = 320
            [llm]
            engine = "openai"
            base_url = "http://llm.example/v1"
            extra = { a = [1] }
            """
        )
    )
    assert (config.models_dir, config.server.port) == ("/models", 9_000)
    assert config.server.api_keys == ("a", "b")
    assert config.agent.temperature == 0.5
    assert (config.turns.speculate, config.turns.endpoint.silence_ms) == (False, 320)
    options = {"base_url": "http://llm.example/v1", "extra": {"a": [1]}}
    assert config.llm == EngineConfig("openai", options)


def test_environment_goes_over_the_file_and_flags_over_both(file: Callable[[str], Path]) -> None:
    path = file("[server]\nport = 1\nhost = '::1'\n[admission]\nmax_calls = 1")
    environment = {"VOICE_SERVER_PORT": "2", "VOICE_ADMISSION_MAX_CALLS": "2", "HOME": "/nowhere"}
    config = load(path, environment, ["server.port=3"])
    assert (config.server.port, config.admission.max_calls, config.server.host) == (3, 2, "::1")


@pytest.mark.parametrize(
    ("variable", "value", "read"),
    [
        ("VOICE_API_KEYS", "a, b,", lambda config: config.server.api_keys == ("a", "b")),
        ("VOICE_API_KEYS", "", lambda config: config.server.api_keys == ()),
        ("VOICE_MODELS_DIR", "/m", lambda config: config.models_dir == "/m"),
        ("VOICE_TURNS_SPECULATE", "false", lambda config: not config.turns.speculate),
        (
            "VOICE_TURNS_ENDPOINT_SILENCE_MS",
            "200",
            lambda config: config.turns.endpoint.silence_ms == 200,
        ),
        ("VOICE_TTS_ENGINE", "mine.voice", lambda config: config.tts.engine == "mine.voice"),
        (
            "VOICE_LLM_BASE_URL",
            "http://x",
            lambda config: config.llm.options == {"base_url": "http://x"},
        ),
        ("VOICE_AGENT_MAX_TOKENS", "12", lambda config: config.agent.max_tokens == 12),
        ("VOICE_ADMISSION_PHONE_SHARE", "0.1", lambda config: config.admission.phone_share == 0.1),
        ("VOICE_AGENT_TEMPERATURE", "0.1", lambda config: config.agent.temperature == 0.1),
    ],
)
def test_the_environment_spells_any_setting(
    variable: str, value: str, read: Callable[[Config], bool]
) -> None:
    assert read(load(environment={variable: value}))


def test_options_alone_are_those_of_the_default_engine() -> None:
    config = load(settings=["llm.threads=4"])
    assert config.llm == EngineConfig(Config().llm.engine, {"threads": "4"})


def test_scripted_engines_take_the_place_of_those_of_file_and_environment(
    file: Callable[[str], Path],
) -> None:
    config = load(
        file("[llm]\nengine = 'openai'\nmodel = 'x'"),
        {"VOICE_ASR_ENGINE": "whisper"},
        ["llm.fail_code=timeout", "tts.engine=hibari"],
        scripted=True,
    )
    assert config.llm == EngineConfig("scripted", {"fail_code": "timeout"})
    assert (config.asr.engine, config.tts.engine) == ("scripted", "hibari")
    assert config.vad == Config().vad


def test_keys_are_not_shown() -> None:
    assert "secret" not in repr(load(environment={"VOICE_API_KEYS": "secret"}))


def test_tenants_have_names_keys_and_shares(file: Callable[[str], Path]) -> None:
    path = file(
        """
        [server]
        api_keys = ["a"]
        [tenants.acme]
        keys = ["b", "c"]
        share = 0.25
        [tenants.default]
        share = 0.5
        """
    )
    environment = {"VOICE_TENANTS_BIG_CO_KEYS": "d,e", "VOICE_TENANTS_ACME_MAX_CALLS": "3"}
    config = load(path, environment)
    assert config.keys == {"default": ("a",), "acme": ("b", "c"), "big_co": ("d", "e")}
    assert (config.tenants["acme"].share, config.tenants["acme"].max_calls) == (0.25, 3)
    assert config.tenants["default"].share == 0.5
    assert load().keys == {"default": ()}


def test_shares_that_come_to_more_than_all_are_refused(file: Callable[[str], Path]) -> None:
    settings = ["tenants.acme.keys=k", "tenants.acme.share=0.7", "admission.phone_share=0.4"]
    assert "come to 1.1: together they can be 1 at most" in refusal(settings=settings)


@pytest.mark.parametrize(
    "text",
    [
        "[server]\napi_keys = ['secret', '']",
        "[tenants.acme]\nkeys = ['secret', ' ']",
        "[server]\napi_keys = ['secret']\n[tenants.acme]\nkeys = ['secret']",
    ],
)
def test_keys_that_open_to_anyone_or_tell_nobody_apart_are_refused(
    file: Callable[[str], Path], text: str
) -> None:
    said = refusal(path=file(text))
    assert "keys: " in said
    assert "secret" not in said


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("server.prot=1", "server.prot: there is no such setting. Did you mean server.port?"),
        ("servr.port=1", "servr: there is no such setting. Did you mean server?"),
        ("agent.zzz=1", "agent.zzz: there is no such setting. Known: context_tokens, instr"),
        ("server.port=high", "server.port: must be a whole number from 0 to 65535"),
        ("server.port=65536", "server.port: must be a whole number from 0 to 65535"),
        ("admission.max_calls=0", "admission.max_calls: must be a whole number of at least 1"),
        ("server.max_calls=9", "no such setting. Did you mean admission.max_calls?"),
        ("admission.phone_share=1.5", "admission.phone_share: must be a number from 0 to 1"),
        ("admission.waiting=-1", "admission.waiting: must be a whole number of at least 0"),
        ("admission.lost_s=0", "admission.lost_s: must be a number from 3 to 3600"),
        ("server.drain_s=-1", "server.drain_s: must be a number of at least 0"),
        ("tenants=x", "tenants: holds sections, as [tenants.NAME], not a value"),
        ("tenants.acme=x", "tenants.acme: is a section, not a value"),
        ("tenants.acme.kees=x", "tenants.acme.kees: there is no such setting. Did you mean"),
        ("tenants.acme.share=0.5", "tenants.acme.keys: there is none"),
        ("overload.queue_ms=300,100", "overload.queue_ms: is [300, 100]: the first"),
        ("overload.tts_load=0,1", "overload.tts_load: is [0, 1]: limits are numbers above 0"),
        ("overload.lead_ms=30,60", "must be the higher one. Write [60, 30]?"),
        (
            "overload.loop_lag_ms=50",
            "overload.loop_lag_ms: must be a list of 2, each of it a number",
        ),
        ("overload.rise_s=0", "overload.rise_s: must be a number above 0"),
        ("overload.fall_s=nan", "overload.fall_s: must be a number above 0"),
        ("server.log_level=loud", "must be one of debug, info, warning, error"),
        ("server=1", "server: is a section, not a value"),
        ("llm=openai", "llm: is a section, not a value"),
        ("models_dir.x=1", "models_dir: must be text"),
        ("server.port", "write it as section.key=value"),
    ],
)
def test_a_wrong_setting_is_named_and_the_nearest_right_one_told(setting: str, words: str) -> None:
    assert words in refusal(settings=[setting])


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        ("turns.silence_ms=300", "turns.endpoint.silence_ms"),
        ("server.speculate=false", "turns.speculate"),
        ("port=1", "server.port"),
        ("turns.endpoint.api_keys=k", "server.api_keys"),
    ],
)
def test_a_setting_in_the_wrong_section_is_told_the_right_one(setting: str, meant: str) -> None:
    assert refusal(settings=[setting]).endswith(f"there is no such setting. Did you mean {meant}?")


def test_an_engine_s_name_is_among_what_its_section_knows() -> None:
    @dataclass(frozen=True)
    class Options:
        model: str = ""

    for name, said in (("engin", "Did you mean llm.engine?"), ("zzz", "Known: engine, model")):
        with pytest.raises(ConfigError) as caught:
            build(Options, {name: "openai"}, "llm")
        assert str(caught.value) == f"llm.{name}: there is no such setting. {said}"


def test_all_that_is_wrong_is_told_at_once(file: Callable[[str], Path]) -> None:
    lines = refusal(
        path=file("[server]\nport = 'high'\n[admission]\nmax_calls = 0"),
        environment={"VOICE_SERVER_PROT": "1"},
        settings=["agent.voise=mia", "server.host"],
    ).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "VOICE_SERVER_PROT", "--set server.host", "server.port", "admission.max_calls",
        "agent.voise",
    ]  # fmt: skip


def test_a_value_is_no_section() -> None:
    assert "--set server.port.x: port is a value, not a section" in refusal(
        settings=["server.port=1", "server.port.x=2"]
    )


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("VOICE_SERVERPORT", "VOICE_SERVERPORT: there is no such setting. Did you mean"),
        ("VOICE_SERVER_PROT", "no such setting. Did you mean VOICE_SERVER_PORT?"),
        ("VOICE_API_KEY", "no such setting. Did you mean VOICE_API_KEYS?"),
        ("VOICE_HOST", "no such setting. Did you mean VOICE_SERVER_HOST?"),
        ("VOICE_MODELS_DIR_X", "VOICE_MODELS_DIR_X: there is no such setting"),
        ("VOICE_SERVER_PORT_X", "no such setting. Did you mean VOICE_SERVER_PORT?"),
        ("VOICE_TENANTS_ACME_KEES", "VOICE_TENANTS_ACME_KEES: there is no such setting"),
        ("VOICE_TENANTS_KEYS", "VOICE_TENANTS_KEYS: there is no such setting"),
        ("VOICE_SERVER_MAX_CALLS", "no such setting. Did you mean VOICE_ADMISSION_MAX_CALLS?"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, words: str) -> None:
    assert words in refusal(environment={variable: "1"})


def test_a_file_that_is_not_there_or_not_toml(file: Callable[[str], Path], tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    assert refusal(path=missing) == f"{missing}: cannot be read: No such file or directory"
    assert "is not TOML" in refusal(path=file("[server"))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    assert "is not TOML" in refusal(path=binary)


def test_what_has_no_default_must_be_given() -> None:
    @dataclass(frozen=True)
    class Options:
        url: str
        port: int = 1

    assert build(Options, {"url": "x"}, "llm.options").url == "x"
    with pytest.raises(ConfigError, match=r"llm\.options: something is missing of url"):
        build(Options, {"port": 2}, "llm.options")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("ipc:///run/a,ipc:///run/a", "placement.tts: ipc:///run/a: is there twice: name it once"),
        ("ipc://tts", "placement.tts: ipc://tts: write the whole path of a socket"),
        (f"cpu,ipc:///{'x' * 107}", "its path has 108 bytes, the most is 107"),
    ],
)
def test_an_endpoint_that_cannot_be_one_is_told(value: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(settings=[f"placement.tts={value}"])
    assert said in str(caught.value)


def test_an_endpoint_is_no_process_of_ones_own() -> None:
    placement = load(
        settings=["placement.tts=cpu,ipc:///run/a", "placement.asr=ipc:///b"]
    ).placement
    assert placement.wanted() == {"tts": ("cpu",)}
    assert placement.shared() == {"tts": ("ipc:///run/a",), "asr": ("ipc:///b",)}


def test_a_place_is_a_process(file: Callable[[str], Path]) -> None:
    config = load(file('[placement]\ntts = ["3g.71gb"]'), {"VOICE_PLACEMENT_ASR": "cpu, cpu"})
    assert config.placement.wanted() == {"asr": ("cpu", "cpu"), "tts": ("3g.71gb",)}


@pytest.mark.parametrize(
    ("places", "kept"), [("", True), ("cpu", True), ("ipc:///a", False), ("cpu,ipc:///a", True)]
)
def test_an_engine_is_kept_here_unless_others_run_all_there_are(places: str, kept: bool) -> None:
    config = load(settings=[f"placement.tts={places}"] if places else [])
    assert config.placement.keeps("tts") is kept
    assert config.placement.keeps("vad")
