# The native module is private: its types are open.
from typing import Any

def __getattr__(name: str) -> Any: ...
