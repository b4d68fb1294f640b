"""Images as sequences of patches."""

from torch import Tensor, nn

from .configuration_mrsformer import MrsFormerConfig, tile_shape
from .packing import upload


class PatchEmbedding(nn.Module):
    """Square patches of `pixel_values` `(B, C, H, W)` as vectors `(B, L, D)`, row by row.

    With `config.pool2d` they come tile by tile, so that neighbours in the sequence are a rectangle
    of the image, at every scale.
    """

    def __init__(self, config: MrsFormerConfig):
        super().__init__()
        self.shape = config.num_channels, config.image_size, config.image_size
        self.projection = nn.Conv2d(
            config.num_channels, config.hidden_size, config.patch_size, stride=config.patch_size
        )
        self.order = None
        if config.pool2d:
            largest = max([*config.head_scales, *(config.key_scales or ())])
            self.order = tile_order(config.image_size // config.patch_size, largest)

    def forward(self, pixel_values: Tensor) -> Tensor:
        if tuple(pixel_values.shape[1:]) != self.shape:
            raise ValueError(
                f"pixel_values must have shape (B, {', '.join(map(str, self.shape))}), got "
                f"{tuple(pixel_values.shape)}."
            )
        if not pixel_values.is_floating_point():
            raise ValueError(
                f"pixel_values must hold floating-point numbers, got {pixel_values.dtype}."
            )
        patches = self.projection(pixel_values.to(self.projection.weight.dtype))
        patches = patches.flatten(2).transpose(1, 2)
        if self.order is None:
            return patches
        return patches.index_select(1, upload(self.order, patches.device))


def tile_order(side: int, scale: int) -> list[int]:
    """Patches of a square image, numbered row by row, in the order of tiles of `scale` patches.

    Inside a tile each half comes after the other, so that runs of `scale / 2` are tiles too.

    >>> tile_order(4, 4)
    [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]
    """
    height, width = tile_shape(scale)

    def place(patch: int) -> tuple[int, ...]:
        y, x = divmod(patch, side)
        bits = range(max(height, width).bit_length())
        inside = sum(
            (x % width >> b & 1) << 2 * b | (y % height >> b & 1) << 2 * b + 1 for b in bits
        )
        return y // height, x // width, inside

    return sorted(range(side * side), key=place)
