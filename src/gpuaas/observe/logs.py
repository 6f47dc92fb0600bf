"""Logging: one line a message on standard error, nothing for a request that went well."""

import logging


def configure(level: int = logging.INFO) -> None:
    logging.basicConfig(level=level, format="%(asctime)s %(levelname).1s %(name)s: %(message)s", force=True)
