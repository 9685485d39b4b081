"""What a team would build instead today: FastAPI, SQLAlchemy with asyncpg, pydantic and slowapi under uvicorn.

It has the tables, keys and gateway paths of the Flask peer, and runs in a virtual environment of its own.
"""
