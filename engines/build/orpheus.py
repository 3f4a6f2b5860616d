"""``voice build orpheus``: a Llama that speaks, in FP8 or in 16 bits."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from engines.build import exported, fp8
from engines.build.calibration import (
    OWN_TEXTS,
    Encode,
    Spoken,
    choose,
    digest,
    read_lines,
    speak,
)
from engines.build.fidelity import compare, predictions, require_faithful, require_limits
from engines.build.manifest import Calibration, Fidelity, Manifest, record, versions, write_manifest
from engines.build.output import new_folder
from engines.build.source import CONFIG, TOKENIZER, Checkpoint, load_model, locate, require_config
from engines.build.steps import (
    MOST_SEED,
    BuildError,
    Quiet,
    Steps,
    needs,
    require_device,
    require_within,
)
from engines.tts.orpheus_tokens import CODES, FIRST_AUDIO, FRAME_TOKENS

if TYPE_CHECKING:
    import torch

MODEL: Final = "canopylabs/orpheus-3b-0.1-ft"


@dataclass(frozen=True, slots=True)
class OrpheusBuild:
    """``model``: a folder, or a name at the hub. ``calibrate``: a file or folder of texts, see
    ``read_lines``; None for those of this package. ``samples``: sequences to calibrate on, of at
    most ``frames`` frames, 85 ms each; ``held_out``: others, to compare on. ``max_kl`` (nats)
    and ``min_agreement`` (a share): how far the result may be from its source."""

    model: str = MODEL
    out: Path = Path("orpheus-fp8")
    revision: str = ""
    precision: Literal["fp8", "bf16"] = "fp8"
    calibrate: Path | None = None
    samples: int = 64
    frames: int = 36
    held_out: int = 8
    seed: int = 0
    device: str = "cpu"
    max_kl: float = 0.1
    min_agreement: float = 0.0
    force: bool = False


def build_orpheus(build: OrpheusBuild, steps: Steps | None = None) -> Manifest:
    """Make the folder ``build.out``. Raises EngineError; nothing half-made is left then."""
    steps = steps or Quiet()
    _require_sensible(build)
    needs("transformers")
    if build.precision == "fp8":
        fp8.load_modelopt(steps)  # now, rather than after the fetch
    require_device(build.device)
    lines = read_lines(build.calibrate)
    checkpoint = _checkpoint(build, steps)
    reads = [checkpoint.folder, *([build.calibrate] if build.calibrate else [])]
    with new_folder(
        build.out, force=build.force, needed_bytes=checkpoint.bytes, reads=reads
    ) as folder:
        return _build(build, checkpoint, lines, folder, steps)


def _build(
    build: OrpheusBuild, checkpoint: Checkpoint, lines: Sequence[Any], folder: Path, steps: Steps
) -> Manifest:
    source = checkpoint.describe(steps)
    model = load_model(
        "AutoModelForCausalLM",
        checkpoint.folder,
        "bfloat16",
        build.device,
        steps,
        name=checkpoint.name,
    )
    count = build.samples if build.precision == "fp8" else 0
    chosen = choose(lines, count, build.held_out, build.seed)
    encode = _encoder(checkpoint)
    spoken = speak(model, encode, chosen, frames=build.frames, seed=build.seed, steps=steps)
    held_out, calibration = spoken[: build.held_out], spoken[build.held_out :]
    before = predictions(model, held_out, "predict with the source", steps)
    if build.precision == "fp8":
        fp8.quantise(model, calibration, steps)
        fp8.export(model, checkpoint.config, folder, steps)
    else:
        _save_bf16(model, checkpoint, folder)
    checkpoint.copy_beside(folder)  # over what the exporters write of these
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors lets its owner alone read what it writes
    del model
    gc.collect()
    fidelity = compare(before, _read_back(build, folder, held_out, steps))
    _tell(fidelity, steps)
    require_faithful(fidelity, max_kl=build.max_kl, min_agreement=build.min_agreement)
    generated = [one for one, line in zip(spoken, chosen, strict=True) if not line.tokens]
    manifest = Manifest(
        kind="orpheus",
        precision=build.precision,
        source=source,
        versions=versions(),
        files=record(folder.iterdir(), "hash the result", steps),
        fidelity=fidelity,
        calibration=_calibration(build, calibration, generated) if calibration else None,
    )
    write_manifest(folder, manifest)
    return manifest


def _require_sensible(build: OrpheusBuild) -> None:
    for name in ("samples", "frames", "held_out"):
        if getattr(build, name) < 1:
            option = name.replace("_", "-")
            raise BuildError(f"--{option} has to be 1 or more", "bad_request")
    require_within("seed", build.seed, 0, MOST_SEED)
    require_limits(max_kl=build.max_kl, min_agreement=build.min_agreement)


def _checkpoint(build: OrpheusBuild, steps: Steps) -> Checkpoint:
    checkpoint = locate(build.model, build.revision, "llama", steps)
    checkpoint.require(TOKENIZER)
    require_config(checkpoint, [("vocab_size", FIRST_AUDIO + FRAME_TOKENS * CODES)])
    return checkpoint


def _encoder(checkpoint: Checkpoint) -> Encode:
    tokenizers = needs("tokenizers")
    path = checkpoint.folder / TOKENIZER
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # it raises bare Exception
        raise BuildError(
            f"{path} is no tokenizer: {error}; fetch it again", "bad_request"
        ) from error
    return lambda text: list(tokenizer.encode(text).ids)


def _save_bf16(model: Any, checkpoint: Checkpoint, folder: Path) -> None:
    model.save_pretrained(folder)
    content = {**fp8.with_older_names(checkpoint.config), "torch_dtype": "bfloat16"}
    (folder / CONFIG).write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def _read_back(
    build: OrpheusBuild,
    folder: Path,
    held_out: Sequence[Spoken],
    steps: Steps,
) -> list[list[torch.Tensor]]:
    """What the folder predicts, by its own config and tensors."""
    torch, transformers = needs("torch"), needs("transformers")
    is_fp8 = build.precision == "fp8"
    config = transformers.AutoConfig.from_pretrained(folder)
    if is_fp8:
        del config.quantization_config  # the rounding is done here
    tensors = exported.read_exported(folder)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model = model.to(build.device).eval()
    exported.check_exported(tensors, model, fp8=is_fp8)
    exported.restore(tensors, model)
    cache = exported.rounding_cache(tensors, model) if is_fp8 else None
    return predictions(model, held_out, "predict with the result", steps, cache)


def _calibration(
    build: OrpheusBuild, spoken: Sequence[Spoken], generated: Sequence[Spoken]
) -> Calibration:
    ours = set(map(id, generated))
    return Calibration(
        texts=str(build.calibrate or OWN_TEXTS),
        sequences=len(spoken),
        tokens=sum(len(one.ids) for one in spoken),
        generated=sum(len(one.tokens) for one in spoken if id(one) in ours),
        seed=build.seed,
        sha256=digest(spoken),
    )


def _tell(fidelity: Fidelity, steps: Steps) -> None:
    steps.say(
        f"against the source, {fidelity.positions} audio tokens: mean divergence "
        f"{fidelity.mean_kl:.5f} nats, worst {fidelity.worst_kl:.4f}, same likeliest token "
        f"{fidelity.agreement:.1%}"
    )
