"""Prompts with named parts, chat turns, and scores by sentence, turn and part, which add up like tokens do."""

from typing import Any

import pytest

import whyword
from toy_tokenizers import train_tokenizer
from whyword.ask.chat_turns import render_chat
from whyword.ask.filled_prompt import FilledPrompt, fill
from whyword.ask.prompt import extend_prompt, read_prompt
from whyword.errors import InputError
from whyword.models.testing.tiny_families import build
from whyword.tokens.segments import Segment
