"""What a word is, in scripts with and without spaces between words. Pure."""

import re

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Chinese and Japanese characters: each counts as a word."""

WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+")
