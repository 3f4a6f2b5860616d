"""``voice build whisper``: the folder that TensorRT-LLM's PyTorch backend loads as it is.

In 16 bits only. ModelOpt could quantise its linear layers, but TensorRT-LLM documents no
quantised Whisper, and large-v3-turbo, at 1.6 GB, fits the smallest slice as it is: there is
nothing to be gained that could be checked.
"""

from __future__ import annotations

import gc
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engines.build.exported import read_exported
from engines.build.fidelity import compare, require_faithful, require_limits
from engines.build.manifest import Manifest, record, versions, write_manifest
from engines.build.output import new_folder
from engines.build.source import CONFIG, TOKENIZER, Checkpoint, load_model, locate
from engines.build.steps import (
    MOST_SEED,
    BuildError,
    Quiet,
    Steps,
    needs,
    require_device,
    require_within,
    step,
)

if TYPE_CHECKING:
    import torch

MODEL: Final = "openai/whisper-large-v3-turbo"
NEEDED: Final = (TOKENIZER, "generation_config.json", "preprocessor_config.json")
"""Vocabulary, which tokens may not be written, and how audio becomes a spectrogram."""

_POSITIONS: Final = 64


@dataclass(frozen=True, slots=True)
class WhisperBuild:
    """``model``: a folder, or a name at the hub. ``clips``: spectrograms of noise, on each of
    which the result is compared with its source. See ``OrpheusBuild`` for the rest."""

    model: str = MODEL
    out: Path = Path("whisper-fp16")
    revision: str = ""
    device: str = "cpu"
    clips: int = 2
    seed: int = 0
    max_kl: float = 0.01
    min_agreement: float = 0.0
    force: bool = False


def build_whisper(build: WhisperBuild, steps: Steps | None = None) -> Manifest:
    """Make the folder ``build.out``. Raises EngineError; nothing half-made is left then."""
    steps = steps or Quiet()
    require_within("seed", build.seed, 0, MOST_SEED)
    require_limits(max_kl=build.max_kl, min_agreement=build.min_agreement)
    require_device(build.device)
    needs("transformers")
    checkpoint = locate(build.model, build.revision, "whisper", steps)
    checkpoint.require(*NEEDED)
    with new_folder(
        build.out,
        force=build.force,
        needed_bytes=checkpoint.bytes,
        reads=[checkpoint.folder],
    ) as folder:
        return _build(build, checkpoint, folder, steps)


def _build(build: WhisperBuild, checkpoint: Checkpoint, folder: Path, steps: Steps) -> Manifest:
    torch = needs("torch")
    source = checkpoint.describe(steps)
    model = _load(checkpoint.folder, build.device, steps)
    before = _predictions(model, build, "predict with the source", steps)
    _save(model.to(torch.float16), checkpoint, folder)
    del model
    gc.collect()
    _check(folder)
    # In 32 bits again: 16-bit arithmetic would add what differs from device to device.
    built = _load(folder, build.device, steps)
    fidelity = compare(before, _predictions(built, build, "predict with the result", steps))
    steps.say(
        f"against the source: mean divergence {fidelity.mean_kl:.2g} nats, same likeliest token "
        f"{fidelity.agreement:.1%} of {fidelity.positions}"
    )
    require_faithful(fidelity, max_kl=build.max_kl, min_agreement=build.min_agreement)
    manifest = Manifest(
        kind="whisper",
        precision="fp16",
        source=source,
        versions=versions(),
        files=record(folder.iterdir(), "hash the result", steps),
        fidelity=fidelity,
    )
    write_manifest(folder, manifest)
    return manifest


def _load(folder: Path, device: str, steps: Steps) -> Any:
    kind = "WhisperForConditionalGeneration"
    return load_model(kind, folder, "float32", device, steps, name=folder.name)


def _save(model: Any, checkpoint: Checkpoint, folder: Path) -> None:
    """The weights anew, all else as the source has it: the engine's transformers may be another
    version than this one, and not read what this one writes."""
    model.save_pretrained(folder)
    content = {**checkpoint.config, "torch_dtype": "float16"}
    content.pop("dtype", None)
    (folder / CONFIG).write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    checkpoint.copy_beside(folder)
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors lets its owner alone read what it writes


def _check(folder: Path) -> None:
    torch = needs("torch")
    for name, tensor in read_exported(folder).items():
        if tensor.dtype != torch.float16:
            raise BuildError(f"{name} was written as {tensor.dtype}, not float16")
        if not tensor.isfinite().all():
            raise BuildError(
                f"{name} has values beyond 16 bits, or none that are numbers: this checkpoint "
                "cannot be served in float16; leave it as it is, and name its own folder"
            )


def _predictions(
    model: Any, build: WhisperBuild, what: str, steps: Steps
) -> list[list[torch.Tensor]]:
    """Log-probabilities (positions, vocabulary) after random words, hearing noise."""
    torch = needs("torch")
    config, device = model.config, model.device
    generator = torch.Generator().manual_seed(build.seed)
    frames = 2 * config.max_source_positions
    found = []
    with torch.inference_mode(), step(steps, what, "clips", build.clips):
        for _ in range(build.clips):
            heard = torch.randn(1, config.num_mel_bins, frames, generator=generator)
            words = torch.randint(config.vocab_size, (1, _POSITIONS), generator=generator)
            words[0, 0] = config.decoder_start_token_id
            output = model(
                input_features=heard.clamp(-1, 1).to(device), decoder_input_ids=words.to(device)
            )
            found.append([output.logits[0].float().log_softmax(-1).cpu()])
            steps.advance(1)
    return found
