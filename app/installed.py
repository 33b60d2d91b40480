"""The plugins that are installed, and what they add to models and workers of this process."""

from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points

from app.plugin import Plugin, PluginInvalid


@cache
def installed() -> tuple[Plugin, ...]:
    """The plugins of all distributions that are installed, in the order of their names.

    Raises:
        PluginInvalid: one cannot be imported, or is none, or a distribution is of an older release.
    """
    for field in "commands", "estimators", "similarities":  # as groups of their own once
        for point in entry_points(group=f"cocoa.{field}"):
            raise PluginInvalid(
                f"{point.name} is an entry point of cocoa.{field}, which is gone: install a release"
                f" of its package that names it in `{field}` of a plugin (docs/plugins.md)"
            )
    plugins = []
    for point in sorted(entry_points(group="cocoa.plugins"), key=lambda point: point.name):
        try:
            plugin = point.load()
        except Exception as error:
            raise PluginInvalid(f"the plugin {point.name} cannot be imported: {error!r}") from error
        if not isinstance(plugin, Plugin) or plugin.name != point.name:
            raise PluginInvalid(f"the plugin {point.name} is no Plugin of this name")
        plugins.append(plugin)
    return tuple(plugins)


def hand_over(plugins: Iterable[Plugin]) -> None:
    """Have this process know what these plugins add to models and workers, and nothing else.

    Of two of one name ours stands.
    """
    from models import others
    from models.similarity import PAIR_MODELS
    from workers.config import ADAPTERS

    for table in (others.SIMILARITIES, others.ESTIMATORS, ADAPTERS):
        table.clear()
    for plugin in plugins:
        others.SIMILARITIES.update(plugin.similarities)
        others.ESTIMATORS.update(plugin.estimators)
        ADAPTERS.update(plugin.generators)
    for name in PAIR_MODELS:
        others.SIMILARITIES.pop(name, None)
