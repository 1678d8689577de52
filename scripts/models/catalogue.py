"""The networks by name, their inputs, and which of their operators stay in floating point."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from onnx import ModelProto

from models.branchy import branchy
from models.convnext import convnext
from models.crnn import HEIGHT as LINE_HEIGHT
from models.crnn import WIDTH as LINE_WIDTH
from models.crnn import crnn
from models.dcgan import NOISE, dcgan
from models.dqn import FRAMES, SIDE, dqn
from models.fold import fold
from models.lstm import UNITS, lstm_cell
from models.mobile import efficientnet_b0, mobilenet_v2, mobilenet_v3_small
from models.mobilenet import mobilenet
from models.regnet import regnet_y
from models.resnet import resnet18, resnet50
from models.run import Tensors
from models.shufflenet import shufflenet_v2
from models.statistics import settle
from models.transformer import TOKENS, WIDTH, transformer
from models.unet import SIDE as UNET_SIDE
from models.unet import unet
from models.vgg import vgg19
from models.vit import vit
from models.waveform import SAMPLES, waveform
from models.yolo import SIDE as YOLO_SIDE
from models.yolo import yolo

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
        float_behind: operators; they and all nodes behind them are not quantised.
        folds: whether batch normalisations are folded in the float model already.
    """

    name: str
    summary: str
    build: Callable[[int], ModelProto]
    sample: Callable[[np.random.Generator], Tensors]
    float_operators: frozenset[str] = frozenset()
    float_behind: frozenset[str] = frozenset()
    folds: bool = False

    def samples(self, count: int, seed: int) -> list[Tensors]:
        """Return inputs, the same for the same seed."""
        random = np.random.default_rng(seed)
        return [self.sample(random) for _ in range(count)]

    def model(self, seed: int) -> ModelProto:
        """Return the model with its statistics settled."""
        model = self.build(seed)
        settle(model, self.samples(SETTLING_SAMPLES, seed))
        if self.folds:
            fold(model)
        return model


def _normal(random: np.random.Generator, **shapes: tuple[int, ...]) -> Tensors:
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def _uniform(random: np.random.Generator, low: float, high: float, **shapes: tuple[int, ...]) -> Tensors:
    return {name: random.uniform(low, high, shape).astype(np.float32) for name, shape in shapes.items()}


def _lstm_sample(random: np.random.Generator) -> Tensors:
    """Return a word's embedding and the state after some steps: hidden values are results of a tanh."""
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
        Network(
            "mobilenet_v2", "MobileNetV2, 224x224 image, 1,000 classes", mobilenet_v2, _image, folds=True
        ),
        Network(
            "mobilenet_v3_small",
            "MobileNetV3-small, 224x224 image, 1,000 classes",
            mobilenet_v3_small,
            _image,
            folds=True,
        ),
        Network(
            "efficientnet_b0",
            "EfficientNet-B0, 224x224 image, 1,000 classes",
            efficientnet_b0,
            _image,
            folds=True,
        ),
        Network(
            "shufflenet_v2",
            "ShuffleNetV2 1.0, 224x224 image, 1,000 classes",
            shufflenet_v2,
            _image,
            folds=True,
        ),
        Network("regnet_y", "RegNetY-400MF, 224x224 image, 1,000 classes", regnet_y, _image, folds=True),
        Network(
            "yolo",
            "detector like YOLOv8n, 320x320 image, 80 classes",
            yolo,
            partial(_normal, image=(1, 3, YOLO_SIDE, YOLO_SIDE)),
            float_behind=frozenset({"Softmax"}),
            folds=True,
        ),
        Network(
            "unet",
            "U-Net of half the width, 128x128 image, 2 classes",
            unet,
            partial(_normal, image=(1, 3, UNET_SIDE, UNET_SIDE)),
            folds=True,
        ),
        Network(
            "convnext",
            "ConvNeXt-Atto, 224x224 image, 1,000 classes",
            convnext,
            _image,
            frozenset({"LayerNormalization"}),
        ),
        Network(
            "vit",
            "three layers of ViT-Tiny, 224x224 image, 1,000 classes",
            vit,
            _image,
            frozenset({"LayerNormalization", "Softmax"}),
        ),
        Network(
            "crnn",
            "CRNN, 32x100 line of text, 37 symbols",
            crnn,
            partial(_normal, line=(1, 1, LINE_HEIGHT, LINE_WIDTH)),
            frozenset({"LSTM"}),
            folds=True,
        ),
        Network(
            "waveform",
            "M5, 8,000 samples of sound, 10 classes",
            waveform,
            partial(_normal, sound=(1, 1, SAMPLES)),
            folds=True,
        ),
        Network(
            "branchy",
            "classifier with an early exit by If, 32x32 image, 10 classes",
            branchy,
            partial(_normal, image=(1, 3, 32, 32)),
            frozenset({"Softmax", "ReduceMax", "Greater", "If"}),
            folds=True,
        ),
    )
}

OPTIONAL = {
    network.name: network
    for network in (Network("vgg19", "VGG-19, 224x224 image, 1,000 classes", vgg19, _image, _classifier),)
}
"""Networks whose files are so large that they are written only where they are asked for."""
