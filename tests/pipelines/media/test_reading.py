"""Files from strangers: read where they can be, and refused with their fault where not."""

import errno
import io
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from pipelines.media.reading import RATE, MediaError, open_media
from tests.pipelines.media.making import SECOND, contained, film, video_only, wav


def heard(data: bytes, most_s: float = 100.0) -> np.ndarray:
    with open_media(io.BytesIO(data), most_s) as media:
        return np.concatenate(list(media.blocks))


def fault(data: bytes, most_s: float = 100.0) -> MediaError:
    with pytest.raises(MediaError) as refused:
        heard(data, most_s)
    assert refused.value.message[0].isupper()
    assert "<_io" not in refused.value.message
    return refused.value


FORMS = ("wav", "flac", "mp3", "ogg", "matroska", "mp4", "mpegts")

# --- what can be heard ----------------------------------------------------------------------


def test_a_plain_wav_is_its_samples() -> None:
    assert np.abs(heard(wav()).astype(int) - SECOND).max() <= 1


@pytest.mark.parametrize("rate", [8_000, 11_025, 44_100, 48_000, 192_000])
@pytest.mark.parametrize("channels", [1, 2, 6, 8])
def test_any_rate_and_any_number_of_channels(rate: int, channels: int) -> None:
    time = np.arange(rate) / rate
    tone = (6_000 * np.sin(2 * np.pi * 440 * time)).astype(np.int16)
    sound = heard(wav(np.repeat(tone, channels), rate, channels))
    assert abs(len(sound) - RATE) <= 2
    assert np.abs(np.fft.rfft(sound)).argmax() == pytest.approx(440, abs=1)


@pytest.mark.parametrize(
    ("form", "codec"),
    [
        ("mp4", "aac"),
        ("ipod", "aac"),
        ("adts", "aac"),
        ("mp3", "libmp3lame"),
        ("ogg", "libopus"),
        ("webm", "libopus"),
        ("avi", "libmp3lame"),
        ("flac", "flac"),
        ("mpegts", "aac"),
    ],
)
def test_containers(form: str, codec: str) -> None:
    sound = heard(contained(form, codec))
    assert len(sound) == pytest.approx(3 * RATE, abs=0.1 * RATE)
    assert np.abs(np.fft.rfft(sound[:RATE])).argmax() == pytest.approx(440, abs=2)


def test_an_mp3_of_a_variable_rate_is_heard_to_its_end() -> None:
    data = contained("mp3", "libmp3lame", 20, write_xing="0")
    assert len(heard(data)) == pytest.approx(20 * RATE, abs=0.1 * RATE)


@pytest.mark.parametrize(
    ("form", "codec", "says"),
    [("mp4", "aac", True), ("mp3", "libmp3lame", False), ("adts", "aac", False)],
)
def test_how_long_a_file_seems_to_be(form: str, codec: str, says: bool) -> None:
    with open_media(io.BytesIO(contained(form, codec, 12))) as media:
        assert media.seems_s == pytest.approx(12, abs=0.5 if says else 6)
        assert (media.declared_s is not None) == says
    with open_media(io.BytesIO(wav())) as media:
        assert (media.declared_s, media.seems_s) == (1, 1)


def test_a_header_whose_length_is_not_known_yet_is_fine() -> None:
    assert len(heard(wav(size=0xFFFF_FFFF))) == RATE


def test_rate_and_channels_may_change_within_a_file() -> None:
    def adts(rate: int, layout: str) -> bytes:
        file = io.BytesIO()
        with av.open(file, "w", format="adts") as container:
            stream: Any = container.add_stream("aac", rate=rate, layout=layout)
            tone = (0.2 * np.sin(2 * np.pi * 440 * np.arange(2 * rate) / rate)).astype(np.float32)
            planes = np.stack([tone] * len(stream.layout.channels))
            frame = av.AudioFrame.from_ndarray(planes, "fltp", layout)
            frame.rate = rate
            for packet in (*stream.encode(frame), *stream.encode(None)):
                container.mux(packet)
        return file.getvalue()

    sound = heard(adts(48_000, "stereo") + adts(24_000, "mono") + adts(48_000, "5.1"))
    assert len(sound) == pytest.approx(6 * RATE, abs=0.5 * RATE)


def test_long_files_come_in_blocks() -> None:
    with open_media(io.BytesIO(wav(np.tile(SECOND, 30)))) as media:
        sizes = [len(block) for block in media.blocks]
    assert sum(sizes) == 30 * RATE
    assert max(sizes) <= 4 * RATE + 2


def test_floats_that_are_no_numbers_are_silence() -> None:
    file = io.BytesIO()
    strange = np.array([np.nan, np.inf, -np.inf, 0.5] * 1_000, np.float32)
    soundfile.write(file, strange, 16_000, format="WAV", subtype="FLOAT")
    sound = heard(file.getvalue())
    assert sound[:4].tolist() == [0, 32_767, -32_767, pytest.approx(16_384, abs=1)]


def test_without_ffmpeg_the_usual_formats_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"FLAC": "PCM_16", "OGG": "OPUS", "MP3": "MPEG_LAYER_III"}
    monkeypatch.setitem(sys.modules, "av", None)
    for form, subtype in files.items():
        file = io.BytesIO()
        soundfile.write(file, np.tile(SECOND, 2), 16_000, format=form, subtype=subtype)
        assert len(heard(file.getvalue())) == pytest.approx(2 * RATE, abs=0.2 * RATE)


def test_without_ffmpeg_other_formats_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    data = contained("webm", "libopus")
    monkeypatch.setitem(sys.modules, "av", None)
    refused = fault(data)
    assert (refused.code, "pip install" in refused.message) == ("unsupported", True)


# --- what cannot ----------------------------------------------------------------------------


def test_nothing() -> None:
    assert fault(b"").code == "empty"


def test_no_samples() -> None:
    assert fault(wav([])).code == "no_sound"


@pytest.mark.parametrize("data", [b"x", b"hello world " * 500, b"RIFF", b"RIFF" + bytes(300)])
def test_what_is_no_sound(data: bytes) -> None:
    assert fault(data).code in ("unreadable", "truncated")


def test_no_samples_a_second() -> None:
    refused = fault(wav(rate=0))
    assert (refused.code, "no samples a second" in refused.message) == ("bad_rate", True)


@pytest.mark.parametrize("rate", [1, 100, 2_000_000])
def test_a_rate_that_nobody_hears(rate: int) -> None:
    assert fault(wav(rate=rate)).code in ("bad_rate", "unreadable")


def test_a_film_without_sound() -> None:
    refused = fault(video_only())
    assert (refused.code, "no audio" in refused.message) == ("no_sound", True)


def test_a_wav_that_was_cut_off() -> None:
    refused = fault(wav(np.tile(SECOND, 10))[:100_000])
    assert (refused.code, "100000 are there" in refused.message) == ("truncated", True)


@pytest.mark.parametrize(("form", "codec"), [("matroska", "libopus"), ("flv", "aac")])
def test_a_container_that_was_cut_off(form: str, codec: str) -> None:
    data = contained(form, codec, 30)
    assert fault(data[: len(data) // 2]).code in ("truncated", "unreadable")


@pytest.mark.parametrize(("form", "codec"), [("matroska", "pcm_s16le"), ("mov", "pcm_s16le")])
def test_a_film_that_goes_on_without_sound_is_whole(form: str, codec: str) -> None:
    data = film(form, codec, 20, [(0, 4)])
    assert len(heard(data)) == pytest.approx(4 * RATE, abs=0.1 * RATE)
    if form == "matroska":
        assert fault(data[: len(data) // 2]).code == "truncated"


@pytest.mark.parametrize(("form", "codec"), [("matroska", "pcm_s16le"), ("mpegts", "mp2")])
def test_sound_stands_where_the_film_has_it(form: str, codec: str) -> None:
    """It begins late, and there is a hole in it."""
    sound = heard(film(form, codec, 12, [(3, 5), (8, 10)]))
    loud = [np.abs(sound[at * RATE : (at + 1) * RATE]).mean() > 1_000 for at in range(10)]
    assert loud == [False] * 3 + [True] * 2 + [False] * 3 + [True] * 2


def test_a_time_behind_the_end_of_the_film_moves_nothing() -> None:
    data = bytearray(film("matroska", "pcm_s16le", 20, [(0, 20)]))
    cluster, at = bytes.fromhex("1f43b675"), 0
    for _ in range(6):
        at = data.index(cluster, at + 1)
    time = data.index(bytes.fromhex("e782"), at) + 2
    data[time] |= 0x40  # 16 s later
    assert len(heard(bytes(data))) == pytest.approx(20 * RATE, abs=0.1 * RATE)


def test_a_film_that_was_cut_off_has_lost_its_index() -> None:
    data = contained("mp4", "aac", 30)
    assert fault(data[: len(data) // 2]).code == "unreadable"


def test_what_is_too_long_is_known_by_its_header() -> None:
    refused = fault(wav(np.tile(SECOND, 10)), most_s=5)
    assert (refused.code, "10 s" in refused.message) == ("too_long", True)


def test_what_does_not_say_its_length_is_stopped_where_it_is_too_long() -> None:
    data = contained("adts", "aac", 30)
    with open_media(io.BytesIO(data), 10) as media, pytest.raises(MediaError) as refused:
        got = 0
        for block in media.blocks:
            got += len(block)
    assert refused.value.code == "too_long"
    assert got <= 10 * RATE


@pytest.mark.parametrize("form", ["wav", "matroska"])
def test_a_disk_that_fails_in_the_middle_is_not_the_end_of_the_file(form: str) -> None:
    class Failing(io.BytesIO):
        def read(self, count: int | None = -1, /) -> bytes:
            if self.tell() > 100_000:
                raise OSError(errno.EIO, "Input/output error")
            return super().read(count)

    data = wav(np.tile(SECOND, 30)) if form == "wav" else film(form, "pcm_s16le", 5, [(0, 5)])
    with (
        pytest.raises(OSError, match="Input/output error"),
        open_media(Failing(data)) as media,
    ):
        list(media.blocks)


def test_noise_in_the_place_of_packets() -> None:
    data = bytearray(contained("matroska", "aac", 10))
    noise = np.random.default_rng(1).integers(0, 256, len(data) - 2_000, np.uint8)
    data[1_500:-500] = noise.tobytes()
    assert fault(bytes(data)).code in ("unreadable", "truncated", "no_sound")


@pytest.mark.parametrize(
    "playlist",
    [
        "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{}\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile '{}'\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile://{}\n#EXT-X-ENDLIST\n",
    ],
)
def test_a_playlist_opens_no_file_of_this_machine(playlist: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.wav"
    secret.write_bytes(wav())
    assert fault(playlist.format(secret).encode()).code == "unreadable"


@given(
    st.sampled_from(["wav", "flac", "mp3", "ogg", "matroska"]), st.randoms(use_true_random=False)
)
def test_damage_is_heard_through_or_told(form: str, random: Any) -> None:
    data = bytearray(DAMAGED[form])
    for _ in range(random.randint(1, 30)):
        data[random.randrange(len(data))] = random.randrange(256)
    del data[random.randrange(len(data)) :]
    try:
        heard(bytes(data), 20)
    except MediaError as refused:
        assert refused.message


DAMAGED = {
    "wav": wav(),
    "flac": contained("flac", "flac", 1),
    "mp3": contained("mp3", "libmp3lame", 1),
    "ogg": contained("ogg", "libopus", 1),
    "matroska": contained("matroska", "aac", 1),
    "mp4": contained("mp4", "aac", 1),
    "mpegts": contained("mpegts", "aac", 1),
}
