"""A trained recogniser of lines of text, as it comes in a Python package, on lines that are drawn here."""

import importlib.util
from itertools import groupby
from pathlib import Path

import numpy as np
import onnx
from models.run import Tensors

from accuracy.trained import Trained

PACKAGE = "rapidocr_onnxruntime"
HOW = "pip install --no-deps rapidocr-onnxruntime==1.4.4"
MODEL = Path("models") / "ch_PP-OCRv4_rec_infer.onnx"
HEIGHT, WIDTH = 48, 320
CALIBRATION, TEST, SEED = 16, 64, 1
FONTS = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf", "DejaVuSerif.ttf", "STIXGeneral.ttf")
WORDS = (
    "accelerator account amount Berlin brown convolution date dog due fox invoice jumps lazy London March "
    "memory model Monday network number order over payment pressure quantised quick serial street telephone "
    "the total valve 17.95 2024 555-0199"
)


def place() -> Path | None:
    """Return where the recogniser is; None where its package is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(folders))) / MODEL if folders else None


def text_lines() -> Trained:
    """Return the recogniser, and lines of two or three words in several fonts, sizes and colours.

    Its score is the share of the characters that it reads right, by the edits from what it reads to what the
    line says.
    """
    from onnxruntime.tools.onnx_model_utils import fix_output_shapes, make_input_shape_fixed

    path = place()
    assert path is not None, f"{PACKAGE} is installed"
    model = onnx.load(path)
    name = model.graph.input[0].name
    make_input_shape_fixed(model.graph, name, (1, 3, HEIGHT, WIDTH))
    del model.graph.value_info[:]  # shapes of other inputs
    fix_output_shapes(model)
    known = next(entry.value for entry in model.metadata_props if entry.key == "character")
    characters = ["", *known.split("\n"), " "]
    random = np.random.default_rng(SEED)
    drawn = [line(random) for _ in range(CALIBRATION + TEST)]
    samples = [{name: image} for image, _ in drawn]
    said = [text for _, text in drawn[CALIBRATION:]]

    def score(outputs: list[Tensors]) -> float:
        """Return the percentage of the characters that are read right."""
        wrong = sum(edits(read(each, characters), text) for each, text in zip(outputs, said, strict=True))
        return 100 * (1 - wrong / sum(map(len, said)))

    return Trained("text lines", model, samples[:CALIBRATION], samples[CALIBRATION:], score)


def read(outputs: Tensors, characters: list[str]) -> str:
    """Return the text of an output [1, places, characters]: equal neighbours merge, and the first character
    stands for none."""
    (scores,) = next(iter(outputs.values()))
    return "".join(characters[place] for place, _ in groupby(scores.argmax(axis=1)))


def edits(text: str, target: str) -> int:
    """Return how many characters must be changed, added or taken out to turn a text into another."""
    row = list(range(len(target) + 1))
    for count, mine in enumerate(text, 1):
        before, row[0] = row[0], count
        for at, theirs in enumerate(target, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (mine != theirs))
    return row[-1]


def line(random: np.random.Generator) -> tuple[np.ndarray, str]:
    """Return an image float32[1, 3, HEIGHT, WIDTH] of a line, from -1 to 1, and what it says."""
    from matplotlib import get_data_path
    from PIL import Image, ImageDraw, ImageFont

    text = " ".join(random.choice(WORDS.split(), random.integers(2, 4)))
    fonts = Path(get_data_path()) / "fonts" / "ttf"
    font = ImageFont.truetype(fonts / random.choice(FONTS), int(random.integers(26, 40)))
    left, top, right, bottom = font.getbbox(text)
    margins = random.integers(2, 9, 4)
    size = (int(right - left + margins[:2].sum()), int(bottom - top + margins[2:].sum()))
    paper, ink = random.integers(150, 256, 3), random.integers(0, 110, 3)
    image = Image.new("RGB", size, tuple(map(int, paper)))
    at = (int(margins[0] - left), int(margins[2] - top))
    ImageDraw.Draw(image).text(at, text, font=font, fill=tuple(map(int, ink)))
    wide = min(WIDTH, round(HEIGHT * size[0] / size[1]))
    pixels = np.asarray(image.resize((wide, HEIGHT), Image.Resampling.BILINEAR), np.float32)
    noisy = np.clip(pixels + random.normal(0, random.uniform(0, 8), pixels.shape), 0, 255)
    result = np.zeros((1, 3, HEIGHT, WIDTH), np.float32)
    result[0, :, :, :wide] = (noisy / 127.5 - 1).transpose(2, 0, 1)
    return result, text
