#!/usr/bin/env python3
"""Train the network for handwritten digits and write it as ONNX."""

from pathlib import Path

import click
import numpy as np
from network import CLASSES, Parameters, accuracy, initial_parameters, loss_and_gradients
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper
from samples import Samples, split

from vdla.cli._options import needs
from vdla.hw.spec.writing import write_bytes

TARGET = Path(__file__).parent / "digits.onnx"
SEED, EPOCHS, BATCH = 0, 40, 32
RATE, DECAY = 2e-3, (0.9, 0.999)
OPSET, IR_VERSION = 17, 8


class Adam:
    """Steps of Adam, in place; the rate falls to zero over `steps`.

    Source: Kingma and Ba, Adam: a method for stochastic optimization, ICLR 2015, algorithm 1.
    """

    def __init__(self, parameters: Parameters, steps: int) -> None:
        self._steps, self._step = steps, 0
        self._means = {name: np.zeros_like(values) for name, values in parameters.items()}
        self._powers = {name: np.zeros_like(values) for name, values in parameters.items()}

    def step(self, parameters: Parameters, gradients: Parameters) -> None:
        """Move the parameters against their gradients."""
        rate = RATE * (1 - self._step / self._steps)
        self._step += 1
        unbiased = [1 - decay**self._step for decay in DECAY]
        for name, gradient in gradients.items():
            self._means[name] += (1 - DECAY[0]) * (gradient - self._means[name])
            self._powers[name] += (1 - DECAY[1]) * (gradient**2 - self._powers[name])
            parameters[name] -= (
                rate * self._means[name] / unbiased[0] / (np.sqrt(self._powers[name] / unbiased[1]) + 1e-8)
            )


def train(samples: Samples, epochs: int = EPOCHS, seed: int = SEED) -> tuple[Parameters, list[float]]:
    """Return trained parameters and the mean loss of each epoch, the same for the same seed."""
    from threadpoolctl import threadpool_limits

    random = np.random.default_rng(seed)
    parameters = initial_parameters(random)
    adam = Adam(parameters, epochs * -(-len(samples) // BATCH))
    with threadpool_limits(limits=1):  # matrices as small as these are multiplied faster by one thread
        return parameters, [_epoch(parameters, adam, samples, random) for _ in range(epochs)]


def _epoch(parameters: Parameters, adam: Adam, samples: Samples, random: np.random.Generator) -> float:
    """Train on every sample once, in random order; return the mean loss."""
    losses, order = [], random.permutation(len(samples))
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        loss, gradients = loss_and_gradients(parameters, samples.images[chosen], samples.labels[chosen])
        adam.step(parameters, gradients)
        losses.append(loss * len(chosen))
    return sum(losses) / len(order)


def to_onnx(parameters: Parameters) -> ModelProto:
    """Return the network: image float32[1, 1, 8, 8] from 0 to 1, scores float32[1, 10]."""
    around = {"kernel_shape": [3, 3], "pads": [1] * 4}
    halved = {"kernel_shape": [2, 2], "strides": [2, 2]}
    steps = (
        ("Conv", ("conv1_weight", "conv1_bias"), around),
        ("Relu", (), {}),
        ("MaxPool", (), halved),
        ("Conv", ("conv2_weight", "conv2_bias"), around),
        ("Relu", (), {}),
        ("MaxPool", (), halved),
        ("Flatten", (), {"axis": 1}),
        ("Gemm", ("dense_weight", "dense_bias"), {"transB": 1}),
    )
    names = [
        "image",
        *(f"{operator.lower()}_{number}" for number, (operator, _, _) in enumerate(steps[:-1])),
        "scores",
    ]
    nodes = [
        helper.make_node(
            operator, [names[number], *inputs], [names[number + 1]], f"{operator}_{number}", **attributes
        )
        for number, (operator, inputs, attributes) in enumerate(steps)
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 1, 8, 8))
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, (1, CLASSES))
    weights = [numpy_helper.from_array(values, name) for name, values in parameters.items()]
    graph = helper.make_graph(nodes, "digits", [image], [scores], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    checker.check_model(model, full_check=True)
    return model


@click.command(help=__doc__)
@click.option("--epochs", default=EPOCHS, show_default=True)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=TARGET,
    show_default="digits.onnx beside this file",
)
@needs("training", "sklearn", "threadpoolctl")
def main(epochs: int, output: Path) -> None:
    training, test = split()
    parameters, losses = train(training, epochs)
    for name, samples in (("training", training), ("test", test)):
        click.echo(f"{name:8} {accuracy(parameters, samples.images, samples.labels):.2%} of {len(samples)}")
    write_bytes(output, to_onnx(parameters).SerializeToString())
    click.echo(
        f"loss {losses[0]:.3f} in the first epoch, {losses[-1]:.5f} in the last; wrote {output}, "
        f"{output.stat().st_size:,} bytes"
    )


if __name__ == "__main__":
    main()
