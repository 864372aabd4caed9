"""Vectors that are kept packed until somebody compares them. Pure."""

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Packed:
    """Vectors as a short ASCII text, unpacked when somebody asks for them: of thousands of runs, most are not compared.

    numpy takes it for the array of shape `(-1, *shape)`.
    """

    _LEVEL = 3
    """Of compression: it leaves a seventh of what vectors take, and twice the effort hardly less."""

    def __init__(self, text: str, dtype: DTypeLike, *shape: int) -> None:
        self.text = text
        self._dtype = dtype
        self._shape = shape
        self._array: NDArray[Any] | None = None

    @classmethod
    def of(cls, vectors: "NDArray[Any] | Packed") -> "Packed":
        """Pack vectors, unless they are."""
        if isinstance(vectors, Packed):
            return vectors
        text = base64.b64encode(zlib.compress(vectors.tobytes(), cls._LEVEL)).decode()
        return cls(text, vectors.dtype, *vectors.shape[1:])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: FBT001 - numpy's
        if self._array is None:
            content = zlib.decompress(base64.b64decode(self.text))
            self._array = np.frombuffer(content, self._dtype).reshape(-1, *self._shape)
        return np.array(self._array, dtype, copy=copy)

    def __getitem__(self, place: int | slice) -> NDArray[Any]:
        vectors: NDArray[Any] = np.asarray(self)[place]
        return vectors
