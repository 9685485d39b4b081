"""FastAPI with SQLAlchemy on asyncpg and a limiter on Redis."""
