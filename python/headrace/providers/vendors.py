"""OpenAI-compatible vendors as data: one line each where nothing but the address differs.

A vendor that needs more than `Settings` says gets a file of its own. Settings left out keep their defaults, so a
row may still say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.plugins import ProviderDefinition
from headrace.providers.openai_compatible import CAPABILITIES, Settings

__all__ = ["DEFINITIONS"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoUsageOption(Settings):
    """For vendors that do not know `stream_options` and tell the usage unasked."""

    include_usage: bool = False


@dataclass(frozen=True, slots=True)
class _Vendor:
    kind: str
    label: str
    base_url: str
    environment: str
    settings: type = Settings


_VENDORS: Final = (
    _Vendor("cerebras", "Cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    _Vendor("deepseek", "DeepSeek", "https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    _Vendor("fireworks", "Fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    _Vendor("groq", "Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    _Vendor("moonshot", "Moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    _Vendor("perplexity", "Perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    _Vendor("together", "Together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    _Vendor("xai", "xAI", "https://api.x.ai/v1", "XAI_API_KEY"),
    _Vendor("zai", "Z.AI", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", _NoUsageOption),
)

DEFINITIONS: Final = tuple(
    ProviderDefinition(
        kind=vendor.kind,
        label=vendor.label,
        base_url=vendor.base_url,
        environment=vendor.environment,
        capabilities=CAPABILITIES,
        settings=vendor.settings,
    )
    for vendor in _VENDORS
)
