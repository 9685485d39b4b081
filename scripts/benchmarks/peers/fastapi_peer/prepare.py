"""Makes the tables and, for each of so many clients, a key; prints who may call."""

from __future__ import annotations

import asyncio
import json
import sys

from benchmarks.peers import common
from benchmarks.peers.fastapi_peer.models import ApiKey, Base, Client, Session, engine


async def prepare(count: int) -> None:
    """Do it in one go."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    pairs = [(common.new_apikey(), common.new_secret()) for _ in range(count)]
    async with Session() as session:
        for apikey, secret in pairs:
            client = Client(name=apikey)
            session.add(ApiKey(client=client, apikey=apikey, secret_digest=common.digest(secret)))
        await session.commit()
    await engine.dispose()
    print(json.dumps({"keys": pairs}))


if __name__ == "__main__":
    asyncio.run(prepare(int(sys.argv[1])))
