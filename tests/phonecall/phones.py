"""Phones that call the exchange: baresip, which is told what to do over TCP, and sipp."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile

from engines.audio import Pcm, Samples
from tests.phonecall.debian import PhoneCallError
from tests.phonecall.exchange import ADDRESS, Root

RATE: Final = 8_000
KEY_S: Final = 0.2
"""From one key to the next."""

_CONTROL: Final = 4444
_CONFIG: Final = f"""
poll_method epoll
sip_listen {ADDRESS}:5070
audio_source aufile,/run/phone/said.wav
audio_player aufile,/run/phone/heard.wav
audio_alert aufile,/run/phone/alert.wav
audio_buffer 60-200
ausrc_srate {RATE}
auplay_srate {RATE}
snd_path /run/phone
module_path /usr/lib/baresip/modules
module g711.so
module aufile.so
module_tmp uuid.so
module_tmp account.so
module_app menu.so
module_app ctrl_tcp.so
ctrl_tcp_listen 127.0.0.1:{_CONTROL}
"""
_ACCOUNT: Final = f"<sip:caller@{ADDRESS}>;regint=0;audio_codecs=PCMU/8000/1\n"
_START_S: Final = 20.0
_ANSWER_S: Final = 20.0


class Baresip:
    """One baresip; its ``heard`` is whole once it has been left."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def dial(self, extension: str) -> None:
        """Returns when the call is there. Raises PhoneCallError."""
        self._tell("dial", f"sip:{extension}@{ADDRESS}:5060")
        await self.wait_for("CALL_ESTABLISHED", _ANSWER_S)

    async def press(self, keys: str) -> None:
        """One key after the other, as RTP events."""
        for key in keys:
            self._tell("sndcode", key)
            await asyncio.sleep(KEY_S)

    def hang_up(self) -> None:
        self._tell("hangup", "")

    async def wait_for(self, kind: str, seconds: float) -> None:
        """Raises PhoneCallError where it does not come."""
        told: list[str] = []
        try:
            async with asyncio.timeout(seconds):
                while kind not in told:
                    message = await self._read()
                    if message.get("event"):
                        told.append(message.get("type", ""))
        except TimeoutError:
            raise PhoneCallError(
                f"baresip has not told {kind} within {seconds:.0f} s, only {told}"
            ) from None

    def _tell(self, command: str, parameters: str) -> None:
        said = json.dumps({"command": command, "params": parameters, "token": command}).encode()
        self._writer.write(b"%d:%s," % (len(said), said))

    async def _read(self) -> dict[str, Any]:
        try:
            size = int((await self._reader.readuntil(b":"))[:-1])
            message = await self._reader.readexactly(size + 1)
        except asyncio.IncompleteReadError:
            raise PhoneCallError("baresip has ended in the middle of a call") from None
        told: dict[str, Any] = json.loads(message[:-1])
        return told


@asynccontextmanager
async def baresip(root: Root, said: Pcm, log: Path) -> AsyncIterator[Baresip]:
    """A phone that speaks ``said`` from the moment that a call is there."""
    folder = root.scratch("phone")
    (folder / "config").write_text(_CONFIG, "utf-8")
    (folder / "accounts").write_text(_ACCOUNT, "utf-8")
    soundfile.write(folder / "said.wav", said.samples, said.rate, subtype="PCM_16")
    command = root.command("baresip", "-f", "/run/phone")
    with log.open("wb") as told:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.DEVNULL, stdout=told, stderr=told
        )
        try:
            reader, writer = await _connect(log)
            yield Baresip(reader, writer)
            writer.close()
        finally:
            process.terminate()
            await process.wait()


def heard(root: Root) -> Pcm:
    """What the last baresip has recorded."""
    samples, rate = soundfile.read(root.scratch("phone") / "heard.wav", dtype="int16")
    return Pcm(samples, rate)


async def sipp(root: Root, extension: str, log: Path) -> None:
    """A call of sipp's, which plays eight seconds of speech in A-law and the key 1, and hangs up.
    Raises PhoneCallError."""
    folder = root.scratch("sipp")
    (folder / "pcap").symlink_to("/usr/share/sip-tester")
    # Its own scenario hangs up a second after the key.
    call = "cd /run/sipp && sipp -sd uac_pcap | sed s/1000/4000/ >call.xml; exec"
    call += f" sipp {ADDRESS}:5060 -sf call.xml -s {extension}"
    call += f" -i {ADDRESS} -p 5071 -m 1 -nostdin"
    with log.open("wb") as told:
        process = await asyncio.create_subprocess_exec(
            *root.command("sh", "-c", call), stdin=subprocess.DEVNULL, stdout=told, stderr=told
        )
        if code := await process.wait():
            raise PhoneCallError(f"sipp's call failed with {code}: see {log}")


async def _connect(log: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    for _ in range(round(_START_S / 0.1)):
        try:
            return await asyncio.open_connection("127.0.0.1", _CONTROL)
        except OSError:
            await asyncio.sleep(0.1)
    raise PhoneCallError(f"baresip has not started within {_START_S:.0f} s: see {log}")


def mixed(length_ms: int, parts: dict[int, Pcm]) -> Pcm:
    """Silence of that length, with each part from its millisecond on."""
    whole: Samples = np.zeros(length_ms * RATE // 1000, np.int16)
    for at_ms, part in parts.items():
        assert part.rate == RATE
        start = at_ms * RATE // 1000
        whole[start : start + len(part)] = part.samples
    return Pcm(whole, RATE)
