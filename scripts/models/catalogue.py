"""The networks by name, their inputs, and which of their operators stay in floating point."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from onnx import ModelProto

from models.dcgan import NOISE, dcgan
from models.dqn import FRAMES, SIDE, dqn
from models.lstm import UNITS, lstm_cell
from models.mobilenet import mobilenet
from models.resnet import resnet18, resnet50
from models.run import Tensors
from models.statistics import settle
from models.transformer import TOKENS, WIDTH, transformer

SETTLING_SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Network:
    """An example network.

    Attributes:
        name: of its files.
        summary: one line for people.
        build: makes the graph from a seed.
        sample: makes inputs by name from a random generator.
        float_operators: operators that are not quantised.
    """

    name: str
    summary: str
    build: Callable[[int], ModelProto]
    sample: Callable[[np.random.Generator], Tensors]
    float_operators: frozenset[str] = frozenset()

    def samples(self, count: int, seed: int) -> list[Tensors]:
        """Return inputs, the same for the same seed."""
        random = np.random.default_rng(seed)
        return [self.sample(random) for _ in range(count)]

    def model(self, seed: int) -> ModelProto:
        """Return the model with its statistics settled."""
        model = self.build(seed)
        settle(model, self.samples(SETTLING_SAMPLES, seed))
        return model


def _normal(random: np.random.Generator, **shapes: tuple[int, ...]) -> Tensors:
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def _uniform(random: np.random.Generator, low: float, high: float, **shapes: tuple[int, ...]) -> Tensors:
    return {name: random.uniform(low, high, shape).astype(np.float32) for name, shape in shapes.items()}


def _lstm_sample(random: np.random.Generator) -> Tensors:
    """Return a word's embedding and the state after some steps: hidden values are those of a tanh."""
    return _normal(random, inputs=(1, UNITS), cell=(1, UNITS)) | _uniform(random, -1, 1, hidden=(1, UNITS))


_image = partial(_normal, image=(1, 3, 224, 224))
_classifier = frozenset({"Softmax"})

NETWORKS = {
    network.name: network
    for network in (
        Network("resnet18", "ResNet-18, 224x224 image, 1,000 classes", resnet18, _image, _classifier),
        Network("resnet50", "ResNet-50, 224x224 image, 1,000 classes", resnet50, _image, _classifier),
        Network("mobilenet", "MobileNet-v1, 224x224 image, 1,000 classes", mobilenet, _image, _classifier),
        Network("lstm_cell", "one step of an LSTM cell of 650 units", lstm_cell, _lstm_sample),
        Network(
            "dqn",
            "deep Q-network, four 84x84 frames, 18 actions",
            dqn,
            partial(_uniform, low=0, high=1, frames=(1, FRAMES, SIDE, SIDE)),
        ),
        Network(
            "dcgan",
            "generator of DCGAN, 100 random numbers to a 64x64 image",
            dcgan,
            partial(_uniform, low=-1, high=1, noise=(1, NOISE, 1, 1)),
        ),
        Network(
            "transformer",
            "encoder layer of a transformer, 128 tokens, 256 wide, 4 heads",
            transformer,
            partial(_normal, tokens=(TOKENS, WIDTH)),
            frozenset({"Gelu", "LayerNormalization", "Mul", "Softmax"}),
        ),
    )
}
