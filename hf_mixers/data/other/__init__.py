"""Data that are not sequences of letters: time series, tables, images."""

from .images import PixelScaler, load_images, make_image_parts
from .tables import TableEncoder, load_table
from .time_series import SeriesScaler, load_aeon_series, load_time_series, make_series_parts

__all__ = [
    "PixelScaler",
    "SeriesScaler",
    "TableEncoder",
    "load_aeon_series",
    "load_images",
    "load_table",
    "load_time_series",
    "make_image_parts",
    "make_series_parts",
]
