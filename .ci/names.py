"""Names that packages use of one another: what a reader of one must know of the others.

Every folder with Python files is a package; modules right in app, models and workers belong to
these. A name counts once for its package, however many others use it: what `from a.b import c`
brings, and `c.d` that is read through an imported module `c`.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path


def names_across(root: Path, tops: tuple[str, ...]) -> dict[str, set[str]]:
    """Of each package the full names in it that other packages use."""
    files: dict[str, Path] = {}
    for top in tops:
        for file in (root / top).rglob("*.py"):
            module = ".".join(file.relative_to(root).with_suffix("").parts)
            files[module.removesuffix(".__init__")] = file
    packages = {".".join(file.relative_to(root).parent.parts) for file in files.values()}

    def package_of(name: str) -> str:
        while name not in packages and "." in name:
            name = name.rpartition(".")[0]
        return name

    used: dict[str, set[str]] = defaultdict(set)
    for file in files.values():
        here = ".".join(file.relative_to(root).parent.parts)
        for name in _names_read(ast.parse(file.read_text(encoding="utf-8")), here, files.keys()):
            package = package_of(name.rpartition(".")[0])
            if package != here:
                used[package].add(name)
    return used


def names_of_plugins(root: Path, folder: str, without: frozenset[str]) -> dict[str, set[str]]:
    """Of each plugin in a folder the full names that it uses of the project's other modules.

    What comes from the modules `without` is left out.
    """
    plugins = {file.parent.name: file.parent for file in (root / folder).glob("*/__init__.py")}
    modules = set()
    for top in ("app", "models", "workers"):
        for file in (root / top).rglob("*.py"):
            module = ".".join(file.relative_to(root).with_suffix("").parts)
            modules.add(module.removesuffix(".__init__"))
    used: dict[str, set[str]] = {name: set() for name in plugins}
    for name, plugin in plugins.items():
        here = ".".join(plugin.relative_to(root).parts)
        for file in plugin.rglob("*.py"):
            for read in _names_read(ast.parse(file.read_text(encoding="utf-8")), here, modules):
                module = read.rpartition(".")[0]
                if not f"{module}.".startswith(f"{here}.") and module not in without:
                    used[name].add(read)
    return used


def _names_read(tree: ast.AST, package: str, modules: set[str]) -> Iterator[str]:
    """Full names, of the project's modules, that a file imports or reads through a module."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) + 1 - node.level]
                source = ".".join([*above, source]).rstrip(".")
            for alias in node.names:
                name = f"{source}.{alias.name}"
                if name in modules:
                    aliases[alias.asname or alias.name] = name
                elif source in modules:
                    yield name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname is not None:
                    aliases[alias.asname] = alias.name
                else:
                    first = alias.name.partition(".")[0]
                    aliases[first] = first
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, *rest = ast.unparse(node.value).split(".")
            module = ".".join([aliases.get(first, ""), *rest])
            if module in modules and f"{module}.{node.attr}" not in modules:
                yield f"{module}.{node.attr}"


if __name__ == "__main__":
    found = names_across(Path(__file__).parent.parent, ("app", "models", "workers"))
    for package, names in sorted(found.items(), key=lambda item: -len(item[1])):
        print(package, len(names))
    print("all", sum(map(len, found.values())))
