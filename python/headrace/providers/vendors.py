"""OpenAI-compatible vendors as data: one line each where nothing but the address differs.

A vendor that needs more than `Settings` says gets a file of its own. Settings left out keep their defaults, so a
row may still say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.plugins import Capability, ProviderDefinition
from headrace.providers import _images
from headrace.providers._wires import openai_listing
from headrace.providers.openai_compatible import CAPABILITIES, MORE, Settings

__all__ = ["DEFINITIONS"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cerebras(Settings):
    dialect: tuple[str, ...] = ("max_completion_tokens", "echo_reasoning")


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeepSeek(Settings):
    """Refuses a turn that called tools and comes back without its reasoning."""

    dialect: tuple[str, ...] = ("echo_reasoning_content",)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MiniMax(Settings):
    """Shows what it thinks in its text, unless it is asked to split it."""

    think_tags: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moonshot(Settings):
    """As DeepSeek; and no call can be forced."""

    dialect: tuple[str, ...] = ("echo_reasoning_content", "no_required_choice")


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewLimit(Settings):
    """For vendors that call the limit as OpenAI does now."""

    dialect: tuple[str, ...] = ("max_completion_tokens",)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Zai(Settings):
    """Knows no `stream_options` and tells the usage unasked."""

    include_usage: bool = False
    dialect: tuple[str, ...] = ("echo_reasoning_content",)


@dataclass(frozen=True, slots=True)
class _Vendor:
    kind: str
    label: str
    base_url: str
    environment: str | None = None
    settings: type = Settings
    #: What it has beside the language model.
    more: tuple[Capability, ...] = ()


_VENDORS: Final = (
    _Vendor("cerebras", "Cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", _Cerebras),
    _Vendor("deepseek", "DeepSeek", "https://api.deepseek.com", "DEEPSEEK_API_KEY", _DeepSeek),
    _Vendor("fireworks", "Fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    _Vendor("github_models", "GitHub Models", "https://models.github.ai/inference", None, _NewLimit),
    _Vendor("groq", "Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", _NewLimit),
    _Vendor("huggingface", "Hugging Face", "https://router.huggingface.co/v1", "HF_TOKEN"),
    _Vendor("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1"),
    _Vendor("lm_studio", "LM Studio", "http://127.0.0.1:1234/v1"),
    _Vendor("minimax", "MiniMax", "https://api.minimax.io/v1", "MINIMAX_API_KEY", _MiniMax),
    _Vendor("moonshot", "Moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", _Moonshot),
    _Vendor("perplexity", "Perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    _Vendor("qwen", "Qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    _Vendor("sglang", "SGLang", "http://127.0.0.1:30000/v1"),
    _Vendor("together", "Together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", more=MORE),
    _Vendor("vllm", "vLLM", "http://127.0.0.1:8000/v1"),
    _Vendor("xai", "xAI", "https://api.x.ai/v1", "XAI_API_KEY", _NewLimit, (_images.XAI,)),
    _Vendor("zai", "Z.AI", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", _Zai),
)

DEFINITIONS: Final = tuple(
    ProviderDefinition(
        kind=vendor.kind,
        label=vendor.label,
        base_url=vendor.base_url,
        environment=vendor.environment,
        capabilities=(*CAPABILITIES, *vendor.more),
        settings=vendor.settings,
        listing=openai_listing,
    )
    for vendor in _VENDORS
)
