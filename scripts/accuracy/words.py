"""Synthetic words as spectrograms: glides of two formants from vowel to vowel, drawn here and not spoken.

Two words each have the same vowels in another order. Pitch, speed, start and loudness vary, and noise covers
some of the words.

Source of the formants: Peterson and Barney, Control methods used in a study of the vowels, Journal of the
Acoustical Society of America, 1952, table II (men).
"""

from functools import cache

import numpy as np

FORMANTS_HZ = {"a": (730, 1090), "e": (530, 1840), "i": (270, 2290), "o": (570, 840), "u": (300, 870)}
WORDS = ("aia", "iai", "aea", "eae", "oio", "ioi", "ueu", "eue", "oao", "uau")
RATE_HZ, LENGTH = 8000, 4800  # samples of a word
FRAME, HOP, BANDS = 256, 128, 20
FRAMES = (LENGTH - FRAME) // HOP + 1
PITCH_DEVIATION, FREQUENCY_DEVIATION_HZ = 0.12, 60
QUIETEST, SCALE, LOUDEST_NOISE = 1e-3, 5, 2.0


def samples(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return log-spectrograms float32[count, 1, FRAMES, BANDS] and the words they show, int64[count]."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, len(WORDS), count)
    spectrograms = [spectrogram(waveform(WORDS[label], random)) for label in labels]
    return np.stack(spectrograms)[:, None], labels


def waveform(word: str, random: np.random.Generator) -> np.ndarray:
    """Return a word as a sound, float64[LENGTH]."""
    begin, end = random.uniform(0.05, 0.25) * LENGTH, random.uniform(0.7, 0.95) * LENGTH
    centres = np.linspace(begin, end, len(word)) + random.normal(0, 0.03 * LENGTH, len(word))
    formants = np.array([FORMANTS_HZ[vowel] for vowel in word], float)
    formants *= np.exp(random.normal(0, PITCH_DEVIATION))
    formants += random.normal(0, FREQUENCY_DEVIATION_HZ, formants.shape)
    time = np.arange(LENGTH)
    sound = random.normal(0, random.uniform(0, LOUDEST_NOISE), LENGTH)
    voiced = np.interp(time, [begin - 400, begin, end, end + 400], [0, 1, 1, 0])
    for frequencies, strength in zip(formants.T, (1.0, 0.6), strict=True):
        phase = np.cumsum(np.interp(time, centres, frequencies)) * 2 * np.pi / RATE_HZ
        sound += strength * voiced * np.sin(phase + random.uniform(0, 2 * np.pi))
    return sound * random.uniform(0.3, 1)


def spectrogram(sound: np.ndarray) -> np.ndarray:
    """Return the logarithms of the power in the bands of all frames, float32[FRAMES, BANDS]."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, FRAME)[::HOP] * np.hanning(FRAME)
    power = np.abs(np.fft.rfft(frames)) ** 2 / FRAME
    return np.asarray(np.log(power @ bands() + QUIETEST) / SCALE, np.float32)


@cache
def bands() -> np.ndarray:
    """Return triangular bands, equally spaced on the mel scale: float64[FRAME / 2 + 1, BANDS]."""
    nyquist = 2595 * np.log10(1 + RATE_HZ / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, nyquist, BANDS + 2) / 2595) - 1)
    frequencies = np.fft.rfftfreq(FRAME, 1 / RATE_HZ)[:, None]
    rising = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    weights = np.clip(np.minimum(rising, falling), 0, None)
    return np.asarray(weights / weights.sum(0))
