"""Whether tools can be used here: the MCP SDK is an optional extra, imported only where it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.config import ConfigError
from models.extras import how_to_install

if TYPE_CHECKING:
    from app.config import Folders
    from app.tools.servers import Servers


def servers_of(folders: Folders) -> Servers:
    """The servers of `mcp.json`; none is started yet. Takes 0.7 s the first time.

    Raises `ConfigError` if the SDK is not installed.
    """
    try:
        import mcp  # noqa: F401
    except ModuleNotFoundError:
        raise ConfigError(f"tools need the MCP SDK: {how_to_install('tools')}") from None
    from app.tools.servers import Servers

    return Servers(folders)
