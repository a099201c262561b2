"""The per-invocation table of a trial, read from its bag: for trials whose caller gave none, and for those that were cut short."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from vlatools.trials.bag_read import BagReader, BagUnreadable

LOG_TOPIC = "/tools/log"
NOT_ENDED = "NOT_ENDED"


def invocations_of(bag: Path) -> list[dict[str, Any]]:
    """Rows with the keys of TaskResult.table(), oldest first; one that never ended has the outcome ``NOT_ENDED``.

    A bag that is missing or damaged gives the rows that can be read.
    """
    rows: dict[str, dict[str, Any]] = {}
    with suppress(BagUnreadable):
        for message in BagReader(bag).messages({LOG_TOPIC}):
            record = message.decode()
            row = rows.setdefault(record.invocation_id, _begun(record))
            if record.event == 1:
                row.update(
                    outcome=record.outcome,
                    reason=record.reason,
                    progress=round(float(record.progress), 3),
                    duration=round(float(record.duration), 3),
                    chunks=int(record.chunks),
                    clips=int(record.clips),
                )
    return list(rows.values())


def _begun(record: Any) -> dict[str, Any]:
    try:
        arguments = json.loads(record.arguments_json or "{}")
        generation = int(arguments.get("plan_generation") or 0)
    except (ValueError, TypeError, AttributeError):
        generation = 0
    return {
        "family": record.family,
        "instruction": record.instruction,
        "generation": generation,
        "outcome": NOT_ENDED,
        "reason": "",
        "progress": 0.0,
        "duration": 0.0,
        "chunks": 0,
        "clips": 0,
    }
