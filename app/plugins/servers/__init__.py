"""Language models behind servers of others that speak OpenAI's API (`workers/openai`)."""

from app.plugin import Plugin

PLUGIN = Plugin("servers", generators={"openai": "workers.openai.generator:connect_generator"})
