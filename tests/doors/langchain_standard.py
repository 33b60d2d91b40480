"""LangChain's standard tests of a chat model, in its own environment: `pytest` runs this file.

COCOA_TEST_URL is that of the service. What is expected to fail is the model's fault.
"""

import os

import pytest
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests


class TestChat(ChatModelIntegrationTests):
    """All of them, synchronous and asynchronous."""

    @property
    def chat_model_class(self):
        return ChatOpenAI

    @property
    def chat_model_params(self):
        scored = {"uncertainty": {"num_samples": 1, "timeout_s": 300}}
        return {
            "model": "cocoa",
            "base_url": f"{os.environ['COCOA_TEST_URL']}/v1",
            "api_key": "none",
            "max_retries": 0,
            "max_tokens": 300,
            "temperature": 0.7,
            "seed": 3,
            "stream_usage": True,
            "extra_body": scored,
        }

    @property
    def supports_json_mode(self):
        return True

    @pytest.mark.xfail(reason="the model says what a tool gave in text, and calls no second one")
    def test_agent_loop(self, model):
        super().test_agent_loop(model)

    @pytest.mark.xfail(reason="half a billion parameters: it repeats itself to the limit of tokens")
    def test_structured_output_optional_param(self, model):
        super().test_structured_output_optional_param(model)
