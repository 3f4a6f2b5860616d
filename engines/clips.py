"""Recordings of speech in the test data of pocketsphinx, and what is said in them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording: ``path`` in the test data, its size in bytes and sha256 as a WAV file."""

    name: str
    path: str
    size: int
    sha256: str
    words: str


_AUSTEN = "sense_and_sensibility_01_austen_64kb"

# In the order of the archive, which can only be read forwards. The words are those of its
# transcription files and tests, with one misprint of lv_0920 put right.
CLIPS = (
    Clip(
        "cards_001.wav",
        "cards/001.wav",
        35096,
        "899951e768666f27c8f8b1d4090b96fe7909cae9cec01bec0a5d5d1b8a8d566e",
        "ten of clubs",
    ),
    Clip(
        "cards_002.wav",
        "cards/002.wav",
        62772,
        "a3f9eae6fdb69a1231989e39a14d62388a6f52fb59666c76d95005318fadafec",
        "four queen of clubs",
    ),
    Clip(
        "cards_003.wav",
        "cards/003.wav",
        49266,
        "00d283e46bc257ae479e4aa86593cadb541656eba1d19fc8abeece37f6a5a18b",
        "seven of clubs",
    ),
    Clip(
        "cards_004.wav",
        "cards/004.wav",
        49772,
        "4c44a8177f5b128b99f078cdeb918119933155574231f1833e8840d1af09c521",
        "five five",
    ),
    Clip(
        "cards_005.wav",
        "cards/005.wav",
        112124,
        "090f18f5f76cf8b2b43cd9e6b07823f4685a4742d9a36cd98b174a6586c18cf9",
        "eight of spades four of clubs seven of hearts",
    ),
    Clip(
        "forever_2.wav",
        "forever/input_2_16k.wav",
        107326,
        "a67ddc6424abc306863a50aab4dcb37b31fa28e601dadc80e66751de39499402",
        "feels like these days go on forever",
    ),
    Clip(
        "forever_4.wav",
        "forever/input_4_16k.wav",
        184440,
        "16ee530ce7017b80962d9c6cad884ca4d044805a7169cc6c80f8f55c58ae093b",
        "feels like these days go on forever",
    ),
    Clip(
        "goforward.wav",
        "goforward.raw",
        89204,
        "97ec638609b9c7eeb616764b4e5713d7ed2d0a8e1a2f8246631d9074d47aaf11",
        "go forward ten meters",
    ),
    Clip(
        "lv_0870.wav",
        f"librivox/{_AUSTEN}-0870.wav",
        227244,
        "b0557cf95c974d930577e58e46b7f068c432a6e3afcc286563d88922b2a5315c",
        "and mister john dashwood had then leisure to consider how"
        " much there might be prudently in his power to do for them",
    ),
    Clip(
        "lv_0880.wav",
        f"librivox/{_AUSTEN}-0880.wav",
        95724,
        "fbec491ef00ee734a67f0ee318e98c51c157b479e1629ff4f4426861ecac0414",
        "he was not an ill disposed young man",
    ),
    Clip(
        "lv_0890.wav",
        f"librivox/{_AUSTEN}-0890.wav",
        169644,
        "5793ffbdee55fb8bfd284943a6866864c832d9d4accf2661cabd39915c84ee10",
        "unless to be rather cold hearted and rather selfish is to be ill disposed",
    ),
    Clip(
        "lv_0920.wav",
        f"librivox/{_AUSTEN}-0920.wav",
        193644,
        "40882414ef4cc51f3ff7a63bad0c8c87e7f595ffeb8209fbf756c8ebc5c28a59",
        "had he married a more amiable woman he might have been made"
        " still more respectable than he was",
    ),
    Clip(
        "lv_0930.wav",
        f"librivox/{_AUSTEN}-0930.wav",
        105324,
        "954adbf0b56ac8a148cbe77b39ca18d76b5f2a1e1f405565bd786ce3e68a68b7",
        "he might even have been made amiable himself",
    ),
    Clip(
        "something.wav",
        "something.raw",
        96002,
        "85fc7f1a94db4d957a2d7a3c8f31ecf4ba78c067e50c5028098c4fc3a6f29bf0",
        "go somewhere and do something",
    ),
    Clip(
        "digits.wav",
        "tidigits/dhd.2934z.raw",
        76844,
        "c1a7a52aeb32dcd7807e86fccb21db4131a5b7793618186b4a5f49fbee939b68",
        "two nine three four zero",
    ),
)
