"""What becomes of a request to Whisper before it reaches the engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tensorrt_llm.pretend import Whisper
    from tensorrt_llm.sampling_params import SamplingParams


class WhisperInputProcessor:
    requires_encoder_features = True

    def __init__(self, checkpoint: Whisper) -> None:
        self.config = SimpleNamespace(
            decoder_start_token_id=checkpoint.decoder_start_token_id,
            max_target_positions=checkpoint.max_target_positions,
            max_source_positions=checkpoint.max_source_positions,
        )
        self.processor = SimpleNamespace(
            tokenizer=SimpleNamespace(encode=lambda text, **_: checkpoint.encode(text))
        )
        self.sampling_rate = checkpoint.sampling_rate
        self.n_samples = checkpoint.n_samples
        self.max_audio_seconds = checkpoint.n_samples / float(checkpoint.sampling_rate)
        self._decoder_prompt = list(checkpoint.default_prompt)
        self.waveforms: list[np.ndarray] = []

    def _resolve_decoder_prompt(self, prompt_text: str | None) -> list[int]:
        prompt_text = (prompt_text or "").strip()
        if not prompt_text:
            return list(self._decoder_prompt)
        ids = self.processor.tokenizer.encode(prompt_text, add_special_tokens=False)
        start = int(self.config.decoder_start_token_id)
        if not ids or ids[0] != start:
            raise ValueError(
                "A Whisper text prompt overrides the decoder prompt and must start with "
                f"<|startoftranscript|> (token {start}); got {prompt_text[:80]!r}."
            )
        most = int(self.config.max_target_positions) - 1
        if len(ids) > most:
            raise ValueError(
                f"Whisper decoder prompt has {len(ids)} tokens; at most {most} fit the decoder "
                "position table."
            )
        return [int(token) for token in ids]

    def _load_waveform(self, item: Any) -> np.ndarray:
        if isinstance(item, dict) and "array" in item:
            waveform, rate = item["array"], item.get("sampling_rate", self.sampling_rate)
        elif isinstance(item, tuple | list) and len(item) == 2:
            waveform, rate = item
        else:
            raise TypeError(
                "Unsupported audio item for Whisper: expected a file path/URL, an (array, "
                f"sample_rate) tuple, or a dict; got {type(item).__name__}."
            )
        if int(rate) != self.sampling_rate:
            raise ValueError(
                f"Whisper expects {self.sampling_rate} Hz audio; got {rate} Hz. Resample on the "
                "client side."
            )
        waveform = np.asarray(waveform, dtype=np.float32)
        if waveform.ndim == 2:
            waveform = waveform.mean(axis=1)
        if waveform.shape[0] > self.n_samples:
            raise ValueError(
                f"Audio is {waveform.shape[0] / self.sampling_rate:.2f}s long, but Whisper "
                f"supports at most {self.max_audio_seconds:.1f}s per request; chunk the input on "
                "the client side."
            )
        return waveform

    def __call__(self, inputs: dict[str, Any], sampling_params: SamplingParams) -> Any:
        items = (inputs.get("multi_modal_data") or {}).get("audio")
        if items is None:
            raise ValueError(
                "Whisper requires multi_modal_data['audio'] (the text prompt carries no encoder "
                "input)."
            )
        items = items if isinstance(items, list) else [items]
        if len(items) != 1:
            raise ValueError(
                f"Whisper supports exactly one audio clip per request; got {len(items)}."
            )
        prompt = self._resolve_decoder_prompt(inputs.get("prompt"))
        room = int(self.config.max_target_positions) - len(prompt)
        if sampling_params.max_tokens is None or sampling_params.max_tokens > room:
            sampling_params.max_tokens = room
        self.waveforms.append(self._load_waveform(items[0]))
        return prompt, {"multimodal_data": {"audio": {}}}
