"""One step of an LSTM cell, written out, as the language model of the TVM paper runs it.

Source: Zaremba et al., Recurrent Neural Network Regularization, arXiv:1409.2329, section 3.1: the medium
model has 650 units.
"""

from onnx import ModelProto

from models.graph import GraphBuilder

UNITS = 650


def lstm_cell(seed: int) -> ModelProto:
    """Return a cell: inputs, hidden and cell float32[1, 650] to next_hidden and next_cell of the same
    shape."""
    graph = GraphBuilder("lstm_cell", seed)
    inputs, hidden, cell = (graph.input(name, 1, UNITS) for name in ("inputs", "hidden", "cell"))
    from_inputs = graph.dense(inputs, UNITS, 4 * UNITS, gain=1)
    from_hidden = graph.dense(hidden, UNITS, 4 * UNITS, gain=1, bias=False)
    gates = graph.nodes("Split", 4, graph.node("Add", from_inputs, from_hidden), axis=1)
    opened, forgotten, shown = (graph.node("Sigmoid", gate) for gate in gates[:3])
    kept = graph.node("Mul", forgotten, cell)
    added = graph.node("Mul", opened, graph.node("Tanh", gates[3]))
    next_cell = graph.node("Add", kept, added)
    return graph.finish(
        next_hidden=graph.node("Mul", shown, graph.node("Tanh", next_cell)), next_cell=next_cell
    )
