"""Which values may have their channels in any order, and who uses each channel."""

from tests.compiler.network.graphs import Net
from tests.compiler.network.shuffles import PIXELS, depthwise, halves, shuffled
from vdla.compiler.network.channels import Channels, ChannelUses
from vdla.compiler.network.offload import operators_of
from vdla.hw.spec.presets import TINY


def uses(net: Net, *outputs: str) -> ChannelUses:
    return ChannelUses(Channels(net.graph(*outputs), 4), operators_of(TINY))


def test_values_are_free_where_all_readers_take_any_order():
    net = Net()
    x = net.input(1, 3, *PIXELS)
    a, b, c = (net.conv(x, 6) for _ in range(3))
    kept, added = depthwise(net, a), net.add(b, b)
    usage = uses(net, net.conv(shuffled(net, net.join(kept, c), 2), 4), added)
    assert {a, c, kept} <= usage.free
    assert not {b, added} & usage.free


def test_operators_that_need_order_are_worth_a_product_where_channels_are_scattered():
    net = Net()
    a = net.conv(net.input(1, 3, *PIXELS), 8)
    whole, odd = halves(net, a, 4, 4)[0], halves(net, a, 3, 5)[0]
    usage = uses(net, net.conv(net.add(whole, whole), 3), net.conv(net.add(odd, odd), 3))
    assert odd in usage.free
    assert not {whole, a} & usage.free


def test_channels_are_used_through_others():
    net = Net()
    a = net.conv(net.input(1, 3, *PIXELS), 6)
    left, right = halves(net, depthwise(net, a), 2, 4)
    usage = uses(net, net.conv(left, 3), net.conv(net.join(right, left), 3))
    of_a = [usage.of[3 + channel] for channel in range(6)]
    assert of_a == [{1, 3, 5}] * 2 + [{1, 5}] * 4  # positions of the depthwise convolution and its readers
