"""Pictures as grey images of one size, for the image pipeline of transformers."""

from typing import Any

import numpy as np
from transformers.image_processing_backends import PilBackend


class GreyImageProcessor(PilBackend):
    """Makes `pixel_values` `(B, 1, H, W)` of pictures in any colours.

    The pipeline of transformers turns every picture into colours before anybody sees it; models of
    grey images need them back.

    Args:
        size: Height and width that pictures are scaled to.
        image_mean: Mean shade of the training images, in [0, 1].
        image_std: Their deviation.

    >>> from PIL import Image
    >>> processor = GreyImageProcessor(size={"height": 8, "width": 8})
    >>> processor(Image.new("RGB", (20, 20)), return_tensors="pt")["pixel_values"].shape
    torch.Size([1, 1, 8, 8])
    """

    resample = 2  # bilinear
    size = {"height": 32, "width": 32}
    image_mean = [0.5]
    image_std = [0.5]
    do_resize = True
    do_rescale = True
    do_normalize = True

    def process_image(self, image: Any, **kwargs) -> np.ndarray:
        from PIL import Image

        if isinstance(image, Image.Image):
            image = image.convert("L")
        pixels = super().process_image(image, **kwargs)
        if pixels.shape[0] == 3:
            image = Image.fromarray(np.moveaxis(pixels, 0, -1).astype(np.uint8))
            return np.asarray(image.convert("L"))[None]
        if pixels.shape[0] != 1:
            raise ValueError(
                f"Images must be grey or have three colours, got an array of shape {pixels.shape}."
            )
        return pixels
