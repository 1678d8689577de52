"""Images as samples: pixels, their place in the input, their scale, and what is refused."""

import re
import warnings

import numpy as np
import pytest
from PIL import Image

from vdla.hw.spec.errors import ToolError, VdlaError
from vdla.runtime.samples import InputError
from vdla.runtime.samples.declared import Declared, static
from vdla.runtime.samples.fit import fit
from vdla.runtime.samples.given import given_of
from vdla.runtime.samples.images import PRESETS, scale_of

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
CHW = np.moveaxis(PIXELS, -1, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with one image in several forms."""
    image_folder = tmp_path_factory.mktemp("images")
    image = Image.fromarray(PIXELS)
    for name in ("a.png", "a.bmp", "a.jpg"):
        image.save(image_folder / name)
    image.convert("L").save(image_folder / "grey.png")
    image.convert("RGBA").save(image_folder / "alpha.png")
    Image.fromarray(np.zeros((4, 6), np.uint16)).save(image_folder / "wide.png")
    image.save(image_folder / "a.tiff")
    turned = Image.Exif()
    turned[0x0112] = 6  # the camera was turned by 90 degrees
    image.save(image_folder / "turned.png", exif=turned)
    return image_folder


def sample(path, shape, dtype="uint8", scale=None):
    fitted = fit(given_of(path, scale), {"x": Declared(shape, dtype)})
    return fitted.samples[0]["x"], fitted.notes


PLACES = {
    "channels first": ((1, 3, 4, 6), CHW[None]),
    "channels last": ((1, 4, 6, 3), PIXELS[None]),
    "no batch": ((3, 4, 6), CHW),
    "open batch": ((None, 3, 4, 6), CHW[None]),
    "open size": ((1, 3, None, None), CHW[None]),
    "no batch, channels last": ((None, None, 3), PIXELS),
}


@pytest.mark.parametrize(
    "make", [lambda image: image, lambda image: [image], lambda image: {"x": image}, lambda image: [(image,)]]
)
@pytest.mark.parametrize("name", ["a.png", "a.jpg", "grey.png", "turned.png"])
def test_an_image_of_pillow_is_what_its_file_is(folder, name, make):
    for scale in ("imagenet", (0.5, 0.5)):
        expected, notes = sample(folder / name, (1, 3, 5, 5), "float32", scale)
        result = sample(make(Image.open(folder / name)), (1, 3, 5, 5), "float32", scale)
        np.testing.assert_array_equal(result[0], expected)
        assert result[1] == notes


def test_an_image_of_pillow_without_a_file_is_named_by_its_place():
    image = Image.fromarray(PIXELS)
    with pytest.raises(
        InputError, match=r"^the image has pixels from 0 to 255, and input x takes float32; say"
    ):
        sample(image, (1, 3, 4, 6), "float32")
    with pytest.raises(InputError, match=r"^sample 1: the image has pixels of mode I;16, and eight bits for"):
        given_of([image, Image.fromarray(np.zeros((4, 6), np.uint16))], "unit")
    assert len(given_of([image, image], "unit").entries) == 2


def test_an_image_of_pillow_whose_file_is_cut_is_refused(folder, tmp_path):
    (tmp_path / "cut.png").write_bytes((folder / "a.png").read_bytes()[:-40])
    with pytest.raises(InputError, match=r"cut.png cannot be read as an image; it is truncated or altered: "):
        given_of(Image.open(tmp_path / "cut.png"), "unit")


def test_a_mean_of_several_numbers_for_one_channel_is_refused_with_what_to_give(folder):
    with pytest.raises(InputError, match=r"mean has 3 numbers, and the input has 1 channel; give 1$"):
        sample(folder / "a.png", (1, 1, 4, 6), "float32", "imagenet")


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "alpha.png"])
@pytest.mark.parametrize("title", PLACES)
def test_pixels_stand_where_the_input_has_them(folder, name, title):
    shape, expected = PLACES[title]
    pixels, notes = sample(folder / name, shape)
    np.testing.assert_array_equal(pixels, expected)
    assert not notes


def test_grey_alpha_and_turned_images(folder):
    grey = np.asarray(Image.fromarray(PIXELS).convert("L"))
    for shape, expected in (
        ((1, 1, 4, 6), grey[None, None]),
        ((4, 6), grey),
        ((1, 4, 6, 1), grey[None, ..., None]),
    ):
        np.testing.assert_array_equal(sample(folder / "a.png", shape)[0], expected)
        np.testing.assert_array_equal(sample(folder / "grey.png", shape)[0], expected)
    np.testing.assert_array_equal(sample(folder / "alpha.png", (1, 4, 4, 6))[0][0, :3], CHW)
    np.testing.assert_array_equal(
        sample(folder / "turned.png", (1, 3, 6, 4))[0][0], np.rot90(CHW, -1, (1, 2))
    )
    lossy = sample(folder / "a.jpg", (1, 3, 4, 6))[0]
    assert lossy.shape == (1, 3, 4, 6)


@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        ("imagenet", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),  # torchvision.transforms
        (
            "clip",
            (0.48145466, 0.4578275, 0.40821073),
            (0.26862954, 0.26130258, 0.27577711),
        ),  # of its repository
    ],
)
def test_a_preset_is_what_networks_were_trained_on(folder, name, mean, std):
    mean, std = np.array(mean), np.array(std)
    expected = ((PIXELS / 255 - mean) / std).transpose(2, 0, 1)[None]
    shape = (1, 3, 4, 6)
    for scale in (name, (mean, std), (255 * mean, 255 * std)):
        pixels, _ = sample(folder / "a.png", shape, "float32", scale)
        assert pixels.dtype == np.float32
        np.testing.assert_allclose(pixels, expected, rtol=1e-5, atol=1e-6)


def test_a_preset_of_one_number_is_that_of_all_channels(folder):
    shape = (1, 3, 4, 6)
    ranges = {name: sample(folder / "a.png", shape, "float32", name)[0] for name in ("unit", "signed", "raw")}
    np.testing.assert_allclose(ranges["unit"][0], CHW / 255, rtol=1e-6)
    np.testing.assert_allclose(ranges["signed"][0], CHW / 127.5 - 1, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ranges["raw"][0], CHW)


def test_an_image_of_another_size_is_scaled_and_cropped_at_its_centre_and_that_is_said(folder):
    wide = np.full((32, 48, 3), 255, np.uint8)
    wide[:, 8:40] = 7
    Image.fromarray(wide).save(folder / "large.png")
    pixels, notes = sample(folder / "large.png", (1, 3, 4, 4))
    assert notes == (f"{folder}/large.png: an image of 48 x 32 pixels was scaled and cropped to 4 x 4",)
    np.testing.assert_array_equal(pixels[..., 1:3], np.full((1, 3, 4, 2), 7))
    assert (
        pixels.max() < 50
    )  # at the sides, where the filter reaches beyond; half of it is white without a crop
    (folder / "large.png").unlink()


REFUSED = {
    "no scale": (
        ("a.png", (1, 3, 4, 6), "float32", None),
        "a.png has pixels from 0 to 255, and input x takes float32; say which numbers the network was trained on: "
        "--image-preset imagenet",
    ),
    "a scale for bytes": (("a.png", (1, 3, 4, 6), "uint8", "unit"), "input x takes uint8, so "),
    "another preset": (
        ("a.png", (1, 3, 4, 6), "float32", "torch"),
        "one of imagenet, clip, unit, signed, raw, or a",
    ),
    "no pair": (("a.png", (1, 3, 4, 6), "float32", 3), "a pair of mean and std, not 3"),
    "a deviation of 0": (
        ("a.png", (1, 3, 4, 6), "float32", (0, 0)),
        "mean 0 and std 0 must be finite numbers",
    ),
    "no mean": (
        ("a.png", (1, 3, 4, 6), "float32", ((), 1)),
        "mean nothing and std 1 must be finite numbers",
    ),
    "no deviation": (
        ("a.png", (1, 3, 4, 6), "float32", (1, ())),
        "mean 1 and std nothing must be finite numbers",
    ),
    "no number": (
        ("a.png", (1, 3, 4, 6), "float32", ((0, np.nan, 0), 1)),
        "mean 0,nan,0 and std 1 must be finite numbers",
    ),
    "texts": (("a.png", (1, 3, 4, 6), "float32", ("a", "b")), "an image's mean and std are numbers, not 'a'"),
    "two channels": (
        ("a.png", (1, 3, 4, 6), "float32", ((0, 1), 1)),
        "mean has 2 numbers, and the input has 3 channels",
    ),
    "five axes": (("a.png", (1, 3, 1, 4, 6), "uint8", None), "which has no axis of 1, 3 or 4 channels"),
    "open channels": (
        ("a.png", (1, None, None, None), "uint8", None),
        "or give the shape if it is open (--shape)",
    ),
    "no rank": (("a.png", None, "uint8", None), "a.png is an image, and input x takes "),
    "a batch": (("a.png", (2, 3, 4, 6), "uint8", None), "which has no axis of 1, 3 or 4 channels"),
    "16 bits": (("wide.png", (1, 1, 4, 6), "uint8", None), "wide.png has pixels of mode I;16"),
    "another format": (
        ("a.tiff", (1, 3, 4, 6), "uint8", None),
        "a.tiff holds no arrays, no image and no sound",
    ),
}


@pytest.mark.parametrize("title", REFUSED)
def test_images_that_do_not_fit_are_refused_on_one_line(folder, title):
    (name, shape, dtype, scale), message = REFUSED[title]
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        sample(folder / name, shape, dtype, scale)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.bmp"])
def test_a_damaged_image_is_refused_or_read(folder, name):
    whole = (folder / name).read_bytes()
    for place in range(0, len(whole), 7):
        broken = bytearray(whole)
        broken[place] ^= 0x41
        (folder / "broken").write_bytes(broken if place % 2 else broken[:place])
        assert "\n" not in refusal(folder / "broken")
    (folder / "broken").unlink()


def refusal(path) -> str:
    """Return what is said of a file; nothing of a file that is read."""
    try:
        given_of(path)
    except VdlaError as error:
        return str(error)
    return ""


def test_a_reason_is_cut_to_200_characters(folder, monkeypatch):
    def fails(*_, **__):
        raise ValueError("x " * 300)

    monkeypatch.setattr(Image, "open", fails)
    assert refusal(folder / "a.png") == (
        f"{folder}/a.png cannot be read as an image; it is truncated or altered: {('x ' * 300)[:197]}..."
    )


def test_an_image_larger_than_any_limit_is_not_unpacked(folder, monkeypatch):
    monkeypatch.setattr("vdla.runtime.samples.images.ARRAY_BYTES", 50)
    with pytest.raises(
        InputError, match=r"a\.png is not unpacked: its pixels take 96 bytes, and the limit is 50"
    ):
        given_of(folder / "a.png")


def test_without_pillow_the_message_names_the_extra(folder, monkeypatch):
    monkeypatch.setattr("vdla.hw.spec.extras.find_spec", lambda _: None)
    with pytest.raises(
        ToolError,
        match=re.escape(
            'needs PIL, which is not installed here; install it with: pip install "vdla[models]"'
        ),
    ):
        given_of(folder / "a.png")


def test_every_preset_has_a_scale():
    for name, scale in PRESETS.items():
        assert scale_of(name) is scale
        assert min(scale.std) > 0


def test_an_image_that_was_read_is_given_as_it_is(folder):
    (entry,) = given_of(folder / "a.png").entries
    (picture,) = entry.items
    ((again,),) = (entry.items for entry in given_of({"x": picture}).entries)
    assert again is picture


def test_images_and_arrays_give_the_same_samples(folder):
    inputs = {"x": static((1, 3, 4, 6), "uint8")}
    image, array = (fit(given_of(what), inputs).samples[0]["x"] for what in (folder / "a.png", CHW))
    np.testing.assert_array_equal(image, array)


def test_the_digest_of_an_image_covers_its_pixels_its_size_its_mode_and_its_scale(folder):
    Image.fromarray(PIXELS[:, ::-1]).save(folder / "other.png")
    Image.fromarray(PIXELS.reshape(6, 4, 3)).save(folder / "tall.png")
    given = [
        given_of(folder / name, scale)
        for name in ("a.png", "other.png", "tall.png", "alpha.png")
        for scale in ("unit", "raw", None)
    ]
    assert len({b"|".join(samples.parts()) for samples in given}) == len(given)
    assert [*given_of(folder / "a.bmp").parts()] == [*given_of(folder / "a.png").parts()]


@pytest.mark.parametrize(("most", "is_read"), [(24, True), (23, True), (12, True), (11, False)])
def test_the_warnings_of_pillow_about_large_images_are_not_passed_on(folder, monkeypatch, most, is_read):
    """It warns beyond its limit of pixels, and refuses beyond twice that."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if is_read:
            assert given_of(folder / "a.png").entries
        else:
            with pytest.raises(InputError, match=r"a\.png cannot be read as an image; it is truncated or "):
                given_of(folder / "a.png")


def test_an_image_of_the_greatest_size_is_unpacked(folder, monkeypatch):
    monkeypatch.setattr("vdla.runtime.samples.images.ARRAY_BYTES", 96)
    assert given_of(folder / "a.png").entries


@pytest.mark.parametrize(("name", "black", "white"), [("unit", 0, 1), ("signed", -1, 1), ("raw", 0, 255)])
def test_a_preset_has_the_range_of_its_name(name, black, white):
    pixels = np.array([[[0], [255]]], np.uint8)
    scaled = scale_of(name).of(pixels, "x")
    assert (scaled.dtype, scaled.reshape(-1).tolist()) == (np.float32, [black, white])


@pytest.mark.parametrize(
    ("mean", "std", "unit"),
    [((0.5,), (1.0,), 255), ((0.5,), (1.01,), 1), ((1.5,), (0.5,), 1), ((1.0,), (0.5,), 255)],
)
def test_numbers_above_one_are_those_of_pixels_to_255(mean, std, unit):
    scale = scale_of((mean, std))
    assert (scale.mean, scale.std) == (
        tuple(unit * number for number in mean),
        tuple(unit * number for number in std),
    )
