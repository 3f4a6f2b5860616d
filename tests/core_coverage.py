"""The gate of the pure core: each of its modules, every branch, by its mirrored tests alone.

python -m tests.core_coverage
"""

from __future__ import annotations

import subprocess
import sys
from glob import glob

CORE = (
    "engines.batching.policy",
    "pipelines.conversation.agreement",
    "pipelines.conversation.answering",
    "pipelines.conversation.brevity",
    "pipelines.conversation.completeness",
    "pipelines.conversation.dialogue",
    "pipelines.conversation.dictation",
    "pipelines.conversation.endpoint",
    "pipelines.conversation.heard",
    "pipelines.conversation.hearing",
    "pipelines.conversation.hum",
    "pipelines.conversation.machine",
    "pipelines.conversation.patience",
    "pipelines.conversation.playback",
    "pipelines.conversation.pulse",
    "pipelines.conversation.sample_clock",
    "pipelines.conversation.settings",
    "pipelines.conversation.turns",
    "pipelines.conversation.unheard",
    "pipelines.conversation.words",
    "pipelines.narration.blocks",
    "pipelines.narration.chapters",
    "pipelines.narration.joining",
    "pipelines.narration.pieces",
    "pipelines.speakers",
    "pipelines.speaking.phrases",
    "pipelines.transcription.captions",
    "pipelines.transcription.chunks",
    "pipelines.transcription.seams",
    "voice.doors.phone_keypad",
    "voice.doors.phone_pacer",
    "voice.doors.phone_playout",
    "voice.ladder",
    "voice.admission",
    "voice.wire.phone",
    "voice.wire.phone_asterisk",
    "voice.wire.phone_audio",
    "voice.wire.phone_audiosocket",
    "voice.wire.phone_freeswitch",
    "voice.wire.phone_genesys",
    "voice.wire.phone_json",
    "voice.wire.phone_order",
    "voice.wire.phone_plivo",
    "voice.wire.phone_signatures",
    "voice.wire.phone_streams",
    "voice.wire.phone_vonage",
    "voice.wire.phone_wires",
)


def main() -> int:
    """Run each module's tests; 1 where one is not covered whole."""
    return max(check(module) for module in CORE)


def check(module: str) -> int:
    """Run the tests that mirror ``module`` and hold them to all of its branches."""
    folder, _, name = module.replace(".", "/").rpartition("/")
    mirrors = [f"tests/{folder}/test_{name}.py", *glob(f"tests/{folder}/test_{name}_*.py")]
    # Coverage's own configuration names every package; this run is about one module.
    command = [sys.executable, "-m", "pytest", "-q", *mirrors, f"--cov={module}", "--cov-branch"]
    command += ["--cov-config=/dev/null", "--cov-report=term-missing", "--cov-fail-under=100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stdout.write(f"{module}: {'whole' if done.returncode == 0 else done.stdout}\n")
    return int(done.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
